"""Several processes that compute one suggestion; how they hear from each other is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Processes(NamedTuple):
    """Who computes together; all of them call what one calls, in the same order."""

    number: int  # of this one, from 0 on
    total: int
    gather: Callable[[Any], list[Any]]  # what each of them has, in their order

    def agreed(self, make: Callable[[], Any]) -> Any:
        """make() on this process. Raises ValueError on all where it raises on one."""
        made, wrong = None, None
        try:
            made = make()
        except (ValueError, OSError, MemoryError) as error:
            wrong = str(error) or type(error).__name__
        said = [words for words in self.gather(wrong) if words is not None]
        if said:
            raise ValueError(said[0])
        return made

    def by_first(self, make: Callable[[], Any]) -> Any:
        """make() of process 0, on all."""
        return self.gather(self.agreed(lambda: None if self.number else make()))[0]
