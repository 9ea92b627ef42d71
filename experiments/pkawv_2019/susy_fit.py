"""The error of least squares with Taylor features on the sample of SUSY, on the rows of the fit and
on other rows, with three scalings of the inputs.

    python -m experiments.pkawv_2019.susy_fit --out results/pkawv_2019/susy_fit

PKAWV approaches the fit to all rows as n grows. The error of that fit on new rows should lie
between the two errors here: the first is too low, because the same rows determine the fit, and the
second is too high, because its fits have four fifths of the sample.

The inputs are scaled to [-1, 1] as in the paper, to [0, 1] as in the authors' code, or to columns
of mean 0 and variance 1.
"""

import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.data import streams
from experiments.results import outputs
from jsketch.sketch.taylor import Taylor

LENGTHSCALE, FOLDS = 4.0, 5
STANDARDIZED = "standardized"


def error_rate(predictions: np.ndarray, labels: np.ndarray) -> float:
    """The share of predictions with the wrong sign."""
    return float((np.sign(predictions) != labels).mean())


def errors(degree: int, xs: np.ndarray, ys: np.ndarray) -> dict[str, float]:
    """The number of features of a degree, and the errors of the fit on its own rows and on others.
    The rows must be in random order."""
    features = np.asarray(Taylor(xs.shape[1], degree, LENGTHSCALE).features(jnp.asarray(xs)))

    def fit(rows: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq(features[rows], ys[rows], rcond=None)[0]

    all_rows = np.arange(len(ys))
    fold_errors = [
        error_rate(features[fold] @ fit(np.setdiff1d(all_rows, fold)), ys[fold])
        for fold in np.array_split(all_rows, FOLDS)
    ]
    return dict(
        features=features.shape[1],
        error_of_fit=error_rate(features @ fit(all_rows), ys),
        error_of_other_rows=float(np.mean(fold_errors)),
    )


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None, limit=None)
    parser.add_argument("--degrees", type=cli.count, nargs="+", default=[2])
    options = cli.parse(parser)
    data = {
        name: streams.load_stream("susy", name, options.data_dir, seed=0, limit=options.limit)
        for name in streams.SCALINGS
    }
    susy = data["authors"]
    data[STANDARDIZED] = susy._replace(xs=(susy.xs - susy.xs.mean(0)) / susy.xs.std(0))
    config = dict(degrees=options.degrees, limit=options.limit, lengthscale=LENGTHSCALE)
    with outputs.results_folder(options, "pkawv_2019.susy_fit", config) as results:
        scalings = {
            name: {f"taylor_{m}": errors(m, stream.xs, stream.ys) for m in options.degrees}
            for name, stream in data.items()
        }
        summary = dict(config=config, data=susy.source, examples=len(susy.ys), scalings=scalings)
        results.write(summary)
    for name, methods in scalings.items():
        print(name, methods)
