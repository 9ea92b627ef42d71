"""The packages on which the paper's baselines run, with their defaults."""
