"""Figures: the styles of the methods, and the plots of all experiments."""
