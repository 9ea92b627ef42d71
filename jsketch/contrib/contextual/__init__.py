"""Bandits with contexts: every round has candidates of its own, points (context, action).

A context bandit has `init(dimension, key)`, `ask(state, candidates [C,d], key)` -> the number [] of
the candidate to play, and `tell(state, x [d], y [], key)` -> (state, info). `ask` changes nothing,
and the points of `tell` may be others. `contrib.problems.contextual` has problems and the loop.
"""
