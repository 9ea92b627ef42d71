"""Once: traces.npz and summary.json of earlier results become curves.parquet and summary.parquet.

python -m experiments.convert_traces results --runs DIR

DIR holds the same folders with their runs/, which have more metrics than traces.npz. Every number of traces.npz is compared
with what is read back from curves.parquet; summary.json is not touched.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import bandit_runs, nas_data, results, tidy
from experiments.bbkb_2020 import bandwidths, nas_bench_101
from experiments.bkb_2019 import variance_starvation
from experiments.pkawv_2019 import adversarial, large_scale
from jsketch import problems


def stored(folder: Path, names: Mapping[str, Any], seeds: int) -> bandit_runs.Runs:
    return {name: [results.read_run(folder, name, s) for s in range(seeds)] for name in names}


def convert(folder: Path, source: Path) -> None:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    config: dict[str, Any] = summary["config"]
    kind = f"{folder.parent.name}/{folder.name}"
    seeds = summary.get("seeds", 1)
    checked: dict[str, tuple[dict[str, Any], str, str]] = {}  # trace: columns of the table, metric
    if kind == "pkawv_2019/adversarial":
        traces = np.load(folder / "traces.npz")
        seeds = config.pop("seeds")
        runs = [
            run
            for name, row in summary["methods"].items()
            for run in adversarial.tidy_runs(
                name, config, traces[name], np.array(row["dictionary_size"]["values"])
            )
        ]
        title = f"greedy adversary, d = {config['inputs']}, {seeds} games"
        tidy.write(folder, runs, "pkawv_2019.adversarial", title)
        checked = {name: (dict(algorithm=name), name, "regret") for name in summary["methods"]}
    elif kind == "pkawv_2019/casp":
        found = {name: results.read_run(source, name, 0) for name in config}
        title = f"casp, n = {summary['examples']:,}, scaling '{config['fogd']['scaling']}'"
        runs = [large_scale.tidy_run(config[name], curve, False) for name, curve in found.items()]
        tidy.write(folder, runs, "pkawv_2019.large_scale", title)
        for name, row in summary["methods"].items():  # no traces.npz: the runs are those of the summary
            assert float(found[name]["average_loss"][-1]) == row["average_loss"], name
            assert float(found[name]["seconds"][-1]) == row["seconds"], name
    elif folder.name.startswith("bandwidths"):
        runs = []
        for text in summary["lengthscales"]:
            configs = {name: c | dict(lengthscale=float(text)) for name, c in config.items()}
            rows = stored(bandwidths.folder(source, float(text)), configs, seeds)
            check_finals(rows, summary["lengthscales"][text]["algorithms"])
            runs += bandit_runs.tidy_runs(folder.name.split("_")[1], configs, rows)
            for name in configs:
                checked |= {
                    f"{text}/{name}": (
                        dict(algorithm=name, lengthscale=float(text)),
                        f"lengthscale {text}/{name}/regret_ratio",
                        "regret_ratio",
                    )
                }
        title = f"{folder.name.split('_')[1]}, {seeds} seeds, mean and 95% interval"
        tidy.write(folder, runs, "bbkb_2020.bandwidths", title)
    else:
        rows = stored(source, config, seeds)
        check_finals(rows, summary["algorithms"])
        first = next(iter(config.values()))
        if "spectrum" in first:
            experiment, problem = "bkb_2019.linear", f"linear_{first['spectrum']}"
            title = (
                f"generated linear rewards, {first['spectrum']} spectrum, d = {first['inputs']},"
                f" m = {first['size']}, {seeds} seeds"
            )
            metrics = ["regret_ratio", "seconds"]
        else:
            experiment, problem = "bbkb_2020.regret", first["dataset"]
            title = f"{problem}, {seeds} seeds, mean and 95% interval"
            metrics = ["regret_ratio", "batch_size", "seconds"]
        if "initial" in first:
            space = nas_data.load("macro")
            assert space.source == summary["data"]
            experiment, problem = "bbkb_2020.nas_bench_101", space.name
            title = (
                f"{space.name}, {first['initial']} initial evaluations, {seeds} seeds, mean and 95% interval"
            )
            if first["initial"]:
                arms = problems.recorded_arms(space.features, space.evaluations)
                for name in config:
                    nas_bench_101.include_initial(rows[name], arms, config[name])
            for name, row in summary["algorithms"].items():
                final = [float(run["simple_regret"][-1]) for run in rows[name]]
                assert final == row["simple_regret"]["values"], name
        tidy.write(folder, bandit_runs.tidy_runs(problem, config, rows), experiment, title)
        checked = {
            f"{name}/{metric}": (dict(algorithm=name), f"{name}/{metric}", metric)
            for name in config
            for metric in metrics
        }
    compare(folder, checked)


def check_finals(rows: bandit_runs.Runs, algorithms: dict[str, Any]) -> None:
    """The runs are those of the summary."""
    for name, row in algorithms.items():
        assert [float(r["final_regret_ratio"]) for r in rows[name]] == row["regret_ratio"]["values"], name
        assert [float(r["batches"]) for r in rows[name]] == row["batches"]["values"], name


def compare(folder: Path, checked: dict[str, tuple[dict[str, Any], str, str]]) -> None:
    """Every number of traces.npz is in curves.parquet."""
    if not (folder / "traces.npz").exists():
        print(f"{folder}: no traces.npz to compare with")
        return
    traces = np.load(folder / "traces.npz")
    curves, left = tidy.load(folder).curves, set(traces)
    compared = 0
    for where, trace, metric in checked.values():
        part = curves
        for column, value in where.items():
            part = part[part[column] == value]
        t, values = tidy.lines(part, metric)[where["algorithm"]]
        assert values.shape == traces[trace].shape and (values == traces[trace].astype(float)).all(), trace
        compared += values.size
        left.discard(trace)
        beside = trace.rsplit("/", 1)[0] + "/t"
        if beside in traces:
            assert (np.broadcast_to(t, traces[beside].shape) == traces[beside]).all(), trace
            left.discard(beside)
    assert not left, left
    size = sum((folder / name).stat().st_size for name in (tidy.CURVES, tidy.SUMMARY))
    print(
        f"{folder}: all {compared} numbers of traces.npz ({(folder / 'traces.npz').stat().st_size} B) equal; {size} B"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for path in sorted(options.root.rglob("summary.json")):
        folder = path.parent
        if folder.name == "rates":
            print(f"{folder}: no curves")
            continue
        if folder.name == "variance_starvation":
            made = json.loads(path.read_text())
            runs = variance_starvation.tidy_runs(made["config"], made["evaluations"], made["seeds"])
            title = "GP draws evaluated on [0, 0.5]"
            tidy.write(folder, runs, "bkb_2019.variance_starvation", title)
            curves = tidy.load(folder).curves
            for t, part in made["evaluations"].items():
                for name, fields in part["methods"].items():
                    for field, row in fields.items():
                        chosen = curves[
                            (curves.t == int(t)) & (curves.algorithm == name) & (curves.metric == field)
                        ]
                        assert chosen.sort_values("seed").value.tolist() == row["values"]
            print(f"{folder}: all values of summary.json equal")
            continue
        convert(folder, options.runs / folder.relative_to(options.root))


if __name__ == "__main__":
    main()
