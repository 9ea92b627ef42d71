"""How a batch is filled while the posterior is frozen. These modules import no algorithm.

adaptive_batch   BBKB's batch and the rules that end it
fixed_set        FixedBKB's batch
"""
