"""Bandits for an unknown lengthscale (`lengthscale_balancing`) or norm bound (`norm`)."""
