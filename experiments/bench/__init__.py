"""Benchmarks: run times and memory of the algorithms on this machine."""
