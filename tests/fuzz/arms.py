"""Finite arms: the oracles for posteriors, widths, picks and ends of batches of every algorithm."""

import jax
import jax.numpy as jnp
import numpy as np
import posteriors
from compiled import as_users
from draw import arms_problem
from report import tolerance
from truth import EPS, LD

from jsketch import Arms, Query
from jsketch.bandits import BBKB, BKB, EVERY_BATCH, GPBUCB, GPUCB, TS, FixedBKB, SketchedTS
from jsketch.contrib import MiniGP
from jsketch.types import Evaluations

BATCH = 8
INIT = jax.jit(lambda bandit, x, key: bandit.init(Arms(x), key))
WARM = as_users(
    lambda bandit, x, key, *history: bandit.init(Arms(x), key, data=Evaluations(*history))
)
# one program returns the query and the width
ASK = as_users(
    lambda bandit, state, *how: (bandit.ask(state, *how), bandit.confidence_width(state))
)
TELL = as_users(lambda bandit, state, query, y, key: bandit.tell(state, query, y, key))
UNIFORM = jax.jit(lambda key, like: jax.random.uniform(key, like.shape, like.dtype))
SKETCHES = ("bbkb", "bbkb_local", "fixed", "bkb", "bbkb_sweep", "bbkb_guaranteed", "sketched_ts")
EXACT = ("gp_bucb", "mini", "gp_ucb", "gp_bucb_sum", "mini_ei", "ts")
ALGORITHMS = (*SKETCHES, *EXACT)  # 13 are coprime to the number of shapes
QUICK = ("bbkb", "bbkb_local", "fixed", "gp_bucb", "mini")  # without --long


def algorithm(name, p, capacity):
    common = dict(
        kernel=p.kernel, regularization=p.lam, noise_std=p.noise, norm_bound=p.bound, delta=p.delta
    )
    common |= dict(capacity=capacity)
    sketch = common | dict(qbar=p.qbar, resparsify=EVERY_BATCH)
    batch = dict(ratio=p.ratio, max_batch=BATCH)
    return {
        "bkb": lambda: BKB(**sketch),
        "bbkb": lambda: BBKB(**sketch, **batch),
        "bbkb_sweep": lambda: BBKB(**sketch, **batch, lazy=False),
        "bbkb_local": lambda: BBKB(**sketch, **batch, rule="global_local"),
        "bbkb_guaranteed": lambda: BBKB(
            **sketch, **batch, rule="global_local", local_statistic="guaranteed"
        ),
        "fixed": lambda: FixedBKB(**sketch, batch=BATCH, max_pending=BATCH),
        "sketched_ts": lambda: SketchedTS(**sketch, batch=BATCH),
        "gp_ucb": lambda: GPUCB(**common),
        "gp_bucb": lambda: GPBUCB(**common, **batch),
        "gp_bucb_sum": lambda: GPBUCB(**common, **batch, rule="sum"),
        "mini": lambda: MiniGP(**common, **batch),
        "mini_ei": lambda: MiniGP(**common, **batch, acquisition="ei"),
        "ts": lambda: TS(**common, batch=BATCH),
    }[name]()


class Case:
    """One algorithm on one problem, with the history that the oracles use."""

    def __init__(self, seed, name, report, long):
        self.p, self.name, self.report, self.long = arms_problem(seed, long), name, report, long
        report.problem = f"{name}, {self.p.words}"
        self.random, self.key = np.random.default_rng([seed, 2]), jax.random.key(seed)
        self.count = len(self.p.x)
        self.capacity = int(self.random.choice([2, self.count])) if long else self.count
        self.bandit = algorithm(name, self.p, self.capacity)
        self.counts, self.sums, self.pending = np.zeros((3, self.count))
        self.information = 0.0
        self.state = INIT(self.bandit, self.p.x, self.key)
        if name in SKETCHES[:6] and self.capacity == self.count and self.random.uniform() < 0.4:
            self._warm_start()

    def _warm_start(self):
        """Starts from past evaluations with a random dictionary."""
        self.counts = self.random.poisson(1.0, self.count).astype(float)
        self.counts[self.random.integers(self.count)] += 1
        noise = self.p.noise * self.random.standard_normal(self.count)
        self.sums = np.where(self.counts > 0, self.counts * self.p.mean + noise, 0)
        keep = self.random.permutation(self.count)[: self.random.integers(1, self.count + 1)]
        # all dictionaries have one shape: the first arm is repeated
        keep = np.resize(np.append(keep, np.full(self.count, keep[0])), self.count)
        self.state = WARM(self.bandit, self.p.x, self.key, self.counts, self.sums, keep)
        evidence = self.state.evidence
        self.information = float(evidence.logdet) + float(evidence.residual_sum) / self.p.lam

    def dictionary(self):
        """The arms in the dictionary of the state."""
        dictionary = self.state.dictionary
        return np.asarray(dictionary.index)[np.asarray(dictionary.mask)]

    def truths(self):
        """The posteriors by the oracle for the true Gram matrix and for the disturbed ones."""
        p, history = self.p, (self.counts, self.sums, self.p.lam)
        if self.name in EXACT:
            return [posteriors.exact(g, *history) for g in p.grams]
        cuts, arms = [1e-18, EPS, EPS, EPS, EPS], self.dictionary()
        pairs = zip(p.grams, cuts, strict=True)
        return [posteriors.sketched(g, arms, *history, cut) for g, cut in pairs]

    def check_posterior(self):
        truths, r = self.truths(), self.report
        posterior = self.state.posterior if self.name in EXACT else self.state
        logdet = posterior.logdet if self.name in EXACT else posterior.evidence.logdet
        scale = float(np.abs(self.sums / np.maximum(self.counts, 1)).max())
        # the variance of a pulled arm, lam of k(x,x), is a difference whose rounding is eps k / lam
        lost = 4 * EPS * self.prior
        r.near("mean", posterior.mean, [t.mean for t in truths], (1e-9 + lost) * scale)
        floor = 200 * EPS * self.prior + lost * float(truths[0].variance.max())
        r.near("variance", posterior.variance, [t.variance for t in truths], floor)
        r.near("logdet", logdet, [t.logdet for t in truths], 1e-12)
        r.true("no negative variance", float(posterior.variance.min()) >= 0)
        if self.name in SKETCHES:
            r.same("pull counts", self.state.pull_counts, self.counts)
            equal = np.allclose(self.state.reward_sums, self.sums, rtol=1e-12, atol=1e-11)
            r.true("reward sums", equal)
        else:
            r.same("count", self.state.count, self.counts.sum())
            r.same("distinct arms", posterior.used, (self.counts > 0).sum())
        return truths

    @property
    def prior(self):
        """The largest prior variance."""
        return float(np.diag(self.p.grams[0]).max()) / self.p.lam

    def check_width(self, truths):
        """They are sqrt(lam) F + xi sqrt(information + log 1/delta) times a factor of the rule."""
        p, n = self.p, self.counts.sum()
        powers = dict(gp_bucb=0.5, gp_bucb_sum=0.5, mini=1, mini_ei=1)
        factor = p.ratio ** powers.get(self.name, 0)
        factor *= 0.1 if self.name in ("ts", "sketched_ts") else 1
        widths = []
        for t in truths:
            if self.name in EXACT:
                inside = t.logdet
            elif self.name in ("bkb", "sketched_ts"):
                inside = np.log(max(n, 1)) * (self.counts @ t.variance)
            else:
                inside = (1 if self.name == "fixed" else p.ratio) * self.information
            inside = np.maximum(inside - np.log(p.delta), 0)
            widths.append(factor * (np.sqrt(p.lam) * p.bound + p.noise * np.sqrt(inside)))
        self.report.near("width", self.width, widths)

    def play(self, rounds):
        for t in range(rounds):
            truths = self.check_posterior()
            ask_key, tell_key = jax.random.split(jax.random.fold_in(self.key, t))
            query = self.check_query(ask_key)
            self.check_width(truths)
            check_picks(self, truths, np.asarray(query.index)[np.asarray(query.mask)])
            if self.name == "fixed" and self.random.uniform() < 0.4 and not self.pending.any():
                self.state = self.bandit.pend(self.state, query)
                np.add.at(self.pending, np.asarray(query.index)[np.asarray(query.mask)], 1)
                continue
            self.tell(query, tell_key)
        self.check_posterior()

    def check_query(self, key):
        r, no_limit = self.report, jnp.asarray(10**6)
        query, self.width = ASK(self.bandit, self.state, key, no_limit)
        second_query, _ = ASK(self.bandit, self.state, key, no_limit)
        r.same("ask is deterministic", second_query.index, query.index)
        index, mask = np.asarray(query.index), np.asarray(query.mask)
        size = int(mask.sum())
        r.true("mask is a prefix", mask[:size].all() and size >= 1)
        r.true("arms exist", (index >= 0).all() and (index < self.count).all())
        limit = max(1, size - 1)
        cut, _ = ASK(self.bandit, self.state, key, jnp.asarray(limit))
        r.same("a limit cuts", np.asarray(cut.index)[np.asarray(cut.mask)], index[:limit])
        return query

    def tell(self, query, key):
        """Some slots are masked, some evaluations fail, and the slots are permuted."""
        r, index, mask = self.report, np.asarray(query.index), np.array(query.mask)
        y = self.p.mean[index] + self.p.noise * self.random.standard_normal(len(index))
        y = np.where(self.random.uniform(size=len(y)) < 0.1, np.nan, y)
        if self.name[:4] != "mini":  # a batch of one arm is observed as a whole
            mask &= self.random.uniform(size=len(mask)) < 0.85
            order = self.random.permutation(len(mask))
            index, mask, y = index[order], mask[order], y[order]
        observed = mask & np.isfinite(y)
        query = Query(jnp.asarray(index), jnp.asarray(mask))
        before = self.state.variance if self.name in SKETCHES else None
        counts = self.counts + np.bincount(index[observed], minlength=self.count)
        new, info = TELL(self.bandit, self.state, query, jnp.asarray(y), key)
        while bool(info.overflow):
            for old, leaf in zip(jax.tree.leaves(self.state), jax.tree.leaves(new), strict=True):
                r.same("an overflow applies nothing", leaf, old)
            self.capacity = self.count
            self.state = self.bandit.grow(self.state, self.capacity)
            new, info = TELL(self.bandit, self.state, query, jnp.asarray(y), key)
        self.state, self.counts = new, counts
        np.add.at(self.sums, index[observed], y[observed])
        if self.name == "fixed":
            observed_or_failed = np.bincount(index[mask], minlength=self.count)
            self.pending = np.maximum(self.pending - observed_or_failed, 0)
            r.same("pending", new.pending, self.pending)
        sizes = mask.sum(), observed.sum()
        r.same("batch size and observed", (info.batch_size, info.observed), sizes)
        r.true("no false alarm", not bool(info.nonfinite))
        size = (counts > 0).sum()
        if before is not None:
            self.information += float(np.log1p(np.asarray(before, LD)[index[observed]]).sum())
            probability = np.clip(self.p.qbar * counts * np.asarray(before), 0, 1)
            keep = np.asarray(UNIFORM(key, before)) < probability
            r.same("the dictionary is the draw", self.dictionary(), np.flatnonzero(keep))
            size = keep.sum()
        r.same("dictionary size", info.dictionary_size, size)


def check_picks(case, truths, picks):
    """Every pick has the largest score up to rounding, and the rule of the batch ends the batch."""
    name, r = case.name, case.report
    if name in ("ts", "sketched_ts"):
        samples = case.bandit.samples(case.state, case.key)
        return r.true("samples are finite", np.isfinite(samples).all())
    width = float(case.width)
    no_data = case.counts.sum() == 0
    if no_data and not case.pending.any():
        r.same("the first arm", picks[0], case.state.first_arm)
        if name != "fixed":
            return None
    true, mean_error = truths[0], tolerance([t.mean for t in truths])
    error = tolerance([t.variance for t in truths]) + 200 * EPS * case.prior
    whole = name == "fixed" or name in EXACT
    covariance = np.array(true.covariance if whole else true.embedded)
    for arm in np.flatnonzero(case.pending):
        covariance = posteriors.covariance_after_pulls(covariance, arm, case.pending[arm])
    product = [LD(1)]
    for slot, arm in enumerate(picks):
        variance = np.maximum(np.diag(covariance) + (0 if whole else true.residual), 0)
        if not (no_data and slot == 0 and not case.pending.any()) and name != "mini_ei":
            least = np.sqrt(np.maximum(variance - error, 0))
            slack = mean_error + width * (np.sqrt(variance + error) - least)
            score = true.mean + width * np.sqrt(variance)
            behind = float(np.max(score - slack) - (score[arm] + slack[arm]))
            near = behind <= 1e-9 * float(np.abs(score).max())
            r.true("a pick is a largest score", near, f"pick {slot} is {behind:.1e} behind")
        product.append(product[-1] * (1 + variance[arm]))
        if name[:4] == "mini":
            break
        covariance = posteriors.covariance_after_pulls(covariance, arm)
    check_end(case, true, picks, error, np.array(product[1:]))
    return None


def check_end(case, true, picks, error, product):
    """A batch ends with the first pick after which its bound exceeds C."""
    name, p, r, size = case.name, case.p, case.report, len(picks)
    if name[:4] == "mini":
        r.true("one arm", (picks == picks[0]).all())
        variance = true.variance[picks[0]]
        low, high = (
            int(np.clip((p.ratio**2 - 1) / max(float(v), 1e-300) * near, 1, BATCH))
            for v, near in ((variance + error, 1 - 1e-9), (variance - error, 1 + 1e-9))
        )
        words = f"{size} is not in [{low}, {high}]"
        return r.true("repeats of the arm", low <= size <= high, words)
    if name in ("bkb", "gp_ucb", "fixed"):
        return r.same("batch size", size, BATCH if name == "fixed" else 1)
    total = 1 + np.cumsum(true.variance[picks])
    bound, slack = total, np.arange(1, size + 1) * error + 1e-9 * total
    if name == "gp_bucb":
        bound, slack = product, product * (np.expm1(np.arange(1, size + 1) * error) + 1e-9)
    over, under = bound > p.ratio + slack, bound < p.ratio - slack
    if name in ("bbkb_local", "bbkb_guaranteed"):
        sure = true.variance > 1e3 * error  # where the ratio of two variances is accurate
        local = np.cumsum(true.covariance[sure][:, picks] ** 2, 1)
        if name == "bbkb_guaranteed":
            local = np.maximum(local, np.cumsum(true.embedded[sure][:, picks] ** 2, 1))
        local = 1 + (local / true.variance[sure][:, None]).max(0, initial=0)
        spare = 1e-2 * local if error else 1e-6
        over = over & (local > p.ratio + spare)
        under = under | ((local < p.ratio - spare) & sure.all())
    words = f"{size} picks, C {p.ratio}, {bound[-2:]}"
    r.true("a batch continues until its rule ends it", not under[-1] or size == BATCH, words)
    return r.true("a batch ends where its rule ends it", not over[:-1].any(), words)


def check(seed, report, long=False):
    """One problem: the algorithm that belongs to the seed, for a few rounds."""
    names = ALGORITHMS if long else QUICK
    Case(seed, names[seed % len(names)], report, long).play(5 if long else 3)
