"""`experiments.pools`: campaigns compared with a plain loop over `suggest`."""

import sys
from functools import partial

import jax
import numpy as np
import pytest
from scipy import stats

from experiments.pools import baselines, campaigns, picture, published
from experiments.pools.libraries import Pool
from experiments.results import environment, store
from experiments.suggest import calibration, intervals
from jsketch.suggest import (
    Columns,
    acquisitions,
    leave_one_out,
    library,
    predict,
    stopping,
    suggest,
)

UCB = acquisitions.UCB(1.5)
KEY = jax.random.key(3)
RANDOM = np.random.default_rng(0)
LEVELS = np.stack([RANDOM.integers(0, 4, 70), RANDOM.integers(0, 3, 70)], axis=1)
FEATURES = np.hstack([np.eye(4)[LEVELS[:, 0]], np.eye(3)[LEVELS[:, 1]], RANDOM.random((70, 1))])
COLUMNS = (Columns("category", 4), Columns("category", 3), Columns("numbers", 1))
VALUES = np.array([1.0, 0.2, 0.6, 0.1])[LEVELS[:, 0]] * LEVELS[:, 1] + FEATURES[:, -1]
POOL = Pool("made up", library(FEATURES, COLUMNS), VALUES)


def test_campaigns_equal_a_plain_loop_over_suggest(tmp_path):
    make = partial(campaigns.play, POOL, (5, 3, 3, 3), acquisition=UCB)
    path_of = partial(store.run_path, tmp_path, "suggest")
    campaigns.play_all(make, (0,), path_of)
    new_campaigns = campaigns.play_all(make, (0, 1), path_of)
    # all campaigns are saved: none is played again
    read_campaigns = campaigns.play_all(None, (0, 1), path_of)
    for campaign, read_campaign in zip(new_campaigns, read_campaigns, strict=True):
        assert read_campaign.arms.tolist() == campaign.arms.tolist()
        assert 0 < read_campaign.seconds == campaign.seconds
        arms = np.random.default_rng(campaign.seed).permutation(len(VALUES))[:5].tolist()
        for _ in range(3):
            suggestion = suggest(POOL.library, arms, VALUES[arms], batch=3, acquisition=UCB)
            arms += suggestion.rows.tolist()
        assert campaign.arms.tolist() == arms
        np.testing.assert_array_equal(campaign.values, VALUES[campaign.arms])


def test_a_greedy_forest_starts_as_suggest_does_and_repeats_nothing():
    forest = baselines.CHOOSERS["random_forest"]
    campaign = baselines.play(POOL, (8, 3, 3), 1, forest)
    assert campaign.arms[:8].tolist() == campaigns.play(POOL, (8,), 1).arms.tolist()
    assert len(set(campaign.arms.tolist())) == 14
    rows = forest(FEATURES, campaign.arms[:8], VALUES[campaign.arms[:8]], 3, 1000)
    assert rows.tolist() == campaign.arms[8:11].tolist()
    # later batches are better than the first one
    assert VALUES[campaign.arms[8:]].mean() > VALUES[campaign.arms[:8]].mean()
    random_arms = baselines.play(POOL, (8, 62), 1, baselines.CHOOSERS["random"]).arms
    assert random_arms[:8].tolist() == campaign.arms[:8].tolist()
    assert set(random_arms) == set(range(70))
    pool = Pool("bits", library(np.zeros((9, 2)), (Columns("bits", 2),)), np.arange(9.0))
    with pytest.raises(ValueError, match="bits has fingerprints or failed evaluations"):
        baselines.play(pool, (4, 3), 0, forest)


def test_ties_count_for_the_share_of_the_best_candidates():
    """Three values of 5 tie for two places of the top three."""
    values = np.array([1.0, 5.0, 9.0, 5.0, np.nan, 5.0, 2.0])
    arms = np.array([0, 4, 1, 3, 5, 2, 6])
    campaign = campaigns.Campaign(0, arms, values[arms])
    shares = campaigns.top_found([campaign], values, 3, range(1, 8))
    np.testing.assert_allclose(shares[0], np.array([0, 0, 1, 2, 2, 3, 3]) / 3)
    best = campaigns.best_so_far([campaign], (1, 2, 3, 7))
    assert best.tolist() == [[1.0, 1.0, 5.0, 9.0]]
    rows = published.lines("arylation_one_hot", np.tile([[50.0, 60, 70, 80, 90, 100]], (2, 1)))
    assert rows[2].startswith("| jsketch, 2 seeds | 50.0 ± 0.0 |") and "95.6" in rows[3]


def test_an_evaluation_reads_one_of_the_repeats_of_its_candidate():
    """The seed determines the repeat. A campaign has `pool.values`, and not the readings."""
    repeats = np.array([[1.0, 3.0, np.nan], [4.0, np.nan, np.nan], [5.0, 6.0, 7.0]])
    pool = POOL._replace(values=np.nanmean(repeats, 1), repeats=repeats)
    readings = np.stack([pool.readings(seed) for seed in range(40)])
    assert [set(column) for column in readings.T] == [{1, 3}, {4}, {5, 6, 7}]
    np.testing.assert_array_equal(readings[3], pool.readings(3))
    pool = POOL._replace(repeats=np.stack([VALUES, VALUES - 1], 1))
    values_of_calls = []

    def choose(features, arms, values, batch, seed):
        values_of_calls.append(values)
        return np.setdiff1d(np.arange(70), arms)[:batch]

    campaign = baselines.play(pool, (30, 5), 2, choose)
    np.testing.assert_array_equal(values_of_calls[0], pool.readings(2)[campaign.arms[:30]])
    np.testing.assert_array_equal(campaign.values, VALUES[campaign.arms])


def test_a_campaign_of_the_calibration_ends_where_the_rule_stops_it(monkeypatch):
    """The gain is computed from true values. If it exceeds the tolerance, a stop is too early."""
    truth = VALUES + FEATURES[:, 0]
    problem = calibration.Problem(POOL.library, truth, VALUES, (5, 5, 5, 5))
    gains = []

    def should_stop(gain, tolerance):
        gains.append(gain)
        return gain.observed == 10

    monkeypatch.setattr(stopping, "should_stop", should_stop)
    end = calibration.campaign(problem, 3)
    arms = np.random.default_rng(3).permutation(70)[:5]
    second = suggest(POOL.library, arms, VALUES[arms], batch=5, key=jax.random.fold_in(KEY, 0)).rows
    arms = np.append(arms, second)
    assert end.evaluations == 10 and end.tolerance == pytest.approx(0.01 * np.ptp(VALUES[arms]))
    assert end.gain == np.delete(truth, arms).max() - truth[gains[1].best]
    assert end.too_early == (end.gain > end.tolerance)
    # within the tolerance of an upper bound, the verdict names the best measured candidate
    first_arms, values = arms[:5], VALUES[arms[:5]]
    gain_at_bound = gains[1]._replace(best=int(first_arms[values.argmin()]), limit=0.0)
    monkeypatch.setattr(stopping, "possible_gain", lambda *args, **options: gain_at_bound)
    gain = np.delete(truth, first_arms).max() - truth[first_arms[values.argmax()]]
    assert calibration.campaign(problem, 3).gain == gain
    monkeypatch.setattr(stopping, "should_stop", lambda gain, tolerance: False)
    assert calibration.campaign(problem, 3) == calibration.End(20)
    ends = [calibration.End(20), calibration.End(10, 0.3, 0.2), calibration.End(15, 0.1, 0.2)]
    assert calibration.table_row("generated", ends) == "| generated | 3 | 2 | 12 (10 to 14) | 1 |"


def test_coverage_is_the_share_of_values_inside_their_intervals():
    """The shares are among all candidates without a value, and among the suggested ones."""
    f = np.cos(3 * FEATURES[:, -1]) + VALUES
    problem = calibration.Problem(POOL.library, f, f, ())
    share_of_all, share_of_batch = intervals.coverage(problem, 24, 1)
    arms = np.random.default_rng(1).permutation(70)[:24]
    suggestion = suggest(POOL.library, arms, f[arms], batch=8, key=jax.random.key(1))
    predicted = predict(POOL.library, arms, f[arms], suggestion.model)
    left_out = leave_one_out(POOL.library, arms, f[arms], suggestion.model)
    # a quarter of the 24 values, minus 1, are the degrees of freedom
    half_width = stats.t.ppf(0.95, 5) * max(left_out.error_ratio, 1) * predicted.value_std
    is_covered = np.abs(f - predicted.mean) <= half_width
    covered_rows = {row for row in np.setdiff1d(np.arange(70), arms) if is_covered[row]}
    assert 0.8 < share_of_all == pytest.approx(len(covered_rows) / 46)
    assert share_of_batch == np.mean([row in covered_rows for row in suggestion.rows])


def test_the_picture_is_not_drawn_over_the_saved_one(tmp_path, monkeypatch):
    saved = environment.ROOT / "results" / "pools" / "arylation.png"
    before = saved.stat().st_mtime_ns
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["picture"])
    picture.main()
    assert (tmp_path / "out" / "arylation.png").stat().st_size > 10_000
    assert saved.stat().st_mtime_ns == before
