"""One command that runs all experiments and builds the report."""
