"""One page that says whether the papers hold."""
