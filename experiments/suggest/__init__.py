"""Measurements of `jsketch.suggest` (stops, intervals, a closed loop), and example tables."""
