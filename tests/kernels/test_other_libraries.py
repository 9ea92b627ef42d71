"""Kernels of tinygp, and of GPJax where it is installed, which the extra `test` does not do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import ROLLOUT

from jsketch import kernels, problems
from jsketch.bandits import BBKB, BKB

KEY = jax.random.key(0)
X = np.random.default_rng(0).uniform(size=(24, 2))
PROBLEM = problems.finite_arms(X, np.sin(4 * X.sum(1)), noise_std=0.1)


def of_tinygp():
    tinygp = pytest.importorskip("tinygp", reason="pip install tinygp")
    euclidean = tinygp.kernels.L2Distance()
    return dict(
        gaussian=tinygp.kernels.ExpSquared,
        matern=lambda scale: 2.0 * tinygp.kernels.Matern52(scale, distance=euclidean),
        periodic=lambda scale: tinygp.kernels.ExpSineSquared(scale=0.7, gamma=2 / scale**2),
    )


def of_gpjax():
    library = pytest.importorskip("gpjax", reason="pip install gpjax").kernels
    return dict(
        gaussian=lambda scale: library.RBF(lengthscale=scale),
        matern=lambda scale: library.Matern52(lengthscale=scale, variance=jnp.array(2.0)),
        periodic=lambda scale: library.Periodic(lengthscale=scale / 2, period=jnp.array(0.7)),
    )


OURS = dict(
    gaussian=kernels.Gaussian,
    matern=lambda scale: 2.0 * kernels.Matern(scale),
    periodic=lambda scale: kernels.Periodic(scale, 0.7),
)
each_library = pytest.mark.parametrize("library", [of_tinygp, of_gpjax])


@each_library
def test_values_and_numbers_are_those_of_our_kernels(library):
    """The number is a leaf: vmap maps over it, and another number compiles nothing."""
    theirs, scales, traces = library(), jnp.array([0.4, 0.8]), []

    @jax.jit
    def values(kernel, x):
        traces.append(kernel)
        return kernel.gram(x, x[:5]), kernel.diag(x)

    for name, ours in OURS.items():
        # the distance of tinygp's periodic kernel is a sum over inputs inside the sine
        x = X[:, :1] if name == "periodic" else X
        desired = [values(ours(scale), x) for scale in scales]
        traces.clear()
        found = [values(kernels.Pointwise(theirs[name](scale)), x) for scale in scales]
        assert len(traces) == 1
        mapped = jax.vmap(lambda s, name=name, x=x: values(kernels.Pointwise(theirs[name](s)), x))
        for i, (gram, diag) in enumerate(zip(*mapped(scales), strict=True)):
            for values_of_gram in (gram, found[i][0]):
                np.testing.assert_allclose(values_of_gram, desired[i][0], atol=1e-13)
            for values_of_diag in (diag, found[i][1]):
                np.testing.assert_allclose(values_of_diag, desired[i][1], atol=1e-13)


@each_library
def test_a_run_of_bbkb_has_the_regret_of_our_kernel(library):
    theirs = library()["matern"](0.4)
    regrets = [
        ROLLOUT(BBKB(kernel, max_batch=4, capacity=24), PROBLEM, KEY, horizon=16).trace.regret
        for kernel in (OURS["matern"](0.4), kernels.Pointwise(theirs))
    ]
    np.testing.assert_array_equal(*regrets)
    assert np.isfinite(regrets[0]).all()


@each_library
def test_a_kernel_without_the_adapter_is_refused(library):
    with pytest.raises(ValueError, match=r"or kernels.Pointwise\(k\) for .* of tinygp or GPJax"):
        BKB(library()["gaussian"](0.4))


@each_library
def test_kernels_of_both_libraries_are_added_and_keep_the_dtype(library):
    kernel = kernels.Pointwise(library()["gaussian"](0.4)) + kernels.Linear()
    x = jnp.asarray(X, jnp.float32)
    desired = (kernels.Gaussian(0.4) + kernels.Linear()).gram(X, X)
    assert kernel.gram(x, x).dtype == kernel.diag(x).dtype == jnp.float32
    np.testing.assert_allclose(kernel.gram(x, x), desired, atol=1e-5)


def test_our_kernel_on_the_right_of_one_of_tinygp_is_refused():
    """tinygp makes a constant of it before this library can take the sum."""
    theirs = of_tinygp()["gaussian"](0.4)
    for make in (lambda a, b: a + b, lambda a, b: a * b):
        with pytest.raises(
            ValueError, match=r"takes the kernel Gaussian\(.*Pointwise\(kernel\) \+"
        ):
            kernels.Pointwise(make(theirs, kernels.Gaussian(0.5)))
