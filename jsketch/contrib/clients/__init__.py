"""Several clients that play the same function, each on candidates of its own, and exchange what
they learn: simulated in one program, with everything that is sent counted.

A bandit for N clients has `init(dimension, key)`, `ask(state, candidates [N,C,d], key)` -> the
numbers [N] of the candidates to play, `tell(state, x [N,d], y [N], key)` -> (state, info), and
`grow(state)`. `state.sent` [] counts the numbers sent so far, in both directions, and
`state.exchanges` [] the times that all clients exchanged. `ask` changes nothing.
`contrib.problems.clients` has the loop.
"""
