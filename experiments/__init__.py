"""Experiments that re-run the figures of the papers: shared data, results and plots, one folder per paper."""
