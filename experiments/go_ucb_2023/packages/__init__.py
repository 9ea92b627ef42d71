"""The packages that the paper's baselines run on, beside ours, with their own defaults."""
