"""A page with the verdicts on the claims of the papers."""
