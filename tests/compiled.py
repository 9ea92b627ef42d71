"""Programs compiled as users have them, in a session of tests that compiles the others quickly."""

import os

import jax

# what XLA takes when it is not told, of the flags that scripts/test sets; in how many pieces a
# program is compiled side by side is left alone, as it changes no code
DEFAULTS = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
}


def as_users(function, **options):
    """jax.jit(function, **options) with XLA's own defaults for the flags that were set otherwise.

    With JSKETCH_AS_USERS=0 flags are kept: a long campaign of the fuzzers mostly compiles.
    """
    flags = os.environ.get("XLA_FLAGS", "") if os.environ.get("JSKETCH_AS_USERS") != "0" else ""
    changed = {name: value for name, value in DEFAULTS.items() if f"--{name}=" in flags}
    return jax.jit(function, compiler_options=changed, **options)
