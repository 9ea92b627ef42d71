"""Runs in files.

saved           the format of a file, and its atomic write
lock            one writer to a file
describe        what a file belongs to, by value; `describe_code` for functions and classes
resume          whether a run may resume from a file
"""
