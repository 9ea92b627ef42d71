"""Functions that run bandits for several experiments, and comparisons with published curves."""
