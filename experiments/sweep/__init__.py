"""An algorithm with every combination of some of its numbers, and every seed."""
