"""Strict where it helps: 64-bit floats (JAX_ENABLE_X64=0 gives the float32 pass) and no implicit dtype promotion."""

import os

import jax

jax.config.update("jax_enable_x64", os.environ.get("JAX_ENABLE_X64", "1") != "0")
jax.config.update("jax_numpy_dtype_promotion", "strict")
