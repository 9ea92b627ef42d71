"""The capacities with which a stream begins."""

import jax
import numpy as np
import pytest

from jsketch import kernels, online, prequential
from jsketch.loops import streams
from jsketch.loops.capacities import expected_kors_size, with_stream_capacity
from jsketch.online import PKAWV, NystromAWV, ProsNKONS
from jsketch.sketch import Taylor
from jsketch.sketch.kors import Sampling

KEY = jax.random.key(0)
KERNEL = kernels.Gaussian(0.7)


def stream_of(n):
    xs = np.random.default_rng(1).uniform(-1, 1, (n, 2))
    return xs, np.sin(3 * xs.sum(1))


def dense_size(xs, sampling):
    """The expected size without approximation: every probability, from the exact variances."""
    gram = np.asarray(KERNEL.gram(xs, xs))
    pivots = np.diagonal(np.linalg.cholesky(gram + sampling.mu * np.eye(len(xs)))) ** 2
    variance = pivots - sampling.mu
    share = variance / (sampling.mu + variance)
    return np.minimum(1, sampling.beta * (1 + sampling.eps) * share).sum()


@pytest.mark.parametrize("sampling", [Sampling(mu=0.1), Sampling(mu=1.0, beta=4.0, eps=0.0)])
def test_the_expected_size_is_that_of_the_exact_probabilities(sampling):
    few, _ = stream_of(500)  # fewer examples than are computed: no approximation
    assert expected_kors_size(few, KERNEL, sampling) == pytest.approx(
        dense_size(few, sampling), rel=0.02
    )
    many, _ = stream_of(2_500)  # each computed example stands for three
    assert expected_kors_size(many, KERNEL, sampling) == pytest.approx(
        dense_size(many, sampling), rel=0.1
    )


def test_single_precision_of_clusters_far_from_their_mean():
    """Kernel values in float32 are not positive semi-definite there."""
    random = np.random.default_rng(0)
    xs = np.where(np.arange(768) % 2, 300, -300)[:, None] + 1e-3 * random.normal(size=(768, 3))
    size = expected_kors_size(xs.astype(np.float32), KERNEL, Sampling(mu=0.1))
    assert 1 <= size <= 768


def test_a_stream_has_one_program_and_a_capacity_that_holds(monkeypatch):
    shapes = []
    stream = streams._stream

    def record(forecaster, state, *args, **options):
        shapes.append((state.basis.shape, state.inputs.shape))
        return stream(forecaster, state, *args, **options)

    monkeypatch.setattr(streams, "_stream", record)
    forecaster = NystromAWV(KERNEL, 0.1, Sampling(mu=0.1), capacity=4, memory=1)
    xs, ys = stream_of(400)
    forecasts, state = prequential(forecaster, (xs, ys), KEY)
    assert len(shapes) == 1
    size, capacity = int(forecasts.dictionary_size[-1]), state.basis.shape[0]
    assert size <= capacity <= 1.6 * size


def test_capacities_of_the_user_are_the_least():
    xs, _ = stream_of(200)
    forecaster = NystromAWV(KERNEL, 0.1, capacity=150, memory=5_000)
    assert with_stream_capacity(forecaster, xs, 64) == forecaster
    assert with_stream_capacity(ProsNKONS(KERNEL, capacity=2), xs, 64).capacity > 2
    forgetting = online.ForgettingNystromAWV(KERNEL, 0.1, capacity=2, memory=1)
    assert with_stream_capacity(forgetting, xs, 64).memory == 1
    no_dictionary = PKAWV(Taylor(inputs=2, degree=2, lengthscale=1.0))
    assert with_stream_capacity(no_dictionary, xs, 64) is no_dictionary
