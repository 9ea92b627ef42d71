"""GO-UCB's optimism and its regret bound on a model that is not linear in its parameters (THEORY
8.3; Liu, Wang, Lemma 5.4)."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from jsketch import Box
from jsketch.box import GOUCB
from jsketch.box.go_ucb import oracle, radius
from jsketch.sketch.tangent import Parametric, flatten

LAM, HORIZON = 2.0, 7
LINE = Box(jnp.array([-1.0]), jnp.array([1.0]))
GRID = jnp.linspace(-1, 1, 2001)[:, None]
GOUCB_ = GOUCB(
    regularization=LAM,
    initial=1,
    reach=1.0,
    refit=False,
    standardize=False,
    exploration_rows=False,
    candidates=128,
    starts=16,
    # stays at the guess
    oracle=oracle.Gradient(1e-30, "sgd", steps=1, restarts=1),
)


def hill(w, x):
    return w[0] * jnp.tanh(w[1] * x[0])


def curvature(largest):
    """C_h of `hill`: the largest |eigenvalue| of its Hessian in w for |x| <= 1 and |w0| <= largest.
    Its only entries are w0 x^2 tanh'', |tanh''| <= 4 / sqrt(27), and, twice, x tanh', at most 1."""
    corner = largest * 4 / 27**0.5
    return corner / 2 + jnp.sqrt(corner**2 / 4 + 1)


@pytest.mark.parametrize(
    ("truth", "guess", "linear_is_enough"),
    [
        ((1.5, 2.0), (1.56, 1.94), True),
        # a saddle: the gradient is zero
        ((0.7, 0.7), (0.0, 0.0), False),
    ],
    ids=["near", "saddle"],
)
def test_regret_given_the_truth_in_the_ball(truth, guess, linear_is_enough):
    """Without noise, with a constant radius that keeps w* in the ball: the optimistic value is at
    least f*, and above f_{x_t}(w*) by at most 2 sqrt(beta) u_t + 2 beta C_h / lam, which bounds
    r_t. At a saddle the first term alone is no bound."""
    truth, guess = jnp.array(truth), jnp.array(guess)
    beta = 3 * LAM * float(jnp.square(truth - guess).sum())
    optimizer = GOUCB_.replace(
        model=Parametric(lambda key, x: guess, hill), schedule=radius.Table(jnp.array([beta]))
    )
    model = flatten(optimizer.model, LINE.lower)
    highest = float(jax.vmap(partial(hill, truth))(GRID).max())

    @jax.jit
    def round_of(state, key):
        ball, query = optimizer.ball(state), optimizer.ask(state, key)
        x = query.x[0]
        gradient = jax.grad(model.value)(ball.centre, x)
        largest = jnp.abs(ball.centre[0]) + jnp.sqrt(beta / LAM)
        numbers = dict(
            distance=ball.sigma.squared_norm(ball.centre - truth),
            optimistic=query.proposal.acquisition,
            value=hill(truth, x),
            first=2 * jnp.sqrt(beta * ball.sigma.inverse_squared_norm(gradient)),
            second=2 * beta * curvature(largest) / LAM,
        )
        y = jax.vmap(partial(hill, truth))(query.x)
        return optimizer.tell(state, query, y, key)[0], numbers

    state, beyond = optimizer.init(LINE, jax.random.key(0), HORIZON), 0
    for t in range(HORIZON):
        state, numbers = round_of(state, jax.random.key(t))
        now = {name: float(number) for name, number in numbers.items()}
        if t == 0:
            # phase I
            continue
        assert now["distance"] <= beta
        assert now["optimistic"] >= highest - 1e-6
        above = now["optimistic"] - now["value"]
        assert above <= now["first"] + now["second"]
        beyond += above > now["first"]
    assert (beyond == 0) == linear_is_enough
