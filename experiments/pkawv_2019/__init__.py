"""PKAWV (Jézéquel, Gaillard, Rudi, NeurIPS 2019)."""
