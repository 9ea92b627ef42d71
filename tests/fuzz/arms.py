"""Fuzzes algorithms over finite arms: compares posteriors, widths, picks and ends of batches with
those of oracles."""

import jax
import jax.numpy as jnp
import numpy as np
import posteriors
from compiled import default_flags_jit
from draw import arms_problem
from report import tolerance
from small_problems import INIT as STATE_WITH
from truth import EPS, LD

from jsketch import Arms, Query
from jsketch.bandits import BBKB, BKB, GPBUCB, GPUCB, TS, Draw, Extend, FixedBKB, SketchedTS
from jsketch.contrib import MiniGP
from jsketch.results import Result

BATCH = 8
SLACK = 0.25  # of the dictionaries that are extended
INIT = jax.jit(lambda bandit, x, key: bandit.init(Arms(x), key))
INIT_WITH_DATA = default_flags_jit(STATE_WITH)
# one program returns the query and the width
ASK = default_flags_jit(
    lambda bandit, state, arms, *rest: (
        bandit.ask(state, arms, *rest),
        bandit.confidence_width(state, arms),
    )
)
TELL = default_flags_jit(lambda bandit, state, *arguments: bandit.tell(state, *arguments))
UNIFORM = jax.jit(lambda key, like: jax.random.uniform(key, like.shape, like.dtype))
SKETCHES = ("bbkb", "bbkb_local", "fixed", "bkb", "extended", "bbkb_guaranteed", "sketched_ts")
EXACT = ("gp_bucb", "mini", "gp_ucb", "gp_bucb_sum", "mini_ei", "ts")
ALGORITHMS = (*SKETCHES, *EXACT)  # 13 names: coprime to 42, the period of the sizes
QUICK = ("bbkb", "bbkb_local", "fixed", "gp_bucb", "mini", "extended")  # without --long


def algorithm(name, p, capacity):
    common = dict(kernel=p.kernel, regularization=p.lam, capacity=capacity)
    common |= dict(noise_std=p.noise, norm_bound=p.norm_bound, delta=p.delta)
    sketch = common | dict(qbar=p.qbar, dictionary=Draw())
    batch = dict(ratio=p.ratio, max_batch=BATCH)
    return {
        "bkb": lambda: BKB(**sketch),
        "bbkb": lambda: BBKB(**sketch, **batch),
        "extended": lambda: BBKB(**sketch | dict(dictionary=Extend(SLACK)), **batch),
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
        self.p, self.name, self.report = arms_problem(seed, long), name, report
        report.problem = f"{name}, {self.p.description}"
        self.random, self.key = np.random.default_rng([seed, 2]), jax.random.key(seed)
        self.n_arms, self.arms = len(self.p.x), Arms(jnp.asarray(self.p.x))
        self.capacity = int(self.random.choice([2, self.n_arms])) if long else self.n_arms
        self.bandit = algorithm(name, self.p, self.capacity)
        self.counts, self.sums, self.pending = np.zeros((3, self.n_arms))
        self.information = 0.0  # sum of log(1 + variance) over the evaluations
        self.state = INIT(self.bandit, self.p.x, self.key)
        if name in SKETCHES[:6] and self.capacity == self.n_arms and self.random.uniform() < 0.4:
            self._warm_start()

    def _warm_start(self):
        """Starts from past evaluations with a random dictionary."""
        self.counts = self.random.poisson(1.0, self.n_arms).astype(float)
        self.counts[self.random.integers(self.n_arms)] += 1
        noise = self.p.noise * self.random.standard_normal(self.n_arms)
        self.sums = np.where(self.counts > 0, self.counts * self.p.mean + noise, 0)
        arms = self.random.permutation(self.n_arms)[: self.random.integers(1, self.n_arms + 1)]
        # the first arm is repeated, so that all dictionaries have the same shape
        arms = np.resize(np.append(arms, np.full(self.n_arms, arms[0])), self.n_arms)
        self.state = INIT_WITH_DATA(self.bandit, self.p.x, self.counts, self.sums, arms)
        self.information = float(self.state.information[0])

    def dictionary(self):
        """The arms in the dictionary of the state."""
        return np.flatnonzero(self.state.inducing)

    def truths(self):
        """The oracle's posteriors for the true Gram matrix and for the perturbed ones."""
        p, data = self.p, (self.counts, self.sums, self.p.lam)
        if self.name in EXACT:
            return [posteriors.exact(g, *data) for g in p.grams]
        # of the perturbed matrices, pivots below the errors of the entries are omitted
        cuts, arms = [1e-18, EPS, EPS, EPS, EPS], self.dictionary()
        pairs = zip(p.grams, cuts, strict=True)
        return [posteriors.sketched(g, arms, *data, cut) for g, cut in pairs]

    def check_posterior(self):
        truths, r = self.truths(), self.report
        posterior = self.state.posterior
        largest_average = float(np.abs(self.sums / np.maximum(self.counts, 1)).max())
        # variances are differences of numbers up to k(x,x) / lam, with their rounding errors
        rounding = 4 * EPS * self.prior
        floor = (1e-9 + rounding) * largest_average
        r.near("mean", posterior.mean, [t.mean for t in truths], floor)
        floor = 200 * EPS * self.prior + rounding * float(truths[0].variance.max())
        r.near("variance", posterior.variance, [t.variance for t in truths], floor)
        r.near("logdet", posterior.logdet, [t.logdet for t in truths], 1e-12)
        r.true("no negative variance", float(posterior.variance.min()) >= 0)
        if self.name in SKETCHES:
            r.same("pull counts", self.state.counts, self.counts)
            equal = np.allclose(self.state.sums, self.sums, rtol=1e-12, atol=1e-11)
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
        """Checks that the width is a factor times sqrt(lam) F + xi sqrt(information + log 1/delta),
        with the norm bound F and the noise deviation xi."""
        p, n = self.p, self.counts.sum()
        powers = dict(gp_bucb=0.5, gp_bucb_sum=0.5, mini=1, mini_ei=1)
        factor = p.ratio ** powers.get(self.name, 0)
        factor *= 0.1 if self.name in ("ts", "sketched_ts") else 1
        widths = []
        for t in truths:
            if self.name in EXACT:
                information = t.logdet
            elif self.name in ("bkb", "sketched_ts"):
                information = np.log(max(n, 1)) * (self.counts @ t.variance)
            else:
                information = (1 if self.name == "fixed" else p.ratio) * self.information
            radicand = np.maximum(information - np.log(p.delta), 0)
            widths.append(factor * (np.sqrt(p.lam) * p.norm_bound + p.noise * np.sqrt(radicand)))
        self.report.near("width", self.width, widths)

    def play(self, rounds):
        for t in range(rounds):
            truths = self.check_posterior()
            ask_key, tell_key = jax.random.split(jax.random.fold_in(self.key, t))
            query = self.check_query(ask_key)
            self.check_width(truths)
            check_picks(self, truths, np.asarray(query.index)[np.asarray(query.mask)])
            if self.name == "fixed" and self.random.uniform() < 0.4 and not self.pending.any():
                self.state = self.bandit.pend(self.state, self.arms, query)
                np.add.at(self.pending, np.asarray(query.index)[np.asarray(query.mask)], 1)
                continue
            self.tell(query, tell_key)
        self.check_posterior()

    def check_query(self, key):
        r, no_limit, self.ask_key = self.report, jnp.asarray(10**6), key
        query, self.width = ASK(self.bandit, self.state, self.arms, key, no_limit)
        second_query, _ = ASK(self.bandit, self.state, self.arms, key, no_limit)
        r.same("ask is deterministic", second_query.index, query.index)
        index, mask = np.asarray(query.index), np.asarray(query.mask)
        size = int(mask.sum())
        r.true("mask is a prefix", mask[:size].all() and size >= 1)
        r.true("arms exist", (index >= 0).all() and (index < self.n_arms).all())
        limit = max(1, size - 1)
        shortened, _ = ASK(self.bandit, self.state, self.arms, key, jnp.asarray(limit))
        arms = np.asarray(shortened.index)[np.asarray(shortened.mask)]
        r.same("a limit shortens the batch", arms, index[:limit])
        return query

    def tell(self, query, key):
        """Calls `tell` with some slots masked, some failed evaluations, and the slots in random
        order. Checks the new state."""
        r, index, mask = self.report, np.asarray(query.index), np.array(query.mask)
        y = self.p.mean[index] + self.p.noise * self.random.standard_normal(len(index))
        y = np.where(self.random.uniform(size=len(y)) < 0.1, np.nan, y)
        if self.name[:4] != "mini":  # MiniGP observes the mean of its whole batch
            mask &= self.random.uniform(size=len(mask)) < 0.85
            order = self.random.permutation(len(mask))
            index, mask, y = index[order], mask[order], y[order]
        observed = mask & np.isfinite(y)
        query = Query(jnp.asarray(index), jnp.asarray(mask))
        old_variance = self.state.posterior.variance if self.name in SKETCHES else None
        old_dictionary = self.dictionary() if self.name in SKETCHES else None
        counts = self.counts + np.bincount(index[observed], minlength=self.n_arms)
        arguments = self.arms, query, jnp.asarray(y), key
        new, info = TELL(self.bandit, self.state, *arguments)
        if int(info.result) == Result.CAPACITY_EXCEEDED:
            self.capacity = self.n_arms
            if self.name in SKETCHES:  # the round is applied, and `grow` completes the state
                r.true("the posterior is stale", bool(new.stale))
                new = self.bandit.grow(new, self.arms, self.capacity)
                r.true("a larger capacity completes the state", not bool(new.stale))
                info = info.replace(result=0)
            else:
                for old, leaf in zip(*map(jax.tree.leaves, (self.state, new)), strict=True):
                    r.same("the state is unchanged", leaf, old)
                self.state = self.bandit.grow(self.state, self.arms, self.capacity)
                new, info = TELL(self.bandit, self.state, *arguments)
        self.state, self.counts = new, counts
        np.add.at(self.sums, index[observed], y[observed])
        if self.name == "fixed":
            observed_or_failed = np.bincount(index[mask], minlength=self.n_arms)
            self.pending = np.maximum(self.pending - observed_or_failed, 0)
            r.same("pending", new.pending, self.pending)
        sizes = mask.sum(), observed.sum()
        r.same("batch size and observed", (info.batch_size, info.observed), sizes)
        expected = Result.RUNNING if mask.any() else Result.NOTHING_TO_ASK
        r.same("the result of the round", info.result, int(expected))
        dictionary_size = (counts > 0).sum()
        if old_variance is not None:
            self.information += float(np.log1p(np.asarray(old_variance, LD)[index[observed]]).sum())
            probability = np.clip(self.p.qbar * counts * np.asarray(old_variance), 0, 1)
            new_dictionary = np.asarray(UNIFORM(key, old_variance)) < probability
            if self.name == "extended":
                extended = np.bincount(index[observed], minlength=self.n_arms) > 0
                extended[old_dictionary] = True
                excess = extended.sum() - (1 + SLACK) * probability.sum()
                if abs(excess) < 1e-9:  # rounding decides
                    new_dictionary = np.isin(np.arange(self.n_arms), self.dictionary())
                elif excess < 0:
                    new_dictionary = extended
            r.same("the dictionary", self.dictionary(), np.flatnonzero(new_dictionary))
            dictionary_size = new_dictionary.sum()
        r.same("dictionary size", info.dictionary_size, dictionary_size)


def check_picks(case, truths, picks):
    """Checks that every pick has the largest score up to rounding, and that the batch ends as its
    rule requires."""
    name, r = case.name, case.report
    if name in ("ts", "sketched_ts"):
        samples = case.bandit.samples(case.state, case.arms, case.key)
        return r.true("samples are finite", np.isfinite(samples).all())
    width = float(case.width)
    no_data = case.counts.sum() == 0
    if no_data and not case.pending.any():
        bits = jax.random.key_data(jax.random.fold_in(case.ask_key, 0)).ravel()[0]
        r.same("the first arm is random", picks[0], int(bits) % case.n_arms)
        if name != "fixed":
            return None
    true, mean_error = truths[0], tolerance([t.mean for t in truths])
    error = tolerance([t.variance for t in truths]) + 200 * EPS * case.prior
    # whether a pull within a batch changes the residual part of the covariance too
    changes_residual = name == "fixed" or name in EXACT
    covariance = np.array(true.covariance if changes_residual else true.embedded)
    for arm in np.flatnonzero(case.pending):
        covariance = posteriors.covariance_after_pulls(covariance, arm, case.pending[arm])
    product = [LD(1)]
    for slot, arm in enumerate(picks):
        variance = np.maximum(np.diag(covariance) + (0 if changes_residual else true.residual), 0)
        if not (no_data and slot == 0 and not case.pending.any()) and name != "mini_ei":
            smallest_std = np.sqrt(np.maximum(variance - error, 0))
            slack = mean_error + width * (np.sqrt(variance + error) - smallest_std)
            score = true.mean + width * np.sqrt(variance)
            deficit = float(np.max(score - slack) - (score[arm] + slack[arm]))
            is_largest = deficit <= 1e-9 * float(np.abs(score).max())
            detail = f"pick {slot} is {deficit:.1e} below the largest"
            r.true("a pick is a largest score", is_largest, detail)
        product.append(product[-1] * (1 + variance[arm]))
        if name[:4] == "mini":
            break
        covariance = posteriors.covariance_after_pulls(covariance, arm)
    check_end(case, true, picks, error, np.array(product[1:]))
    return None


def check_end(case, true, picks, error, product):
    """Checks that a batch ends with the first pick after which its bound exceeds the ratio C."""
    name, p, r, size = case.name, case.p, case.report, len(picks)
    if name[:4] == "mini":
        r.true("one arm", (picks == picks[0]).all())
        variance = true.variance[picks[0]]
        low, high = (
            int(np.clip((p.ratio**2 - 1) / max(float(v), 1e-300) * factor, 1, BATCH))
            for v, factor in ((variance + error, 1 - 1e-9), (variance - error, 1 + 1e-9))
        )
        detail = f"{size} is not in [{low}, {high}]"
        return r.true("repeats of the arm", low <= size <= high, detail)
    if name in ("bkb", "gp_ucb", "fixed"):
        return r.same("batch size", size, BATCH if name == "fixed" else 1)
    total = 1 + np.cumsum(true.variance[picks])
    bound, slack = total, np.arange(1, size + 1) * error + 1e-9 * total
    if name == "gp_bucb":
        bound, slack = product, product * (np.expm1(np.arange(1, size + 1) * error) + 1e-9)
    is_above, is_below = bound > p.ratio + slack, bound < p.ratio - slack
    if name in ("bbkb_local", "bbkb_guaranteed"):
        accurate = true.variance > 1e3 * error  # arms whose ratios of variances are accurate
        local = np.cumsum(true.covariance[accurate][:, picks] ** 2, 1)
        if name == "bbkb_guaranteed":
            local = np.maximum(local, np.cumsum(true.embedded[accurate][:, picks] ** 2, 1))
        local = 1 + (local / true.variance[accurate][:, None]).max(0, initial=0)
        margin = 1e-2 * local if error else 1e-6
        is_above = is_above & (local > p.ratio + margin)
        is_below = is_below | ((local < p.ratio - margin) & accurate.all())
    detail = f"{size} picks, C {p.ratio}, {bound[-2:]}"
    r.true("a batch continues until its rule ends it", not is_below[-1] or size == BATCH, detail)
    return r.true("a batch ends where its rule ends it", not is_above[:-1].any(), detail)


def check(seed, report, long=False):
    """Plays and checks a few rounds. The seed determines the algorithm and the problem."""
    names = ALGORITHMS if long else QUICK
    Case(seed, names[seed % len(names)], report, long).play(5 if long else 3)
