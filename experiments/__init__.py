"""Experiments that run the figures of the papers again, with a folder for each paper."""
