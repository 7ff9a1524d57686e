"""Reads a unit for a search: an object per op and leaf, and the numbers of its tensors as columns.

Whole columns settle most of two units (mapping/tensors.py, votes.py, row_pairs.py). Objects are for the rest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow
from msgspec import Struct, field
from numpy.typing import NDArray

from lakeprobe import resources
from lakeprobe.lake.layout import UnitPlace
from lakeprobe.mapping.known import family
from lakeprobe.mapping.ops import DIGITS, DIGITS_OF_BFLOAT, QUERIES, VIEWS, Leaf, Op

if TYPE_CHECKING:
    import duckdb

Numbers = NDArray[Any]

_NARROW = 2**22
"""Integers with a smaller span are used as they are. Others are numbered first, which takes a sort."""

ROLES = ("input", "output", "parameters", "parameters_grad", "")
"""The roles of leaves, in the order of their codes. The last stands for any other role."""
INPUT, OUTPUT, PARAMETERS, GRADIENT = range(4)


class Codes(dict[Any, int]):
    """Assigns numbers to keys, from 0, in the order of first use."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class Words(Struct, frozen=True):
    """The codes of texts, shared by both units so that equal codes mean equal texts."""

    kinds: Codes = field(default_factory=Codes)
    slots: Codes = field(default_factory=Codes)
    digests: Codes = field(default_factory=Codes)


class Columns(Struct, frozen=True):
    """The tensors of a unit as columns, one element each, op by op, as in the list of leaves.

    `op`: the index in the list of ops.
    `kind`, `digest`, `slot`: codes, -1 if there is none. `shape`: a code that holds in this unit only.
    `max`, `min`, `mean`, `norm`: NaN if unknown. `has_range`, `has_norm` and `has_mean` say which are known.
    `key`: equal for tensors with the same number of elements and the same range, or with the same digest.
    `view`: equal to `key` if that identifies the tensor, also reshaped. Otherwise -1.
    `digits`: of the coarsest type that the run computes in (ops.DIGITS).
    """

    row: Numbers
    op: Numbers
    role: Numbers
    kind: Numbers
    slot: Numbers
    digest: Numbers
    shape: Numbers
    elements: Numbers
    max: Numbers
    min: Numbers
    mean: Numbers
    norm: Numbers
    has_range: Numbers
    has_norm: Numbers
    has_mean: Numbers
    is_evidence: Numbers
    key: Numbers
    view: Numbers
    digits: float


class Unit(Struct, frozen=True):
    """The ops of a unit in the order of the dump, and all their tensors, as leaves and as columns."""

    framework: str
    ops: list[Op]
    leaves: list[Leaf]
    columns: Columns
    slots: list[str]
    """The slots by their codes, as far as they are known so far."""
    rows: int
    """A number above the number of every row."""


def read_unit(connection: duckdb.DuckDBPyConnection, unit: UnitPlace, words: Words) -> Unit:
    """Return the ops of a unit with their tensors and scalars. Raises duckdb.Error if it cannot be read."""
    given = {"folder": str(unit.folder), "held": unit.condition}
    framework = str(connection.execute(resources.sql("mapping/framework"), given).fetchall()[0][0])
    ops = _ops(connection.sql(resources.sql("mapping/ops"), params=given).to_arrow_table(), framework)
    table = connection.sql(resources.sql("mapping/leaves"), params=given).to_arrow_table()
    seqs = numpy.array([op.seq for op in ops], dtype=numpy.int64)
    places = numpy.searchsorted(seqs, _numbers(table, "seq"))
    slots, slot = _texts(table, "slot")
    kept = _of_one_name(places, slot, len(slots))
    if not kept.all():
        table, places = table.filter(pyarrow.array(kept)), places[kept]
    rows = int(_numbers(table, "row").max(initial=-1)) + 1
    kinds, kind = _texts(table, "dtype_class")
    is_scalar = numpy.array([text == "scalar" for text in kinds], dtype=bool)[kind]
    if is_scalar.any():
        scalars, table = table.filter(pyarrow.array(is_scalar)), table.filter(pyarrow.array(~is_scalar))
        nowhere = numpy.full(len(scalars), -1, dtype=numpy.int64)
        for leaf in _leaves(scalars, [ops[place] for place in places[is_scalar].tolist()], nowhere, nowhere):
            leaf.op.scalars.append(leaf)
        places = places[~is_scalar]
    digits = _digits(table)
    for op in ops:
        op.digits = digits
    columns = _columns(table, places, digits, words)
    leaves = _leaves(table, [ops[place] for place in places.tolist()], numpy.arange(len(table)), columns.view)
    ends = numpy.searchsorted(columns.op, numpy.arange(len(ops) + 1)).tolist()
    for op, start, end in zip(ops, ends[:-1], ends[1:], strict=True):
        op.leaves = leaves[start:end]
    for place in _carriers(columns).tolist():
        ops[place].carries = True
    return Unit(framework, ops, leaves, columns, list(words.slots), rows)


def _digits(table: pyarrow.Table) -> float:
    """Return the digits of the coarsest type of 16 bits or more that an op of the run gives (ops.DIGITS)."""
    spacings = table["spacing"].to_numpy()
    return 2 / float(spacings[spacings <= 2 / DIGITS_OF_BFLOAT].max(initial=2 / DIGITS))


def _ops(table: pyarrow.Table, framework: str) -> list[Op]:
    """Return the ops without their leaves."""
    repeated = ("op_kind", "api", "module_class", "direction", "parent")
    texts = {
        name: _decoded(table, name) if name in repeated else table[name].to_pylist() for name in table.column_names
    }
    families = _Families(framework)
    found = []
    for place, (seq, name, kind, api, cls, direction, call, parent) in enumerate(zip(*texts.values(), strict=True)):
        path = api or name
        word = families[cls or path]
        op = Op(seq, name, kind, path, word, direction, call, parent, cls or "", place=place, framework=framework)
        if kind == "api":
            op.is_view, op.is_query = word.removesuffix("_") in VIEWS, word in QUERIES
        found.append(op)
    names = {op.name: op for op in found}
    for op in found:
        if op.direction == "backward":
            op.forward = names.get(_forward_name(op.name))
    return found


def _forward_name(name: str) -> str:
    """Return the name of the forward op of a backward op."""
    head, _, end = name.rpartition(".")
    if end == "backward":
        return f"{head}.forward"
    if end.isdigit() and head.endswith(".backward"):
        return f"{head.removesuffix('.backward')}.forward.{end}"
    return name


class _Families(dict[str, str]):
    """The family of each name, cached because many ops share a name."""

    def __init__(self, framework: str) -> None:
        super().__init__()
        self.framework = framework

    def __missing__(self, name: str) -> str:
        self[name] = found = family(name, self.framework)
        return found


def _leaves(table: pyarrow.Table, ops: list[Op], place: Numbers, view: Numbers) -> list[Leaf]:
    """Return a leaf for each row of the table. `ops` has the op of each row."""
    sizes, elements, shape = _shapes(table)
    codes = shape.tolist()
    sizes_of, counts = [sizes[code] for code in codes], [elements[code] for code in codes]
    return list(
        map(
            Leaf,
            ops,
            _numbers(table, "row").tolist(),
            _decoded(table, "slot"),
            _decoded(table, "role"),
            _decoded(table, "dtype_class"),
            sizes_of,
            *(_floats(table, name) for name in ("max", "min", "mean", "norm")),
            _decoded(table, "digest"),
            _decoded(table, "value"),
            counts,
            place.tolist(),
            view.tolist(),
        )
    )


def _shapes(table: pyarrow.Table) -> tuple[list[tuple[int, ...] | None], list[int], Numbers]:
    """Return the distinct shapes, their numbers of elements, and for each row of the table the index of its shape."""
    texts, shape = _texts(table, "shape")
    sizes = [None if text is None else tuple(int(size) for size in text.strip("[]").split(",") if size.strip())
             for text in texts]  # fmt: skip
    return sizes, [math.prod(size or ()) for size in sizes], shape


def _columns(table: pyarrow.Table, op: Numbers, digits: float, words: Words) -> Columns:
    roles, role = _texts(table, "role")
    kinds, kind = _texts(table, "dtype_class")
    slots, slot = _texts(table, "slot")
    digests, digest = _texts(table, "digest")
    places = {name: place for place, name in enumerate(ROLES)}
    largest, smallest, mean, norm = (
        numpy.asarray(table[name].to_numpy(), dtype=numpy.float64) for name in ("max", "min", "mean", "norm")
    )
    known = {name: numpy.asarray(table[name].is_valid()) for name in ("max", "min", "mean", "norm")}
    _, counts, shape = _shapes(table)
    elements = numpy.array(counts, dtype=numpy.int64)[shape]
    has_range = known["max"] & known["min"]
    has_digest = numpy.array([text is not None for text in digests], dtype=bool)[digest]
    with numpy.errstate(invalid="ignore"):
        is_number = (elements == 1) & (largest != numpy.round(largest)) & numpy.isfinite(largest)
    is_float, is_bool = (numpy.array([text == name for text in kinds], dtype=bool)[kind] for name in ("float", "bool"))
    tells = numpy.where(largest == smallest, is_number & is_float, elements > 1)
    digest_code = _renumbered(digests, digest, words.digests)
    is_range = ~has_digest & has_range
    key = equal_rows(
        numpy.where(has_digest, digest_code, -1),
        numpy.where(is_range, elements, -1),
        *(numpy.where(is_range, bound + 0.0, 0.0) for bound in (largest, smallest)),  # 0.0 and -0.0 are one number
    )
    is_identified = has_digest | (is_range & ~numpy.isnan(largest) & ~numpy.isnan(smallest))
    return Columns(
        _numbers(table, "row"), op, numpy.array([places.get(text or "", len(ROLES) - 1) for text in roles])[role],
        _renumbered(kinds, kind, words.kinds), _renumbered(slots, slot, words.slots), digest_code, shape, elements,
        largest, smallest, mean, norm, has_range, known["norm"], known["mean"],
        has_digest | (has_range & ~is_bool & tells), key, numpy.where(is_identified, key, -1), digits,
    )  # fmt: skip


def equal_rows(*columns: Numbers) -> Numbers:
    """Return a number for each row of the columns, from 0 without gaps, equal for rows that are bitwise equal."""
    return numpy.unique(row_codes(*columns), return_inverse=True)[1]


def row_codes(*columns: Numbers) -> Numbers:
    """Return a number for each row of the columns, of any size, equal for rows that are bitwise equal."""
    codes = numpy.zeros(len(columns[0]), dtype=numpy.int64)
    count = 1
    for column in columns:
        code, width = _narrow(column)
        if count * width > 2**62:
            distinct, codes = numpy.unique(codes, return_inverse=True)
            count = len(distinct)
        codes, count = codes * width + code, count * width
    return codes


def _narrow(column: Numbers) -> tuple[Numbers, int]:
    """Return numbers from 0 that are equal where the column's are, and an exclusive upper bound of them."""
    bits = column.view(numpy.int64) if column.dtype == numpy.float64 else column.astype(numpy.int64)
    lowest, highest = (int(bits.min()), int(bits.max())) if len(bits) else (0, 0)
    if highest - lowest < _NARROW:
        return bits - lowest, highest - lowest + 1
    values, code = numpy.unique(bits, return_inverse=True)
    return code, len(values)


def _carriers(columns: Columns) -> Numbers:
    """Return the ops whose output is an input in another form (reshape, cast, dropout at 0)."""
    known = columns.view >= 0
    width = int(columns.view.max(initial=0)) + 1
    shown = columns.op.astype(numpy.int64) * width + columns.view
    both = numpy.intersect1d(
        shown[known & (columns.role == OUTPUT)], shown[known & (columns.role == INPUT)], assume_unique=False
    )
    return both // width


def _of_one_name(places: Numbers, slot: Numbers, slots: int) -> Numbers:
    """Return which leaves have a unique name in their op."""
    names = places.astype(numpy.int64) * slots + slot
    _, code, count = numpy.unique(names, return_inverse=True, return_counts=True)
    return numpy.asarray(count[code] == 1)


def _renumbered(texts: list[str | None], local: Numbers, codes: Codes) -> Numbers:
    """Replace a column's own codes by those shared by both units. -1 stands for no text."""
    return numpy.array([-1 if text is None else codes[text] for text in texts], dtype=numpy.int64)[local]


def _texts(table: pyarrow.Table, name: str) -> tuple[list[str | None], Numbers]:
    """Return the distinct texts of a column, with None at the end, and for each row the index of its text."""
    column = table[name].combine_chunks().dictionary_encode()
    texts = column.dictionary.to_pylist()
    return [*texts, None], numpy.asarray(column.indices.fill_null(len(texts))).astype(numpy.int64)


def _decoded(table: pyarrow.Table, name: str) -> list[str | None]:
    if table[name].null_count == len(table):
        return [None] * len(table)
    texts, codes = _texts(table, name)
    return [texts[code] for code in codes.tolist()]


def _floats(table: pyarrow.Table, name: str) -> list[float | None]:
    """Return the numbers of a column, with None for NULL."""
    numbers: list[float | None] = table[name].to_numpy().tolist()
    if table[name].null_count:
        for place in numpy.flatnonzero(numpy.asarray(table[name].is_null())).tolist():
            numbers[place] = None
    return numbers


def _numbers(table: pyarrow.Table, name: str) -> Numbers:
    return numpy.asarray(table[name].to_numpy(), dtype=numpy.int64)
