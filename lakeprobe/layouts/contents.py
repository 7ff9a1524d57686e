"""Puts the contents of shards together: one after the other along an axis, in blocks, or added up.

A content that is the same on every rank is not copied: the unit gets a link to the file of its rank. What is put
together is written, one tensor at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate, chain, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from lakeprobe.lake.values import LARGEST_VALUE, VALUES_FILE, ValuesWriter
from lakeprobe.layouts.cut import Cut
from lakeprobe.layouts.mesh import Axis
from lakeprobe.layouts.placements import MAX, MEAN, MIN, SHARD, SUM
from lakeprobe.system import files
from lakeprobe.tensors.content import array_bytes, array_hash, plain
from lakeprobe.tensors.reference import TensorReference, dtype_name, open_tensor
from lakeprobe.tensors.statistics import measure_array

_SAME = 1e-2
"""Relative difference from golden up to which the order of blocks is not in doubt."""

_LEAST_TRIES, _MOST_ELEMENTS = 16, 1 << 26
"""How many arrangements of a tensor are tried at least, and how many elements are read for them otherwise."""

_MOST_ROWS, _MOST_SECTIONS = 8192, 16
"""How many rows of a tensor are looked up in golden's at most, and in how many sections a part may lie."""

Order = int | tuple[int, ...]
"""How the parts of a dimension lie in the whole: 1 one after the other, n in blocks, -n in blocks of zig-zag halves, or
the extents of the sections of a part, each of which lies beside the same section of the others."""

Row = dict[str, Any]
Array = NDArray[Any]


class _Made(Struct):
    """The contents of the unit so far, the blocks that were found per axis and extents, and the links."""

    folder: Path
    writer: ValuesWriter
    rows: dict[str, Row] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    orders: dict[tuple[int, int, int], Order] = field(default_factory=dict)
    known: dict[int, dict[int, Order]] = field(default_factory=dict)


class _Member(Struct, frozen=True):
    """A rank's tensor: its place along each axis, its content and where it lies."""

    places: tuple[int, ...]
    content: str
    reference: TensorReference


def merged_contents(
    cut: Cut, folder: Path, axes: Sequence[Axis]
) -> tuple[list[Row], list[tuple[Any, ...]], dict[int, dict[int, Order]]]:
    """Write the contents of the merged leaves into `folder`.

    Returns the rows of the table contents, and for each leaf with contents its key, content and shape, its statistics
    where they were measured, how its blocks were ordered, and what is wrong with it. At last the orders along each
    axis of the leaves that are golden's in this order.
    """

    found = cut.rows("with_contents", cut.run_and_step | cut.golden_unit)
    if not found:
        return [], [], {}
    made = _Made(folder, ValuesWriter(folder / VALUES_FILE))
    changed = [_merge(made, list(rows), axes) for rows in _by_leaf(found)]
    made.writer.close()
    if all(row["file"] != VALUES_FILE for row in made.rows.values()):
        (folder / VALUES_FILE).unlink()
    return list(made.rows.values()), changed, made.known


def _by_leaf(rows: Sequence[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    leaf: list[tuple[Any, ...]] = []
    for row in rows:
        if leaf and leaf[0][0] != row[0]:
            yield leaf
            leaf = []
        leaf.append(row)
    if leaf:
        yield leaf


def _merge(made: _Made, rows: list[tuple[Any, ...]], axes: Sequence[Axis]) -> tuple[Any, ...]:
    """Merge the contents of one leaf; its rows are those of sql/layouts/with_contents.sql."""
    leaf, _, content, reference, ways, dimensions, known, factor, golden = rows[0]
    if len(rows) == 1 and factor == 1.0:
        reference = TensorReference.of(reference)
        _link(made, content, reference)
        return (leaf, content, list(reference.shape), None, None, None, None, None, None)
    members = [_Member(tuple(row[1]), row[2], TensorReference.of(row[3])) for row in rows]
    theirs = None if golden is None else open_tensor(TensorReference.of(golden))
    try:
        blocks: dict[int, Order] = {number: count for number, count in enumerate(known or ()) if count > 1}
        whole, orders, order, problem = _whole(made, members, ways, dimensions, blocks, axes, theirs, factor)
    except ValueError as error:
        return (leaf, None, None, None, None, None, None, None, f"its shards do not fit together: {error}")
    if factor != 1.0 and whole.dtype.kind in "fcV":
        whole = (whole * whole.dtype.type(factor)).astype(whole.dtype)
    whole = plain(whole)
    if whole.nbytes > LARGEST_VALUE:
        return (
            leaf,
            None,
            list(whole.shape),
            None,
            None,
            None,
            None,
            None,
            "the whole is larger than 1 GiB",
        )
    if orders is not None:
        made.known[leaf] = orders
    content = _keep(made, whole)
    statistics = measure_array(whole) if {SUM, MEAN, MAX, MIN} & set(ways) else {}
    numbers = [
        None if statistics.get(name) is None else float(statistics[name]) for name in ("Max", "Min", "Mean", "Norm")
    ]
    return (leaf, content, list(whole.shape), *numbers, order, problem)


def _link(made: _Made, content: str, reference: TensorReference) -> None:
    """Take in a content of a rank as it is: the file is linked into the unit."""
    if content in made.rows:
        return
    source = Path(reference.file)
    name = reference.file
    if source.name.startswith("values-") and source.suffix == ".parquet":
        if reference.file not in made.links:
            made.links[reference.file] = f"values-{len(made.links) + 1}.parquet"
            files.link_or_copy(source, made.folder / made.links[reference.file])
        name = made.links[reference.file]
    made.rows[content] = {
        "content": content, "dtype": reference.dtype, "shape": list(reference.shape),
        "strides": None if reference.strides is None else list(reference.strides),
        "file": name, "offset": reference.offset, "length": reference.length,
    }  # fmt: skip


def _keep(made: _Made, whole: Array) -> str:
    content = array_hash(whole)
    if content not in made.rows:
        offset = made.writer.add(whole.nbytes, [array_bytes(whole).data], lambda: content)
        made.rows[content] = {
            "content": content, "dtype": dtype_name(whole.dtype), "shape": list(whole.shape), "strides": None,
            "file": VALUES_FILE, "offset": offset, "length": whole.nbytes,
        }  # fmt: skip
    return content


def _whole(
    made: _Made,
    members: Sequence[_Member],
    ways: Sequence[str],
    dimensions: Sequence[int | None],
    blocks: dict[int, Order],
    axes: Sequence[Axis],
    golden: Array | None,
    factor: float,
) -> tuple[Array, dict[int, Order] | None, str | None, str | None]:
    """The members together, their order along each axis if it is golden's, in words if it is not simple; what is wrong.

    `blocks`: how many blocks the shards along an axis are said to have.
    """
    arrays = {member.places: open_tensor(member.reference) for member in members}

    whole = _together(arrays, tuple(ways), tuple(dimensions), blocks)
    cut = [number for number, way in enumerate(ways) if way == SHARD]
    if golden is None or not cut or golden.shape != whole.shape or whole.dtype.kind not in "biufV":
        return whole, None, _order_text(axes, blocks) or None, None
    least = _distance(whole, golden, factor)
    if least <= _SAME:
        return whole, blocks, _order_text(axes, blocks) or None, None
    best: tuple[Array, dict[int, Order], list[int | None]] | None = None
    shape = next(iter(arrays.values())).shape
    rows = _rows(arrays, golden, dimensions[cut[0]] or 0) if len(cut) == 1 and factor == 1.0 else None
    sections = _sections(rows[0]) if rows else ()
    first: list[tuple[list[int | None], dict[int, Order]]] = (
        [(list(dimensions), {cut[0]: sections})] if sections else []
    )
    for tried, others in chain(first, _arrangements(made, cut, dimensions, shape, whole)):
        try:
            candidate = _together(arrays, tuple(ways), tuple(tried), others)
        except ValueError:  # other extents along the other dimension
            continue
        distance = _distance(candidate, golden, factor) if candidate.shape == golden.shape else math.inf
        if distance < least * 0.1 or (distance < least and least == math.inf):
            best, least = (candidate, others, tried), distance
        if distance <= _SAME:
            break
    if best is None:
        is_elsewhere = rows is not None and sorted(chain(*rows)) == list(range(whole.shape[dimensions[cut[0]] or 0]))
        problem = (
            f"shards along {axes[cut[0]].name} are interleaved differently: golden's rows, in an order of their own"
        )
        return whole, None, _order_text(axes, blocks) or None, problem if is_elsewhere else None
    found, blocks, tried = best
    for number, count in blocks.items():
        made.orders[number, shape[tried[number] or 0], found.shape[tried[number] or 0]] = count
    order = _order_text(axes, blocks)
    if tried != list(dimensions):
        order = "; ".join([", ".join(f"{axes[number].name}: shard {tried[number]}" for number in cut), order])
    return found, blocks if least <= _SAME and tried == list(dimensions) else None, order.rstrip("; "), None


def _order_text(axes: Sequence[Axis], blocks: Mapping[int, Order]) -> str:
    """How the shards along each axis are ordered if they do not simply follow one another."""
    return "; ".join(f"{axes[number].name}: {_order_words(order)}" for number, order in blocks.items())


def _order_words(order: Order) -> str:
    if isinstance(order, tuple):
        return f"sections of {', '.join(map(str, order))}"
    return "zig-zag" if order == -1 else f"{abs(order)} blocks" + " of zig-zag" * (order < 0)


def _rows(arrays: Mapping[tuple[int, ...], Array], golden: Array, dimension: int) -> list[list[int]] | None:
    """Where each part's rows along a dimension are in golden; None if golden lacks one, or has one twice."""
    extent = golden.shape[dimension]
    if not 1 < extent <= _MOST_ROWS:
        return None
    places = {row: place for place, row in enumerate(_row_bytes(golden, dimension))}
    found = [[places.get(row, -1) for row in _row_bytes(arrays[place], dimension)] for place in sorted(arrays)]
    return found if len(places) == extent and -1 not in set(chain(*found)) else None


def _row_bytes(array: Array, dimension: int) -> list[bytes]:
    return [row.tobytes() for row in np.ascontiguousarray(np.moveaxis(array, dimension, 0))]


def _sections(places: Sequence[int]) -> tuple[int, ...]:
    """The extents of the sections of rows that follow each other in golden; nothing if there is one, or too many."""
    starts = [nth for nth, place in enumerate(places) if nth == 0 or place != places[nth - 1] + 1]
    extents = tuple(stop - start for start, stop in zip(starts, [*starts[1:], len(places)], strict=True))
    return extents if 1 < len(extents) <= _MOST_SECTIONS and len(set(extents)) > 1 else ()


def _arrangements(
    made: _Made, cut: Sequence[int], dimensions: Sequence[int | None], shape: Sequence[int], whole: Array
) -> Iterator[tuple[list[int | None], dict[int, Order]]]:
    """How shards may lie otherwise: axes that cut each other's dimensions, and blocks along one or more, few first."""
    dims = [list(dimensions)]
    for order in permutations([dimensions[number] for number in cut]):
        tried = list(dimensions)
        for number, dimension in zip(cut, order, strict=True):
            tried[number] = dimension
        if tried not in dims:
            dims.append(tried)
    options = []
    for tried in dims:
        choices = [
            [1, *_orders(made, number, shape[tried[number] or 0], whole.shape[tried[number] or 0])] for number in cut
        ]
        for chosen in product(*choices):
            blocks = {number: count for number, count in zip(cut, chosen, strict=True) if count != 1}
            if blocks or tried != dims[0]:
                options.append((len(blocks), tried, blocks))
    options.sort(key=lambda option: option[0])
    most = max(_LEAST_TRIES, min(len(options), _MOST_ELEMENTS // max(1, whole.size)))
    for _, tried, blocks in options[:most]:
        yield tried, blocks


def _orders(made: _Made, number: int, part: int, whole: int) -> Iterator[Order]:
    """The orders of blocks to try, those that other tensors of these extents have first: blocks, or zig-zag halves.

    A negative number of blocks has zig-zag halves in each.
    """
    known = made.orders.get((number, part, whole))
    others = [blocks for blocks in range(2, min(part, 4096) + 1) if part % blocks == 0]
    zigzags = [-blocks for blocks in [1, *others] if part % (2 * blocks) == 0]
    yield from dict.fromkeys(chain([] if known is None else [known], zigzags[:1], others[:12], zigzags[1:6]))


def _together(
    arrays: dict[tuple[int, ...], Array],
    ways: tuple[str, ...],
    dimensions: tuple[int | None, ...],
    blocks: dict[int, Order],
    number: int = 0,
) -> Array:
    """Put arrays together, axis after axis, the first axis outermost."""
    if number == len(ways):
        return next(iter(arrays.values()))
    by_place: dict[int, dict[tuple[int, ...], Array]] = {}
    for places, array in arrays.items():
        by_place.setdefault(places[number], {})[places] = array
    parts = [_together(by_place[place], ways, dimensions, blocks, number + 1) for place in sorted(by_place)]
    return _JOIN.get(ways[number], _first)(parts, dimensions[number] or 0, blocks.get(number, 1))


def _first(parts: Sequence[Array], dimension: int, blocks: Order) -> Array:
    return parts[0]


def _joined(parts: Sequence[Array], dimension: int, blocks: Order) -> Array:
    if blocks == 1:
        return np.concatenate(parts, dimension)
    if isinstance(blocks, tuple):
        sections = [np.split(part, list(accumulate(blocks))[:-1], dimension) for part in parts]
        return np.concatenate([part[nth] for nth in range(len(blocks)) for part in sections], dimension)
    if blocks < 0:  # as zig-zag halves, in each block
        halves = [np.split(part, -2 * blocks, dimension) for part in parts]
        return np.concatenate(
            [half[nth] for pair in range(-blocks) for nth, ordered in ((2 * pair, halves), (2 * pair + 1, halves[::-1]))
             for half in ordered], dimension)  # fmt: skip
    split = [np.split(part, blocks, dimension) for part in parts]
    return np.concatenate([part[nth] for nth in range(blocks) for part in split], dimension)


def _summed(parts: Sequence[Array], dimension: int, blocks: Order) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = np.asarray(total + part, parts[0].dtype)
    return total


def _averaged(parts: Sequence[Array], dimension: int, blocks: Order) -> Array:
    mean: Array = np.asarray(_summed(parts, dimension, blocks) / len(parts), parts[0].dtype)
    return mean


def _largest(parts: Sequence[Array], dimension: int, blocks: Order) -> Array:
    return np.asarray(reduce(np.maximum, parts))


def _smallest(parts: Sequence[Array], dimension: int, blocks: Order) -> Array:
    return np.asarray(reduce(np.minimum, parts))


_JOIN: dict[str, Callable[[Sequence[Array], int, Order], Array]] = {
    SHARD: _joined, SUM: _summed, MEAN: _averaged, MAX: _largest, MIN: _smallest,
}  # fmt: skip


def _distance(ours: Array, theirs: Array, factor: float) -> float:
    """The norm of the difference of ours, times a factor, and theirs, relative to theirs.

    Elements that are not finite must stand in the same places, or the distance is infinite.
    """
    with np.errstate(all="ignore"):
        mine, wide = ours.astype(np.float64) * factor, theirs.astype(np.float64)
        finite = np.isfinite(wide)
        if not finite.all():
            if not np.array_equal(mine[~finite], wide[~finite], equal_nan=True) or not np.isfinite(mine[finite]).all():
                return math.inf
            mine, wide = mine[finite], wide[finite]
        scale = float(np.linalg.norm(wide))
        distance = float(np.linalg.norm(mine - wide))
    return distance / scale if scale else distance
