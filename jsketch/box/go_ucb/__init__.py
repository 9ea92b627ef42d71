"""GO-UCB (Liu, Wang, ICML 2023).

model    parametric models and their least-squares fits (eq. 2)
ball     the confidence ball, its radius, and the optimistic value of a point (eqs. 3 to 9)
go_ucb   `GOUCB`, Algorithm 1
"""

from jsketch.box.go_ucb.go_ucb import GOUCB, GOInfo, GOQuery, printed

__all__ = ["GOUCB", "GOInfo", "GOQuery", "printed"]
