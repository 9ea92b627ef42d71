"""The next batch for a table of candidates: the command line, the tables that people bring, and a
closed loop."""
