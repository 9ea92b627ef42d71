"""Arms in a file that need not fit the memory: a matrix [A, d] in a .npy file, read in chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import checks

CHUNK = 1 << 18  # arms
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class ArmFile:
    """A candidates in a file, the domain of `Streamed`; made by `open_arms`."""

    path: str
    count: int  # A
    inputs: int  # d
    stored: str  # the dtype in the file
    offset: int  # bytes before the first number
    chunk: int  # R, arms that are read at a time

    @property
    def chunks(self) -> int:
        """C, how many chunks there are."""
        return -(-self.count // self.chunk)

    @property
    def dtype(self) -> Any:
        """The dtype that arms have in JAX."""
        return jax.dtypes.canonicalize_dtype(self.stored)

    def read(self, chunk: int) -> np.ndarray:
        """The rows of a chunk [R, d] as they are stored; the last arm is repeated beyond A.

        Raises ValueError for a file that has become shorter, and for a number that is not finite in
        the dtype of JAX.
        """
        begin = chunk * self.chunk
        size = min(self.chunk, self.count - begin)
        at = self.offset + begin * self.inputs * np.dtype(self.stored).itemsize
        # read and not mapped: mapped pages would count as memory of this process
        numbers = np.fromfile(self.path, self.stored, size * self.inputs, offset=at)
        if numbers.size < size * self.inputs:
            raise ValueError(
                f"{self.path} ends before arm {begin + numbers.size // self.inputs}, and had"
                f" {self.count:,} arms when it was opened."
            )
        rows = _finite(
            self.path, range(begin, begin + size), numbers.reshape(size, self.inputs), self.dtype
        )
        return np.concatenate([rows, np.repeat(rows[-1:], self.chunk - size, 0)])

    def in_order(self) -> Iterator[tuple[int, Any]]:
        """(number of a chunk, its rows [R, d] on the device), all of them; a thread reads the next
        one while the caller works on this one. Raises ValueError as `read`, and where the file is
        not the one that was opened."""
        self.check()

        def placed(chunk: int) -> Any:
            return jax.device_put(self.read(chunk))

        with ThreadPoolExecutor(1) as reader:
            following = reader.submit(placed, 0)
            for chunk in range(self.chunks):
                rows = following.result()
                if chunk + 1 < self.chunks:
                    following = reader.submit(placed, chunk + 1)
                yield chunk, rows

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """The arms of these numbers [n], [n, d], in the dtype of JAX. Raises ValueError as
        `read`."""
        self.check()
        table = np.load(self.path, mmap_mode="r")
        return np.asarray(_finite(self.path, numbers, table[numbers], self.dtype), self.dtype)

    def check(self) -> None:
        """Raises ValueError unless the file still holds as many arms, in the dtype in which it was
        opened. Other numbers in their place are not noticed."""
        now = open_arms(self.path, chunk=self.chunk)
        if now != self:
            raise ValueError(
                f"{self.path} is another file than the one that was opened: it holds"
                f" [{now.count}, {now.inputs}] numbers in {now.stored}, and"
                f" [{self.count}, {self.inputs}] in {self.stored} are expected."
            )


def _finite(path: str, numbers: Any, rows: np.ndarray, dtype: Any) -> np.ndarray:
    """The rows of arms `numbers`. Raises ValueError for one that is not finite in that dtype."""
    if np.isfinite(rows).all() and (rows.dtype == dtype or _within(rows, dtype)):
        return rows
    finite = np.isfinite(rows) & (np.abs(rows) <= np.finfo(dtype).max)
    row, column = np.argwhere(~finite)[0]
    raise ValueError(
        f"arms must be finite; arm {numbers[row]}, feature {column} of {path} is"
        f" {rows[row, column]} (in {np.dtype(dtype).name}). Remove or impute such values."
    )


def _within(rows: np.ndarray, dtype: Any) -> bool:
    return bool(np.abs(rows).max(initial=0) <= np.finfo(dtype).max)


def open_arms(path: str | os.PathLike[str], *, chunk: int = CHUNK) -> ArmFile:
    """The arms [A, d] in a .npy file of float32 or float64, as `np.save` and
    `np.lib.format.open_memmap` write it. Nothing but its header is read.

    chunk  int, arms that are read, and are on the device, at a time; not more than there are

    Raises ValueError for what is no such file, an empty matrix, one of another rank or dtype or in
    Fortran order, a file that is shorter than its header says, and a chunk below 1.
    """
    checks.capacity(chunk=chunk)
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"open_arms takes the path of a .npy file; {path!r} was given.")
    name = str(Path(path).absolute())
    if not os.path.isfile(name):
        raise ValueError(f"there is no file {name}.")
    try:
        table = np.load(name, mmap_mode="r")
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(
            f"{name} is no .npy file of numbers, or is shorter than its header says: {error}."
        ) from error
    if not isinstance(table, np.memmap) or table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            "arms must be a matrix [A, d] in a .npy file, one candidate a row;"
            f" {name} holds {getattr(table, 'shape', type(table).__name__)}."
        )
    if table.dtype.name not in DTYPES or not table.dtype.isnative:
        raise ValueError(
            f"arms in a file are float32 or float64; {name} holds {table.dtype}: write it again,"
            " a part at a time, with np.lib.format.open_memmap."
        )
    if not table.flags.c_contiguous:
        raise ValueError(
            f"{name} is in Fortran order, so that no arm lies in one place: write it again with"
            " np.ascontiguousarray, or a part at a time with np.lib.format.open_memmap."
        )
    count, inputs = table.shape
    checks.room(0, jnp.float32, arms=count)
    return ArmFile(name, count, inputs, table.dtype.name, int(table.offset), min(chunk, count))
