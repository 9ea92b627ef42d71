"""What experiments leave behind: files, summaries and tables, and folders with one writer."""
