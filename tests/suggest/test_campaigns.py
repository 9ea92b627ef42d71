"""Evaluations of earlier campaigns, joined to a model as further tasks."""

import re

import jax
import numpy as np
import pandas as pd
import pytest
from rows import check_refusals

from jsketch.suggest import Columns, join_campaigns, predict, suggest
from jsketch.suggest.tables import inputs, options, outputs

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(40, 2))
EARLIER_X = RANDOM.uniform(size=(25, 2))
KEY = jax.random.key(1)


def truth(x):
    return np.sin(4 * x[:, 0]) + x[:, 1]


def test_earlier_values_get_the_moments_of_the_present_ones():
    arms, values = np.arange(6), truth(X[:6])
    earlier = 100 - 30 * truth(EARLIER_X)
    earlier[3] = np.nan
    campaigns = [(EARLIER_X, earlier), (EARLIER_X[:5], np.full(5, 7.0))]
    joined = join_campaigns(X, arms, values, campaigns)
    assert joined.candidates.features.shape == (40 + 24 + 5, 2 + 3)
    assert joined.candidates.columns[-1] == Columns("category", 3)
    np.testing.assert_array_equal(joined.arms, [*range(6), *range(40, 69)])
    moved = joined.values[6:30]
    assert moved.mean() == pytest.approx(values.mean())
    assert moved.std() == pytest.approx(values.std())
    order = np.argsort(earlier[~np.isnan(earlier)])
    np.testing.assert_array_equal(np.argsort(moved), order)
    # equal values become the mean of the present ones
    np.testing.assert_allclose(joined.values[30:], values.mean())
    np.testing.assert_allclose(joined.errors[6:], values.std())
    assert not joined.errors[:6].any()


def test_the_first_batch_follows_an_earlier_campaign():
    """The batch is near the best earlier candidates, in any unit, and contains none of them."""
    batches = []
    for unit in (1.0, 1000.0):
        joined = join_campaigns(X, [], [], [(EARLIER_X, unit * truth(EARLIER_X))])
        batches.append(suggest(*joined[:3], errors=joined.errors, batch=4, key=KEY).rows)
    assert batches[0].tolist() == batches[1].tolist()
    assert (batches[0] < len(X)).all()
    rank = np.argsort(np.argsort(-truth(X)))
    assert rank[batches[0][0]] < 4  # the other picks explore


def test_candidates_of_earlier_campaigns_are_excluded_and_outliers_have_no_effect():
    """Candidates of earlier campaigns are not suggested, even with `replicates`. A single present
    value is the mean of the shifted earlier values. Poor outliers are limited as in `suggest`."""
    joined = join_campaigns(X, [0], [87.3], [(EARLIER_X, truth(EARLIER_X))])
    assert joined.values[1:].mean() == pytest.approx(87.3)
    suggestion = suggest(**joined._asdict(), replicates=True, batch=8, key=KEY)
    assert (suggestion.rows < len(X)).all()
    arms, values, earlier = np.arange(6), truth(X[:6]), truth(EARLIER_X)
    moved = []
    for depth in (1e3, 1e7):
        spiked = np.where(np.arange(6) == values.argmin(), -depth, values)
        earlier_spiked = np.where(np.arange(25) == earlier.argmin(), -depth, earlier)
        moved.append(join_campaigns(X, arms, spiked, [(EARLIER_X, earlier_spiked)]).values[6:])
    other_rows = np.delete(np.arange(25), earlier.argmin())
    np.testing.assert_allclose(moved[0][other_rows], moved[1][other_rows])
    assert moved[0].std() < 10


def test_the_number_of_earlier_evaluations_is_limited():
    x = RANDOM.uniform(size=(1000, 2))
    joined = join_campaigns(X, [], [], [(x, truth(x)), (EARLIER_X, truth(EARLIER_X))])
    assert len(joined.exclude) == 128 + 25  # 128 of the 1,000 are used


def test_present_values_outweigh_contradictory_earlier_ones():
    """The earlier values are the negated function."""
    arms = np.arange(25)
    joined = join_campaigns(X, arms, truth(X[:25]), [(EARLIER_X, -truth(EARLIER_X))])
    model = suggest(*joined[:3], errors=joined.errors, batch=3, key=KEY).model
    mean = predict(*joined[:3], model, errors=joined.errors).mean[25:40]
    assert np.abs(mean - truth(X[25:])).max() < 0.2


@pytest.mark.parametrize(
    "earlier",
    [(EARLIER_X[:, :1], truth(EARLIER_X)), (EARLIER_X, truth(EARLIER_X)[:3]), (EARLIER_X[0], [1])],
)
def test_shapes_that_do_not_agree_are_refused(earlier):
    with pytest.raises(ValueError, match="features .m, 2. and values .m."):
        join_campaigns(X, [], [], [earlier])


def sheets(folder, unit=1.0):
    """Writes a sheet without values, and one of an earlier campaign with a further solvent."""
    solvents = np.resize(["water", "DMF"], 40)
    new = dict(id=[f"r{i}" for i in range(40)], T=X[:, 0], c=X[:, 1], solvent=solvents)
    pd.DataFrame(new).assign(value="").to_csv(folder / "new.csv", index=False)
    old = dict(T=EARLIER_X[:, 0], c=EARLIER_X[:, 1], solvent=np.resize(["water", "DMF", "THF"], 25))
    pd.DataFrame(old).assign(value=unit * truth(EARLIER_X)).to_csv(folder / "old.csv", index=False)


def run(folder, *arguments):
    call = [str(folder / "new.csv"), "--also", str(folder / "old.csv"), "--batch", "4"]
    call += ["--out", str(folder / "next.csv"), "--overwrite", *arguments]
    return outputs.run(options.parse(call))


@pytest.mark.parametrize("goal", [(), ("--minimize",)])
def test_the_command_reads_sheets_of_earlier_campaigns(tmp_path, capsys, goal):
    batches = []
    for unit in (1.0, 60.0):
        sheets(tmp_path, unit)
        batches.append(run(tmp_path, *goal).rows.tolist())
    assert batches[0] == batches[1] and max(batches[0]) < 40
    # the first pick is promising, and not more than half of the others explore
    ranks = np.argsort(np.argsort(-truth(X)))[batches[0]]
    for rank in (ranks[0], np.median(ranks)):
        assert rank > 31 if goal else rank < 8
    printed = capsys.readouterr().out
    assert "25 values of an earlier campaign" in printed
    assert "this batch follows earlier campaigns" in printed


def test_predictions_and_the_page_are_of_the_present_campaign(tmp_path):
    sheets(tmp_path)
    frame = pd.read_csv(tmp_path / "new.csv").astype({"value": object})
    frame.loc[:11, "value"] = truth(X[:12]).round(3)
    frame.to_csv(tmp_path / "new.csv", index=False)
    report, all_scores = tmp_path / "page.html", tmp_path / "all.csv"
    run(tmp_path, "--report", str(report), "--all-scores", str(all_scores))
    scores = pd.read_csv(all_scores)
    assert len(scores) == 40
    error = np.abs(scores.filter(like="predict").iloc[:, 0] - truth(X))
    assert np.median(error) < 0.2
    page = re.sub('base64,[^"]*', "", report.read_text())
    assert "water" in page and "THF" not in page


def test_the_library_and_the_joined_campaigns_have_the_same_scale(tmp_path):
    """The old sheet has more rows than are used, and a wider range."""
    sheets(tmp_path)
    wide = np.random.default_rng(1).uniform(-3, 5, size=(400, 2))
    old = dict(T=wide[:, 0], c=wide[:, 1], solvent=np.resize(["water", "DMF"], 400))
    pd.DataFrame(old).assign(value=truth(wide)).to_csv(tmp_path / "old.csv", index=False)
    call = [str(tmp_path / "new.csv"), "--also", str(tmp_path / "old.csv")]
    read = inputs.read(options.parse(call))
    joined = np.asarray(read.joined.candidates.features)
    assert len(joined) == 40 + 256
    np.testing.assert_array_equal(read.library.features, joined[:40, :-2])


def test_unsuitable_sheets_and_options_are_refused(tmp_path):
    for change, words in (
        (lambda old: old.drop(columns="c"), "old.csv has no column 'c'"),
        (lambda old: old[:2], "has 2 values in the column 'value'"),
    ):
        sheets(tmp_path)
        change(pd.read_csv(tmp_path / "old.csv")).to_csv(tmp_path / "old.csv", index=False)
        check_refusals([(lambda: run(tmp_path), words)])
    for more in (("--target", "1"), ("--top", "3"), ("--acquisition", "ei")):
        with pytest.raises(SystemExit):
            run(tmp_path, *more)
    sheets(tmp_path)
    rows = (
        (lambda: run(tmp_path, "--also", str(tmp_path / "new.csv")), "is read twice"),
        (lambda: run(tmp_path, "--out", str(tmp_path / "old.csv")), "is also the file of --also"),
    )
    check_refusals(rows)


def test_a_column_may_be_constant_in_the_present_campaign(tmp_path):
    """The scale of the column is its range over both campaigns."""
    sheets(tmp_path)
    frame = pd.read_csv(tmp_path / "new.csv")
    frame.assign(c=0.5).to_csv(tmp_path / "new.csv", index=False)
    assert len(run(tmp_path).rows) == 4
