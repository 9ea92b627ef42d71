"""A suggestion by several processes: how they start, and which rows each of them reads."""
