"""The mathematics of the bandits: functions of arrays that know nothing of their callers.

posterior    embed, update: the posterior that a history and a dictionary determine
low_rank     the same posterior from the one before, after pulls of arms of the dictionary
dictionary   which arms are the inducing points
working_set  the picks of a batch (BBKB, Algorithm 1, lines 4 to 8)
local_rule   the rule of Lemma 3, by which a batch may continue
history      counts and sums of rewards
widths       confidence widths, functions of a few scalars of the posterior
"""
