"""`experiments.tables.reactions`: recorded rewards, compiled runs, and the statistics of logs."""

import jax
import numpy as np
import pandas as pd
import pytest

from experiments.tables import reactions

SETTING = reactions.SETTINGS["deoxyfluorination"]
KEYS = jax.random.split(jax.random.key(0), 6)


def play(name, recorded, rounds):
    """(arms, rewards) of 6 runs over 4 arms with recorded rewards [4,R]."""
    features = np.array([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1.0]])
    bandit = reactions.bandits_of(SETTING, len(recorded))[name]
    arms, rewards, failed = reactions.play(bandit, features, recorded, KEYS, rounds)
    assert not failed.any()
    return np.asarray(arms), np.asarray(rewards)


def test_the_metrics_agree_with_a_replay_of_the_picks():
    means = np.array([0.1, 0.9, 0.35, 0.8])
    arms, rewards = play("gp_ucb", np.repeat(means[:, None], 40, axis=1), 30)
    np.testing.assert_allclose(rewards, means[arms])
    metrics = reactions.metrics(arms, rewards, means, top=2)
    for run in range(len(arms)):
        for t in range(1, 31):
            pulled, counts = np.unique(arms[run, :t], return_counts=True)
            most_pulled = pulled[counts == counts.max()]
            share = np.isin(most_pulled, [1, 3]).mean()
            assert metrics["most_pulled_top"][run, t - 1] == share
            assert metrics["most_pulled_best"][run, t - 1] == (most_pulled == 1).mean()
            best_so_far = pulled[means[pulled].argmax()]
            assert metrics["highest_mean_best"][run, t - 1] == (best_so_far == 1)
    gaps = 0.9 - means
    counts = np.stack([(arms == arm).sum(1) for arm in range(4)], axis=1)
    np.testing.assert_allclose(metrics["regret"][:, -1], counts @ gaps)
    assert (metrics["most_pulled_best"][:, -1] == 1).all() and metrics["regret"][:, -1].max() < 5


@pytest.mark.parametrize("name", ["bkb", "ts", "uniform"])
def test_no_recorded_reward_of_an_arm_is_drawn_twice(name):
    recorded = np.random.default_rng(0).random((4, 3))
    arms, rewards = play(name, recorded, 12)
    for run in range(len(arms)):
        np.testing.assert_allclose(np.sort(rewards[run]), np.sort(recorded.ravel()))
        assert np.isin(rewards[run, 0], recorded[arms[run, 0]])
    assert len(np.unique(rewards, axis=0)) > 1


def test_tables_and_logs_are_read(tmp_path):
    rows = [(base, ligand, 10 * i) for base in "qp" for ligand in "ts" for i in (-1, 5, 12)]
    table = pd.DataFrame(rows, columns=["base_name", "fluoride_name", "yield"])
    table.loc[3, "yield"] = 77
    (tmp_path / "datasets").mkdir()
    table.sample(frac=1, random_state=3).sort_values("base_name", ascending=False).to_csv(
        tmp_path / "datasets" / SETTING.file
    )
    features, recorded = reactions.load(tmp_path, SETTING)
    assert features.shape == (4, 4) and (features.sum(0) == 2).all()
    expected = np.tile([0.0, 0.5, 1.0], (4, 1))
    # arms are in the order in which their conditions first appear in the file
    changed = np.flatnonzero((np.sort(recorded, axis=1) != expected).any(1))
    assert len(changed) == 1 and changed[0] < 2 and 0.77 in recorded[changed[0]]

    log = pd.DataFrame(dict(num_sims=[0, 0, 1, 1], chosen_arm=[0.0, 3, 2, 2], reward=[0.5] * 4))
    log.to_csv(tmp_path / "log.csv")
    arms, _ = reactions.read_log(tmp_path / "log.csv", recorded)
    np.testing.assert_array_equal(arms, [[0, 3], [2, 2]])
    log.assign(reward=0.6).to_csv(tmp_path / "log.csv")
    with pytest.raises(ValueError, match="has rewards that its arms do not have"):
        reactions.read_log(tmp_path / "log.csv", recorded)
    table[:-1].to_csv(tmp_path / "datasets" / SETTING.file)
    with pytest.raises(ValueError, match="equally many"):
        reactions.load(tmp_path, SETTING)
