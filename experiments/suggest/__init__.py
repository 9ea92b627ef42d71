"""A closed loop with `jsketch.suggest`, and example tables."""
