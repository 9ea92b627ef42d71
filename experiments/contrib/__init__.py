"""Methods that are not in the four papers: their experiments and their claims."""
