"""How a batch is filled while the posterior is frozen. Nothing here imports an algorithm.

adaptive_batch   how BBKB fills a batch and ends it
working_set      the picks of such a batch among a few arms
fixed_set        the picks of a batch of fixed size among a few arms
"""
