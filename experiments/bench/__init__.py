"""How long the algorithms take on this machine."""
