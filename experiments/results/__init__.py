"""Results of experiments: folders, files, summaries and tables."""
