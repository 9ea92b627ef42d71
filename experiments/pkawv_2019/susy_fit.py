"""The error of least squares with Taylor features on the sample of SUSY, on the rows of the fit and
on other rows.

    python -m experiments.pkawv_2019.susy_fit --out results/pkawv_2019/susy_fit

PKAWV approaches this fit as n grows. The first error is too low, because these rows determined the
fit, and the second one is that of a fit to four fifths of the sample.
"""

import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.data import streams
from experiments.results import outputs
from jsketch.sketch.taylor import Taylor

LENGTHSCALE, FOLDS = 4.0, 5


def error(predictions: np.ndarray, labels: np.ndarray) -> float:
    """The share of predictions with the wrong sign."""
    return float((np.sign(predictions) != labels).mean())


def errors(degree: int, xs: np.ndarray, ys: np.ndarray) -> dict[str, float]:
    """The errors and the number of features of a degree; the rows are in random order."""
    features = np.asarray(Taylor(xs.shape[1], degree, LENGTHSCALE).features(jnp.asarray(xs)))

    def fit(rows: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq(features[rows], ys[rows], rcond=None)[0]

    everything = np.arange(len(ys))
    other = [
        error(features[part] @ fit(np.setdiff1d(everything, part)), ys[part])
        for part in np.array_split(everything, FOLDS)
    ]
    return dict(
        features=features.shape[1],
        error_of_fit=error(features @ fit(everything), ys),
        error_of_other_rows=float(np.mean(other)),
    )


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None, limit=None)
    parser.add_argument("--degrees", type=cli.count, nargs="+", default=[2, 3])
    options = cli.parse(parser)
    stream = streams.load_stream("susy", "authors", options.data_dir, 0, options.limit)
    config = dict(degrees=options.degrees, limit=options.limit, lengthscale=LENGTHSCALE)
    with outputs.results_folder(options, "pkawv_2019.susy_fit", config) as results:
        methods = {f"taylor_{m}": errors(m, stream.xs, stream.ys) for m in options.degrees}
        results.write(
            dict(config=config, data=stream.source, examples=len(stream.ys), methods=methods)
        )
    for name, row in methods.items():
        print(name, row)
