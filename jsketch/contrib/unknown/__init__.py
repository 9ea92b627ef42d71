"""Bandits that do not know the lengthscale of f, or its norm.

| class                                    | unknown     | proved (THEORY 6.8, 6.9)             |
|------------------------------------------|-------------|--------------------------------------|
| `LengthscaleBalancing`                   | lengthscale | what holds stays, and bounds others' |
|   Ziomek et al., NeurIPS 2024: LB-GP-UCB |             | regret; with any base                |
|   the same over pairs: LNB-GP-UCB        | and norm    | the same                             |
|   `norm_test=True` (ours)                | both        | the same                             |
|   `rule="evidence"`, marginal likelihood | lengthscale | nothing                              |
| `NormDoubling`                           | norm        | F_t <= max(F_0, 2 norm of f), never  |
|   guess-and-double of BKB, Section 4     |             | doubled in vain; no regret           |

`lengthscale_balancing` and `norm_doubling` are the two, `regret_balance` is the arithmetic of the
paper's algorithm, `candidates` its lengthscales and norm bounds, `evidence` what data say of a norm
and of a kernel. A base (`GPUCB`, `BKB`, `BBKB`) keeps its batches, its width and its capacity,
which `run` and `drive` grow. `experiments/contrib/unknown.py` measures them.
"""
