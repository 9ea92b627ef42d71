"""A forecaster meets a stream.

stream       the pure pass, in blocks where the forecaster has them
prequential  the pass on the host; chunks from an iterator
chunks       a stream in a file, a chunk at a time
live         examples that arrive one at a time
"""
