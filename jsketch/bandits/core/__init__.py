"""The parts that algorithms over arms share. These modules import no algorithm.

counts           pull counts and sums of rewards of each arm
widths           confidence widths, and the upper confidence bound
exact_state      the exact posterior of GPUCB, GPBUCB, TS and EpsGreedy
sketched         the posterior of BKB, BBKB, FixedBKB, SketchedTS and PointBBKB
incremental      low-rank updates of the sketched posterior
initial          arms to evaluate before the first adaptive batch
"""
