"""Comparisons of `jsketch.suggest` with other packages, on published tables of hyperparameters, on
large pools and on a stream."""
