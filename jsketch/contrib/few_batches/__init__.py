"""Bandits whose batches are so long that O(log log T) of them are enough."""
