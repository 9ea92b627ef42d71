"""`jsketch.suggest` beside other packages, on tables of hyperparameters that others use, on large
pools and on a stream."""
