"""GO-UCB (Liu, Wang, ICML 2023), part by part.

network      the model of the paper's experiments
oracle       eq. 2: the fit of phase I
ellipsoid    eqs. 3 to 6: the ball of parameters and its centre
radius       eqs. 7 and 9: how large the ball is
parametric   the state, and how it learns
forms        three ways to write the optimistic value of a point
optimism     the choice of a point: candidates, starts, joint ascent
go_ucb       GOUCB: ask and tell
"""

from jsketch.box.go_ucb.go_ucb import GOUCB, GOInfo, GOQuery, printed

__all__ = ["GOUCB", "GOInfo", "GOQuery", "printed"]
