"""BKB and BBKB with a norm bound that doubles when the data contradict it.

BKB (Calandriello et al., COLT 2019, Section 4) says that where F is not known "standard
guess-and-double techniques apply", and nothing more; the definition is ours. The bound is a leaf of
the state. At `init` with earlier evaluations, and after every round, it is doubled until it is not
below `evidence.least_norm`, which with probability 1 - delta is never above |f|. So (THEORY 6.9): a
bound that holds is never doubled, and none exceeds max(F_0, 2 |f|). The event is that of the width
`certified_mixture` at the same delta, which covers with no further loss from the round on in which
F_t >= |f|; beside `certified`, whose event is another one, the two failures add up.

No regret bound follows: data may agree with a small norm for ever, because the arms where f is
large were never pulled. With candidates (lengthscale, norm) one does: `LengthscaleBalancing`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.bkb import BKB
from jsketch.bandits.core.sketched import SketchState
from jsketch.contrib.unknown import evidence
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, PRNGKey, Query, attach, detach

ALGORITHMS = (BKB, BBKB)


@struct.dataclass
class NormDoublingState:
    """The state of the algorithm that chooses, and the norm bound that its widths take."""

    domain: Arms
    sketch: SketchState  # without its domain
    norm_bound: Array  # [], F_t

    @property
    def capacity(self) -> int:
        return self.sketch.capacity


@struct.dataclass
@one_dtype
class NormDoubling:
    """BKB or BBKB, whose `norm_bound` is the first guess F_0 > 0."""

    base: Any

    def _at(self, norm_bound: Array) -> Any:
        return self.base.replace(norm_bound=norm_bound)

    def init(self, domain: Arms, key: PRNGKey, **known: Any) -> NormDoublingState:
        """As the base's, `known` of it; the bound is doubled where evaluations that are known
        contradict it. Raises ValueError on static mistakes."""
        if not isinstance(self.base, ALGORITHMS):
            raise ValueError(f"base must be a BKB or a BBKB; {type(self.base).__name__} was given.")
        checks.positive(norm_bound=self.base.norm_bound)
        sketch = self.base.init(domain, key, **known)
        norm_bound = jnp.asarray(self.base.norm_bound, sketch.mean.dtype)
        if known:
            # a warm start that has no room is not what was asked for: `tell` says so
            fits = sketch.missing == 0
            norm_bound = jnp.where(fits, doubled(norm_bound, self._least_norm(sketch)), norm_bound)
        return NormDoublingState(sketch.domain, detach(sketch), norm_bound)

    def _least_norm(self, sketch: SketchState) -> Array:
        base = self.base
        return evidence.least_norm(sketch, base.regularization, base.noise_std, base.delta)

    def confidence_width(self, state: NormDoublingState) -> Array:
        """The base's at F_t, []."""
        return self._at(state.norm_bound).confidence_width(attach(state.sketch, state.domain))

    def scores(self, state: NormDoublingState) -> Array:
        """Upper confidence bounds of all arms at F_t, [A]."""
        return self._at(state.norm_bound).scores(attach(state.sketch, state.domain))

    def ask(self, state: NormDoublingState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return self._at(state.norm_bound).ask(attach(state.sketch, state.domain), key, limit)

    def tell(
        self, state: NormDoublingState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[NormDoublingState, Info]:
        """The base's, then the bound; `info.width` is the width that chose the round."""
        sketch = attach(state.sketch, state.domain)
        new, info = self._at(state.norm_bound).tell(sketch, query, y, key)
        norm_bound = doubled(state.norm_bound, self._least_norm(new))
        norm_bound = jnp.where(info.overflow, state.norm_bound, norm_bound)
        return NormDoublingState(state.domain, detach(new), norm_bound), info

    def grow(self, state: NormDoublingState, capacity: int) -> NormDoublingState:
        """As the base's."""
        return replace(state, sketch=self.base.grow(state.sketch, capacity))


def doubled(norm_bound: Array, least: Array) -> Array:
    """The first of F, 2 F, 4 F ... that is not below `least` [], []; F where it is not above 0.

    A loop over exact doublings: a power by logarithms would be off by its rounding.
    """
    return jax.lax.while_loop(lambda f: (f < least) & (f > 0), lambda f: 2 * f, norm_bound)
