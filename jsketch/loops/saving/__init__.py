"""Runs in files.

files           files that are whole or not at all, and one writer to a file at a time
saved           the format of a file
describe        the run or the stream that a file belongs to
resume          whether a run may resume from a file
"""
