"""The methods that are compared on a table. For a given seed, all methods start with the same
random settings, and a setting has the same value for all methods.

The loops over other packages run on the host; `suggest` and `FixedBKB` are compiled.
"""

import importlib
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.pools import baselines, campaigns
from experiments.pools.campaigns import Campaign
from experiments.tables.recorded import ERROR_TABLES, TABLES, Table
from jsketch import Arms
from jsketch.bandits import FixedBKB, history, widths
from jsketch.suggest import Library, Mixed, fit

FIRST = 10  # number of random settings at the start of a run
CAPACITY = 256  # of FixedBKB
Player = Callable[[Table, Sequence[int], int], Campaign]  # (table, sizes of batches, seed)


class Method(NamedTuple):
    """A method, and which runs of it are made."""

    label: str
    play: Player
    batch: int = 1
    seeds: int = 15  # methods whose runs take minutes have fewer seeds and evaluations
    evaluations: int = 200
    tables: tuple[str, ...] = tuple(TABLES)
    packages: tuple[str, ...] = ()  # that this project does not depend on

    def sizes(self, horizon: int) -> tuple[int, ...]:
        """The sizes of the batches of a run, the random one first."""
        rest = max(min(horizon, self.evaluations) - FIRST, 0)
        return (FIRST, *(min(self.batch, rest - begin) for begin in range(0, rest, self.batch)))


def with_suggest(table: Table, sizes: Sequence[int], seed: int) -> Campaign:
    """`jsketch.suggest` with its defaults."""
    return campaigns.play(table.pool, sizes, seed)


def with_suggest_on_logarithms(table: Table, sizes: Sequence[int], seed: int) -> Campaign:
    """`jsketch.suggest` with its defaults, with logarithms of the errors as values."""
    logarithms = -np.log(-np.asarray(table.pool.repeats))
    return campaigns.play(table.pool._replace(repeats=logarithms), sizes, seed)


def with_baseline(
    choose: baselines.Chooser, table: Table, sizes: Sequence[int], seed: int
) -> Campaign:
    """A baseline of `experiments.pools`."""
    return baselines.play(table.pool, sizes, seed, choose)


def with_fixed_bkb(table: Table, sizes: Sequence[int], seed: int) -> Campaign:
    """`FixedBKB` with a width of two posterior standard deviations, without repeated arms. The
    kernel and the noise are fitted to all values before each batch, as in `suggest`."""
    return with_baseline(partial(_choose_with_fixed_bkb, table.pool.library), table, sizes, seed)


def _choose_with_fixed_bkb(
    library: Library, _: np.ndarray, arms: np.ndarray, values: np.ndarray, batch: int, seed: int
) -> np.ndarray:
    model, domain, key = fit(library, arms, values), Arms(library.features), jax.random.key(seed)
    bandit = FixedBKB(
        Mixed(jnp.asarray(model.lengthscale), library.columns),
        regularization=model.ratio,
        noise_std=model.ratio**0.5,
        width=widths.Bayesian(2.0),
        batch=batch,
        capacity=CAPACITY,
        repeat=False,
    )
    rewards = (values - model.centre) / model.scale
    data = history.of_evaluations(domain, arms, rewards, "leverage")
    query = _ask(bandit, bandit.init(domain, key, data=data), domain, key)
    return np.asarray(query.index)[np.asarray(query.mask)]


_ask = jax.jit(lambda bandit, state, arms, key: bandit.ask(state, arms, key))


def with_optuna(sampler: str, table: Table, sizes: Sequence[int], seed: int) -> Campaign:
    """A sampler of Optuna with its defaults. It chooses one setting at a time and may repeat
    settings; a repeated setting has the same reading."""
    optuna = importlib.import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pool, levels, distributions = table.pool, table.space.levels, optuna.distributions
    space = {
        str(i): distributions.CategoricalDistribution(range(n_levels))
        if i in table.space.categories
        else distributions.IntDistribution(0, n_levels - 1)
        for i, n_levels in enumerate(levels)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of the samplers is experimental
        optuna_sampler = getattr(optuna.samplers, sampler)(seed=seed)
    study = optuna.create_study(sampler=optuna_sampler, direction="maximize")
    readings, arms = pool.readings(seed), campaigns.play(pool, sizes[:1], seed).arms.tolist()
    for arm in arms:
        point = [int(number) for number in np.unravel_index(arm, levels)]
        fields = dict(params=dict(zip(space, point, strict=True)), value=readings[arm])
        study.add_trial(optuna.trial.create_trial(**fields, distributions=space))
    while len(arms) < sum(sizes):
        trial = study.ask(space)
        arm = int(np.ravel_multi_index([trial.params[name] for name in space], levels))
        study.tell(trial, readings[arm])
        arms.append(arm)
    return Campaign(seed, np.array(arms), pool.values[arms])


TPE, GP = partial(with_optuna, "TPESampler"), partial(with_optuna, "GPSampler")
SLOW: dict[str, Any] = dict(evaluations=100, tables=ERROR_TABLES)
METHODS = {
    "suggest_10": Method("jsketch, batches of 10", with_suggest, batch=10),
    "suggest_1": Method("jsketch, one at a time", with_suggest, seeds=5, evaluations=100),
    "suggest_10_log": Method("jsketch, logarithms", with_suggest_on_logarithms, batch=10),
    "fixed_bkb_10": Method("FixedBKB, batches of 10", with_fixed_bkb, batch=10, seeds=5),
    "tpe": Method("Optuna TPE", TPE, packages=("optuna",)),
    "optuna_gp": Method("Optuna GP", GP, seeds=3, packages=("optuna", "torch"), **SLOW),
    "botorch": Method(
        *("BoTorch", partial(with_baseline, baselines.botorch_ei)),
        **SLOW | dict(seeds=2, packages=("botorch", "gpytorch", "torch")),
    ),
    "random": Method("random", partial(with_baseline, baselines.random_candidates), batch=10),
}
