"""The figures and claims of the four papers, and what decides each: `PAPERS`."""

from experiments.claims import bbkb_2020, bkb_2019, go_ucb_2023, pkawv_2019

PAPERS = (bkb_2019.PAPER, bbkb_2020.PAPER, go_ucb_2023.PAPER, pkawv_2019.PAPER)
