"""Names, colours and dashes of the methods in all figures and tables."""

import zlib
from typing import Any

# {method: (label, colour, dashes)}, with Okabe and Ito's palette, which colour-blind readers can
# distinguish; dashes distinguish lines in black and white
METHOD_STYLES = {
    "uniform": ("uniform", "#000000", (0, (1, 1.5))),
    "eps_greedy": ("ε-greedy", "#E69F00", (0, (5, 1.5))),
    "eps_greedy_free": ("ε-greedy, model-free", "#B8860B", (0, (1, 1))),
    "gp_ucb": ("GP-UCB", "#56B4E9", (0, (4, 1, 1, 1))),
    "evolution": ("regularized evolution", "#7F7F7F", (0, (5, 1, 1, 1))),
    "gp_bucb": ("GP-BUCB", "#0072B2", (0, (3, 1, 1, 1, 1, 1))),
    "gp_bucb_sqrt": ("GP-BUCB, √C β", "#332288", (0, (1, 1))),
    "ts": ("TS, batches of 30", "#F0E442", "solid"),
    "sketched_ts": ("sketched TS, batches of 30", "#8C564B", (0, (7, 2))),
    "bkb": ("BKB", "#009E73", (0, (2, 1))),
    "bbkb_global": ("BBKB, global", "#D55E00", "solid"),
    "bbkb_global_local": ("BBKB, global-local", "#CC79A7", (0, (6, 1))),
    "width_code": ("width of the code", "#56B4E9", (0, (4, 1, 1, 1))),
    "width_paper": ("C β (paper)", "#D55E00", "solid"),
    "width_sqrt": ("√C β", "#009E73", (0, (2, 1))),
    "width_certified": ("certified", "#CC79A7", (0, (6, 1))),
    "bkb_logdet": ("BKB, width of the log-determinant", "#332288", (0, (3, 1))),
    "bkb_theory": ("BKB, theorem's width", "#7F7F7F", (0, (5, 1, 1, 1))),
    "bkb_1": ("BKB, q̄ = 1", "#E69F00", (0, (5, 1.5))),
    "bkb_2": ("BKB, q̄ = 2", "#009E73", (0, (2, 1))),
    "bkb_10": ("BKB, q̄ = 10", "#332288", "solid"),
    "bkb_kept_2": ("BKB, q̄ = 2, points kept", "#CC79A7", (0, (6, 1))),
    "soful": ("SOFUL", "#D55E00", "solid"),
    "soful_full": ("SOFUL, m = d", "#0072B2", (0, (1, 1))),
    "soful_paper": ("SOFUL, paper's width", "#F0E442", (0, (4, 1, 1, 1))),
    "soful_ts": ("SOFUL-TS", "#E69F00", (0, (5, 1.5))),
    "cbrap": ("CBRAP", "#CC79A7", (0, (6, 1))),
    "pkawv": ("PKAWV, m features", "#332288", "solid"),
    "taylor_2": ("PKAWV, Taylor M = 2", "#E69F00", (0, (5, 1.5))),
    "taylor_3": ("PKAWV, Taylor M = 3", "#D55E00", "solid"),
    "taylor_4": ("PKAWV, Taylor M = 4", "#8C564B", (0, (7, 2))),
    "nystrom": ("PKAWV, Nyström (KORS)", "#CC79A7", (0, (6, 1))),
    "nystrom_theory": ("PKAWV, Nyström, theory's KORS", "#7F3C8D", (0, (2, 1))),
    "kernel_awv": ("Kernel-AWV", "#009E73", (0, (2, 1))),
    "kernel_ridge": ("kernel ridge regression", "#56B4E9", (0, (4, 1, 1, 1))),
    "fogd": ("FOGD", "#0072B2", (0, (3, 1, 1, 1, 1, 1))),
    "fogd_1000": ("FOGD, 1000 frequencies", "#F0E442", (0, (4, 1, 1, 1))),
    "nogd": ("NOGD", "#7F7F7F", (0, (5, 1, 1, 1))),
    "pros_n_kons": ("Pros-N-KONS", "#000000", (0, (1, 1.5))),
    "sklearn": ("Nystroem(200) + SGD, scikit-learn", "#F0E442", "solid"),
    "go_ucb": ("GO-UCB", "#D55E00", "solid"),
    "go_ucb_eq5": ("GO-UCB, eq. 5", "#CC79A7", (0, (6, 1))),
    "model": ("GO-UCB with the law", "#D55E00", "solid"),
    "model_without_gp": ("GO-UCB with the law,\nresiduals ignored", "#8C564B", (0, (7, 2))),
    "go_ucb_printed": ("GO-UCB, printed settings", "#8C564B", (0, (7, 2))),
    "go_ucb_rates": ("GO-UCB, rates of 1e-2", "#D55E00", (0, (7, 2))),
    "repeat": ("best point of phase I, repeated", "#7F7F7F", (0, (1, 3))),
    "gp_ei": ("GP-EI", "#009E73", (0, (2, 1))),
    "gp_pi": ("GP-PI", "#0072B2", (0, (3, 1, 1, 1, 1, 1))),
    "turbo": ("TuRBO", "#E69F00", (0, (1, 1))),
    "original": ("TuRBO, its authors' code", "#7F7F7F", (0, (5, 1.5))),
    "skopt_ei": ("EI, scikit-optimize", "#009E73", (0, (1, 1))),
    "skopt_pi": ("PI, scikit-optimize", "#0072B2", (0, (1, 1))),
    "skopt_lcb": ("LCB, scikit-optimize", "#56B4E9", (0, (1, 1))),
    "botorch_ei_raw": ("EI, BoTorch, raw", "#009E73", "solid"),
    "botorch_pi_raw": ("PI, BoTorch, raw", "#0072B2", (0, (3, 3))),
    "botorch_ucb_raw": ("UCB, BoTorch, raw", "#56B4E9", "solid"),
    "botorch_ei_gamma": ("EI, BoTorch, scaled", "#009E73", (0, (5, 1.5))),
    "botorch_pi_gamma": ("PI, BoTorch, scaled", "#0072B2", (0, (5, 1.5))),
    "botorch_log_ei": ("GP-EI, BoTorch", "#0072B2", (0, (4, 1, 1, 1))),
    "botorch_ucb_gamma": ("UCB, BoTorch, scaled", "#56B4E9", (0, (5, 1.5))),
    "suggested": ("jsketch", "#D55E00", "solid"),
    "random": ("random batches", "#0072B2", (0, (5, 1.5))),
    "k_ucb": ("K-UCB", "#56B4E9", "solid"),
    "ek_ucb_0.5": ("EK-UCB, β = 0.5", "#E69F00", (0, (5, 1.5))),
    "ek_ucb_2": ("EK-UCB, β = 2", "#D55E00", "solid"),
    "cbkb": ("CBKB", "#009E73", (0, (2, 1))),
    "cbbkb_3": ("CBBKB, C = 3", "#CC79A7", (0, (6, 1))),
    "static": ("forgets nothing", "#000000", (0, (1, 1.5))),
    "gamma_0.9": ("γ = 0.9", "#F0E442", (0, (4, 1, 1, 1))),
    "gamma_0.97": ("γ = 0.97", "#E69F00", (0, (5, 1.5))),
    "gamma_0.99": ("γ = 0.99", "#009E73", (0, (2, 1))),
    "gamma_0.997": ("γ = 0.997", "#56B4E9", (0, (4, 1, 1, 1))),
    "gamma_0.999": ("γ = 0.999", "#0072B2", (0, (3, 1, 1, 1, 1, 1))),
    "over_discounts": ("mixture of all γ", "#D55E00", "solid"),
    # without renewal: λ is discounted like the examples
    "over_discounts_forget": ("mixture, λ forgotten", "#CC79A7", (0, (6, 1))),
    "kernel_static": ("Kernel-AWV, forgets nothing", "#7F7F7F", (0, (5, 1, 1, 1))),
    "kernel_0.99": ("Kernel-AWV, γ = 0.99", "#7F3C8D", (0, (2, 1))),
    "kernel_ridge_0.99": ("kernel ridge, γ = 0.99", "#7F3C8D", (0, (7, 2))),
    "river_linear": ("river, linear", "#8C564B", (0, (1, 1))),
    "river_knn": ("river, nearest neighbours", "#8C564B", (0, (3, 1))),
    "river_tree": ("river, Hoeffding tree", "#8C564B", (0, (7, 2))),
    "river_forest": ("river, forest (ARF)", "#8C564B", "solid"),
    # `long` and `short` are lengthscales; `width of the code` is that of the authors' code for BBKB
    "bbkb_right": ("BBKB, right lengthscale", "#D55E00", "solid"),
    "bbkb_long": ("BBKB, four times as long", "#E69F00", (0, (5, 1.5))),
    "bbkb_short": ("BBKB, a quarter of it", "#F0E442", (0, (4, 1, 1, 1))),
    "lb_order": ("balancing, order of regret", "#0072B2", "solid"),
    "lb_realised": ("balancing, realised", "#56B4E9", (0, (4, 1, 1, 1))),
    "lb_norm_test": ("balancing, realised, norm test", "#332288", (0, (2, 1))),
    "lb_evidence": ("marginal likelihood", "#CC79A7", (0, (6, 1))),
    "lb_certified": ("balancing, certified", "#56B4E9", (0, (1, 1.5))),
    "norm_small": ("width of the code, F = 0.1", "#009E73", (0, (5, 1.5))),
    "norm_doubling": ("F doubled from 0.1", "#009E73", "solid"),
    "norm_known": ("F = |f|", "#009E73", (0, (1, 1.5))),
    "alone": ("each client alone", "#000000", (0, (1, 1.5))),
    "exchange_0": ("exchange every round", "#7F7F7F", "solid"),
    "exchange_0.03": ("D = 0.03", "#CC79A7", (0, (6, 1))),
    "exchange_0.1": ("D = 0.1", "#D55E00", "solid"),
    "exchange_0.3": ("D = 0.3", "#009E73", (0, (2, 1))),
    "exchange_1": ("D = 1", "#E69F00", (0, (5, 1.5))),
    "batched_exploration": ("batched exploration", "#0072B2", "solid"),
    "random_exploration": ("random exploration", "#56B4E9", (0, (4, 1, 1, 1))),
    "batched_exploration_quarter": ("batched exploration of T / 4", "#0072B2", (0, (1, 1.5))),
    "fixed_bkb_96": ("FixedBKB, batches of 96", "#009E73", (0, (2, 1.5))),
    "fixed_bkb_few": ("FixedBKB, batches of T / 4", "#E69F00", (0, (4, 1, 1, 1))),
    "restart_350": ("restart 350", "#D55E00", "solid"),
    "discount_0.998": ("discount 0.998", "#56B4E9", (0, (5, 1, 1, 1))),
    "discount_0.995": ("discount 0.995", "#0072B2", (0, (4, 1, 1, 1))),
    "window_500": ("window 500", "#CC79A7", "solid"),
}


COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#332288", "#8C564B")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (2, 1)), (0, (4, 1, 1, 1)))


def style(name: str) -> tuple:
    """(label, colour, dashes) of a method. The label of a method without a row in METHOD_STYLES is
    its name, and its colour and dashes depend on the name only."""
    hashed = zlib.crc32(name.encode())
    default = COLOURS[hashed % len(COLOURS)], DASHES[hashed // len(COLOURS) % len(DASHES)]
    return METHOD_STYLES.get(name, (name, *default))


def label(name: str) -> str:
    """The name of a method in figures and tables; `name` itself for a method without a style."""
    return style(name)[0]
