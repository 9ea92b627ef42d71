"""Functions that run bandits for several experiments, and a benchmark of long streams."""
