"""Static mistakes, said in plain words on the host. Values that are traced (under jit or vmap) are
left to the caller.

scalars   signs, ranges and kinds of numbers
sizes     capacities, counts, room in the memory
domains   arms, candidates, boxes, examples
kernels   whether a kernel is one, and fits the inputs
queries   what an algorithm over arms observes: queries, rewards, earlier evaluations
"""

from jsketch.checks.domains import (
    arm_numbers,
    arms,
    box,
    candidates,
    example,
    rows_of_arms,
    table,
)
from jsketch.checks.kernels import (
    LARGEST_ROUNDING,
    SAMPLED,
    a_kernel,
    features_of,
    inputs_of,
    kernel_on,
    model,
    roundings,
    spread,
)
from jsketch.checks.scalars import (
    all_nonnegative,
    all_positive,
    at_least_one,
    choice,
    confidence,
    finite,
    floating,
    fraction,
    function_of,
    keys,
    nonnegative,
    one_key,
    one_number,
    positive,
    probability,
    real,
    truth,
)
from jsketch.checks.sizes import MOST, capacity, count, is_integer, larger, room

__all__ = [
    "LARGEST_ROUNDING",
    "MOST",
    "SAMPLED",
    "a_kernel",
    "all_nonnegative",
    "all_positive",
    "arm_numbers",
    "arms",
    "at_least_one",
    "box",
    "candidates",
    "capacity",
    "choice",
    "confidence",
    "count",
    "example",
    "features_of",
    "finite",
    "floating",
    "fraction",
    "function_of",
    "inputs_of",
    "is_integer",
    "kernel_on",
    "keys",
    "larger",
    "model",
    "nonnegative",
    "one_key",
    "one_number",
    "positive",
    "probability",
    "real",
    "room",
    "roundings",
    "rows_of_arms",
    "spread",
    "table",
    "truth",
]
