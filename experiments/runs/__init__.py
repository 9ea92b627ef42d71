"""Runs that several experiments share, and measurements of long streams and of many seeds."""
