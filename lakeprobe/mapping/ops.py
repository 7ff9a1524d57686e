"""Ops with their tensors and scalars, as a search sees them, and how to compare two of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

if TYPE_CHECKING:
    from lakeprobe.mapping.tensors import Tensor

_Mark = TypeVar("_Mark", bound=Hashable)

TOLERANCE = 1e-4
"""The largest difference of equal statistics, relative to the tensor's magnitude."""

LEAST_MASK, BEYOND_VALUES = 5000.0, 100.0
"""An extreme that both runs have is a mask from this size on, if it is this many times as large as the other extreme.

The norm and the mean are the mask's, so the other extreme alone says whether two tensors are one.
"""

DIGITS, DIGITS_OF_HALF, DIGITS_OF_BFLOAT = 2.0**24, 2.0**11, 2.0**8
"""How many numbers the binary digits tell apart of a float32 (24), a float16 (11) and a bfloat16 (8). So few agree by
chance."""

OF_HALF, OF_BFLOAT, ROUNDED_TO_BFLOAT = (2.0**-9, 2.0**-9), (TOLERANCE, 2.0**-7), (2.0**-8, 2.0**-7)
"""The largest differences of extremes, and of norms and means, of one tensor in float16, of one in bfloat16, and of one
that has more digits but was computed from bfloat16.

Two programs round a few elements to neighbours, and the sums, which they add up in other ways. In bfloat16 unrelated
tensors have neighbouring extremes by chance.
"""

_SAME_FAMILY, _PART_OF = 3.0, 1.5
"""The weight of two ops that are of one kind, or where one is a part of the other."""

PART_OF = {"matmul": "linear", "biasadd": "linear", "gather": "embedding"}
"""Kinds of op that do a part of what one op does in the other framework."""

VIEWS = frozenset({
    "astype", "atleast1d", "broadcasttensors", "broadcastto", "cast", "chunk", "clone", "contiguous",
    "detach", "expand", "expandas", "expanddims", "flatten", "float", "getitem", "half", "identity",
    "movedim", "narrow", "permute", "ravel", "reshape", "reshapeas", "select", "split", "splitwithsize",
    "squeeze", "stopgradient", "stridedslice", "t", "tensorsplit", "to", "transpose", "type", "typeas",
    "unbind", "unflatten", "unsqueeze", "view", "viewas",
})  # fmt: skip
"""Kinds of op that compute nothing. They only change the shape, place or dtype of their input, or select a part of
it."""

QUERIES = frozenset(
    {
        "shape",
        "shapeop",
        "getattr",
        "isfloatingpoint",
        "isinstance",
        "size",
        "dim",
        "numel",
        "rank",
        "dtype",
        "len",
        "item",
        "storageoffset",
        "stride",
    }
)
"""Kinds of op that query a tensor's shape or the like."""


class Leaf(Struct, eq=False):
    """A tensor or scalar of `op`. `kind` is its element class (int, float, …), or `scalar`.

    `elements`: the number of elements, 1 for a scalar.
    `place`: its index among the tensors of its unit.
    `view`: a number that a tensor shares with its reshaped views in the same run. -1 if the dump does not tell.
    `tensor`: the tensor that it shows (mapping/tensors.py).
    """

    op: Op
    row: int
    slot: str
    role: str
    kind: str | None
    shape: tuple[int, ...] | None
    max: float | None
    min: float | None
    mean: float | None
    norm: float | None
    digest: str | None
    value: str | None = None
    elements: int = 1
    place: int = -1
    view: int = -1
    tensor: Tensor | None = None

    @property
    def name(self) -> str:
        """The row's name."""
        return f"{self.op.name}.{self.slot}"


class Op(Struct, eq=False):
    """An op with its leaves. `path` is the module's path or the API's name, `parent` the enclosing module's op.

    `carries`: whether an output is an input in another form (reshape, cast, dropout at 0), so that values are no
    evidence. `is_view`: whether it only changes the shape, place or dtype of its input. `is_query`: whether it only
    asks for a tensor's shape or the like. `place`: its index among the ops of its unit. `forward`: the call that it is
    the backward of. `digits`: of the coarsest type that its run computes in (`DIGITS`).
    """

    seq: int
    name: str
    kind: str
    path: str
    family: str
    direction: str
    call: int
    parent: str | None
    class_name: str = ""
    leaves: list[Leaf] = field(default_factory=list)
    scalars: list[Leaf] = field(default_factory=list)
    place: int = -1
    framework: str = ""
    carries: bool = False
    is_view: bool = False
    is_query: bool = False
    forward: Op | None = None
    digits: float = DIGITS
    _shapes: Counter[Hashable] | None = None

    @property
    def shapes(self) -> Counter[Hashable]:
        """The number of occurrences of each role, shape and element class in the op."""
        if self._shapes is None:
            self._shapes = Counter((leaf.role, leaf.shape, leaf.kind) for leaf in self.leaves)
        return self._shapes


def same_values(target: Leaf, golden: Leaf) -> bool | None:
    """Return whether statistics or digests allow the two to be one tensor. None if the dumps do not tell."""
    if target.digest is not None and golden.digest is not None:
        return target.digest == golden.digest
    if target.max is None or golden.max is None or target.min is None or golden.min is None:
        return None
    of_both = (target.max, target.min, golden.max, golden.min)
    masks = _masks(*of_both)
    numbers = (abs(number) for number in of_both if math.isfinite(number) and number not in masks)
    magnitude = max(numbers, default=0.0)
    if masks and has_few_digits(magnitude):
        return None
    of_extremes, of_sums = tolerances(target, golden)
    extremes = ((target.max, golden.max), (target.min, golden.min))
    if not all(_close(ours, theirs, magnitude, of_extremes) for ours, theirs in extremes):
        return False
    if target.norm is None or golden.norm is None:
        return True
    norm = max(abs(target.norm), abs(golden.norm))
    if not _close(target.norm, golden.norm, norm, of_sums):
        return False
    if target.mean is None or golden.mean is None:
        return True
    return _close(target.mean, golden.mean, norm / math.sqrt(max(target.elements, 1)), of_sums)


def _masks(our_max: float, our_min: float, their_max: float, their_min: float) -> set[float]:
    """Return the extremes of two tensors that are masks."""
    common = ((our_max, our_min, their_max), (our_min, our_max, their_min))
    return {
        one
        for one, opposite, other in common
        if one == other and abs(one) >= LEAST_MASK and abs(one) >= BEYOND_VALUES * abs(opposite)
    }


def has_few_digits(number: float | None) -> bool:
    """Return whether `number` is known and positive, and a type of 16 bits may hold it."""
    return spacing_of(number) > 0


def spacing_of(number: float | None) -> float:
    """Return the relative spacing of the coarsest type of 16 bits that may hold a positive `number`, 0 if none may."""
    if number is None or not 0 < number < math.inf:
        return 0.0
    mantissa = math.frexp(number)[0]
    return next((2 / digits for digits in (DIGITS_OF_BFLOAT, DIGITS_OF_HALF) if (mantissa * digits).is_integer()), 0.0)


def tolerances(target: Leaf, golden: Leaf) -> tuple[float, float]:
    """Return the largest differences of extremes and of sums by which the two may be one tensor."""
    if not ((target.norm or 0) > 0 and (golden.norm or 0) > 0):
        return TOLERANCE, TOLERANCE
    numbers = (target.max, target.min, target.norm, golden.max, golden.min, golden.norm)
    mantissas = [math.frexp(number)[0] for number in numbers if number is not None and math.isfinite(number)]
    for digits, found in ((DIGITS_OF_BFLOAT, OF_BFLOAT), (DIGITS_OF_HALF, OF_HALF)):
        if all((mantissa * digits).is_integer() for mantissa in mantissas):
            return found
    return of_rounded(min(target.op.digits, golden.op.digits))


def of_rounded(digits: float) -> tuple[float, float]:
    """Return `tolerances` of what has more digits than the coarsest type that the two runs compute in.

    In mixed precision it is computed from what was rounded, or one run has rounded it and the other has not.
    """
    if digits <= DIGITS_OF_BFLOAT:
        return ROUNDED_TO_BFLOAT
    return OF_HALF if digits <= DIGITS_OF_HALF else (TOLERANCE, TOLERANCE)


def distance(target: Leaf, golden: Leaf) -> float:
    """Return the relative distance of the statistics of two tensors, from 0 (the same) to 1 (unrelated or unknown)."""
    total, count = 0.0, 0
    for ours, theirs in ((target.max, golden.max), (target.min, golden.min), (target.norm, golden.norm)):
        if ours is None or theirs is None or ours == theirs:
            continue
        gap = abs(ours - theirs)
        if gap < math.inf:  # neither is infinite or NaN
            total += min(1.0, gap / max(abs(ours), abs(theirs)))
            count += 1
    if count:
        return total / count
    return 1.0 if target.max is None or golden.max is None else 0.0


def in_common(ours: Counter[_Mark], theirs: Counter[_Mark]) -> int:
    """Return how many elements two multisets share."""
    return sum(min(count, theirs[mark]) for mark, count in ours.items() if mark in theirs)


def relation(target: Op, golden: Op) -> float:
    """Return how the kinds of two ops are related: the same, one a part of the other, or 0 for not at all."""
    if target.family == golden.family:
        return _SAME_FAMILY
    if PART_OF.get(target.family) == golden.family or PART_OF.get(golden.family) == target.family:
        return _PART_OF
    return 0.0


def common_end(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return the number of parts that two paths share at their ends."""
    count = 0
    while count < min(len(ours), len(theirs)) and ours[-1 - count] == theirs[-1 - count]:
        count += 1
    return count


def _close(ours: float, theirs: float, magnitude: float, tolerance: float) -> bool:
    if ours == theirs or (ours != ours and theirs != theirs):  # both NaN
        return True
    return abs(ours - theirs) <= tolerance * magnitude < math.inf
