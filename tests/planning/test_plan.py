"""`jsketch.plan`: what it says of time and memory before a run, and what it refuses. Seconds are
tested in the slow test."""

import dataclasses
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsketch
from experiments.runs import plan_line
from jsketch import Arms, Info, Query, kernels, loops, problems, struct
from jsketch.bandits import (
    BBKB,
    BKB,
    GPBUCB,
    GPUCB,
    EpsGreedy,
    FixedBKB,
    Sharded,
    SketchedTS,
    Uniform,
    place,
)
from jsketch.loops.arms import advance
from jsketch.loops.arms.rollout import start
from jsketch.planning import pilot, space, spread, timing

KEY = jax.random.key(0)
KERNEL = kernels.Gaussian(1.0)
MODEL = dict(kernel=KERNEL, regularization=0.01)
ASSUMED = dict(MODEL, noise_std=0.1, delta=0.01)
ALL = {
    "bbkb": BBKB(**ASSUMED),
    "bbkb_local": BBKB(**ASSUMED, rule="global_local"),
    "bbkb_sweep": BBKB(**ASSUMED, lazy=False),
    "bkb": BKB(**ASSUMED),
    "fixed_bkb": FixedBKB(**ASSUMED, batch=16),
    "gp_ucb": GPUCB(**ASSUMED),
    "gp_bucb": GPBUCB(**ASSUMED),
    "eps_greedy": EpsGreedy(**MODEL),
    "sketched_ts": SketchedTS(**ASSUMED, batch=4),
    "uniform": Uniform(),
}
IN_CI = ("bbkb", "bkb", "fixed_bkb", "gp_bucb", "uniform")
every = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in IN_CI)) for name in ALL]
)
# tests that compile programs, and those that time them too
COMPILED = ("bytes_are", "users_own", "sees_what_the_run_will_do[bbkb]", "seconds_are_true")
TIMED = COMPILED[1:]


def problem(arms=400, seed=0):
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (arms, 2))
    return problems.finite_arms(x, np.exp(-np.square(x - 0.5).sum(1)), 0.1)


def rates(bandit, problem, horizon, capacity, history):
    """Those of a machine that is nobody's, so that nothing is timed."""
    progress = jax.eval_shape(lambda: start(bandit, problem, KEY, horizon))
    slots = timing.slots_of(bandit, progress.state, problem.arms)
    evaluation = 1e-9 * problem.arms.count * (1 + capacity)
    fixed = slots if slots <= horizon else 0
    return timing.Rates(1e-6 + capacity * evaluation, evaluation, 1.0, fixed, 0.0, 1.0)


def bytes_of(bandit, problem, horizon, capacity, quickly):
    """Without compiling: as much to work with as is kept, and the regrets."""
    kept = space.size(space.started(bandit, problem, horizon, capacity))
    return space.Bytes(space.size(problem), kept, kept + space.size(problem.mean_reward), 1.0)


@pytest.fixture(autouse=True)
def nothing_is_compiled_or_timed(monkeypatch, request):
    if not any(name in request.node.name for name in COMPILED):
        monkeypatch.setattr(space, "of_program", bytes_of)
    if not any(name in request.node.name for name in TIMED):
        monkeypatch.setattr(timing, "rates", rates)
    if "seconds_are_true" not in request.node.name:
        monkeypatch.setattr(pilot, "POOL", 256)


def planned(bandit, arms=400, horizon=200, **options):
    return jsketch.plan(bandit, problem(arms), horizon, **options)


@every
def test_more_work_takes_longer(name):
    """In the horizon with the pilot's sketch; in arms, seeds and inducing points where the sketch
    is given."""
    bandit = ALL[name]
    one, other = planned(bandit, horizon=50), planned(bandit, horizon=200)
    assert 0 < one.seconds < other.seconds and one.bytes < other.bytes
    assert one.dictionary_size <= other.dictionary_size and one.rounds <= other.rounds
    assert planned(bandit, horizon=50, seeds=5, workers=2).seconds > 1.5 * one.seconds
    assert planned(bandit, horizon=50, seeds=2, strategy="vmap").bytes > one.bytes
    if name != "uniform":
        small = planned(bandit, horizon=50, dictionary_size=30)
        for larger in (dict(dictionary_size=200), dict(arms=2000, dictionary_size=30)):
            larger = planned(bandit, horizon=50, **larger)
            assert larger.seconds > small.seconds and larger.bytes > small.bytes
        assert small.dictionary_size == pytest.approx(30)


@pytest.mark.parametrize("name", ["bbkb", "uniform"])
def test_a_plan_is_a_sentence_with_everything_in_it(name):
    plan = planned(ALL[name], horizon=50, seeds=3)
    text = str(plan)
    assert (
        type(ALL[name]).__name__ in text
        and "3 x" in text
        and "400 arms" in text
        and len(text.split("\n")) == 2
    )
    assert sum(plan.parts.values()) > 0
    assert plan.compile_seconds > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.seconds = 0.0


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n != "gp_ucb")) for n in ALL if n != "uniform"],
)
def test_bytes_are_those_of_the_compiled_run(name):
    """At least the state; within a factor 2 of what the compiler sets aside for seeds in one
    program."""
    bandit, arms, horizon, seeds = ALL[name], problem(3000), 100, 3
    if name.startswith("bbkb"):
        bandit = bandit.replace(max_batch=horizon)
    plan = jsketch.plan(bandit, arms, horizon, seeds=seeds, strategy="vmap")
    if plan.capacities:
        bandit = bandit.replace(capacity=plan.capacities[-1])
    keys = jax.random.split(KEY, seeds)
    begin = jax.eval_shape(lambda: advance._starts(bandit, arms, keys, horizon, "seeds"))
    assert plan.bytes >= space.size(begin)
    program = advance._segments.lower(bandit, arms, keys, begin, jnp.asarray(0), horizon, "seeds")
    used = program.compile().memory_analysis()
    true = (
        used.argument_size_in_bytes
        + used.output_size_in_bytes
        + used.temp_size_in_bytes
        - used.alias_size_in_bytes
    )
    assert 0.5 <= plan.bytes / true <= 2, (plan.bytes, true)


@pytest.mark.parametrize(
    "name",
    ["gp_ucb", *(pytest.param(n, marks=pytest.mark.slow) for n in ("bkb", "gp_bucb")), "bbkb"],
)
def test_the_pilot_sees_what_the_run_will_do(name):
    """Rounds and sketch size of the real run within a third; where programs are timed, they are
    those of the run."""
    bandit, horizon = ALL[name].replace(capacity=144), 300
    plan = planned(bandit, horizon=horizon)
    compiled = loops.compiled_programs()
    run = loops.run(bandit, problem(), KEY, horizon)
    if name == "bbkb":
        assert loops.compiled_programs() == compiled and plan.parts["rounds"] > 0
    rounds, size = int(run.trace.round[-1]) + 1, int(run.trace.dictionary_size[-1])
    assert plan.rounds == pytest.approx(rounds, rel=1 / 3)
    assert plan.dictionary_size == pytest.approx(size, rel=1 / 3)


def test_a_stretch_of_ties_makes_an_evaluation():
    """Scores that lie a rounding above those that it computes itself: it made none, and the pilot
    never ended."""
    arms = Arms(1e3 * jnp.arange(300.0)[:, None])
    one = pilot._Pilot(ALL["gp_ucb"], arms.features, np.zeros(300), 0.1, 0)
    one.evaluate(0, 1)
    pool = one.read(np.zeros(0, int))
    assert one.stretch(pool, (pool.mean + np.sqrt(pool.variance)) * (1 + 1e-12), 1.0, 3) >= 1


def test_a_long_run_is_extrapolated(monkeypatch):
    """The pilot stops when it has done its share; what it then says of the rest is near what it
    would have seen."""
    whole = planned(ALL["bbkb"], horizon=2000)
    assert whole.simulated == 2000
    monkeypatch.setattr(pilot, "WORK", 4e7)
    cut = planned(ALL["bbkb"], horizon=2000)
    assert cut.simulated < 1000
    assert cut.rounds == pytest.approx(whole.rounds, rel=0.3)
    assert cut.dictionary_size == pytest.approx(whole.dictionary_size, rel=0.3)


def test_arms_alone_and_other_dtypes():
    """Without rewards a random function is assumed; float32 takes less memory, and every kernel has
    its own cost."""
    arms = problem().arms
    assert jsketch.plan(ALL["bbkb"], arms, 100).dictionary_size > 1
    half = jsketch.plan(ALL["bbkb"], Arms(arms.features.astype(jnp.float32)), 100)
    assert half.bytes < jsketch.plan(ALL["bbkb"], arms, 100).bytes


def test_what_cannot_fit_is_refused_with_what_would():
    words = (
        r"a run of GPUCB with 400 arms and room for \d+ distinct arms would need about .* GB, and"
        r" there are .* GB"
    )
    with pytest.raises(ValueError, match=words) as refused:
        planned(
            ALL["gp_ucb"], horizon=1000, memory=0.65 * planned(ALL["gp_ucb"], horizon=1000).bytes
        )
    for offer in ("float32", "arms at once", "a capacity of", "BBKB, which keeps no table"):
        assert offer in str(refused.value)
    one = planned(ALL["bbkb"]).bytes
    with pytest.raises(
        ValueError, match=r"20 runs of BBKB .* What would fit: (\d+) of its 20 seeds in a call"
    ) as refused:
        planned(ALL["bbkb"], seeds=20, strategy="vmap", memory=4 * one)
    assert "arms at once" not in str(refused.value)  # a run with all of them fits
    fits = int(str(refused.value).split("What would fit: ")[1].split(" of")[0])
    planned(ALL["bbkb"], seeds=fits, strategy="vmap", memory=4 * one)
    with pytest.raises(ValueError, match="seeds in a call"):
        planned(ALL["bbkb"], seeds=fits + 1, strategy="vmap", memory=4 * one)
    with pytest.raises(ValueError, match="nothing smaller"):
        planned(Uniform(), memory=10)
    with pytest.raises(
        ValueError, match=r"What would fit: float32.*; a horizon of 1,\d{3},\d{3} evaluations"
    ):
        planned(
            Uniform(), horizon=2_000_000, memory=0.8 * planned(Uniform(), horizon=2_000_000).bytes
        )
    assert planned(ALL["gp_ucb"], memory=float("inf")).bytes > 1e5


def test_mistakes():
    with pytest.raises(ValueError, match="bandit must be an algorithm with its numbers"):
        planned(BBKB)
    for wrong, words in (
        (dict(horizon=0), "horizon"),
        (dict(seeds=0), "seeds"),
        (dict(workers=-1), "workers must be an integer of at least 1; -1"),
        (dict(strategy="vmapped"), "strategy must be one of"),
        (dict(dictionary_size=0), "dictionary_size"),
        (dict(devices=0), "devices must be an integer of at least 1; 0"),
    ):
        with pytest.raises(ValueError, match=words):
            planned(ALL["bbkb"], **wrong)
    for arms, words in (
        (jnp.zeros((3, 2)), r"a problem, or its arms as Arms\(x\), is needed; ArrayImpl was given"),
        (Arms(jnp.zeros((0, 2))), "nothing to choose from"),
        (Arms(jnp.full((3, 2), jnp.nan)), "arms must be finite"),
    ):
        with pytest.raises(ValueError, match=words):
            jsketch.plan(ALL["bbkb"], arms, 10)
    with pytest.raises(ValueError, match="ratio"):
        planned(BBKB(**ASSUMED, ratio=0.5))


def test_a_plan_over_devices_is_that_of_one_with_its_arms():
    """Bytes and seconds of each, the messages, and what fits a memory: at the edge and beyond."""
    whole, four = planned(ALL["bbkb"], devices=1), planned(ALL["bbkb"], devices=4, seeds=3)
    assert whole.seconds == planned(ALL["bbkb"]).seconds and whole.mesh.messages.once == 0
    # seeds in turn
    assert four.mesh.rows == 100 and four.seconds < 3 * whole.seconds
    found, room = four.mesh, spread.room(ALL["bbkb"], 2, 200, capacity=four.capacities[-1])
    # moments of the arms of a dictionary, and of chunks of others
    width = 8 * (2 + 1 + 1)
    assert found.messages.once_bytes > width * four.capacities[-1]
    assert found.messages.repeated_bytes > width * 128 and found.messages.once > 5
    memory = room.bytes(10_000)
    assert room.largest_arms(memory) in range(10_000, 10_004)
    assert room.fewest_devices(10_000, memory) == 1 < room.fewest_devices(10_001 + 3, memory)
    most = room.largest_arms(memory, 4)
    assert room.bytes(most, 4) <= memory < room.bytes(most + 4, 4)
    assert room.fewest_devices(most, memory) == 4
    assert room.largest_arms(10) == room.fewest_devices(5, 10) == 0
    assert room.largest_arms(float("inf")) == 2**31 - 1
    assert found.largest_arms >= 400 and found.fewest == 1
    # many runs in one program have as many states: what fits them is what is not refused
    many = dict(devices=1, seeds=20, strategy="vmap", dictionary_size=60, memory=1e7)
    most = planned(ALL["bbkb"], **many).mesh.largest_arms
    assert most < planned(ALL["bbkb"], **many | dict(seeds=1)).mesh.largest_arms / 10
    assert planned(ALL["bbkb"], arms=most, **many).bytes <= 1e7
    with pytest.raises(ValueError, match="20 runs of BBKB"):
        planned(ALL["bbkb"], arms=most + most // 10, **many)
    for wrong in (room.largest_arms, lambda memory: room.fewest_devices(5, memory)):
        with pytest.raises(ValueError, match="memory must be a finite number above 0; nan"):
            wrong(float("nan"))
    with pytest.raises(ValueError, match="devices must be an integer of at least 1; 0"):
        room.largest_arms(1e9, devices=0)
    with pytest.raises(ValueError, match="bandit must be an algorithm with its numbers"):
        spread.room(BBKB, 2, 10)
    assert "100 arms on each of 4 devices; a round has" in str(four).split("\n")[2]


def test_more_devices_are_offered_where_the_arms_do_not_fit():
    memory = spread.room(ALL["bbkb"], 2, 200, capacity=64).bytes(4000, 3)
    for devices, words in (
        (None, "with 4,000 arms and room"),
        (2, "with 2,000 arms on each of 2 devices and room"),
    ):
        said = f"{words}.*; the arms over 3 devices of that memory each"
        with pytest.raises(ValueError, match=said):
            planned(ALL["bbkb"], arms=4000, dictionary_size=60, memory=memory, devices=devices)


def test_mistakes_of_plans_over_devices():
    mesh = jax.make_mesh((1,), ("arms",), devices=jax.devices()[:1])
    placed = place(problem(40).arms.features, mesh)
    for bandit, arms, devices, words in (
        (ALL["gp_ucb"], problem().arms, 2, "Sharded takes one of BBKB.*; a GPUCB was given"),
        (ALL["bbkb"], problem(3).arms, 4, "3 arms for 4 devices"),
        (Sharded(ALL["bbkb"], mesh), problem().arms, 2, "devices is 2, and the mesh .* has 1"),
        (ALL["bbkb"], placed, 1, r"the arms before place\(...\), and the number of devices"),
    ):
        with pytest.raises(ValueError, match=words):
            jsketch.plan(bandit, arms, 10, devices=devices)


@struct.dataclass
class InTurnState:
    domain: Arms
    count: jax.Array


@struct.dataclass
class InTurn:
    """An algorithm that the library has never heard of: all arms in turn, four at a time."""

    def init(self, domain, key):
        return InTurnState(domain, jnp.zeros((), jnp.int32))

    def ask(self, state, key, limit=None):
        slots = jnp.arange(4, dtype=jnp.int32)
        return Query((state.count + slots) % state.domain.count, slots < limit)

    def tell(self, state, query, y, key):
        size, false = query.size.astype(jnp.int32), jnp.zeros((), bool)
        info = Info(
            size, size, jnp.zeros((), jnp.int32), jnp.zeros((), y.dtype), false, false, false
        )
        return state.replace(count=state.count + size), info


@struct.dataclass
class Doubled:
    """A problem of its own: no noise, and no name for it."""

    arms: Arms

    @property
    def mean_reward(self):
        return 2 * self.arms.features[:, 0]

    def sample(self, key, arm):
        return self.mean_reward[arm]


def test_a_users_own_algorithm_and_problem_are_planned(monkeypatch):
    """Its batches are those that were timed, and what was timed is the program of the run that
    follows."""
    setting = Doubled(problem(30).arms)
    plan = jsketch.plan(InTurn(), setting, 22)
    compiled = loops.compiled_programs()
    run = loops.run(InTurn(), setting, KEY, 22)
    assert loops.compiled_programs() == compiled
    assert plan.rounds == int(run.trace.round[-1]) + 1 == 6
    assert plan.algorithm == "InTurn" and plan.capacities == () and plan.simulated == 0
    assert plan.parts["rounds"] > 0 and plan.bytes > space.size(setting) + space.size(run.trace)
    # of many arms some are timed, and the seconds are those of all
    monkeypatch.setattr(timing, "ENTRIES", 10)
    monkeypatch.setattr(timing, "rates", rates)
    few = jsketch.plan(InTurn(), setting, 22).seconds
    ten = rates(InTurn(), problem(10), 22, 0, None)
    assert few == pytest.approx(3 * (6 * ten.round + 22 * ten.evaluation))


def test_rounds_and_evaluations_are_told_apart():
    """Two stretches of rounds of 1 s and 0.5 s an evaluation; the power of a capacity; the
    capacities of a run."""

    def stretch(rounds, batch):
        return timing._Stretch(rounds * (1 + 0.5 * batch), rounds, rounds * batch, False, 0.0)

    assert timing._split(stretch(2, 2), stretch(3, 10)) == pytest.approx((1, 0.5))
    assert timing._split(stretch(2, 10), stretch(3, 10)) == pytest.approx((6, 0))
    high, low = (timing.Rates(seconds, 0.0, 1.0, 0, 0.0, 0.0) for seconds in (9.0, 1.0))
    assert timing.power(high, low, 3.0) == pytest.approx(2)
    assert timing.timed(()) == (0,) and timing.timed((64,)) == (64,)
    assert timing.timed(timing.capacities(ALL["bbkb"], 330, 4000)) == (144, 64)
    assert timing.timed((900,)) == (256, 85)


def test_the_line_of_the_experiments(capsys, monkeypatch):
    """Said where it is worth it, of all runs; nothing of tiny ones; a run that does not fit is
    refused."""
    assert plan_line.announce([ALL["bbkb"]], problem(), 100, 2, 2) is None
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(plan_line, "TINY", 1000)
    grid = [BBKB(kernels.Gaussian(s), regularization=0.01) for s in (0.5, 1.0, 2.0, 4.0)]
    whole = plan_line.announce(grid, problem(), 100, 40, 2)
    assert (
        whole.seeds == 40 and whole.seconds > 10 * planned(grid[-1], horizon=100, seeds=2).seconds
    )
    assert capsys.readouterr().out.startswith("plan: about ")
    with pytest.raises(ValueError, match="What would fit"):
        plan_line.announce(grid, problem(), 100, 2, 2, memory=1e5)


@pytest.mark.slow
@pytest.mark.skipif(
    "optimization_level=0" in os.environ.get("XLA_FLAGS", ""),
    reason="runs are not compiled as users have them: set"
    " XLA_FLAGS=--xla_backend_optimization_level=2",
)
@pytest.mark.parametrize("name", ["bbkb", "bkb", "gp_ucb"])
def test_seconds_are_true_within_a_factor_of_two(name):
    """The second run, on an otherwise idle machine; not in CI."""
    bandit, horizon = ALL[name], 1000
    setting = problem(4000)
    loops.run(bandit, setting, KEY, horizon)
    seconds = loops.run(bandit, setting, KEY, horizon).run_seconds
    assert 0.5 <= jsketch.plan(bandit, setting, horizon).seconds / seconds <= 2


def test_a_table_of_kernel_values_is_planned_for():
    x = problem(60).arms.features
    table = kernels.Gaussian(1.0).gram(x, x)
    arms = problems.finite_arms(kernels.index_features(table), np.sin(x[:, 0]), 0.1)
    plan = jsketch.plan(BBKB(kernels.Precomputed(table), 0.1), arms, 20)
    assert plan.arms == 60 and plan.seconds > 0
