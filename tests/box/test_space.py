"""Named hyperparameters on [0,10]^d: the mapping of the paper in both directions, and refusals."""

import math
import sys
from decimal import Decimal
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows import check_refusals

from jsketch import loops
from jsketch.box import Category, Integer, Real, Space, UniformBox
from jsketch.suggest.proposals import SpaceDomain

SPACE = Space(
    Real("rate", 1e-4, 1.0, log=True),
    Real("momentum", 0, 1, open=True),
    Integer("depth", 2, 8),
    Category("loss", ("a", "b", None)),
    Category("bootstrap", (True, False)),
)
VALUES = dict(rate=0.01, momentum=0.5, depth=3, loss="b", bootstrap=False)


def test_the_papers_examples_are_decoded():
    """Appendix D.2: [0,5) stands for True and [5,10] for False; floats are multiplied by ten."""
    bootstrap, beta = Category("bootstrap", (True, False)), Real("beta", 0, 1, open=True)
    choices = [Space(bootstrap).decode([x])["bootstrap"] for x in (0, 4.999, 5, 10)]
    assert choices == [True, True, False, False]
    assert Space(beta).decode([3.7])["beta"] == pytest.approx(0.37, abs=1e-15)


def test_equal_steps_on_a_log_scale_have_equal_ratios():
    rates = [Space(Real("r", 1e-4, 1.0, log=True)).decode([x])["r"] for x in (0, 2.5, 5, 7.5, 10)]
    np.testing.assert_allclose(rates, 10.0 ** np.arange(-4, 1), rtol=1e-12)


def test_encode_returns_middles_of_intervals_for_names_in_any_order():
    encoded = SPACE.encode(dict(reversed(VALUES.items())))
    np.testing.assert_allclose(encoded, [5, 5, 10 * 1.5 / 7, 5, 7.5], rtol=1e-12)
    np.testing.assert_allclose(SPACE.encode(VALUES | {"depth": np.int32(8)})[2], 10 * 6.5 / 7)


@pytest.mark.float32
def test_a_run_over_named_hyperparameters():
    calls = []

    def objective(values):
        calls.append(values)
        return -abs(values["depth"] - 5) - abs(math.log10(values["rate"]) + 2)

    key = jax.random.key(0)
    run = loops.drive(UniformBox(initial=3), SPACE.objective(objective), SPACE.box, key, 12)
    assert len(calls) == 12 and all(tuple(values) == SPACE.names for values in calls)
    x, best = run.best
    # list, because `objective` appends to `calls`
    assert best == max(objective(values) for values in list(calls))
    assert SPACE.decode(x) in calls


def encode(**changes):
    return SPACE.encode(VALUES | changes)


INVALID_RANGES = (3, (1, 2, "ln"), (1,), ("a", "b"), "ab")
ABOVE_ONE = float(np.nextafter(1, 2))
INVALID_CALLS = [
    (lambda: Real("r", 1, 10**400), "must be finite numbers; an integer of 401 digits"),
    (lambda: Real("r", 1.0, ABOVE_ONE, open=True), "from 1.0 to 1.0000000000000002 has too few"),
    (lambda: Real("r", 1e16, 1e16 + 1000), "Search over the difference from low, or a list"),
    (lambda: Real("r", 1e16, 1e16 + 2, log=True), "too few different numbers in float64"),
    (lambda: Real("r", 10**17, 10**17 + 1), "too few different numbers in float64"),
    (lambda: Real("r", 0, 5e-324), "too few different numbers in float64"),
    (lambda: Real("r", 5e-324, 1, log=True), "scale needs low >= 2.225e-308, .*; 5e-324 was"),
    (lambda: Integer("n", 1, 10**400), "between -2.1023 and 2.1023, .*; an integer of 401 digits"),
    (lambda: Integer("n", -(10**400), 1), "between -2.1023 and 2.1023, .*; an integer of 401"),
    (lambda: Integer("n", 10**17, 10**17 + 5, log=True), "too close for float64. Use a linear"),
    (lambda: Real("r", 1, 1), "r: low must be below high; low = 1, high = 1"),
    (lambda: Real("r", 0, math.inf), "low and high must be finite numbers; inf"),
    (lambda: Real("r", "0", 1), "low and high must be finite numbers; '0'"),
    (lambda: Real("r", Decimal("1e400"), 1), "must be finite numbers; Decimal.'1E.400'"),
    (lambda: Real("r", Decimal("sNaN"), 1), "must be finite numbers; Decimal.'sNaN'"),
    (lambda: Real("r", jnp.array(True), 1), "must be finite numbers; Array.*True"),
    (lambda: Real("r", 0, jnp.ones(1)), "must be finite numbers; Array"),
    (lambda: Integer("n", jnp.float32(1), 2), "low and high must be integers; Array.1"),
    (lambda: Real("r", 0, 1, log=True), "a logarithmic scale needs low > 0; 0"),
    (lambda: Integer("n", 3, 3), "n: low must be below high; low = 3, high = 3"),
    (lambda: Integer("n", 1, 2.5), "low and high must be integers; 2.5"),
    (lambda: Category("c", ()), "c: choices must be a tuple or a list of at least one"),
    (lambda: Category("c", ("a", "b", "a")), "c: the choice 'a' is given twice"),
    (lambda: Category("c", (True, 1)), "c: the choice 1 is given twice"),
    (lambda: Category("c", [np.ones(2), np.zeros(2)]), "c: a choice is an array: use a name"),
    (lambda: Category("c", "ab"), "a tuple or a list of at least one choice; 'ab'"),
    (lambda: Space(), "at least one hyperparameter"),
    (lambda: Space([Integer("n", 1, 2)]), "or hyperparameters, Space"),
    (lambda: Space(Integer(3, 1, 2)), "the name of a hyperparameter must be a string; 3"),
    (lambda: Space(Integer("n", 1, 2), Real("n", 1, 2)), "two hyperparameters have the name 'n'"),
    (lambda: SPACE.decode(np.zeros(4)), r"one number for each of rate, .* its shape is \(4,\)"),
    (lambda: SPACE.decode(["0.5"] * 5), "x must be real numbers"),
    (lambda: SPACE.decode([[1], [1, 2]]), "x must be real numbers"),
    (lambda: SPACE.decode([0, 0, math.nan, 0, 0]), "its value for depth is nan"),
    (lambda: SPACE.decode([-1e-9, 0, 0, 0, 0]), r"must be in \[0, 10\]; .* rate is -1e-09"),
    (lambda: encode(rate=1.1), r"rate must be a number in \[0.0001, 1.0\]; 1.1"),
    (lambda: encode(momentum=0), r"momentum must be a number in \(0, 1\); 0"),
    (lambda: encode(depth=9), r"depth must be an integer in \[2, 8\]; 9"),
    (lambda: encode(depth=True), "depth must be an integer in"),
    (lambda: encode(loss="c"), r"loss must be one of \('a', 'b', None\); 'c'"),
    (lambda: encode(colour="red"), "unknown hyperparameters: colour; the space has rate, momentum"),
    (lambda: SPACE.encode([0.1]), "hyperparameters must be a mapping from names, {'rate': ...};"),
    (lambda: SPACE.encode(dict(rate=0.1)), "missing hyperparameters: momentum, depth, loss, boot"),
    *((lambda given=given: Space(depth=given), "depth: a range is") for given in INVALID_RANGES),
]


def test_mistakes_are_refused():
    check_refusals(INVALID_CALLS)


def test_large_ranges_of_integers_survive_encoding():
    """Seven of 2^50 integers survive encoding. The float32 below 10 decodes to the last integer."""
    count = 2**50
    space = Space(Integer("n", 7, count + 6))
    offsets = [0, 1, 2, count // 3, count // 2, count - 2, count - 1]
    assert [space.decode(space.encode({"n": 7 + i}))["n"] - 7 for i in offsets] == offsets
    below_ten = np.nextafter(np.float32(10), np.float32(0))
    for n_choices in (3, 7, 49, 1000):
        space = Space(Integer("n", 1, n_choices))
        assert space.decode([below_ten])["n"] == space.decode(np.float32([10]))["n"] == n_choices


def test_ranges_by_name_are_hyperparameters():
    space = Space(
        rate=(1e-4, 1.0, "log"),
        share=(0.0, 1.0),
        depth=(2, 8, int),
        loss=["a", None],
        big=(1, 99, int, "log"),
    )
    assert space.hyperparameters == (
        Real("rate", 1e-4, 1.0, log=True),
        Real("share", 0.0, 1.0),
        Integer("depth", 2, 8),
        Category("loss", ("a", None)),
        Integer("big", 1, 99, log=True),
    )


@pytest.mark.parametrize("kind", [Decimal, jnp.float32, jnp.asarray, np.float32, np.array])
def test_ends_may_be_numbers_of_any_type(kind):
    """The space is the one with numbers of Python, and so are decoded and encoded values."""
    space = Space(x=(kind(0), kind(2)), log=(kind(1), kind(4), "log"))
    expected = Space(x=(0, 2), log=(1, 4, "log"))
    assert space == expected
    values = dict(x=kind(1), log=kind(2))
    np.testing.assert_allclose(space.encode(values), [5, 5])
    assert space.decode(np.array([5, 5])) == expected.decode(np.array([5, 5]))
    assert [type(value) for value in space.decode(np.array([5, 5])).values()] == [float, float]


def test_ends_of_integers_may_be_arrays_without_axes():
    for kind in (jnp.int32, np.array):
        space = Space(n=(kind(1), kind(4), int))
        assert space == Space(n=(1, 4, int)) and space.encode(dict(n=kind(2))) == 3.75


def test_integers_on_a_logarithmic_scale():
    """decode inverts encode, and the intervals between two integers are equal in log(n +- 1/2)."""
    trees = Integer("trees", 1, 40, log=True)
    assert [trees.decode(trees.encode(n)) for n in range(1, 41)] == list(range(1, 41))
    units = np.linspace(0, 1, 20_001)
    frequencies = np.bincount([trees.decode(u) for u in units], minlength=41)[1:] / len(units)
    n = np.arange(1, 41)
    expected = np.log((n + 0.5) / (n - 0.5)) / np.log(40.5 / 0.5)
    np.testing.assert_allclose(frequencies, expected, atol=1e-4)
    with pytest.raises(ValueError, match="low >= 1"):
        Integer("trees", 0, 40, log=True)


@pytest.mark.parametrize(
    "hyperparameter",
    [Integer("n", 2, 9), Integer("n", 1, 500, log=True), Category("c", ("a", "b", "c"))],
)
def test_centred_points_are_the_encoded_values(hyperparameter):
    units = np.linspace(0, 1, 301)
    expected = [hyperparameter.encode(hyperparameter.decode(u)) for u in units]
    np.testing.assert_allclose(hyperparameter.centred(units), expected, rtol=1e-14)


LARGEST, SMALLEST = sys.float_info.max, sys.float_info.min
EXTREMES = [
    Real("r", -LARGEST, LARGEST),
    Real("r", -LARGEST, LARGEST, open=True),
    Real("r", SMALLEST, LARGEST, log=True),
    Real("r", SMALLEST, LARGEST, log=True, open=True),
    Real("r", 0.0, 1e-300, open=True),
    Real("r", 1e16, 1e16 + 2.0**25, open=True),  # the smallest range here
    Real("r", 1e16, 1e16 * (1 + 1e-4), log=True, open=True),
    Real("r", 0.0, 1e-308),  # the smallest number has no half
    Integer("n", 10**17, 10**17 + 5),
    Integer("n", -(2**1023) + 2**970, 2**1023 - 2**970),
    Integer("n", 1, 2**1023 - 2**970, log=True),
    Integer("n", 10**12, 10**12 + 5, log=True),
    Integer("n", 10**17, 10**18, log=True),
]


@pytest.mark.parametrize("h", EXTREMES, ids=str)
def test_ranges_at_the_ends_of_float64(h):
    """Decoded values lie in the range, without the ends of an open one, and ascend. `encode` is
    the inverse of `decode`, up to the margin of an open range and the intervals of integers."""
    units = np.concatenate([[0, 1e-12], np.sort(np.random.default_rng(0).random(400)), [1]])
    values = [h.decode(u) for u in units]
    assert all(h.low <= value <= h.high for value in values)
    if getattr(h, "open", False):
        assert h.low < values[0] and values[-1] < h.high
    assert all(a <= b for a, b in pairwise(values))
    assert len(set(values)) >= (6 if h.high - h.low == 5 else 399)
    encoded = np.array([h.encode(value) for value in values])
    assert ((encoded >= 0) & (encoded <= 1)).all()
    expected = h.centred(units) if isinstance(h, Integer) else units
    np.testing.assert_allclose(encoded, expected, atol=2e-6)
    if h.high - h.low == 5:
        integers = range(h.low, h.high + 1)
        assert [h.decode(h.encode(n)) for n in integers] == list(integers)


def test_random_points_of_a_coarse_range_may_decode_to_the_same_number():
    """That is so if about 2^45 numbers or fewer lie between the ends, or at a margin."""
    coarse = [Real("r", 1e16, 1e16 + 2.0**26), Real("r", 1.0, 1.0001, log=True)]
    assert all(h.is_coarse for h in [*coarse, Real("r", 0, 1, open=True)])
    assert not any(h.is_coarse for h in [Real("r", 0, 1), Real("r", 1e-4, 1, log=True)])


@pytest.mark.parametrize("h", EXTREMES[4:7], ids=str)
def test_different_points_have_different_candidates(h):
    """The copies of the best points lie near an end, where few of them are different numbers."""
    domain = SpaceDomain(Space(h, Integer("few", 0, 2)))
    best = np.array([[0.0, 1 / 6], [1e-7, 0.5], [2e-7, 0.5]])
    _, points, excluded = domain.draw(best, np.arange(3), np.random.default_rng(0))
    kept = np.delete(points, excluded, axis=0)
    candidates = {tuple(domain.candidate(point).values()) for point in kept}
    assert len(candidates) == len(kept) > 100
