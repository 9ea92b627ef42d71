"""Comparisons of this project with other packages, on published tables of hyperparameters, on
reactions, on large pools and on streams."""
