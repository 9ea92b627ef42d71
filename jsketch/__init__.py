"""jsketch: sketched kernel bandits and online kernel regression in JAX.

    Kernel -> Sketch -> Posterior -> { Bandit | Forecaster } -> Loop

A kernel is approximated by M features, which give a ridge posterior. An algorithm scores candidates
with the posterior, and each observation updates the posterior. A state is what a run has learned;
the arms are an argument of every method. The names of this package:

    Arms, Box           the candidates of an algorithm: a list, or a box
    Query, Info         the evaluations of a round, and a record of the round
    Space               named hyperparameters and their ranges
    minimize, maximize  the point of a Space, or the element of a list, at which a function is best
    run, rollout        runs on a problem that can be traced; `rollout` works under jit and vmap
    drive               runs on a Python function, which is called on the host
    prequential, Live   forecasts of a stream, or of one example at a time
    chunks              a stream from a file, an array or an iterator, for `prequential`
    default_forecaster  a forecaster for inputs and labels of any units
    plan                estimates of the time and memory of a run
    bandits, box        algorithms over arms and over a box
    online              forecasters
    kernels, sketch     kernels, and their features and inducing points
    posterior           ridge and Gaussian process posteriors
    problems            objectives and their domains
    loops               all loops and their results
    struct              dataclasses that jit accepts, for new kernels and algorithms

Modules, and JAX with them, are imported when they are first used. Four more packages:

    jsketch.adapters  forecasters for scikit-learn and river
    jsketch.contrib   methods newer than the papers; their interfaces may change
    jsketch.scale     arms on several devices or in a file, and streams in parallel segments
    jsketch.suggest   the next batch of experiments from a table

Three modules are for readers and for authors of algorithms:

    jsketch.core      the mathematics of the bandits: posterior, dictionary, batches, widths
    jsketch.numerics  factorizations, products and sweeps over all arms in static shapes
    jsketch.results   the code that says how a run or a stream stands

`jsketch.types` has the protocols that new algorithms, kernels and problems implement, and
the base class of forecasters. Other modules are internal.

Dimensions in the shape comments of the package:

    A arms (candidates)          d inputs per arm             M sketch capacity (static)
    m sketch size, m <= M        B batch capacity (static)    N capacity for observed arms (static)
    T horizon, in evaluations    S seeds

Variances are in the papers' "leverage units": they are divided by the regularization lambda. The
prior variance is k(x,x)/lambda, and the Bayesian standard deviation is
`posterior.bayes_std(variance, lambda)`.

Computations have the dtype of the arms, and the library does not change the configuration of JAX;
the experiments run in float64.
"""

from typing import TYPE_CHECKING

from jsketch import lazy

if TYPE_CHECKING:
    from jsketch import bandits, box, kernels, loops, online, posterior, problems, sketch, struct
    from jsketch.box import Space
    from jsketch.loops import (
        Live,
        chunks,
        default_forecaster,
        drive,
        plan,
        prequential,
        rollout,
        run,
    )
    from jsketch.suggest.tuning import maximize, minimize
    from jsketch.types import Arms, Box, Info, Query

__version__ = "0.2.0"

__all__ = [
    "Arms",
    "Box",
    "Info",
    "Live",
    "Query",
    "Space",
    "bandits",
    "box",
    "chunks",
    "default_forecaster",
    "drive",
    "kernels",
    "loops",
    "maximize",
    "minimize",
    "online",
    "plan",
    "posterior",
    "prequential",
    "problems",
    "rollout",
    "run",
    "sketch",
    "struct",
]

_MODULES = {
    **dict.fromkeys(("Arms", "Box", "Info", "Query"), "types"),
    **dict.fromkeys(("maximize", "minimize"), "suggest.tuning"),
    **dict.fromkeys(
        ("Live", "chunks", "default_forecaster", "drive", "plan", "prequential", "rollout", "run"),
        "loops",
    ),
    "Space": "box",
}
_PACKAGES = {name for name in __all__ if name not in _MODULES}
_PACKAGES |= {"adapters", "contrib", "core", "numerics", "results", "scale", "suggest", "types"}

__getattr__, __dir__ = lazy.attach(__name__, _MODULES, _PACKAGES)
