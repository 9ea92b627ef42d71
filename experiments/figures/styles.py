"""Names, colours and dashes of all methods, the same in every figure and table."""

# Okabe and Ito's palette, distinct for colour-blind readers; the dashes tell lines apart in black
# and white
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
    "soful": ("SOFUL", "#D55E00", "solid"),
    "soful_full": ("SOFUL, m = d", "#0072B2", (0, (1, 1))),
    "soful_paper": ("SOFUL, paper's width", "#F0E442", (0, (4, 1, 1, 1))),
    "soful_ts": ("SOFUL-TS", "#E69F00", (0, (5, 1.5))),
    "cbrap": ("CBRAP", "#CC79A7", (0, (6, 1))),
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
    "go_ucb_whole_box": ("GO-UCB, whole box", "#F0E442", (0, (5, 1.5))),
    "go_ucb_printed": ("GO-UCB, printed settings", "#8C564B", (0, (7, 2))),
    "go_ucb_printed_uniform": ("the same from uniform starts", "#7F7F7F", (0, (5, 1, 1, 1))),
    "gp_ei": ("GP-EI", "#009E73", (0, (2, 1))),
    "gp_pi": ("GP-PI", "#0072B2", (0, (3, 1, 1, 1, 1, 1))),
    "turbo": ("TuRBO", "#E69F00", (0, (1, 1))),
    "suggested": ("scripts/suggest", "#D55E00", "solid"),
    "random": ("random batches", "#0072B2", (0, (5, 1.5))),
}


def label(name: str) -> str:
    """What readers see of a method; the name itself for one without a style."""
    return METHOD_STYLES[name][0] if name in METHOD_STYLES else name
