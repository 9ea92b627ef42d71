"""Bandits whose mean rewards change: what was observed long ago counts less, or not at all."""
