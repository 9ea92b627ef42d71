"""Campaigns over recorded libraries: every candidate's value is known, so that a batch is evaluated
by reading it."""
