"""What the parts of an algorithm must be, such as its kernel. The field of a part names one of
these constants (`struct.component`), and the constructor checks the value."""

from __future__ import annotations

from typing import NamedTuple


class Component(NamedTuple):
    """An object with these methods and attributes."""

    description: str  # for messages: "kernel must be ..."
    methods: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


KERNEL = Component(
    "a kernel object (not its class), such as kernels.Gaussian(lengthscale=1.0), or"
    " kernels.Pointwise(k) for a function k(x, y) of two points or a kernel k of tinygp or GPJax",
    ("gram", "diag"),
)
ALGORITHM = Component(
    "an object with methods init, ask and tell, such as BBKB(kernel)", ("init", "ask", "tell")
)
BANDIT = Component("an algorithm over arms, such as BBKB(kernel)", ALGORITHM.methods)
FORECASTER = Component(
    "an object with methods init, predict and advance, such as PKAWV(features)",
    ("init", "predict", "advance"),
)
PROBLEM = Component(
    "an object with arms, mean_reward and a method sample, such as problems.finite_arms(...) (for a"
    " function on the host call drive)",
    ("sample",),
    ("arms", "mean_reward"),
)
SCHEDULE = Component("a schedule of box.ball, such as OFUL()", ("__call__",))
ORACLE = Component("LevenbergMarquardt() or Gradient(), from box.model", ("refine",), ("restarts",))
MODEL = Component(
    "a law, Parametric(function, parameters), or a flax module, such as Network()",
    ("init", "apply"),
)
BOUNDS = Component("Bounds, from box.fit", ("check",), ("lengthscale", "outputscale", "noise"))
SAMPLING = Component("Sampling, from sketch.kors", (), ("mu", "beta", "eps", "weights"))
