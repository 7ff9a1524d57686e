"""How often tests repeat themselves: with all inputs and questions that they have only under `make fuzz`."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import TypeVar
from zlib import crc32

Asked = TypeVar("Asked")

FUZZ = bool(os.environ.get("LAKEPROBE_FUZZ"))


def examples(most: int) -> int:
    """How many of at `most` so many examples are tried."""
    return most if FUZZ else max(5, most // 6)


def seeds(first: int, most: int) -> range:
    """A third of `most` seeds, for a test that repeats itself with other noise; all of them under `make fuzz`."""
    return range(first, first + (most if FUZZ else max(1, most // 3)))


def some(number: int, asked: Iterable[Asked], case: object, cases: Collection[object]) -> list[Asked]:
    """`number` of the questions that each of the cases could be asked, in their order, others for the next case.

    All of them under `make fuzz`. So each question meets many cases, and each case some questions.
    """
    questions = list(asked)
    first = list(cases).index(case) * number
    chosen = {(first + place) % len(questions) for place in range(len(questions) if FUZZ else number)}
    return [question for place, question in enumerate(questions) if place in chosen]


SAMPLED = "sampled"
"""The mark of a test, or a file of tests, that asks the same of many dumps or models, each for a second or more."""


def an_eighth(names: Mapping[str, str]) -> set[str]:
    """An eighth of the tests that are marked as SAMPLED, by their names in pytest; all under `make fuzz`.

    `names` says of each test what was marked, a test with all its cases or a file, of which an eighth remains. Which
    ones depends on their names alone, so that each change is held against the same.
    """
    if FUZZ:
        return set(names)
    of_marked: dict[str, list[str]] = defaultdict(list)
    for name, marked in names.items():
        of_marked[marked].append(name)
    mixed = (sorted(cases, key=lambda name: crc32(name.encode())) for cases in of_marked.values())
    return set(chain.from_iterable(cases[: -(-len(cases) // 8)] for cases in mixed))
