"""TuRBO (Eriksson, Pearce, Gardner, Turner, Poloczek, NeurIPS 2019), part by part.

sobol           scrambled Sobol points
local_gp        the Gaussian process of one region: fit and joint draws
trust_regions   where candidates lie; success, failure, restart
turbo           Turbo: ask and tell
"""
