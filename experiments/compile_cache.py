"""Compiled programs kept on disk between processes: a second run of an experiment compiles nothing."""

import jax
import pooch


def use_compile_cache() -> None:
    """Turns on jax's persistent compilation cache in a per-user folder."""
    jax.config.update("jax_compilation_cache_dir", str(pooch.os_cache("jsketch") / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
