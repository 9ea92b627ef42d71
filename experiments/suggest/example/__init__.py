"""A library and observations to type the first command with; the data are made up."""
