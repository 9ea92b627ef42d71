"""BKB (Calandriello, Carratino, Lazaric, Valko, Rosasco, COLT 2019)."""
