"""Where programs will run, asked while they are traced: an accelerator wants fewer and larger steps
than a CPU.

Both ways compute the same numbers up to rounding; on a CPU nothing depends on what an accelerator
would do.
"""

import jax


def on_accelerator() -> bool:
    """Whether jax's default device is none of the CPU's cores."""
    return jax.default_backend() != "cpu"
