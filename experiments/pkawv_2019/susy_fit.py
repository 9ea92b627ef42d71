"""PKAWV, Section 4: degree 2 on a million examples of SUSY.

The paper says that degree 2 has FALKON's error on the first million examples, after ten minutes.
Without the file of all rows (880 MB), the claim is judged by the fit that the forecaster approaches
as n grows: least squares with the features of degree 2 on a random sample of 39,930 rows. Its error
on its own rows is too low; that on other rows is too high, because its fits have four fifths of the
sample. The forecaster's average over the stream includes earlier, larger errors.

Inputs are scaled to [-1, 1] as in the paper, to [0, 1] as in the notebook, or to columns of mean 0
and variance 1. The ranges of the columns are those of the sample; with the paper's scaling they are
also taken three times as wide, because the largest values of all rows are larger.
"""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from experiments import common
from experiments.common import Options, Settings, Verdict
from experiments.data import streams
from experiments.results import tidy
from jsketch.sketch.taylor import Taylor

FOLDER, STREAM = "pkawv_2019/susy_fit", "pkawv_2019/susy"
LENGTHSCALE, DEGREE, FOLDS = 4.0, 2, 5
STANDARDIZED, WIDER = "standardized", "paper, ranges three times as wide"
RUNS: dict[str, Settings] = {FOLDER: dict(limit=None, seeds=1)}
QUICK: Settings = dict(limit=1_000)

MILLION, TEN_MINUTES = 1_000_000, 600.0  # examples, seconds
# 1% more than the error with 10,000 centres of Rudi, Carratino, Rosasco (2017)
FALKON_ERROR = 1.01 * 0.196


def errors(xs: np.ndarray, ys: np.ndarray) -> dict[str, Any]:
    """The errors of the fit on its own rows and on others. Rows must be in random order."""
    features = np.asarray(Taylor(xs.shape[1], DEGREE, LENGTHSCALE).features(jnp.asarray(xs)))

    def error(fit_rows: np.ndarray, rows: np.ndarray) -> float:
        weights = np.linalg.lstsq(features[fit_rows], ys[fit_rows], rcond=None)[0]
        return float((np.sign(features[rows] @ weights) != ys[rows]).mean())

    rows = np.arange(len(ys))
    folds = [error(np.setdiff1d(rows, fold), fold) for fold in np.array_split(rows, FOLDS)]
    return dict(
        t=np.array([len(ys)]),
        error_of_fit=np.array(error(rows, rows)),
        error_of_other_rows=np.array(np.mean(folds)),
    )


def run(folder: Path, settings: Settings, options: Options) -> None:
    limit = settings["limit"]
    data = {
        name: streams.load_stream("susy", name, options.data_dir, seed=0, limit=limit)
        for name in streams.SCALINGS
    }
    susy = data["authors"]
    data[WIDER] = data["paper"]._replace(xs=(data["paper"].xs + 1) / 3 - 1)  # columns begin at -1
    data[STANDARDIZED] = susy._replace(xs=(susy.xs - susy.xs.mean(0)) / susy.xs.std(0))
    config = dict(settings, degree=DEGREE, lengthscale=LENGTHSCALE)
    with options.results(folder, "pkawv_2019.susy_fit", config, settings["seeds"]) as results:
        runs = []
        for scaling, stream in data.items():
            of_run = dict(problem="susy", algorithm=f"taylor_{DEGREE}", scaling=scaling)
            found = errors(stream.xs, stream.ys) | dict(examples=np.array(len(stream.ys)))
            runs.append(tidy.Run(of_run, 0, found))
            print(f"{scaling}: {found['error_of_fit']:.4f} on the rows of the fit", flush=True)
        results.write(dict(config=config, data=susy.source), runs, "least squares on SUSY")


def draw(folder: Path) -> None:
    """Writes errors.csv."""
    names = ["scaling", "examples", "error_of_fit", "error_of_other_rows"]
    tidy.write_csv(folder / "errors.csv", common.tables(folder).summary[names])


def falkons_error(root: Path) -> Verdict:
    """After MILLION examples the error is at most FALKON_ERROR and at most TEN_MINUTES have passed.
    On a shorter stream the claim differs if the intervals of the fit's error on its own rows, with
    the paper's scaling and with WIDER ranges, lie above FALKON_ERROR, and is undecided
    otherwise."""
    t, error = common.curve(root / STREAM, "error_rate", "taylor_2")
    if t[-1] >= MILLION:
        seconds = common.values_at(root / STREAM, "seconds", "taylor_2", MILLION)[0]
        final = float(np.interp(MILLION, t, error[0]))
        holds = final <= FALKON_ERROR and seconds <= TEN_MINUTES
        return common.verdict(holds, f"error {final:.4f} after {seconds:.0f} s")
    intervals = {}
    for scaling in (*streams.SCALINGS, WIDER, STANDARDIZED):
        share, rows = (
            common.finals(root / FOLDER, column, "taylor_2", scaling=scaling)[0]
            for column in ("error_of_fit", "examples")
        )
        intervals[scaling] = common.probability_interval(round(share * rows), int(rows))
    fails = common.all_above([intervals["paper"], intervals[WIDER]], FALKON_ERROR) is True
    text = f"error of the fit to {rows:,.0f} rows, by scaling: {common.listed(intervals, 4)}"
    return common.verdict(False if fails else None, f"{text}; FALKON's and 1%: {FALKON_ERROR:.4f}")


CHECKS = (falkons_error,)

if __name__ == "__main__":
    common.main(__file__)
