"""GO-UCB (Liu, Wang, ICML 2023)."""
