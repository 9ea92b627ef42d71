"""BBKB where no list of arms is given: contexts, and boxes of infinitely many points. `partition`
is Ada-BKB's search."""
