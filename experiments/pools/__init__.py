"""Campaigns over libraries of candidates whose values are recorded. A batch is evaluated by a
look-up."""
