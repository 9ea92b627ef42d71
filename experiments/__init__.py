"""Experiments that re-run the figures of the papers: one folder per paper, and what they share."""
