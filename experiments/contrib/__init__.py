"""Experiments with methods that are not in the four papers, without verdicts."""
