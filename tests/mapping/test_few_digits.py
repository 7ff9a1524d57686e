"""Statistics of 16 bits have few digits: what is equal up to a spacing of theirs may be one tensor."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from lakeprobe.mapping.gathered import is_within
from lakeprobe.mapping.layouts import are_near_norms
from lakeprobe.mapping.left_over import are_masked_otherwise
from lakeprobe.mapping.ops import DIGITS, has_few_digits, spacing_of
from lakeprobe.mapping.tensors import Tensor, excludes, presume


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (24.625, True),
        (0.0078125, True),
        (24.6251, False),
        (0.0, False),
        (math.inf, False),
        (math.nan, False),
        (None, False),
    ],
)
def test_few_digits(number: float | None, expected: bool) -> None:
    assert has_few_digits(number) is expected


@pytest.mark.parametrize(
    ("number", "spacing"),
    [(24.625, 2.0**-7), (24.640625, 2.0**-10), (24.6251, 0.0), (0.0, 0.0), (math.nan, 0.0), (None, 0.0)],
)
def test_the_spacing_is_that_of_the_coarsest_type_that_holds_a_number(number: float | None, spacing: float) -> None:
    assert spacing_of(number) == spacing


def test_norms_of_parts_make_up_a_whole_to_its_digits() -> None:
    together = math.sqrt(3.015625**2 + 4.03125**2 + 12.0625**2)  # 13.0709
    assert are_near_norms(13.0625, together)
    assert not are_near_norms(13.0625123, together)
    assert not are_near_norms(13.25, together)
    assert not are_near_norms(None, together)


def test_scores_beside_other_masks_are_the_same_to_their_digits() -> None:
    def scores(largest: float, mask: float) -> Any:
        return SimpleNamespace(max=largest, min=mask, kind="float")

    assert are_masked_otherwise(scores(3.046875, -9984.0), scores(3.078125, -math.inf))
    assert not are_masked_otherwise(scores(3.0468751, -10000.0), scores(3.0781249, -math.inf))
    assert not are_masked_otherwise(scores(3.046875, -9984.0), scores(4.0625, -math.inf))
    assert not are_masked_otherwise(scores(3.046875, -9984.0), scores(3.046875, -9984.0))


def test_some_rows_are_within_the_range_of_all_to_a_spacing() -> None:
    def rows(lowest: float) -> Any:
        return SimpleNamespace(max=1.75, min=lowest, norm=5.53125, op=SimpleNamespace(digits=DIGITS))

    assert is_within(rows(-0.278564453125), rows(-0.2783203125))
    assert not is_within(rows(-0.2861328125), rows(-0.2783203125))
    assert not is_within(rows(-0.2785645), rows(-0.2783203))  # float32 has more digits


def test_a_tensor_with_a_place_elsewhere_is_no_counterpart_of_another_shape() -> None:
    def leaf(shape: tuple[int, ...], largest: float) -> Any:
        found = SimpleNamespace(shape=shape, max=largest, min=-1.75, norm=25.0)
        found.tensor = Tensor(0, found, [found])
        return found

    joined, place, query = leaf((4, 4, 32), 2.0), leaf((4, 4, 32), 2.1), leaf((4, 16, 8), 1.9)
    presume(joined.tensor, place.tensor)
    assert excludes(joined, query)
    assert not excludes(joined, place)
    assert not excludes(joined, leaf((4, 4, 32), 1.9))
    assert not excludes(leaf((4, 4, 32), 2.0), query)
