"""Figures: the style of each method, and the plots of all experiments."""
