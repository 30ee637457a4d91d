"""Draws of the gamma, Poisson and binomial distributions from Philox counters.

Every sample begins at a counter of its own, 256 (or, where said, 42) after that of the one before,
and takes as many groups of four words as it needs; of a group the last number is used first.  So a
result does not depend on how the work is divided, and here all samples are drawn side by side.

Source: Knuth, "Seminumerical algorithms"; Hörmann, "The transformed rejection method for generating
Poisson random variables" (1993) and "The generation of binomial random variates" (1993); Marsaglia
and Tsang, "A simple method for generating gamma variables" (2000).  For the counters:
tensorflow/core/kernels/{random_op,random_poisson_op,random_binomial_op,stateless_random_gamma_op}.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.graph.types import Array
from tideflow.ops.random import philox as random_philox
from tideflow.ops.scipy_functions import special
from tideflow.wire import dtypes

_APART = 256
# The binomial samples of a small mean lie closer together.
_CLOSE = 42
# Below this mean events are counted one by one; from it on samples come by rejection.
_FEW = 10


@dataclass
class Source:
    """Where the words come from: key [1] and counter [2], uint64."""

    key: Any
    counter: Any

    def words(self, offsets: Any) -> Any:
        """Return the words [n, 4] of the counters at offsets [n]."""
        return random_philox.random_words(np, self.key, self.counter, offsets.astype(np.uint64))


class _Uniform:
    """The uniform numbers of samples that all take equally many in each round."""

    def __init__(self, source: Source, starts: Any) -> None:
        self._source, self._starts = source, starts
        self._group: Any = None
        self._block = 0
        self._left = 0

    def next(self) -> Any:
        """Return the next number of each sample."""
        if not self._left:
            words = self._source.words(self._starts + self._block)
            self._group = random_philox.bits_as_float(np, words, dtypes.float64)
            self._block += 1
            self._left = self._group.shape[1]
        self._left -= 1
        return self._group[:, self._left]

    def keep(self, kept: Any) -> None:
        """Go on with some of the samples: a mask."""
        self._starts, self._group = self._starts[kept], self._group[kept]


def _each(count: int, starts: object, uniform: _Uniform, attempt: Callable[..., Any]) -> Any:
    """Return what attempts give: attempt(index) -> (whether accepted, value), for each sample."""
    made = np.zeros(count, np.float64)
    active = np.arange(count)
    while active.size:
        accepted, value = attempt(active)
        made[active[accepted]] = value[accepted]
        active = active[~accepted]
        uniform.keep(~accepted)
    return made


# ---- Poisson


def poisson(source: Source, rates: Array, positions: Array) -> Any:
    """Return a number of events for each rate [n], as floats; NaN for a rate that is NaN.

    None happen at a negative rate, and more than any number at an infinite one.

    positions: which sample of the result each is, by which its counter is found.
    """
    made = np.where(rates < 0, 0, rates)
    valid = np.isfinite(rates) & (rates >= 0)
    starts = positions * _APART
    for chosen, draw in (
        (valid & (rates < _FEW), _few_events),
        (valid & (rates >= _FEW), _many_events),
    ):
        if chosen.any():
            made[chosen] = draw(source, rates[chosen], starts[chosen])
    return made


def _few_events(source: Source, rates: Array, starts: Any) -> Any:
    uniform = _Uniform(source, starts)
    least = np.exp(-rates)
    product = np.ones_like(rates)
    count = -1

    def attempt(active: Array) -> Any:
        nonlocal count
        count += 1
        product[active] *= uniform.next()
        return product[active] <= least[active], np.full(active.size, float(count))

    return _each(rates.size, starts, uniform, attempt)


def _many_events(source: Source, rates: Array, starts: Any) -> Any:
    uniform = _Uniform(source, starts)
    b = 0.931 + 2.53 * np.sqrt(rates)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)
    logs = np.log(rates)

    def attempt(active: Array) -> Any:
        u = uniform.next() - 0.5
        v = uniform.next()
        rate, wide, steep = rates[active], b[active], a[active]
        near = 0.5 - np.abs(u)
        with np.errstate(all="ignore"):
            k = np.floor((2 * steep / near + wide) * u + rate + 0.43)
            at_once = (near >= 0.07) & (v <= squeeze[active])
            refused = (k < 0) | ((near < 0.013) & (v > near))
            s = np.log(v * inverse[active] / (steep / (near * near) + wide))
            log_factorial = special().gammaln(k + 1)
            t = -rate + k * logs[active] - log_factorial
        return at_once | (~refused & (s <= t)), k

    return _each(rates.size, starts, uniform, attempt)


# ---- binomial


def binomial(source: Source, counts: Array, probs: Array, positions: Array) -> Any:
    """Return a number of successes for each number of trials [n] and their probability [n]."""
    kind = probs.dtype.type
    trials = counts.astype(np.float64)
    swapped = probs > kind(0.5)
    with np.errstate(all="ignore"):
        rarer = np.where(swapped, kind(1) - probs, probs)
        few = counts * rarer < kind(_FEW)
    made = np.full(trials.shape, np.nan)
    made[(trials <= 0) | (probs <= 0)] = 0
    certain = ~((trials <= 0) | (probs <= 0)) & (probs >= 1)
    made[certain] = trials[certain]
    drawn = (trials > 0) & (probs > 0) & (probs < 1)
    for chosen, draw, apart in (
        (drawn & few, _few_successes, _CLOSE),
        (drawn & ~few, _many_successes, _APART),
    ):
        if chosen.any():
            chance = rarer[chosen].astype(np.float64)
            found = draw(source, trials[chosen], chance, positions[chosen] * apart)
            made[chosen] = np.where(swapped[chosen], trials[chosen] - found, found)
    return made


def _few_successes(source: Source, trials: Array, probs: Array, starts: Any) -> Any:
    """Count the gaps between successes that fit into the trials."""
    uniform = _Uniform(source, starts)
    scale = np.log1p(-probs)
    total = np.zeros_like(trials)
    count = -1

    def attempt(active: Array) -> Any:
        nonlocal count
        count += 1
        with np.errstate(divide="ignore"):
            total[active] += np.ceil(np.log(uniform.next()) / scale[active])
        return total[active] > trials[active], np.full(active.size, float(count))

    return _each(trials.size, starts, uniform, attempt)


def _stirling_error(k: Array) -> Any:
    """Return log(k!) less Stirling's approximation of it."""
    few = np.minimum(k, 9)
    exact = special().gammaln(few + 1) - (
        (few + 0.5) * np.log(few + 1) - (few + 1) + 0.5 * np.log(2 * np.pi)
    )
    square = (k + 1) * (k + 1)
    return np.where(k <= 9, exact, (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1))


def _many_successes(source: Source, trials: Array, probs: Array, starts: Any) -> Any:
    uniform = _Uniform(source, starts)
    deviation = np.sqrt(trials * probs * (1 - probs))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * probs
    centre = trials * probs + 0.5
    squeeze = 0.92 - 4.2 / b
    odds = probs / (1 - probs)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = np.floor((trials + 1) * probs)

    def attempt(active: Array) -> Any:
        u = uniform.next()
        v = uniform.next()
        u = u - 0.5
        near = 0.5 - np.abs(u)
        n, r, m = trials[active], odds[active], mode[active]
        with np.errstate(all="ignore"):
            k = np.floor((2 * a[active] / near + b[active]) * u + centre[active])
            at_once = (near >= 0.07) & (v <= squeeze[active])
            refused = (k < 0) | (k > n)
            v = np.log(v * alpha[active] / (a[active] / (near * near) + b[active]))
            inside = np.clip(k, 0, n)
            bound = (
                (m + 0.5) * np.log((m + 1) / (r * (n - m + 1)))
                + (n + 1) * np.log((n - m + 1) / (n - inside + 1))
                + (inside + 0.5) * np.log(r * (n - inside + 1) / (inside + 1))
                + _stirling_error(m)
                + _stirling_error(n - m)
                - _stirling_error(inside)
                - _stirling_error(n - inside)
            )
        return at_once | (~refused & (v <= bound)), k

    return _each(trials.size, starts, uniform, attempt)


# ---- gamma


class _Groups:
    """Numbers of samples that take as many as they like, normal and uniform ones by turns."""

    def __init__(self, source: Source, starts: Array) -> None:
        self._source = source
        self._next = starts.copy()
        self._held = {kind: np.zeros((starts.size, 2)) for kind in ("normal", "uniform")}
        self._left = {kind: np.zeros(starts.size, np.int64) for kind in self._held}

    def take(self, kind: str, chosen: Any) -> Any:
        """Return the next number of a kind for the samples chosen: their indices."""
        held, left = self._held[kind], self._left[kind]
        empty = chosen[left[chosen] == 0]
        if empty.size:
            words = self._source.words(self._next[empty])
            self._next[empty] += 1
            if kind == "uniform":
                held[empty] = random_philox.bits_as_float(np, words, dtypes.float64)
            else:
                held[empty] = random_philox.normal_group(words, dtypes.float64)
            left[empty] = held.shape[1]
        left[chosen] -= 1
        return held[chosen, left[chosen]]


def gamma(source: Source, alphas: Array, positions: Array) -> Any:
    """Return a value for each alpha [n], a float64."""
    made = np.empty(alphas.shape)
    is_one = alphas == 1
    made[is_one] = _exponential(source, positions[is_one])
    others = ~is_one
    made[others] = _by_rejection(source, alphas[others], positions[others])
    return made


def _by_rejection(source: Source, alphas: Array, positions: Array) -> Any:
    groups = _Groups(source, positions * _APART)
    is_small = alphas < 1
    d = alphas + np.where(is_small, 2 / 3, -1 / 3)
    with np.errstate(all="ignore"):
        c = 1 / 3 / np.sqrt(d)
    made = np.zeros(alphas.shape)
    active = np.arange(alphas.size)
    while active.size:
        x = groups.take("normal", active)
        with np.errstate(all="ignore"):
            v = 1 + c[active] * x
        positive = ~(v <= 0)
        trying, x, v = active[positive], x[positive], v[positive]
        v = v * v * v
        u = groups.take("uniform", trying)
        with np.errstate(all="ignore"):
            accepted = (u < 1 - 0.0331 * (x * x) * (x * x)) | (
                np.log(u) < 0.5 * x * x + d[trying] * (1 - v + np.log(v))
            )
        done = trying[accepted]
        made[done] = d[done] * v[accepted]
        small = done[is_small[done]]
        if small.size:
            shrunk = groups.take("uniform", small)
            made[small] *= np.power(shrunk, 1 / alphas[small])
        is_done = np.zeros(alphas.size, bool)
        is_done[done] = True
        # For an alpha that can be none all attempts are refused, for ever.
        is_done[active[np.isnan(c[active])]] = True
        active = active[~is_done[active]]
    return np.where(np.isnan(c), np.nan, made)


def _exponential(source: Source, positions: Array) -> Any:
    words = source.words(positions * _APART)
    return -np.log1p(-random_philox.bits_as_float(np, words, dtypes.float64)[:, -1])
