"""Runs in files.

files           files that are whole or not at all, and one writer to a file at a time
saved           the format of a file
describe        what a file belongs to, by value; `describe_code` for functions and classes
resume          whether a run may resume from a file
"""
