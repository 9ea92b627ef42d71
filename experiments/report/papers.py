"""The claims of the four papers, and of the methods beyond them, with their experiments."""

from experiments.bbkb_2020 import claims as bbkb_2020
from experiments.bkb_2019 import claims as bkb_2019
from experiments.contrib import claims as beyond
from experiments.go_ucb_2023 import claims as go_ucb_2023
from experiments.pkawv_2019 import claims as pkawv_2019

PAPERS = (bkb_2019.PAPER, bbkb_2020.PAPER, go_ucb_2023.PAPER, pkawv_2019.PAPER, beyond.PAPER)
