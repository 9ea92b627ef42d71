"""scripts/bench --accelerator: what an accelerator is for, and the same on the CPU of its machine
as the alternative.

Many seeds at once, a grid of hyperparameters in one call, millions of arms in float32 and float64,
a long stream. Every part is a process of its own with a limit of time; the file is written again
after each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from experiments.results import files, store

PARTS = ("profile", "seeds", "sweep", "arms", "precision", "stream")
ON_CPU = ("seeds", "sweep", "arms", "stream")
DEVICES = ("accelerator", "cpu")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of --accelerator."""
    group = parser.add_argument_group("with --accelerator")
    group.add_argument(
        "--accelerator",
        action="store_true",
        help="benchmarks of an accelerator, and of the CPU beside it",
    )
    group.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="some of them")
    group.add_argument(
        "--devices", nargs="+", choices=DEVICES, default=DEVICES, help="one of the two"
    )
    group.add_argument(
        "--limit", type=float, default=600.0, help="seconds after which a part is ended"
    )
    group.add_argument("--tiny", action="store_true", help="sizes of a test, on made-up arms")


def run(options: argparse.Namespace) -> None:
    """Runs the parts one after the other, the accelerator's first, and writes what they tell."""
    told: dict[str, Any] = {}
    for device in options.devices:
        for part in options.parts:
            if device == "cpu" and part not in ON_CPU:
                continue
            content, ended = _run_part(part, device, options)
            told.setdefault(device, {})["environment"] = content.get("environment")
            told[device][part] = dict(rows=content.get("rows", {}), ended=ended)
            if ended != "done":
                print(f"{device} {part}: {ended}; its rows until then are kept", flush=True)
            if options.out is not None:
                store.write_json(options.out, told)


def _run_part(part: str, device: str, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """(what the part has written, how it ended)."""
    with files.scratch() as folder:
        out = folder / "part.json"
        sizes = "tiny" if options.tiny else device
        command = [
            sys.executable,
            "-m",
            "experiments.bench.accelerator.parts",
            part,
            "--sizes",
            sizes,
            "--out",
            str(out),
        ]
        if options.data_dir is not None:
            command += ["--data-dir", str(Path(options.data_dir).resolve())]
        # the process of this function starts no device: it would hold the accelerator's memory
        environment = dict(os.environ, JAX_PLATFORMS="cpu") if device == "cpu" else dict(os.environ)
        try:
            status = subprocess.run(
                command,
                cwd=Path(__file__).resolve().parents[3],
                env=environment,
                timeout=options.limit,
            ).returncode
            ended = "done" if status == 0 else f"ended with status {status}"
        except subprocess.TimeoutExpired:
            ended = f"ended by the limit of {options.limit:g} s"
        return (store.read_json(out) if out.exists() else {}), ended
