"""`jsketch.suggest`: a batch from arrays, what is wrong with arrays, and programs that are compiled
once."""

import warnings

import jax
import numpy as np
import oracles
import pytest

from jsketch.suggest import Model, batch, data, fit, model, standardized, suggest

A, B = 60, 8
RANDOM = np.random.default_rng(0)
LIBRARY = RANDOM.uniform(-1, 1, (A, 3))
TRUTH = np.cos(2 * LIBRARY[:, 0]) + LIBRARY[:, 1]
ARMS = np.array([3, 5, 3, 17, 29, 31, 44, 58])
MODEL = Model(lengthscale=0.7, ratio=0.01, scale=1.5, centre=0.3, fitted=True)


def dense_batch(arms, values, pending, width):
    """(rows, mean, std) of `MODEL`: one pick after the other, each with the variances that all
    before it leave."""
    gram = oracles.gaussian(standardized(LIBRARY), standardized(LIBRARY), MODEL.lengthscale)

    def explained(by):
        return np.linalg.solve(gram[np.ix_(by, by)] + MODEL.ratio * np.eye(len(by)), gram[by])

    mean = MODEL.centre + (values - MODEL.centre) @ explained(arms)
    rows = []
    for _ in range(B):
        by = np.concatenate([arms, pending, rows]).astype(int)
        variance = np.maximum(1 - (gram[by] * explained(by)).sum(0), 0)
        score = mean + width * MODEL.scale * np.sqrt(variance)
        score[by] = -np.inf
        rows.append(int(score.argmax()))
    before = 1 - (gram[arms] * explained(arms)).sum(0)
    return np.array(rows), mean[rows], MODEL.scale * np.sqrt(before[rows])


@pytest.mark.parametrize("pending", [[], [40, 7, 12, 40]])
def test_the_batch_is_that_of_the_dense_posterior(pending):
    """At these numbers every evaluated candidate is an inducing point, and the sketch is exact."""
    found = suggest(LIBRARY, ARMS, TRUTH[ARMS], pending=pending, batch=B, width=1.5, model=MODEL)
    assert (
        found.dictionary_size == found.dictionary_wanted == len(set(ARMS)) and found.model is MODEL
    )
    rows, mean, std = dense_batch(ARMS, TRUTH[ARMS], sorted(set(pending)), 1.5)
    assert found.rows.tolist() == rows.tolist()
    np.testing.assert_allclose(found.mean, mean, atol=1e-9)
    np.testing.assert_allclose(found.std, std, atol=1e-9)
    np.testing.assert_allclose(found.score, mean + 1.5 * std, atol=1e-9)


@pytest.mark.float32
def test_rounds_find_the_best_and_a_failure_is_not_repeated():
    """From nothing, in lists; the first evaluation always fails."""
    arms, values = [], []
    for _ in range(3):
        found = suggest(LIBRARY.tolist(), arms, values, batch=B, key=jax.random.key(1))
        arms += found.rows.tolist()
        values = [float("nan"), *TRUTH[arms[1:]].tolist()]
        assert len(set(arms)) == len(arms)
    assert max(values[1:]) >= np.sort(TRUTH)[-2]
    assert found.model == fit(LIBRARY, arms[:-B], values[:-B], key=jax.random.key(1))
    # a failure teaches nothing
    assert found.model == fit(LIBRARY, arms[1:-B], values[1:-B], key=jax.random.key(1))
    assert found.model.fitted and not fit(LIBRARY, arms[:5], values[:5]).fitted


def test_fewer_shapes_than_rounds():
    """Evaluations, inducing points and pending rows are padded: another round of as many compiles
    nothing."""
    sizes = (0, 64, 65, 96, 97, 129, 384, 385, 768, 5000)
    assert [data.padded(size) for size in sizes] == [64, 64, 96, 96, 128, 192, 384, 512, 768, 6144]
    programs = []
    for size, pending in ((6, [1]), (9, [0, 1, 2]), (11, [1, 2])):
        arms = np.arange(10, 10 + size)
        suggest(LIBRARY, arms, TRUTH[arms], pending=pending, batch=B)
        programs.append((batch._picked._cache_size(), model._evidence._cache_size()))
    assert programs[0] == programs[1] == programs[2] and min(programs[0]) > 0


def test_padding_changes_no_evidence():
    """20 labels at 20 inducing points in programs for 64: the likelihood itself, without the
    sketch."""
    x, y = LIBRARY[:20], TRUTH[:20]
    [found] = model._evidence_of(x, y, x, [0.7])
    for r in (4, 20):
        gram = oracles.gaussian(x, x, 0.7) + model.RATIOS[r] * np.eye(20)
        scale = np.sqrt(y @ np.linalg.solve(gram, y) / 20)
        likelihood = -10 * (np.log(2 * np.pi * scale**2) + 1) - np.linalg.slogdet(gram)[1] / 2
        assert float(found.log_likelihood[r]) == pytest.approx(likelihood, rel=1e-6)
        assert float(found.scale[r]) == pytest.approx(scale, rel=1e-6)


NAN_CELL = np.where(np.arange(A)[:, None] == 4, [[0, np.nan, 0]], LIBRARY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(candidates=LIBRARY[:, 0]), r"candidates must be a matrix \[A, d\].*x\[:, None\]"),
        (dict(candidates=LIBRARY[:0]), r"candidates have shape \(0, 3\)"),
        (dict(candidates=NAN_CELL), "row 4, column 1 is nan"),
        (dict(candidates=[["a", "b"]] * 9), "candidates must be real numbers"),
        (
            dict(candidates=LIBRARY * [1, 1, 0] + [0, 0, 2]),
            "column 2 of the candidates is 2 in every row",
        ),
        (dict(arms=[0, A], values=[1.0, 2.0]), "arms names arm 60; the arms are 0 to 59"),
        (dict(pending=[-1]), "pending names arm -1"),
        (dict(pending=np.zeros(A, bool)), "pending must be a vector of arm numbers"),
        (dict(values=[1.0]), "values must hold one number for each of the 2 arms"),
        (dict(values=[1.0, np.inf]), r"values must be at most 1e\+300 in size.*value 1 is inf"),
        (dict(values=[1.0, "x"]), "values must be real numbers"),
        (dict(batch=58), "of 60 candidates 2 were evaluated and 1 are pending, 57 are left"),
        (dict(pending=range(A), batch=1), "60 are pending, 0 are left"),
        (dict(batch=0), "batch must be an integer of at least 1"),
        (dict(batch=2.0), "batch must be an integer"),
        (dict(width=-1.0), "width must be a finite number, at least 0"),
        (dict(lengthscale=0.0), "lengthscale must be a finite number above 0"),
        (dict(lengthscale=1.0, model=MODEL), "a lengthscale or a model"),
        (dict(model="fitted"), "model must be a Model"),
        (dict(model=MODEL._replace(ratio=0.0)), "ratio must be a finite number above 0"),
        (dict(model=MODEL._replace(ratio=1e-320)), "regularization must be above"),
        (dict(model=MODEL._replace(centre=np.nan)), "centre must be a finite number; nan"),
        (dict(model=MODEL._replace(scale=1e301)), "centre and scale are at most"),
        (dict(lengthscale=1e-200), "lengthscale must be at least"),
        (dict(key=0), "key must be one key"),
        (dict(scaling="no"), "scaling must be True or False"),
        (dict(width="wide"), "width must be a finite number, at least 0: a number was expected"),
    ],
)
def test_what_is_wrong_with_arrays(change, words):
    right = dict(candidates=LIBRARY, arms=[4, 5], values=[1.0, 2.0], pending=[6], batch=3)
    with pytest.raises(ValueError, match=words):
        suggest(**{**right, **change})


def test_repeated_candidates_are_warned_of():
    twice = LIBRARY[[0, 0, *range(2, A)]]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        suggest(twice, ARMS, TRUTH[ARMS], batch=B, model=MODEL)
    assert ["1 of the 60 arms repeat" in str(w.message) for w in said] == [True]
    assert said[0].filename == __file__
