"""Arms in a .npy file: a matrix [A, d] that may be larger than memory and is read in chunks."""

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
from jax.typing import DTypeLike

from jsketch import checks

CHUNK = 1 << 18  # default number of arms in a chunk
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class ArmFile:
    """The domain that `Streamed` takes. `open_arms` returns it."""

    path: str
    count: int  # A, number of arms
    dimension: int  # d
    file_dtype: str
    offset: int  # bytes before the first number
    chunk: int  # R, number of arms in a chunk
    dtype: Any  # of the arms in JAX

    @property
    def n_chunks(self) -> int:
        """Number of chunks, C."""
        return -(-self.count // self.chunk)

    def read(self, chunk_index: int) -> np.ndarray:
        """The rows of a chunk [R, d] in the dtype of the file; the last arm is repeated as padding.
        Raises ValueError if the file has become shorter, and for a value that is not finite in
        `dtype`."""
        first = chunk_index * self.chunk
        n_arms = min(self.chunk, self.count - first)
        offset = self.offset + first * self.dimension * np.dtype(self.file_dtype).itemsize
        # the pages of a memory map would count as memory of this process
        values = np.fromfile(self.path, self.file_dtype, n_arms * self.dimension, offset=offset)
        if values.size < n_arms * self.dimension:
            raise ValueError(
                f"{self.path} ends before arm {first + values.size // self.dimension}; it had"
                f" {self.count:,} arms when it was opened."
            )
        rows = values.reshape(n_arms, self.dimension)
        self._check_finite(range(first, first + n_arms), rows)
        return np.concatenate([rows, np.repeat(rows[-1:], self.chunk - n_arms, axis=0)])

    def _check_finite(self, indices: Any, rows: np.ndarray) -> None:
        """Raises ValueError unless the rows [n, d] of the arms `indices` [n] are finite."""
        # a comparison with NaN is false
        finite = np.abs(rows) <= np.finfo(self.dtype).max
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise ValueError(
                f"arms must be finite; arm {indices[row]}, feature {column} of {self.path} is"
                f" {rows[row, column]} (in {self.dtype.name}). Remove or impute such values."
            )

    def read_in_order(self) -> Iterator[tuple[int, Any]]:
        """Yields (index of the chunk, its rows [R, d] on the device) for each chunk, while a thread
        reads the next one. Raises the errors of `read` and `check`."""
        self.check()

        def load(chunk_index: int) -> Any:
            return jax.device_put(self.read(chunk_index))

        with ThreadPoolExecutor(1) as reader:
            next_rows = reader.submit(load, 0)
            for chunk_index in range(self.n_chunks):
                rows = next_rows.result()
                if chunk_index + 1 < self.n_chunks:
                    next_rows = reader.submit(load, chunk_index + 1)
                yield chunk_index, rows

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """The rows [n, d] of the arms `indices` [n], in `dtype`. Raises the errors of `read` and
        `check`."""
        self.check()
        rows = np.load(self.path, mmap_mode="r")[indices]
        self._check_finite(indices, rows)
        return np.asarray(rows, self.dtype)

    def check(self) -> None:
        """Raises ValueError unless the file has the shape and dtype with which it was opened. A
        change of the values alone is not detected."""
        current = open_arms(self.path, chunk=self.chunk, dtype=self.dtype)
        if current != self:
            raise ValueError(
                f"{self.path} has changed since it was opened: it has"
                f" shape [{current.count}, {current.dimension}] in {current.file_dtype}, and had"
                f" [{self.count}, {self.dimension}] in {self.file_dtype}."
            )


def open_arms(
    path: str | os.PathLike[str], *, chunk: int = CHUNK, dtype: DTypeLike | None = None
) -> ArmFile:
    """The arms [A, d] in a .npy file of float32 or float64, as `np.save` and
    `np.lib.format.open_memmap` write it. Only the header is read.

    chunk  int, number of arms that are read and held on the device at a time
    dtype  of the arms in JAX; None: that of the file. float64 computes in float64 with a file of
           float32, and needs jax_enable_x64

    Raises ValueError for another kind of file, an array that is empty, has another rank or dtype or
    is in Fortran order, a file that is shorter than its header states, and `chunk` below 1.
    """
    checks.positive_integer(chunk=chunk)
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"open_arms takes the path of a .npy file; {path!r} was given.")
    name = str(Path(path).absolute())
    if not os.path.isfile(name):
        raise ValueError(f"there is no file {name}.")
    try:
        table = np.load(name, mmap_mode="r")
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(
            f"{name} is not a .npy file of numbers, or is shorter than its header states: {error}."
        ) from error
    if not isinstance(table, np.memmap) or table.ndim != 2 or 0 in table.shape:
        found = f"has shape {table.shape}" if hasattr(table, "shape") else "holds several arrays"
        raise ValueError(
            f"arms must be a matrix [A, d] in a .npy file, one arm in each row; {name} {found}."
        )
    if table.dtype.name not in DTYPES or not table.dtype.isnative:
        raise ValueError(
            f"arms in a file must be float32 or float64 in native byte order; {name} has"
            f" {table.dtype}: save it again after astype(np.float32)."
        )
    if not table.flags.c_contiguous:
        raise ValueError(
            f"{name} is in Fortran order: write it again in C order (np.ascontiguousarray)."
        )
    count, dimension = table.shape
    checks.memory(0, jnp.float32, arms=count)
    wanted = checks.floating_dtype(table.dtype if dtype is None else dtype)
    dtype_of_arms = jax.dtypes.canonicalize_dtype(wanted)
    if dtype is not None and dtype_of_arms != wanted:
        raise ValueError(f"{wanted} needs jax.config.update('jax_enable_x64', True).")
    chunk, offset = min(chunk, count), int(table.offset)
    return ArmFile(name, count, dimension, table.dtype.name, offset, chunk, dtype_of_arms)
