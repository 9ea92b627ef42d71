"""Sweeps: an algorithm with every combination of parameter values, and every seed."""
