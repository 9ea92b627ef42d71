"""Compiles with XLA's default flags in a session whose flags make compilation fast, and limits the
size of a folder of compiled programs."""

import os
from pathlib import Path

import jax

# XLA's defaults of the flags that scripts/test sets, except the flag of parallel code generation,
# which does not change the compiled code
DEFAULTS = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
    "xla_disable_hlo_passes": "",
}


def default_flags_jit(function, **options):
    """jax.jit with XLA's default flags, or the session's flags if JSKETCH_DEFAULT_FLAGS=0."""
    use_defaults = os.environ.get("JSKETCH_DEFAULT_FLAGS") != "0"
    flags = os.environ.get("XLA_FLAGS", "") if use_defaults else ""
    defaults = {name: value for name, value in DEFAULTS.items() if f"--{name}=" in flags}
    return jax.jit(function, compiler_options=defaults, **options)


def trim(folder: Path, limit: float) -> None:
    """Removes those files of a folder and its subfolders that were read longest ago, until the
    others have at most `limit` bytes together. Other sessions may write and remove files meanwhile.
    """
    files = []
    for path in folder.rglob("*"):
        try:
            files.append((path.stat().st_atime, path.stat().st_size, path))
        except FileNotFoundError:
            continue
    for _, size, path in sorted(files, reverse=True):
        if path.is_file():
            limit -= size
            if limit < 0:
                path.unlink(missing_ok=True)
