"""Reprs are short, constructors name the nearest argument, and help() documents every field."""

import dataclasses
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import (
    Arms,
    Box,
    Space,
    bandits,
    box,
    contrib,
    kernels,
    loops,
    online,
    posterior,
    problems,
    scale,
    show,
    suggest,
    types,
)
from jsketch.bandits import BBKB, BKB, Uniform
from jsketch.online import PKAWV
from jsketch.sketch import Taylor

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(300, 2))
KERNEL = kernels.Gaussian(0.5)


@pytest.fixture(scope="module")
def results():
    """Pairs (object, beginning of its repr), one of every kind."""
    arms = problems.GaussianArms(Arms(jnp.asarray(X)), jnp.asarray(np.sin(3 * X).sum(1)), 0.1)
    bandit, key = BBKB(KERNEL, capacity=32), jax.random.key(0)
    run = loops.run(Uniform(), arms, key, 20)
    box_problem = problems.boxes.branin()
    driven = loops.drive(
        box.UniformBox(), lambda x: -np.sum(x**2), Box(jnp.zeros(2), jnp.ones(2)), key, 12
    )
    ys = np.sin(X).sum(1)
    forecasts, forecast_state = loops.prequential(PKAWV(Taylor(2, 3), 1.0), (X, ys), key)
    suggestion = suggest.suggest(X, range(12), ys[:12], batch=30)
    tuning = suggest.minimize(
        lambda x, n: x**2 + n, Space(x=(-1.0, 1.0), n=(0, 5, int)), 6, progress=False
    )
    return [
        (arms, "GaussianArms"),
        (bandit, "BBKB(kernel=Gaussian(lengthscale=0.5), capacity=32)"),
        (jax.jit(bandit.init)(arms.arms, key), "State"),
        (Uniform().ask(Uniform().init(arms.arms, key), arms.arms, key), "Query"),
        (run, "Run"),
        (run.trace, "Trace"),
        (loops.run(box.UniformBox(), box_problem, key, 12), "Run"),
        (loops.run(box.UniformBox(), box_problem, jax.random.split(key, 3), 12), "Run"),
        (driven, "Driven"),
        (forecasts, "Forecasts"),
        (forecast_state, "RidgeState"),
        (loops.Live(PKAWV(Taylor(2, 3), 1.0), 2, key), "Live"),
        (suggestion, "Suggestion"),
        (suggestion.model, "Model"),
        (suggest.library(X), "Library"),
        (suggest.predict(X, range(12), ys[:12], suggestion.model), "Prediction"),
        (tuning, "Result"),
        (box.Turbo(), "Turbo"),
        (box.GOUCB(), "GOUCB"),
        (box.LocalGOUCB(), "LocalGOUCB"),
        (kernels.Product(KERNEL, kernels.Matern()), "Product"),
        (problems.boxes.branin(), "BoxProblem"),
    ]


def test_every_repr_is_short(results):
    for value, beginning in results:
        text = repr(value)
        lines = text.splitlines()
        assert text.startswith(beginning), text
        assert len(lines) <= show.LINES and max(map(len, lines)) <= show.WIDTH + 10, text
        assert " at 0x" not in text, text


def test_results_show_their_best_values_and_flags(results):
    # of the three runs the first, which is over arms
    by_name = {type(value).__name__: value for value, _ in reversed(results)}
    _, one_over_box, several_over_box = (v for v, _ in results if isinstance(v, loops.Run))
    assert "evaluations=12" in repr(one_over_box) and "best_x=[" in repr(one_over_box)
    assert "seeds=3" in repr(several_over_box) and "simple_regret=" in repr(several_over_box)
    run, tuning, driven = by_name["Run"], by_name["Result"], by_name["Driven"]
    assert "evaluations=20" in repr(run) and "capacity=0" in repr(run)
    regret = np.asarray(run.trace.regret).min()
    assert f"simple_regret={regret:.4g}" in repr(run)
    # the repr has fewer digits
    assert "evaluations=12" in repr(driven) and f"best={driven.best[1]}"[:10] in repr(driven)
    assert "exhausted" not in repr(driven)
    assert "exhausted=True" in repr(dataclasses.replace(driven, exhausted=True))
    assert f"best_value={tuning.best_value}" in repr(tuning) and " n=" in repr(tuning)
    for value in (run, driven, by_name["Suggestion"], by_name["Forecasts"], tuning):
        html = value._repr_html_()
        assert html.startswith("<table>") and html.count("<tr>") == len(value.summary())


def test_texts_of_arrays_functions_and_traced_values():
    assert show.text(np.arange(3)) == "[0, 1, 2]" and show.text(np.float32(0.25)) == "0.25"
    assert show.text(jnp.zeros((3, 4), jnp.float32)) == "float32[3, 4]"
    assert show.text(lambda x: x) == "<lambda>" and show.text(np.sin) == "sin"
    traced = []
    jax.jit(lambda kernel: traced.append(repr(kernel)))(kernels.Gaussian(jnp.ones(3, jnp.float32)))
    assert traced == ["Gaussian(lengthscale=float32[3])"]
    deleted = jnp.ones(3)
    deleted.delete()
    assert show.text(deleted).endswith("[3]")


def test_signatures_show_functions_by_their_names():
    assert "width: 'widths.Width' = Formula(function=bbkb_code)" in str(inspect.signature(BBKB))


def test_unknown_and_missing_arguments_are_named():
    with pytest.raises(TypeError, match="Gaussian has no argument zzz; it has lengthscale"):
        kernels.Gaussian(1.0, zzz=3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'kernel'"):
        BKB()


CALLABLES = [
    *(loops.chunks, loops.drive, loops.Live, loops.plan, loops.prequential, loops.rollout),
    *(loops.run, suggest.fit, suggest.leave_one_out, suggest.library, suggest.maximize),
    *(suggest.minimize, suggest.predict, suggest.suggest, problems.finite_arms, problems.gp_draw),
    *(problems.on_box, problems.recorded_arms, problems.rkhs_draw, box.Category, box.Integer),
    *(box.Real, box.GOUCB, box.LocalGOUCB, PKAWV, kernels.Matern, problems.boxes.BoxProblem),
]


@pytest.mark.parametrize("function", CALLABLES, ids=lambda one: one.__name__)
def test_the_message_on_a_misspelled_argument_names_the_right_one(function):
    for name in inspect.signature(function).parameters:
        advice = rf"{function.__name__} has no argument {name}_: did you mean {name}\?"
        with pytest.raises(TypeError, match=advice):
            function(**{f"{name}_": 1})


@pytest.mark.parametrize(
    "package",
    [
        *(bandits, bandits.widths, box, contrib, kernels, loops, online, posterior),
        *(problems, scale, suggest, suggest.acquisitions, types),
    ],
    ids=lambda package: package.__name__,
)
def test_help_documents_every_field(package):
    """Each field has one entry, inherited ones included, in the order of the constructor."""
    names = getattr(package, "__all__", dir(package))
    kinds = {kind for name in names if isinstance(kind := getattr(package, name), type)}
    pytrees = [
        kind for kind in kinds if dataclasses.is_dataclass(kind) and hasattr(kind, "replace")
    ]
    assert pytrees
    for kind in pytrees:
        fields = [field.name for field in dataclasses.fields(kind)]
        # Python 3.13 removes the indentation of docstrings
        rows = re.findall(r"^(\w+(?:, \w+)*) {2,}\S", inspect.cleandoc(kind.__doc__), re.M)
        entries = [name for row in rows for name in row.split(", ") if name in fields]
        assert entries == fields, kind.__name__
