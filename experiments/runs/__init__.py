"""Runs that belong to no single paper: those of bandits, of long streams, and of many seeds."""
