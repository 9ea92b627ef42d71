"""Prints how many files and functions of jsketch are called while a run is traced.

    python scripts/reading_path.py

The functions are those that `sys.setprofile` reports, including lambdas.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp

import jsketch
from jsketch import kernels, loops, online, problems, rollout
from jsketch.bandits import BBKB, Draw
from jsketch.box import GOUCB, LocalGOUCB
from jsketch.sketch.taylor import Taylor

ROOT = str(Path(jsketch.__file__).parent)
KEY = jax.random.key(0)


def entered_functions(function, *arguments):
    """{(file, name, first line)} of jsketch's functions called while `function` is traced."""
    frames = set()

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT):
            frames.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    sys.setprofile(profile)
    try:
        jax.make_jaxpr(function)(*arguments)
    finally:
        sys.setprofile(None)
    return frames


def main():
    x = jax.random.uniform(KEY, (60, 2))
    problem = problems.finite_arms(x, jnp.sin(x.sum(1)), 0.1)
    extending = BBKB(kernels.Gaussian(0.5), regularization=0.01, max_batch=16, capacity=48)
    resampling = extending.replace(dictionary=Draw())
    branin = problems.boxes.branin()
    forecaster = online.PKAWV(Taylor(2, 3, 1.0), 1.0)
    entries = {
        "rollout(BBKB)": (lambda key: rollout(resampling, problem, key, 40), KEY),
        "rollout(BBKB that extends its dictionary)": (
            lambda key: rollout(extending, problem, key, 40),
            KEY,
        ),
        "rollout(GOUCB)": (lambda key: loops.rollout(GOUCB(initial=6), branin, key, 12), KEY),
        "rollout(LocalGOUCB)": (
            lambda key: loops.rollout(LocalGOUCB(initial=6), branin, key, 12),
            KEY,
        ),
        "stream(PKAWV)": (
            lambda x: loops.streams.stream(
                forecaster, forecaster.init(x[0], KEY), x, x.sum(1), KEY
            ),
            x,
        ),
    }
    for name, (function, argument) in entries.items():
        frames = entered_functions(function, argument)
        print(f"{name}: {len({file for file, _, _ in frames})} files, {len(frames)} functions")


if __name__ == "__main__":
    main()
