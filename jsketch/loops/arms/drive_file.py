"""The file of a run with a host objective over arms: all that `drive` needs to resume it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import serialization

from jsketch.loops.saving import processes, saved
from jsketch.loops.saving.describe import describe
from jsketch.loops.saving.resume import check_belongs, checked_path, restored, versions
from jsketch.types import Arms, Bandit, PRNGKey, attach, detach, enlarged

# of a `Driven`, beside its state
FIELDS = ("arm", "reward", "n_unobserved", "imprecise")


class File(NamedTuple):
    """Where a run is kept, and what it is."""

    path: Path
    belongs: dict[str, Any]
    over: bool = False  # several processes, which all save and load together

    def save(self, driven: Any) -> None:
        """Replaces the file. The arms are not in it: whoever resumes has them."""
        state = processes.whole(detach(driven.state))
        if not processes.writes(self.over):
            return
        body = dict(state=state, **{name: getattr(driven, name) for name in FIELDS})
        header = dict(
            belongs=self.belongs,
            capacity=getattr(driven.state, "capacity", 0),
            evaluations=driven.t,
        )
        saved.write(self.path, saved.ARM_RUN, header, serialization.to_bytes(body))

    def load(self, bandit: Bandit[Any], start: Any) -> Any:
        """The run in the file, or `start` when there is none. Raises ValueError for a file that
        does not fit."""
        content = processes.content(self.path, self.over)
        if content is None:
            return start
        header, body = saved.parts(self.path, content, saved.ARM_RUN)
        check_belongs(self.path, header["belongs"], self.belongs)
        domain, state = start.state.domain, start.state
        if header["capacity"] > getattr(state, "capacity", 0):
            state = enlarged(bandit, state, header["capacity"])
        form = dict(state=detach(state), **{name: getattr(start, name) for name in FIELDS})
        found = restored(self.path, form, body)
        state = attach(processes.placed(found.pop("state"), detach(state)), domain)
        return replace(start, state=state, **found)


def open_file(
    path: str | os.PathLike[str] | None,
    bandit: Bandit[Any],
    domain: Arms,
    key: PRNGKey,
    given: bool,
) -> File | None:
    """The file of a run, or None without a path; `given` says that the caller gave a state too.
    Raises ValueError, before anything is evaluated, for a folder that is not there, and for a state
    beside a file that exists."""
    if path is None:
        return None
    path, over = checked_path(path), processes.is_over(domain)
    if given and path.exists():
        raise ValueError(
            f"{path} holds a run already, and a state was given too: leave `state` out to resume"
            " from the file, or name"
            " another file."
        )
    parts = dict(
        bandit=bandit,
        arms=domain.features,
        key=np.asarray(jax.random.key_data(key)),
        key_kind=str(jax.random.key_impl(key)),
        # not jax's: weeks of laboratory work outlive it, and what comes after may differ by
        # rounding only
        version=versions()["jsketch"],
    )
    return File(path, describe(parts), over)
