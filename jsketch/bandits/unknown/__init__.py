"""Bandits that do not know the lengthscale of f, or its norm."""
