"""Says how each tensor of a cut run lies over the axes of the mesh.

A row of a rank has a shape, and golden has the shape of the whole: an extent that is a fraction is a shard. Where the
shapes are equal, equal tensors are copies. Unequal ones are a partial sum if something says so (a collective reduces
them, or an operand of the op is a shard); otherwise they are copies that differ, which is a finding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from math import prod
from typing import NamedTuple

from msgspec import Struct, field

from lakeprobe.layouts.mesh import MICRO, Axis

COPY, SHARD, SUM, MEAN, MAX, MIN, LAST, DIFFER = "copy", "shard", "sum", "mean", "max", "min", "last", "differ"
_WORDS = {
    SUM: "partial sum", MEAN: "partial mean", MAX: "partial max", MIN: "partial min", LAST: "last",
    DIFFER: "copies differ",
}  # fmt: skip

ACROSS_STAGES = -1
"""In place of an axis: the stages, over which the gradients of tied parameters are added up."""

_PARTIAL = (SUM, MEAN, MAX, MIN)

_DIMENSION_FIRST = {"dp": 0, "dp2": 0, MICRO: 1, "cp": 2, "ep": 3, "tp": 4}
"""Which axis cuts the earlier dimension: the batch, the sequence, then what is computed of each token."""

_DATA = ("dp", "cp", MICRO)
"""Axes whose ranks see other data: there the gradient of a copy is a partial sum."""

_MEANS = re.compile(
    r"\.(cross_entropy|nll_loss|mse_loss|l1_loss|smooth_l1_loss|kl_div|binary_cross_entropy\w*|mean)\.\d"
)
"""Ops whose result is a mean over what they are given."""


UNEXPLAINED = "which no axis explains"
_OWN_WORDS = "each rank counts the words from its own first one"
_OWN_DATA = "computed of a sum or mean over each rank's own data"
OWN_BOUNDS = "each rank counts from its own first one"

_LINEAR = re.compile(
    r"\.(__truediv__|div_?|__r?mul__|mul_?|neg|__neg__|sum|view|reshape|flatten|transpose|permute|contiguous|clone|to|float)\.\d"
)
"""Ops that make a partial sum of a partial sum, if what else they are given is the same on all ranks."""

_ADDS = re.compile(r"\.(__r?add__|__iadd__|add_?|__r?sub__|__isub__|sub_?)\.\d")
"""Ops that add or subtract."""

_SELECTS = re.compile(
    r"\.(__[gs]etitem__|gather|index_\w+|masked_\w+|take\w*|where|float|to|type_as|clone|contiguous|reshape|view|flatten|"
    r"__invert__|__isub__|__iadd__)\.\d"
)
"""Ops that take rows by their positions or by a mask, and those that pass them on."""

_PUTS = re.compile(r"\.(__setitem__|index_(put|copy|add)_?|scatter\w*)\.\d")
"""Ops that put rows, their third argument, at places."""

_COUNTS = re.compile(r"\.(bincount|histc|count_nonzero|sum)\.\d")
"""Ops that count, or add up, over what they are given; their results may be whole numbers."""

_SORTS = re.compile(r"\.(argsort|sort|topk|nonzero)\.\d")
"""Ops whose results are places in what they are given."""

_TAKES = re.compile(r"\.(__getitem__|index_select|gather|take\w*)\.\d")
"""Ops that take rows by their places."""

_SCALES = re.compile(r"\.(__truediv__|div_?|__r?mul__|mul_?)\.\d")
"""Ops that divide or multiply."""


class Key(NamedTuple):
    """A leaf of the whole."""

    op: str
    slot: str
    repeat: int


class Leaf(Struct, frozen=True):
    """What the ranks have of a leaf, and golden.

    `equal` and `present`: by axis, whether the members of each group have the same, and how many there are. `reduced`:
    the axes over which a collective of the run adds the ranks' tensors up. `value` says which tensor of each rank this
    is, so that the same value elsewhere has the same layout. `members`: how many tensors there are.
    `totals`: the sums of their extents, where they have several. `values`: how many values the ranks have. `record`:
    the other fields of its record. `is_constant`: its values do not tell ranks apart; `is_unknown`: none are recorded.
    `ragged`: by axis, whether the members of a group have other extents. `reduction`: what the collective computes.
    `is_whole`: it is a tensor of integers or bools. `id`: its number in the tables of the merge.
    """

    key: Key
    role: str
    kind: str
    direction: str
    shape: tuple[int, ...] | None
    members: int
    totals: tuple[int, ...] | None
    values: int
    whole: tuple[int, ...] | None
    equal: tuple[bool, ...]
    present: tuple[int, ...]
    reduced: frozenset[int]
    value: int
    number: str | None = None
    golden_number: str | None = None
    record: str | None = None
    is_constant: bool = False
    is_unknown: bool = False
    ragged: tuple[bool, ...] = ()
    reduction: str | None = None
    is_whole: bool = False
    id: int = 0


class Way(NamedTuple):
    """How a tensor lies along one axis: one of the words above, and of a shard the dimension and how many blocks."""

    way: str
    dimension: int | None = None
    blocks: int = 1


class Said(Struct, frozen=True):
    """What a source says of a leaf, by axis, and why its numbers cannot be told from the ranks'."""

    ways: Mapping[int, Way]
    source: str
    unknown: str | None = None
    certainty: str = "inferred"


class Placement(Struct):
    """How a leaf lies over the axes: for each, one of the words above, the dimension of a shard, and its blocks."""

    ways: list[str]
    dimensions: list[int | None]
    source: str = "values"
    certainty: str = "checked"
    problem: str | None = None
    reason: str | None = None
    unknown: str | None = None
    number: str | None = None
    resolved: bool = False
    said: frozenset[int] = frozenset()
    blocks: list[int] | None = None
    is_reordered: bool = False

    is_tied: bool = False

    @property
    def sums(self) -> list[int]:
        """The axes along which it is a partial sum, mean, max or min."""
        return [number for number, way in enumerate(self.ways) if way in _PARTIAL]

    @property
    def added(self) -> list[int]:
        """The axes over which a collective adds it up, the stages first."""
        return [ACROSS_STAGES] * self.is_tied + self.sums

    @property
    def merged_ways(self) -> list[str]:
        """How its members are merged: of a sum that a collective gives, every rank has a copy."""
        return [COPY if self.resolved and way in _PARTIAL else way for way in self.ways]

    def repeats(self, leaf: Leaf) -> bool:
        """Whether ranks that should have different shards have the same."""
        shards = prod(size for size, way in zip(leaf.present, self.ways, strict=True) if way == SHARD)
        return leaf.kind == "tensor" and leaf.values < shards and not leaf.is_constant

    def text(self, axes: Sequence[Axis]) -> str:
        """The layout in words; axes with copies are left out."""
        parts = []
        for axis, way, dimension in zip(axes, self.ways, self.dimensions, strict=True):
            if way == SHARD:
                parts.append(f"{axis.name}: shard {dimension}")
            elif way != COPY:
                parts.append(f"{axis.name}: {_WORDS[way]}")
        return ", ".join([*parts, *["rows as each rank sorts them"] * self.is_reordered])


class Rule(Struct, frozen=True):
    """A line of a layout file: leaves whose op and slot fit the pattern lie so, by axis.

    `dimensions`: how many a leaf must have, where the line names them.
    """

    pattern: re.Pattern[str]
    ways: Mapping[str, Way]
    dimensions: int | None = None

    def fits(self, leaf: Leaf) -> bool:
        """Whether the line is about this leaf."""
        is_as_long = self.dimensions is None or (leaf.shape is not None and len(leaf.shape) == self.dimensions)
        return is_as_long and bool(self.pattern.search(f"{leaf.key.op}.{leaf.key.slot}"))


class _State(Struct):
    """What was decided so far."""

    axes: Sequence[Axis]
    rules: Sequence[Rule]
    recorded: Recorded
    modules: Mapping[str, str]
    later: Mapping[str, set[int]]
    of: dict[Key, Placement] = field(default_factory=dict)
    by_value: dict[int, Placement] = field(default_factory=dict)
    parameters: dict[tuple[str, str], Placement] = field(default_factory=dict)
    counted: dict[int, set[int]] = field(default_factory=dict)
    gradients: set[int] = field(default_factory=set)
    sorts: set[int] = field(default_factory=set)
    reordered: set[int] = field(default_factory=set)


Recorded = Callable[[Leaf], Said | None]
"""What the record of a leaf says of its layout."""


def decide(
    ops: Sequence[Sequence[Leaf]],
    axes: Sequence[Axis],
    rules: Sequence[Rule] = (),
    recorded: Recorded = lambda leaf: None,
    modules: Mapping[str, str] | None = None,
) -> dict[Key, Placement]:
    """The placement of each leaf. `ops`: the leaves of each op of the whole, forward ops before their backward.

    `modules`: the path of the module that makes each call.
    """
    state = _State(axes, rules, recorded, modules or {}, _added_up_later(ops, axes))
    shards: dict[str, set[int]] = {}
    for leaves in ops:
        _decide_op(state, leaves, shards)
    return state.of


def _added_up_later(ops: Sequence[Sequence[Leaf]], axes: Sequence[Axis]) -> dict[str, set[int]]:
    """The modules in which gradients are partial sums until those of the parameters are added up, and along which axes.

    So it is with heads of keys that several ranks have, each for its own heads of queries: the module that has the
    parameter, and the one that calls that module.
    """
    found: dict[str, set[int]] = {}
    for leaf in (leaf for leaves in ops for leaf in leaves if leaf.role == "parameters_grad" and leaf.reduced):
        own = {number for number in leaf.reduced - {ACROSS_STAGES} if axes[number].name[:2] not in _DATA}
        path = leaf.key.op.rpartition(".parameters_grad")[0].rpartition(".")[0]
        for module in (path, path.rpartition(".")[0]):
            found.setdefault(module, set()).update(own)
    return found


def _decide_op(state: _State, leaves: Sequence[Leaf], shards: dict[str, set[int]]) -> None:
    """Place the leaves of one op. `shards`: the axes along which an op has shards, by its name without direction."""
    stem = _stem(leaves[0])
    tensors = [leaf for leaf in leaves if leaf.kind == "tensor"]
    open_axes: dict[Key, list[int]] = {}
    own = shards.setdefault(stem, set())
    for leaf in sorted(tensors, key=lambda leaf: leaf.is_unknown):
        placement, left = _by_shape(state, leaf, tensors)
        state.of[leaf.key] = placement
        open_axes[leaf.key] = left
        own.update(number for number, way in enumerate(placement.ways) if way == SHARD)
    for leaf in tensors:
        for number in _gradient_of_mean(state, leaf):
            state.of[leaf.key].ways[number] = SUM
            open_axes[leaf.key] = [other for other in open_axes[leaf.key] if other != number]
        for number in open_axes[leaf.key]:
            _place_unequal(state, leaf, number, own, leaves)
        placement = state.of[leaf.key]
        placement.is_tied = ACROSS_STAGES in leaf.reduced and leaf.role == "parameters_grad"
        placement.resolved = bool(placement.added) and leaf.reduced.issuperset(placement.added)
        if placement.resolved:
            placement.source, placement.certainty = "collective", "checked"
        state.by_value.setdefault(leaf.value, placement)
        if leaf.role == "parameters_grad":
            state.gradients.add(leaf.value)
        if leaf.role == "parameters":
            module = leaf.key.op.rpartition(".forward")[0]
            state.parameters.setdefault((module, _parameter(leaf.key.slot)), placement)
    _place_words(state, tensors)
    _place_counts(state, leaves, own)
    _place_sorted(state, tensors)
    _place_numbers(state, leaves, tensors)


def _gradient_of_mean(state: _State, leaf: Leaf) -> list[int]:
    """The axes over which a gradient of one element is that of a mean of means: it is 1 in all, not on each rank."""
    if leaf.direction != "backward" or leaf.shape is None or prod(leaf.shape) != 1:
        return []
    alike, known = _counterpart(state, leaf), state.by_value.get(leaf.value)
    means = [] if alike is None else [number for number, way in enumerate(alike.ways) if way == MEAN]
    sums = [] if known is None else [number for number, way in enumerate(known.ways) if way == SUM]
    return sorted({*means, *sums})


def _place_words(state: _State, op: Sequence[Leaf]) -> None:
    """Place the words that an embedding looks up in a rank's part of its table; their extremes may be equal."""
    if not op or ".embedding." not in op[0].key.op or op[0].direction != "forward":
        return
    placed = {leaf.key.slot: state.of[leaf.key] for leaf in op}
    words, table = placed.get("input.0"), placed.get("input.1")
    if words is not None and table is not None and 0 in table.dimensions and not words.said:
        words.unknown = _OWN_WORDS


def _place_counts(state: _State, op: Sequence[Leaf], shards: set[int]) -> None:
    """Place positions and masks that each rank counts from the first row of its own shard, and what they select.

    They come of a shard (the place of its largest element), of a bound that differs by rank, or of such ones.
    """
    taken = {n for leaf in op if leaf.role == "input" for n in state.counted.get(leaf.value, ())}
    by_rank = {n for leaf in op if leaf.kind != "tensor" for n, equal in enumerate(leaf.equal) if not equal}
    selects = bool(_SELECTS.search(op[0].key.op))
    for leaf in op:
        placement = state.of.get(leaf.key)
        if leaf.kind != "tensor" or placement is None or placement.said:
            continue
        if leaf.role == "input":
            own = state.counted.get(leaf.value, shards if leaf.is_whole else taken if selects else set())
        else:
            own = taken | by_rank | shards if leaf.is_whole else taken if selects else set()
        own = {n for n in own if placement.ways[n] == DIFFER and state.axes[n].name[:2] not in _DATA}
        if own:
            placement.ways = [COPY if n in own else way for n, way in enumerate(placement.ways)]
            placement.unknown, placement.problem = OWN_BOUNDS, None
            state.counted[leaf.value] = own


def _place_sorted(state: _State, op: Sequence[Leaf]) -> None:
    """Place the places by which a rank sorts its own rows, and rows that it has sorted by them.

    Rows that are taken by such places lie in each rank's own order, until they are put or taken back by them.
    """
    if not op:
        return
    places = [leaf for leaf in op if leaf.role == "input" and leaf.value in state.sorts]
    rows = [leaf for leaf in op if leaf.role == "input" and leaf.value in state.reordered]
    if places and _PUTS.search(op[0].key.op):
        rows += [leaf for leaf in op if leaf.role == "input" and leaf.key.slot == "input.2" and leaf not in places]
    for leaf in rows:
        state.of[leaf.key].is_reordered = True
    for leaf in places:
        state.of[leaf.key].unknown, state.of[leaf.key].problem = OWN_BOUNDS, None
    for leaf in op:
        placement = state.of[leaf.key]
        if leaf.role == "input" or SHARD not in placement.ways:
            continue
        if leaf.is_whole and leaf.shape and _SORTS.search(leaf.key.op) and len(leaf.shape) - 1 in placement.dimensions:
            placement.unknown = OWN_BOUNDS
            state.sorts.add(leaf.value)
        elif (rows and not places) or (places and not rows and _TAKES.search(leaf.key.op)):
            placement.is_reordered = True
            state.reordered.add(leaf.value)


def _stem(leaf: Leaf) -> str:
    """What the forward and the backward of an op have in common; a module's forward and backward have nothing."""
    if leaf.kind == "module":
        return leaf.key.op
    return leaf.key.op.rpartition(".")[0] if leaf.direction == "backward" else leaf.key.op.removesuffix(".forward")


def _by_shape(state: _State, leaf: Leaf, op: Sequence[Leaf]) -> tuple[Placement, list[int]]:
    """What is said and what shapes say, and the axes that they leave open because the ranks' tensors are not equal."""
    count = len(state.axes)
    placement = Placement([COPY] * count, [None] * count)
    spread = [number for number in range(count) if leaf.present[number] > 1]
    said = _said(state, leaf)
    shape = _with_said(state, leaf, placement, said) if said is not None else leaf.shape
    if placement.problem is not None:
        return placement, []
    left = [number for number in spread if said is None or number not in said.ways]
    if leaf.whole is not None and shape is not None and shape != leaf.whole:
        alike = _beside(state, leaf, op) or _counterpart(state, leaf)
        if not _with_shapes(state, leaf, placement, shape, left, alike):
            return placement, []
        if said is None:
            placement.source, placement.certainty = "shapes", "inferred"
    return placement, [number for number in spread if placement.ways[number] == COPY and not leaf.equal[number]]


def _with_shapes(
    state: _State, leaf: Leaf, placement: Placement, shape: tuple[int, ...], left: list[int], alike: Placement | None
) -> bool:
    """Place a leaf as its extents are parts of golden's, along axes of `left`; False if no axes explain them.

    `alike`: how something lies that should lie as it does.
    """
    assert leaf.whole is not None
    if len(leaf.whole) != len(shape):
        placement.problem = f"it has {len(shape)} axes, golden {len(leaf.whole)}"
        return False
    axes = state.axes
    for dimension, (part, whole) in enumerate(zip(shape, leaf.whole, strict=True)):
        if part == whole:
            continue
        chosen = _axes_of(axes, leaf, left, dimension, part, alike)
        if chosen is None:
            placement.problem = f"axis {dimension} has {part} on a rank and {whole} in golden, {UNEXPLAINED}"
            return False
        if len(chosen) > 1 and leaf.totals is not None and leaf.totals[dimension] != part * leaf.members:
            placement.unknown = f"uneven parts along several axes lie in its axis {dimension}"
        for number in chosen:
            placement.ways[number], placement.dimensions[number] = SHARD, dimension
            left.remove(number)
            is_data = axes[number].name[:2] in ("dp", "cp") and leaf.role == "input" and leaf.direction == "forward"
            if leaf.equal[number] and not leaf.is_constant and is_data:
                placement.problem = f"every rank along {axes[number].name} has the same shard"
    return True


def _with_said(state: _State, leaf: Leaf, placement: Placement, said: Said) -> tuple[int, ...] | None:
    """Place a leaf as it is said to lie; gives its shape with the shards together, which must not exceed golden's."""
    placement.source, placement.certainty, placement.said = said.source, said.certainty, frozenset(said.ways)
    placement.unknown = said.unknown
    shape = None if leaf.shape is None else list(leaf.shape)
    parts: dict[int, int] = {}
    for number, (way, dimension, blocks) in said.ways.items():
        placement.ways[number], placement.dimensions[number] = way, dimension
        if blocks > 1:
            placement.blocks = placement.blocks or [1] * len(state.axes)
            placement.blocks[number] = blocks
        if way == SHARD and dimension is not None:
            parts[dimension] = parts.get(dimension, 1) * leaf.present[number]
    for dimension, count in parts.items():
        if shape is None or dimension >= len(shape):
            placement.problem = f"{said.source} says that axis {dimension} is cut, which it does not have"
            return None
        part, whole = shape[dimension], None if leaf.whole is None else leaf.whole[dimension : dimension + 1]
        is_uneven = leaf.totals is not None and whole and _adds_up(leaf, dimension, part, count)
        shape[dimension] = whole[0] if is_uneven and whole else part * count
        if whole and whole[0] % (shape[dimension] or 1):
            placement.problem = (
                f"{said.source} says that axis {dimension} is cut in {count}: "
                f"{count} × {part} is not golden's {whole[0]}"
            )
            return None
    return None if shape is None else tuple(shape)


def _parameter(slot: str) -> str:
    """The name of a parameter in a slot: weight of parameters.weight, and of weight.0, as a gradient is called."""
    return slot.removeprefix("parameters.").partition(".")[0]


def _beside(state: _State, leaf: Leaf, op: Sequence[Leaf]) -> Placement | None:
    """The placement of a tensor of the same op and shape, if of this one there are no values to tell axes apart by."""
    if not leaf.is_unknown:
        return None
    same = (one for one in op if (one.shape, one.whole) == (leaf.shape, leaf.whole) and not one.is_unknown)
    return next((state.of[one.key] for one in same if one.key in state.of), None)


def _counterpart(state: _State, leaf: Leaf) -> Placement | None:
    """The placement of what a gradient is the gradient of, if it has the same shape."""
    if leaf.direction == "forward":
        return None
    if leaf.role == "parameters_grad":
        key = (leaf.key.op.rpartition(".parameters_grad")[0], _parameter(leaf.key.slot))
        return state.parameters.get(key)
    side, _, rest = leaf.key.slot.partition(".")
    other = {"input": "output", "output": "input"}.get(side, side)
    front, _, last = leaf.key.op.rpartition(".backward")
    return state.of.get(Key(f"{front}.forward{last}", f"{other}.{rest}", leaf.key.repeat))


def _axes_of(
    axes: Sequence[Axis], leaf: Leaf, left: Sequence[int], dimension: int, part: int, alike: Placement | None
) -> tuple[int, ...] | None:
    """The axes that cut an extent: those whose sizes give the ratio.

    The axes that cut what it should lie as (`alike`) come first, then unequal ones, in the order of dimensions.
    """
    is_weight = leaf.role == "parameters" or (leaf.role == "input" and not leaf.key.slot.startswith("input.0"))
    is_uneven = leaf.totals is not None and leaf.totals[dimension] != part * leaf.members
    order = sorted(
        (number for number in left if is_uneven or leaf.totals is None or not leaf.ragged[number]),
        key=lambda number: (
            is_uneven and not leaf.ragged[number],
            alike is not None and alike.ways[number] != SHARD,
            leaf.equal[number],
            is_weight and axes[number].name[:2] in _DATA,
            _DIMENSION_FIRST.get(axes[number].name, 9),
        ),
    )
    return _fewest(order, leaf.present, lambda parts: _adds_up(leaf, dimension, part, parts))


def _fewest(order: Sequence[int], present: Sequence[int], fits: Callable[[int], bool]) -> tuple[int, ...] | None:
    """The fewest axes, the first in this order, of which the number of parts fits."""
    for count in range(1, len(order) + 1):
        for chosen in combinations(order, count):
            if fits(prod(present[number] for number in chosen)):
                return chosen
    return None


def halved(leaves: Iterable[Leaf], axes: Sequence[Axis]) -> dict[str, int]:
    """The axes along which a parameter is cut in fewer parts than there are ranks, and in how many.

    So it is with heads of keys, if there are fewer of them than ranks: neighbours have the same.
    """
    found: dict[str, int] = {}
    for leaf in leaves:
        if leaf.role != "parameters" or leaf.whole is None or leaf.shape is None or len(leaf.whole) != len(leaf.shape):
            continue
        for part, whole in zip(leaf.shape, leaf.whole, strict=True):
            parts = whole // part if part and whole % part == 0 else 1
            sizes = [
                prod(chosen) for count in (1, 2, 3) for chosen in combinations([axis.size for axis in axes], count)
            ]
            finer = [axis for axis in axes if axis.size % parts == 0 and axis.name[:2] not in _DATA]
            if parts > 1 and parts not in sizes and finer:
                found.setdefault(finer[-1].name, parts)
    return found


def _adds_up(leaf: Leaf, dimension: int, part: int, parts: int) -> bool:
    """Whether golden's extent is that of as many parts, which may have other extents on other ranks."""
    assert leaf.whole is not None
    if leaf.totals is not None and dimension < len(leaf.totals):
        return leaf.totals[dimension] * parts == leaf.whole[dimension] * leaf.members
    return part * parts == leaf.whole[dimension]


def _said(state: _State, leaf: Leaf) -> Said | None:
    """What the layout file says of a leaf, or else its own record."""
    for rule in state.rules:
        if rule.fits(leaf):
            ways = {number: rule.ways[axis.name] for number, axis in enumerate(state.axes) if axis.name in rule.ways}
            return Said(ways, "layout file")
    return state.recorded(leaf)


def _place_unequal(state: _State, leaf: Leaf, number: int, shards: set[int], op: Sequence[Leaf]) -> None:
    """Place a leaf along an axis along which the ranks' tensors have the shape of the whole and are not equal."""
    placement, axis = state.of[leaf.key], state.axes[number]
    known = state.by_value.get(leaf.value)
    is_words = ".embedding." in leaf.key.op and number in shards
    is_number = leaf.shape is not None and prod(leaf.shape) == 1
    if axis.name == MICRO and leaf.role == "parameters_grad":
        placement.ways[number], placement.source = LAST, "op"
    elif is_words and leaf.role == "input" and leaf.direction == "forward":
        placement.unknown = _OWN_WORDS
    elif is_words and leaf.direction == "forward":
        placement.ways[number], placement.source, placement.certainty = SUM, "op", "inferred"
        placement.unknown = "rows of other ranks' words are masked only after it"
    elif number in placement.said:
        _differ(placement, number, axis)
        placement.problem = f"{placement.source} says that there are copies along {axis.name}: {placement.problem}"
    elif number in leaf.reduced:
        placement.ways[number] = leaf.reduction if leaf.reduction in (MAX, MIN) else SUM
    elif known is not None and known.ways[number] in (SUM, MEAN):
        placement.ways[number], placement.source, placement.certainty = known.ways[number], known.source, "inferred"
    elif (
        leaf.role == "parameters_grad"
        or (number in shards and (leaf.role != "input" or is_number or is_words) and not leaf.is_whole)
        or (number in shards and leaf.role != "input" and _COUNTS.search(leaf.key.op))
        or (leaf.direction == "backward" and axis.name[:2] in _DATA)
        or (leaf.direction == "backward" and _keeps_gradients(state, leaf.key.op, number))
        or (leaf.role != "input" and _kept(state, op, number) is not None)
    ):
        mean = leaf.direction == "forward" and (_is_mean(op) or _kept(state, op, number) == MEAN)
        mean = mean and _share(state, op, number) is None
        placement.ways[number] = MEAN if mean else SUM
        placement.source, placement.certainty = "op", "inferred"
    elif axis.name[:2] in _DATA and leaf.direction == "forward" and _is_of_own_data(state, leaf, op, number):
        placement.unknown = _OWN_DATA
    else:
        _differ(placement, number, axis)


def _is_of_own_data(state: _State, leaf: Leaf, op: Sequence[Leaf], number: int) -> bool:
    """Whether a value is computed from a sum or mean over a rank's own data, otherwise than in proportion to it.

    An optimizer that is given the gradient of a rank's own data is none of these: that is a finding.
    """
    if leaf.role == "input":
        known = state.by_value.get(leaf.value)
        return known is not None and known.unknown == _OWN_DATA
    inputs = [one for one in op if one.role == "input" and one.key in state.of]
    if any(one.value in state.gradients for one in inputs):
        return False
    given = [state.of[one.key] for one in inputs]
    return any(one.unknown == _OWN_DATA or one.ways[number] in (SUM, MEAN) for one in given)


def _keeps_gradients(state: _State, op: str, number: int) -> bool:
    """Whether gradients are partial sums where an op is called: in its module, or around all modules."""
    module = state.modules.get(op)
    return any(number in state.later.get(path, ()) for path in ([module] if module else ["Module", "Cell"]))


def _is_mean(op: Sequence[Leaf]) -> bool:
    """Whether the result of an op is a mean over what it is given."""
    is_sum = any(leaf.key.slot == "input.reduction" and leaf.number == "sum" for leaf in op)
    return bool(_MEANS.search(op[0].key.op)) and not is_sum


def _share(state: _State, op: Sequence[Leaf], number: int) -> Leaf | None:
    """The argument by which an op divides a partial mean once more than golden does, so that its result is a sum.

    So does a loss of each micro-batch that is divided by how many there are.
    """
    for leaf in op:
        if leaf.kind == "tensor" or not leaf.number or not leaf.golden_number or not _SCALES.search(leaf.key.op):
            continue
        given = [state.of[one.key] for one in op if one.role == "input" and one.key in state.of]
        means = {n for placed in given for n, way in enumerate(placed.ways) if way == MEAN}
        order = sorted(means, key=lambda n: (state.axes[n].name != MICRO, n))
        chosen = _fewest(order, op[0].present, partial(_is_count, _ratio(leaf)))
        if number in (chosen or ()):
            return leaf
    return None


def _ratio(leaf: Leaf) -> float:
    """How many times as much as golden an op divides by an argument; 0 if that is not a number."""
    try:
        ours, theirs = float(leaf.number or ""), float(leaf.golden_number or "")
        return theirs / ours if "mul" in leaf.key.op else ours / theirs
    except (ValueError, ZeroDivisionError):
        return 0.0


def _is_count(ratio: float, parts: int) -> bool:
    """Whether a ratio is this number of parts, and there are several."""
    return parts > 1 and abs(ratio - parts) < 1e-6 * parts


def _kept(state: _State, op: Sequence[Leaf], number: int) -> str | None:
    """SUM or MEAN if the result of an op is one because it is linear in what it is given; None otherwise.

    What is added to a mean may be the same on all ranks, what is added to a sum may not.
    """
    inputs = [state.of[leaf.key] for leaf in op if leaf.role == "input" and leaf.key in state.of]
    given = [placed.ways[number] for placed in inputs]
    partial = [way for way in given if way in (SUM, MEAN)]
    if not partial or not _is_linear(op[0].key.op, len(partial)):
        return None
    if not _ADDS.search(op[0].key.op):
        return MEAN if MEAN in partial else SUM
    has_number = any(leaf.role == "input" and leaf.kind != "tensor" for leaf in op)
    if set(given) == {SUM} and not has_number:
        return SUM
    is_known = all(placed.unknown is None for placed in inputs)
    return MEAN if MEAN in given and set(given) <= {MEAN, COPY} and is_known else None


def _is_linear(op: str, partial: int) -> bool:
    """Whether an op is linear in the partial sums or means that it is given: `partial` of them."""
    return bool(_ADDS.search(op) or _LINEAR.search(op)) and not (partial > 1 and _SCALES.search(op))


def _differ(placement: Placement, number: int, axis: Axis) -> None:
    placement.ways[number], placement.certainty = DIFFER, "inferred"
    placement.problem = f"copies along {axis.name} differ"


def _place_numbers(state: _State, leaves: Sequence[Leaf], tensors: Sequence[Leaf]) -> None:
    """Place what is not a tensor: a local extent becomes golden's, and what differs by rank is left out."""
    extents = _extents(tensors)
    count = len(state.axes)
    by_rank: set[int] = set()
    for leaf in leaves:
        if leaf.kind == "tensor":
            continue
        placement = state.of[leaf.key] = Placement([COPY] * count, [None] * count)
        differs = [number for number in range(count) if not leaf.equal[number]]
        is_bound = leaf.golden_number is not None and any(
            state.of[one.key].unknown == OWN_BOUNDS for one in tensors if one.role == "output"
        )
        if differs and is_bound:
            placement.number, placement.source = leaf.golden_number, "op"
        elif differs:
            by_rank.update(differs)
            names = ", ".join(state.axes[number].name for number in differs)
            placement.reason = f"an argument that differs along {names}"
        elif _is_extent(leaf, extents) or any(_share(state, leaves, number) is leaf for number in range(count)):
            placement.number, placement.source = leaf.golden_number, "shapes"
    for leaf in tensors:
        placement = state.of[leaf.key]
        is_local = not leaf.is_constant and any(
            placement.ways[number] == SHARD and leaf.equal[number] for number in by_rank
        )
        if is_local:
            placement.reason, placement.problem = "each rank counts from its own start", None


def _extents(tensors: Sequence[Leaf]) -> dict[int, set[int]]:
    """The extents of shards, with golden's."""
    extents: dict[int, set[int]] = {}
    for leaf in tensors:
        for part, whole in zip(leaf.shape or (), leaf.whole or (), strict=False):
            if part != whole:
                extents.setdefault(part, set()).add(whole)
    return extents


def _is_extent(leaf: Leaf, extents: Mapping[int, set[int]]) -> bool:
    """Whether an argument is the extent of a shard where golden's is that of the whole."""
    ours, theirs = leaf.number or "", leaf.golden_number or ""
    return ours != theirs and ours.isdigit() and theirs.isdigit() and int(theirs) in extents.get(int(ours), ())
