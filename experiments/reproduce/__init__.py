"""All experiments of the papers in one command: a plan, the runs, the report."""
