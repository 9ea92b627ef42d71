"""BBKB (Calandriello, Carratino, Lazaric, Valko, Rosasco, ICML 2020)."""
