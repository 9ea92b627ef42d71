"""Experiments that reproduce the figures of the papers, with a folder for each paper."""
