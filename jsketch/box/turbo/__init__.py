"""TuRBO (Eriksson, Pearce, Gardner, Turner, Poloczek, NeurIPS 2019).

local_gp        the Gaussian process of one region: its fit and joint draws
trust_regions   candidates, and the rules by which regions change
turbo           `Turbo`
"""
