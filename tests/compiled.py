"""Compiles with XLA's default flags in a session whose flags make compilation fast."""

import os

import jax

# XLA's defaults of the flags that scripts/test sets, except the flag of parallel code generation,
# which does not change the compiled code
DEFAULTS = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
}


def default_flags_jit(function, **options):
    """jax.jit with XLA's default flags, or the session's flags if JSKETCH_DEFAULT_FLAGS=0."""
    use_defaults = os.environ.get("JSKETCH_DEFAULT_FLAGS") != "0"
    flags = os.environ.get("XLA_FLAGS", "") if use_defaults else ""
    defaults = {name: value for name, value in DEFAULTS.items() if f"--{name}=" in flags}
    return jax.jit(function, compiler_options=defaults, **options)
