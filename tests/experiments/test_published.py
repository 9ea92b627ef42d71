"""Published curves beside ours, the widths of the methods, and epsilon-greedy without a model."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.bbkb_2020 import methods
from experiments.data import published
from experiments.results import tidy
from experiments.runs import against_published
from experiments.runs.model_free import ModelFreeEpsGreedy
from jsketch import loops, problems
from jsketch.bandits import widths
from jsketch.types import Evaluations

CONTENT = "panel,algorithm,t,value\nthis,async_ts,2000,0.5\nthis,async_ts,3000,0.3\nother,bkb,1,2\n"


@pytest.fixture
def poster(tmp_path, monkeypatch):
    """A small poster in a data folder."""
    (tmp_path / published.POSTER).write_text(CONTENT)
    digest = hashlib.sha256(CONTENT.encode()).hexdigest()
    monkeypatch.setattr(published, "POSTER_SHA256", digest)
    return tmp_path


def test_a_panel_is_read_by_our_names(poster):
    t, value = published.panel("this", poster)["ts"]
    assert t.tolist() == [2000, 3000] and value.tolist() == [0.5, 0.3]
    with pytest.raises(ValueError, match="no panel 'nothing'; it has other, this"):
        published.panel("nothing", poster)


def test_an_absent_poster_is_reported_and_nothing_is_written(tmp_path, capsys):
    against_published.write_curves(tmp_path, dict(seconds="this"), 0, tmp_path)
    assert "NO PUBLISHED CURVES" in capsys.readouterr().out
    assert against_published.read_curves(tmp_path) == {} and not list(tmp_path.iterdir())


def test_another_poster_is_refused(tmp_path):
    (tmp_path / published.POSTER).write_text(CONTENT)
    with pytest.raises(ValueError, match="sha256"):
        published.panel("this", tmp_path)


def test_ours_over_published_counts_initial_evaluations(poster, tmp_path):
    folder = tmp_path / "results"
    against_published.write_curves(
        folder, dict(regret_ratio="this"), 1000, poster, dict(regret_ratio=2.0)
    )
    arrays = dict(t=np.array([1, 1000, 4000]), regret_ratio=np.array([1.0, 0.5, 0.5]))
    runs = [tidy.Run(dict(problem="p", algorithm="sketched_ts"), 0, arrays)]
    tidy.write(folder, runs, "an experiment", "a title")
    (folder / tidy.PROVENANCE).write_text("{}")
    against_published.compare(folder, initial=1000)
    rows = (folder / against_published.TABLE).read_text().splitlines()
    # at T = 2,000: t = 1,000, where the poster has 0.5, scaled by 2; 5,000 lies beyond its end
    assert rows[1:] == ['regret_ratio,"TS, batches of 30",2000,0.5,1,0.50']


def test_widths_of_the_methods():
    c = dict(width="theory", ratio=2.0, lengthscale=1.0, regularization=0.01, noise_std=0.1)
    c |= dict(norm_bound=1.0, delta=0.1, qbar=2.0, horizon=10)
    evidence = widths.of_exact(jnp.array(5.0), jnp.array(3.0), jnp.array(1.0))

    def width(name, **changes):
        bandit = methods.ALGORITHMS[name](c | changes)
        factor = 2**0.5 if name.startswith("gp_bucb") else 1.0
        return factor * widths.confidence_width(bandit, evidence)

    beta = 0.1 * 1.0 + 0.1 * np.sqrt(2 * (3 + np.log(10)))
    np.testing.assert_allclose(width("gp_ucb"), beta)
    np.testing.assert_allclose(width("gp_bucb"), 2 * beta)  # alpha = C beta
    np.testing.assert_allclose(width("gp_bucb_sqrt"), 2**0.5 * beta)
    code = 0.1 * 1.0 + 0.1 * np.sqrt(3 + np.log(10))
    np.testing.assert_allclose(width("gp_bucb", width="code"), 2**0.5 * code)
    names = {methods.width_of(n, c).function for n in ("bkb", "bbkb_global", "bbkb_global_local")}
    assert names == {widths.bkb_paper.function, widths.bbkb_paper.function}


def test_epsilon_greedy_without_a_model_finds_the_best_arm():
    rewards = jnp.linspace(0, 1, 20)
    problem = problems.finite_arms(jnp.arange(20.0)[:, None], rewards, 0.01)
    run = loops.run(ModelFreeEpsGreedy(), problem, jax.random.key(0), 400)
    last = np.asarray(run.trace.regret)[-200:]
    # a uniform arm with probability 2/sqrt(t), about 0.12, else the best
    assert 0.7 < (last < 1e-9).mean() < 0.98

    state = ModelFreeEpsGreedy(factor=1e-9).init(
        problem.arms, jax.random.key(0), data=Evaluations(jnp.eye(20)[3], jnp.eye(20)[3])
    )
    query = ModelFreeEpsGreedy(factor=1e-9).ask(state, jax.random.key(1))
    assert int(query.index[0]) == 3
