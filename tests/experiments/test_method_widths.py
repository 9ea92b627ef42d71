"""The widths of the methods of BBKB's experiments."""

import jax.numpy as jnp
import numpy as np

from experiments.bbkb_2020 import methods
from jsketch.bandits import widths


def test_widths_of_the_methods():
    c = dict(width="theory", ratio=2.0, lengthscale=1.0, regularization=0.01, noise_std=0.1)
    c |= dict(norm_bound=1.0, delta=0.1, qbar=2.0, horizon=10)
    evidence = widths.exact_evidence(jnp.array(5.0), jnp.array(3.0), jnp.array(1.0))

    def width(name, **changes):
        bandit = methods.ALGORITHMS[name](c | changes)
        factor = 2**0.5 if name.startswith("gp_bucb") else 1.0
        return factor * widths.confidence_width(bandit, evidence)

    beta = 0.1 * 1.0 + 0.1 * np.sqrt(2 * (3 + np.log(10)))
    np.testing.assert_allclose(width("gp_ucb"), beta)
    np.testing.assert_allclose(width("gp_bucb"), 2 * beta)  # alpha = C beta
    np.testing.assert_allclose(width("gp_bucb_sqrt"), 2**0.5 * beta)
    code = 0.1 * 1.0 + 0.1 * np.sqrt(3 + np.log(10))
    np.testing.assert_allclose(width("gp_bucb", width="code"), 2**0.5 * code)
    names = {methods.width_of(n, c).function for n in ("bkb", "bbkb_global", "bbkb_global_local")}
    assert names == {widths.bkb_paper.function, widths.bbkb_paper.function}
