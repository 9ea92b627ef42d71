"""Functions that several experiments share to run bandits, and measurements of long streams."""
