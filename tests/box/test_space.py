"""Named hyperparameters on [0,10]^d: the mapping of the paper in both directions, and refusals."""

import math

import jax
import numpy as np
import pytest
from rows import check_refusals

from jsketch import loops
from jsketch.box import Category, Integer, Real, Space, UniformBox

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
INVALID_CALLS = [
    (lambda: Real("r", 1, 1), "r: low must be below high; low = 1, high = 1"),
    (lambda: Real("r", 0, math.inf), "low and high must be finite numbers; inf"),
    (lambda: Real("r", "0", 1), "low and high must be finite numbers; '0'"),
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
