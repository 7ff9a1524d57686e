"""Learns how far the results of each API may be apart, from samples of its calls in the first steps.

msprobe's preheating: a sample is right if the CPU gives the same. As long as all samples of an API and dtype are right,
its limit is halved towards 1, or doubled if one of them is beyond it. It is final once a wrong sample is farther apart
than all right ones.
"""

from __future__ import annotations

import math

_FIRST_LIMIT = 2.05


class Preheat:
    """Chooses the calls to sample, and keeps the limits. Steps are counted from 0."""

    def __init__(self, steps: int, most: int) -> None:
        """Sample in the first `steps` steps, at most `most` calls of an API in each."""
        self._steps = steps
        self._most = most
        self._step = 0
        self._counts: dict[str, int] = {}
        """The number of calls of each API in the running step."""
        self._expected: dict[str, int] = {}
        """The number of calls of each API in the step before."""
        self._samples: dict[tuple[str, str], list[tuple[float, bool]]] = {}
        self._limits: dict[tuple[str, str], float] = {}
        self._final: set[tuple[str, str]] = set()

    @property
    def is_over(self) -> bool:
        """Whether all limits are final."""
        return self._step >= self._steps

    def wants(self, api: str) -> bool:
        """Return whether the next call of an API is to be tried. Call once per call.

        The first step only counts calls. Afterwards every call of the training is tried.
        """
        number = self._counts.get(api, 0)
        self._counts[api] = number + 1
        if self.is_over:
            return True
        calls = self._expected.get(api, 0)
        samples = min(math.ceil(calls / self._steps), self._most)
        return number in {(self._steps * sample + self._step) % calls for sample in range(samples)}

    def limit(self, api: str, dtype: str) -> float | None:
        """Return the limit that was learned. None for the one of the dtype, because there was no sample."""
        return self._limits.get((api, dtype))

    def take(self, api: str, dtype: str, quotient: float, is_right: bool) -> None:
        """Take a sample: how far apart two results were, and whether the CPU gives the plain one."""
        self._samples.setdefault((api, dtype), []).append((quotient, is_right))

    def next_step(self) -> None:
        """Learn from the samples of the step."""
        for key, samples in self._samples.items():
            if key not in self._final:
                self._learn(key, samples)
        self._samples = {}
        self._expected, self._counts = self._counts, {}
        self._step += 1

    def _learn(self, key: tuple[str, str], samples: list[tuple[float, bool]]) -> None:
        limit = self._limits.get(key, _FIRST_LIMIT)
        right = max((quotient for quotient, is_right in samples if is_right), default=1.0)
        wrong = min((quotient for quotient, is_right in samples if not is_right), default=None)
        if wrong is None:
            self._limits[key] = 1 + (limit - 1) * (2 if right > limit else 0.5)
        elif right < wrong:
            self._limits[key] = min(wrong, limit)
            self._final.add(key)
