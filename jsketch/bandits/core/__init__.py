"""What algorithms over arms are made of. Nothing here imports an algorithm.

counts           evaluations and sums of rewards of each arm
widths           how many standard deviations a bound adds to the mean
exact_state      the exact posterior of GP-UCB, GP-BUCB, MiniGP, TS and EpsGreedy
sketched         the posterior of BKB and its kin, and its refresh from the counts
warm_start       evaluations and a dictionary that a sketched posterior starts from
features         the posterior on fixed features: CBRAP, UCB and TS on Fourier features
room             what a capacity takes, and a state at a larger one
initial          designs that make batches long from the start
"""
