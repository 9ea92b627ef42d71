"""Claims of single experiments beyond the papers, each with what decides it."""
