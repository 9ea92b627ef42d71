"""Verdicts on clients and on unknown lengthscales, by rule, and their figures."""

import pytest
from test_contrib import outcomes, run

from experiments.contrib import clients, unknown


def of_clients(chosen, sent, exchanges, slope=0.5):
    """Made-up runs; the regret of each threshold but the chosen one is 0.01."""
    ratio = {name: 0.01 for name in clients.METHODS} | {"alone": 0.1, "exchange_0.1": chosen}
    found = []
    for name, value in ratio.items():
        for seed in range(2):
            numbers = dict(final_sent=sent, final_sent_as_data=1_000.0, exchanges=400.0, points=9)
            numbers["exchanges"] = exchanges if name == "exchange_0.1" else 400.0
            made = run("waves", name, seed, final_regret_ratio=value, **numbers)
            t = made.arrays["t"]
            # a regret and messages that grow with this power
            made.arrays.update(sent=50.0 * t**slope, sent_as_data=3.0 * t)
            made.arrays["regret_ratio"] = value * (t / t[-1]) ** (slope - 1)
            found.append(made)
    return found


def test_clients(tmp_path):
    assert set(outcomes(tmp_path, "clients", of_clients(0.011, 900, 20), True)) == {"confirmed"}
    runs = of_clients(0.051, 1_100, 20, slope=1.0)
    assert set(outcomes(tmp_path, "clients", runs)) == {"differs"}
    # the regret of exchanging always, but in more than half of the rounds
    verdicts = outcomes(tmp_path, "clients", of_clients(0.01, 900, 201))
    assert verdicts == ["confirmed", "differs", "confirmed", "confirmed"]


def of_unknown(balanced, out, bound):
    ratio = dict(bbkb_right=0.1, bbkb_long=0.3, bbkb_short=0.2, norm_small=0.2)
    ratio |= {name: balanced for name in unknown.METHODS if name.startswith("lb_")}
    ratio |= dict(norm_known=0.25, norm_doubling=1.5 * balanced)
    found = []
    for problem in ("draw", "abalone"):
        for name, value in ratio.items():
            if problem == "abalone" and name in unknown.ON_DRAW:
                continue
            for seed in range(2):
                numbers = dict(norm=4.0)
                if name.startswith("lb_"):
                    numbers |= {f"out_{f:g}": out * (seed == 0) for f in unknown.FACTORS}
                if name == "norm_doubling":
                    numbers["last_bound"] = bound
                found.append(run(problem, name, seed, final_regret_ratio=value, **numbers))
    return found


@pytest.mark.parametrize(
    "balanced, out, bound, expected", [(0.18, 0, 6.4, "confirmed"), (0.31, 1, 8.1, "differs")]
)
def test_unknown(tmp_path, balanced, out, bound, expected):
    runs = of_unknown(balanced, out, bound)
    assert set(outcomes(tmp_path, "unknown", runs, out == 0)) == {expected}
