"""Turns the bodies of dump.json's entries into tensor rows: the leaves of their nested lists and objects.

A dump has some hundred thousand leaves and this is where the time of reading goes, so the hot path stores
numbers only: where a leaf sits (its place) and what it is apart from its statistics (its form) take few distinct
values in a dump, are worked out once each, and become columns when a batch is taken.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeprobe.bounds import DEEPEST_VALUE, MOST_LEAVES, MOST_PLACES
from lakeprobe.columns import Codes, column_of, fixed, lists, numbers, placed, refilled, sparse, texts
from lakeprobe.errors import DumpError
from lakeprobe.readers.source import ContentOf
from lakeprobe.schema import arrow_schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from lakeprobe.tensors import TensorReference

SECTIONS = {
    "input_args": "input",
    "input_kwargs": "input",
    "input": "input",
    "parameters": "parameters",
    "output": "output",
}
"""Keys of an entry that hold leaves, and the role of these leaves, in the order of the rows."""

WIDE = ("wide_mean", "wide_norm", "nan_count", "posinf_count", "neginf_count", "zero_count")
"""The columns for what collecting measures beside the leaf's own statistics: the members of its key "wide"."""

BARE = {"debug": "output", "parameter": "parameters", "setting": "input"}
"""The kinds of ops that are one value, without sections, and the role of its leaves."""

_ABSENT = object()
_STATISTICS = ("Max", "Min", "Mean", "Norm")
_NO_STATISTICS = (_ABSENT,) * len(_STATISTICS)
_LETTERS = {float: "f", int: "i", bool: "b", str: "s", type(None): "n", object: "-"}
_NUMBERS = (float, int, bool)
_NO_NUMBER = frozenset("n-")
_RENUMBERED = {letter: kind for kind, letter in _LETTERS.items() if letter in "fin"}
"""The types, by their letters, of the statistics that others may take the place of."""
_PLAIN = ("type", "dtype", "shape", *_STATISTICS, "requires_grad")
_TENSOR_FIELDS = frozenset(("type", "dtype", "shape", *_STATISTICS, "requires_grad", "md5", "data_name"))
_SCALAR_PREFIXES = ("int", "uint", "float", "bool", "complex", "str")
_PER_LEAF = ("_place_codes", "_form_codes", "_shape_codes", "_letter_codes", "_max", "_min", "_mean", "_norm")
_KEPT_TEXTS = 1024
_MOST_SHARED = 1 << 16
"""The maximum number of places that dumps share."""
_INT64 = range(-(2**63), 2**63)
EXACT_IN_DOUBLE = range(-(2**53), 2**53 + 1)


class _Place:
    """Where leaves sit in an entry: a section, and the indexes and keys from there. Places form a tree."""

    __slots__ = ("children", "code", "depth", "path", "repeat", "role", "section", "slot")

    def __init__(self, role: str, section: str | None, slot: str, path: str, depth: int) -> None:
        self.role, self.section, self.slot, self.path, self.depth = role, section, slot, path, depth
        self.code = -1
        """Number of the place among those that have leaves; -1 until the first leaf."""
        self.repeat = 0
        self.children: dict[int | str, _Place] = {}


class _Form(NamedTuple):
    """What a leaf is apart from its statistics and values."""

    kind: str
    type: str | None
    dtype: str | None
    requires_grad: bool | None
    fields: str | None


_NULL = _Form("null", None, None, None, None)


class Alike(NamedTuple):
    """The leaves that entries have in common. A leaf is counted from the entry's first."""

    rows: range
    """The leaves among those of a learner."""
    statistics: range
    """Where the learner's `varying` has the leaves whose statistics differ from entry to entry, in the text's order."""
    digests: Sequence[int]
    """The leaf that has the n-th such digest."""
    files: Sequence[tuple[int, int]]
    """The leaves that have such file names, in their order, each with the number of its name."""
    wides: range
    """Where the learner's `varying` has the leaves with such wide statistics."""
    values: Sequence[int]
    """The leaf that has the n-th such value."""
    sparse: Sequence[tuple[int, str, Any]]
    """Rare values: leaf, column, value."""


class Varying(NamedTuple):
    """What differs among entries that are alike, one entry after the other."""

    statistics: Sequence[Any]
    """Max, min, mean and norm in turns: floats, integers that a double holds, or None."""
    is_floats: bool
    """Whether all of them are floats."""
    digests: Sequence[str] = ()
    files: Sequence[str] = ()
    wides: Sequence[Any] = ()
    """Six in turns, as WIDE says."""
    values: Sequence[str] = ()


class VariedRows(NamedTuple):
    """The rows of the table tensors that got what differs among entries that are alike, in the text's order."""

    statistics: array[int]
    wides: array[int]
    values: array[int]


class Leaves:
    """Collects the leaves of one dump's entries as columns of the table tensors."""

    def __init__(self, where: str, part: str, content_of: ContentOf) -> None:
        """Read entries of the dump file `where`, asking `content_of` for the content of each saved tensor."""
        self._where = where
        self._part = part
        self._content_of = content_of
        self._roots = {section: _Place(role, section, role, "", 0) for section, role in SECTIONS.items()}
        self._gradients = _Place("parameters_grad", None, "", "", 0)
        self._bare = {kind: _Place(role, None, "", "", 0) for kind, role in BARE.items()}
        self._places: list[_Place] = []
        self._made = count(1)
        self._slots: Counter[tuple[str, bool, str]] = Counter()
        self._form_of: dict[Any, int] = {}
        self._forms = Codes()
        self._others: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._shapes = Codes()
        self._letters = Codes()
        self._op = ""
        self._empties: list[str] = []
        self._empty_texts: dict[tuple[_Place, str], str] = {}
        self._extra_texts: dict[str, str] = {}
        self._taken = 0
        self.varying = array("i")
        """For learners only: see Alike."""
        self.varied = VariedRows(array("i"), array("i"), array("i"))
        """The rows that `add_alike` filled in."""
        self._reset()

    def _reset(self) -> None:
        self._ops: list[str] = []
        self._seqs = array("i")
        self._rows = array("i")
        """How many leaves each op has."""
        self._place_codes = array("i")
        self._form_codes = array("i")
        self._shape_codes = array("i")
        self._letter_codes = array("i")
        self._max, self._min, self._mean, self._norm = array("d"), array("d"), array("d"), array("d")
        """The statistics; 0.0 where the letters say that there is none."""
        self._sparse: dict[str, dict[int, Any]] = {
            name: {}
            for name in ("max_int", "min_int", "value", "digest", "data_name", "content", "content_problem", "extra")
        }
        self._wide_rows = array("i")
        """The rows that have wide statistics, in their order."""
        self._wides: list[Any] = []
        """The wide statistics of these rows, six each."""

    def __len__(self) -> int:
        """Rows collected since the last batch was taken."""
        return len(self._place_codes)

    @property
    def first_tensor_type(self) -> str | None:
        """The type of the first tensor leaf."""
        return next((form.type for form in self._forms if form.kind == "tensor"), None)

    @property
    def next_row(self) -> int:
        """The row that the next leaf gets."""
        return self._taken + len(self._place_codes)

    def add(self, seq: int, op: str, kind: str, body: Any) -> str | None:
        """Collect the leaves of the entry `op`; return its empty containers as JSON (`ops.empties`).

        Raises DumpError if the entry is not laid out as dump.json's entries are.
        """
        self._op, self._empties = op, []
        before = len(self._place_codes)
        try:
            if kind == "parameters_grad":
                self._add_gradients(body)
            elif kind in self._bare:
                self._walk(body, self._bare[kind])
            else:
                for section, root in self._roots.items():
                    if section in body:
                        self._walk(body[section], root)
        except RecursionError:
            raise DumpError(f"{self._where}: {op} is nested too deep to be read") from None
        if len(self._place_codes) - before > MOST_LEAVES:
            raise self._too_many()
        self._ops.append(op)
        self._seqs.append(seq)
        self._rows.append(len(self._place_codes) - before)
        return f"[{', '.join(self._empties)}]" if self._empties else None

    def learner(self) -> Leaves:
        """Leaves apart from these that share their numbers of places, forms and shapes, so that `add_alike` takes them.

        They never ask for a content, and are never taken.
        """
        learner = copy(self)
        learner._content_of = lambda _: (None, None)
        learner.varying = array("i")
        learner._reset()
        return learner

    def sharing(self, where: str, part: str, content_of: ContentOf) -> Leaves:
        """Leaves of another dump file `where` that share these numbers of places, forms and shapes."""
        leaves = copy(self)
        leaves._where, leaves._part, leaves._content_of = where, part, content_of
        leaves._taken = 0
        leaves.varied = VariedRows(array("i"), array("i"), array("i"))
        leaves._reset()
        return leaves

    @property
    def can_be_shared(self) -> bool:
        """Whether other dumps may have these numbers of places: no slot has several, and there are not many."""
        return len(self._places) <= _MOST_SHARED and all(place.repeat == 0 for place in self._places)

    def statistics(self, rows: range) -> Iterator[tuple[float, ...]]:
        """Max, min, mean and norm of each of the last collected `rows`; 0.0 where there is none."""
        return zip(*(column[rows.start :] for column in (self._max, self._min, self._mean, self._norm)), strict=True)

    def pop_sparse(self) -> list[tuple[int, str, Any]]:
        """Take the rare values out of the collected rows: row, column, value."""
        popped = [(row, column, value) for column, found in self._sparse.items() for row, value in found.items()]
        sixes = zip(*[iter(self._wides)] * len(WIDE), strict=True)
        popped += [(row, "wide", six) for row, six in zip(self._wide_rows, sixes, strict=True)]
        for found in self._sparse.values():
            found.clear()
        self._wide_rows, self._wides = array("i"), []
        return popped

    def add_alike(
        self, seq: int, ops: Sequence[str], learner: Leaves, alike: Sequence[Alike], varying: Varying
    ) -> NDArray[np.int64]:
        """Collect the leaves of `ops`, from the number `seq` on, each of which has those that `alike` says.

        Returns the row of each op's first leaf.
        """
        import numpy as np

        lengths, learned = _expanded([one.rows for one in alike])
        begins = len(self) + np.cumsum(lengths) - lengths
        for name in _PER_LEAF:
            column = getattr(learner, name)
            getattr(self, name).frombytes(np.frombuffer(column, column.typecode)[learned].tobytes())
        self._ops += ops
        self._seqs.extend(range(seq, seq + len(ops)))
        self._rows.extend(lengths.tolist())
        self._vary(begins, learner, alike, varying)
        self._vary_texts(ops, begins.tolist(), alike, varying)
        return begins + self._taken

    def _vary(self, begins: NDArray[np.int64], learner: Leaves, alike: Sequence[Alike], varying: Varying) -> None:
        """Fill in the statistics of the leaves that were last collected, whose entries begin at the rows `begins`."""
        import numpy as np

        def rows_of(places: Sequence[range]) -> NDArray[np.int64]:
            each, learned = _expanded(places)
            leaves = np.array(learner.varying, dtype=np.int32)[learned]
            rows: NDArray[np.int64] = np.repeat(begins, each) + leaves
            return rows

        if varying.wides:
            rows = rows_of([one.wides for one in alike])
            self._wide_rows.extend(rows.tolist())
            self._wides += varying.wides
            self.varied.wides.extend((rows + self._taken).tolist())
        rows = rows_of([one.statistics for one in alike])
        self.varied.statistics.extend((rows + self._taken).tolist())
        if len(rows):
            numbers = varying.statistics if varying.is_floats else self._as_doubles(rows.tolist(), varying.statistics)
            values = np.array(numbers, dtype=np.float64).reshape(-1, 4)
            for position, column in enumerate((self._max, self._min, self._mean, self._norm)):
                np.frombuffer(column)[rows] = values[:, position]

    def _vary_texts(self, ops: Sequence[str], begins: Sequence[int], alike: Sequence[Alike], varying: Varying) -> None:
        """Fill in the rare values, digests and file names."""
        sparse, first_file = self._sparse, 0
        digests, values = iter(varying.digests), iter(varying.values)
        for op, begin, one in zip(ops, begins, alike, strict=True):
            for leaf, column, value in one.sparse:
                sparse[column][begin + leaf] = value
            for leaf in one.digests:
                sparse["digest"][begin + leaf] = next(digests)
            for leaf in one.values:
                sparse["value"][begin + leaf] = next(values)
                self.varied.values.append(begin + leaf + self._taken)
            if one.files:
                self._op = op
                for leaf, number in one.files:
                    place = self._places[self._place_codes[begin + leaf]]
                    self._add_content(varying.files[first_file + number], begin + leaf, place, None)
                first_file += len(one.files)

    def _as_doubles(self, rows: Sequence[int], numbers: Sequence[Any]) -> list[float]:
        """The statistics of `rows`, four each, as doubles; notes of which type they were."""
        doubles: list[float] = []
        fours = zip(numbers[::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True)
        for row, four in zip(rows, fours, strict=True):
            if four[0].__class__ is four[1].__class__ is four[2].__class__ is four[3].__class__ is float:
                doubles += four
                continue
            letters, found, _ = self._odd_statistics(four, row, self._places[self._place_codes[row]])
            self._letter_codes[row] = self._letters[letters]
            doubles += found
        return doubles

    def take(self) -> pa.RecordBatch:
        """The rows collected so far as a batch of the table tensors; the collection begins anew.

        Texts that repeat are Arrow dictionaries.
        """
        import numpy as np
        import pyarrow as pa

        schema = arrow_schema("tensors")
        length = len(self)
        places, forms = np.array(self._place_codes), np.array(self._form_codes)
        letters = np.array(self._letter_codes)
        seen: list[_Form] = list(self._forms)
        ops = np.repeat(np.arange(len(self._ops), dtype=np.int32), self._rows)
        columns = {
            "row": fixed(np.arange(self._taken, self._taken + length, dtype=np.int32), pa.int32()),
            "seq": fixed(np.repeat(np.array(self._seqs), self._rows), pa.int32()),
            "part": texts([self._part], np.zeros(length, dtype=np.int32)),
            "op": texts(self._ops, ops),
            "name": column_of(self._names(ops), pa.string()),
            "repeat": numbers([place.repeat for place in self._places], places, schema.field("repeat").type),
            "path": texts([f"[{place.path[1:]}]" for place in self._places], places),
            "shape": lists(self._shapes, np.array(self._shape_codes), schema.field("shape").type),
            "stat_types": texts(self._letters, letters),
            "requires_grad": numbers([form.requires_grad for form in seen], forms, schema.field("requires_grad").type),
        }
        for column in ("slot", "role", "section"):
            columns[column] = texts([getattr(place, column) for place in self._places], places)
        for column in ("kind", "type", "dtype", "fields"):
            columns[column] = texts([getattr(form, column) for form in seen], forms)
        for position, column in enumerate(("max", "min", "mean", "norm")):
            numbered = [of_row is not None and of_row[position] not in _NO_NUMBER for of_row in self._letters]
            present = np.array(numbered, dtype=bool)[letters]
            columns[column] = fixed(np.array(getattr(self, f"_{column}")), pa.float64(), present)
        for column, found in self._sparse.items():
            columns[column] = sparse(found, length, schema.field(column).type)
        for position, column in enumerate(WIDE):
            columns[column] = placed(
                self._wides[position :: len(WIDE)], self._wide_rows, length, schema.field(column).type
            )
        self._taken += length
        self._reset()
        return pa.record_batch([columns[name] for name in schema.names], names=schema.names)

    def _names(self, ops: NDArray[np.int32]) -> list[str]:
        """The name of each row, whose ops are those of the numbers `ops`."""
        ends = [f".{place.slot}" if place.slot else "" for place in self._places]
        named = zip(map(self._ops.__getitem__, ops.tolist()), map(ends.__getitem__, self._place_codes), strict=True)
        return [op + end for op, end in named]

    def count(self, column: str) -> int:
        """How many of the collected rows have a value in the sparse column `column`."""
        return len(self._sparse[column])

    # ---- walking ------------------------------------------------------------------------------------------

    def _child(self, place: _Place, key: int | str, slot: str | None = None) -> _Place:
        if place.depth >= DEEPEST_VALUE:
            raise DumpError(f"{self._where}: {self._op} is nested more than {DEEPEST_VALUE} levels deep")
        if slot is None:
            slot = f"{place.slot}.{key}" if place.slot else str(key)
        path = f"{place.path},{json.dumps(key)}"
        if next(self._made) > MOST_PLACES:
            raise DumpError(f"{self._where}: leaves sit at more than {MOST_PLACES} places; it is not a dump")
        child = place.children[key] = _Place(place.role, place.section, slot, path, place.depth + 1)
        return child

    def _number(self, place: _Place) -> int:
        """Number a place that has its first leaf. Its slot may be that of another place: a key may hold dots."""
        place.code = len(self._places)
        self._places.append(place)
        is_backward = place.section == "input"  # arguments and incoming gradients never meet in one entry
        place.repeat = self._slots[place.role, is_backward, place.slot]
        self._slots[place.role, is_backward, place.slot] += 1
        return place.code

    def _walk(self, value: Any, place: _Place) -> None:
        if value.__class__ is dict:
            keys = tuple(value)
            if keys == _PLAIN and value["type"].__class__ is str:  # most leaves; _object would come to the same
                inexact = self._add_statistics(place, keys, *value.values())
                if inexact:
                    self._sparse["extra"][len(self) - 1] = json.dumps(inexact)
            else:
                self._object(value, keys, place)
        elif value.__class__ is list:
            if not value:
                self._add_empty(place, "[]")
            if len(value) > MOST_LEAVES:
                raise self._too_many()
            for index, item in enumerate(value):
                self._walk(item, place.children.get(index) or self._child(place, index))
        elif value is None:
            self._add_value(place, self._forms[_NULL], None)
        else:  # a bare number or text: no release writes one, but it is a value all the same
            text = value if value.__class__ is str else _text(value)
            form = _Form("scalar", value.__class__.__name__, None, None, None)
            self._add_value(place, self._forms[form], text)

    def _object(self, value: dict[str, Any], keys: tuple[str, ...], place: _Place) -> None:
        if value.get("type").__class__ is str:
            self._leaf(value, keys, place)
        elif value.get("class_type").__class__ is str and value.get("tensor").__class__ is dict:
            self._point_to_point(value, place)
        elif value:
            if len(value) > MOST_LEAVES:
                raise self._too_many()
            for key, item in value.items():
                self._walk(item, place.children.get(key) or self._child(place, key))
        else:
            self._add_empty(place, "{}")

    def _add_gradients(self, body: dict[str, Any]) -> None:
        for parameter, value in body.items():
            place = self._gradients.children.get(parameter) or self._child(self._gradients, parameter, parameter)
            if value.__class__ is list and value:
                for index, item in enumerate(value):  # a list of one leaf; its index is not part of the name
                    child = place.children.get(index) or self._child(place, index, place.slot)
                    self._walk(item, child)
            else:
                self._walk(value, place)

    def _add_empty(self, place: _Place, sign: str) -> None:
        text = self._empty_texts.get((place, sign))
        if text is None:
            path = [place.section, *json.loads(f"[{place.path[1:]}]"), sign]
            text = self._empty_texts[place, sign] = json.dumps(path)
        self._empties.append(text)

    # ---- leaves -------------------------------------------------------------------------------------------

    def _leaf(self, leaf: dict[str, Any], keys: tuple[str, ...], place: _Place) -> None:
        if type(leaf.get("wide")) is tuple:  # of our own collecting; JSON has no such value
            self._add_wide(leaf.pop("wide"))
            self._walk(leaf, place)
            return
        reference = None
        if hasattr(leaf.get("content"), "offset"):  # a TensorReference of the reader; JSON has no such value
            reference = leaf.pop("content")
            keys = tuple(leaf)
        is_tensor = "dtype" in leaf and "shape" in leaf
        others = self._others.get(keys)
        if others is None:
            known = _TENSOR_FIELDS if is_tensor else ("type", "value")
            others = self._others[keys] = tuple(key for key in keys if key not in known)
        extra = {key: leaf[key] for key in others} if others else None
        if is_tensor:
            self._add_tensor(leaf, leaf["type"], keys, extra, place, reference)
        else:
            self._other_leaf(leaf, keys, extra, place)

    def _point_to_point(self, holder: dict[str, Any], place: _Place) -> None:
        """A P2POp: the fields of its tensor, and beside them op, peer, tag and group_id."""
        leaf = holder["tensor"]
        if "dtype" not in leaf or "shape" not in leaf:
            raise self._wrong(place, "a P2POp without a tensor")
        if type(leaf.get("wide")) is tuple:
            self._add_wide(leaf.pop("wide"))
        extra = {key: value for key, value in holder.items() if key not in ("tensor", "class_type")}
        inner = {key: value for key, value in leaf.items() if key not in _TENSOR_FIELDS}
        extra["tensor"] = {"fields": " ".join(leaf), "type": leaf.get("type"), **inner}
        self._add_tensor(leaf, holder["class_type"], tuple(holder), extra, place)

    def _add_tensor(
        self, leaf: dict[str, Any], kind: str, keys: tuple[str, ...], extra: dict[str, Any] | None, place: _Place,
        reference: TensorReference | None = None,
    ) -> None:  # fmt: skip
        get = leaf.get
        row = len(self._place_codes)
        statistics = (get("Max", _ABSENT), get("Min", _ABSENT), get("Mean", _ABSENT), get("Norm", _ABSENT))
        digest = get("md5")
        is_value = digest.__class__ in _NUMBERS and leaf["shape"] == [] and statistics == _NO_STATISTICS
        if is_value:  # the xor mode has the value of a 0-d tensor in place of a digest
            statistics = (digest,) * 4
        inexact = self._add_statistics(
            place, keys, kind, leaf["dtype"], leaf["shape"], *statistics, get("requires_grad")
        )
        if is_value:
            inexact, digest = {"md5": digest} if inexact else {}, None
        if inexact:
            extra = (extra or {}) | inexact
        if digest is not None:
            if digest.__class__ is not str:
                extra = (extra or {}) | {"md5": digest}
                digest = _text(digest)
            self._sparse["digest"][row] = digest
        data_name = get("data_name")
        if data_name is not None:
            self._add_content(data_name, row, place, reference)
        if extra:
            self._sparse["extra"][row] = self._text_of(extra)

    def _add_statistics(
        self, place: _Place, keys: tuple[str, ...], kind: str, dtype: Any, shape: Any,
        maximum: Any, minimum: Any, mean: Any, norm: Any, requires_grad: Any,
    ) -> dict[str, Any] | None:  # fmt: skip
        """Collect a tensor row. Returns the statistics that a double or int64 cannot hold, if there are any."""
        try:
            form = self._form_of.get((kind, dtype, requires_grad, keys))
            shape_code = self._shapes.get(tuple(shape))
        except TypeError:
            form = shape_code = None
        if form is None:
            form = self._new_tensor_form(kind, dtype, requires_grad, keys, place)
        if shape_code is None:
            shape_code = self._new_shape(shape, place)
        letters, inexact = "ffff", None
        if not maximum.__class__ is minimum.__class__ is mean.__class__ is norm.__class__ is float:
            statistics = (maximum, minimum, mean, norm)
            row = len(self._place_codes)
            letters, (maximum, minimum, mean, norm), inexact = self._odd_statistics(statistics, row, place)
        self._max.append(maximum)
        self._min.append(minimum)
        self._mean.append(mean)
        self._norm.append(norm)
        self._place_codes.append(place.code if place.code >= 0 else self._number(place))
        self._form_codes.append(form)
        self._shape_codes.append(shape_code)
        self._letter_codes.append(self._letters[letters])
        return inexact

    def _new_tensor_form(self, kind: str, dtype: Any, requires_grad: Any, keys: tuple[str, ...], place: _Place) -> int:
        if dtype is not None and dtype.__class__ is not str:
            raise self._wrong(place, "a dtype that is not text")
        if requires_grad is not None and requires_grad.__class__ is not bool:
            raise self._wrong(place, "a requires_grad that is neither true nor false")
        code = self._forms[_Form("tensor", kind, dtype, requires_grad, " ".join(keys))]
        self._form_of[kind, dtype, requires_grad, keys] = code
        return code

    def _new_shape(self, shape: Any, place: _Place) -> int:
        if shape is None:  # not recorded, and the file cannot be read
            return self._shapes[None]
        if shape.__class__ is not list or any(size.__class__ is not int or size not in _INT64 for size in shape):
            raise self._wrong(place, "a shape that is not a list of integers")
        return self._shapes[tuple(shape)]

    def _odd_statistics(
        self, statistics: tuple[Any, ...], row: int, place: _Place
    ) -> tuple[str, list[float], dict[str, Any]]:
        """Letters, doubles, and the values that a double or int64 cannot hold, for statistics not all floats."""
        try:
            letters = "".join([_LETTERS[statistic.__class__] for statistic in statistics])
        except KeyError:
            raise self._wrong(place, "a statistic that is neither a number nor null") from None
        inexact = {}
        for name, column, value in zip(_STATISTICS, ("max_int", "min_int", "", ""), statistics, strict=True):
            if value.__class__ is int and column and value in _INT64:
                self._sparse[column][row] = value
            elif value.__class__ is str or (value.__class__ is int and value not in EXACT_IN_DOUBLE):
                inexact[name] = value
        return letters, [self._as_double(statistic, place) for statistic in statistics], inexact

    def _as_double(self, statistic: Any, place: _Place) -> float:
        if statistic is None or statistic is _ABSENT:
            return 0.0
        try:
            return float(statistic)
        except (ValueError, OverflowError):
            raise self._wrong(place, f"the statistic {statistic!r:.40}, which is not a number") from None

    def _add_content(self, data_name: Any, row: int, place: _Place, reference: TensorReference | None) -> None:
        if data_name.__class__ is not str or not data_name or data_name in (".", ".."):
            raise self._wrong(place, f"the data_name {data_name!r:.80}, which is not a file name")
        if "/" in data_name or "\\" in data_name or "\0" in data_name:
            raise self._wrong(place, f"the data_name {data_name!r:.80}, which leaves the folder of the tensors")
        self._sparse["data_name"][row] = data_name
        content, problem = self._content_of(reference or data_name)
        if content is not None:
            self._sparse["content"][row] = content
        if problem is not None:
            self._sparse["content_problem"][row] = problem

    def _add_wide(self, six: tuple[Any, ...]) -> None:
        """Collect the wide statistics of the next row."""
        self._wide_rows.append(len(self))
        self._wides += six

    def _other_leaf(
        self, leaf: dict[str, Any], keys: tuple[str, ...], extra: dict[str, Any] | None, place: _Place
    ) -> None:
        name = leaf["type"]
        form = self._form_of.get((name, keys))
        if form is None:
            kind = "scalar" if name.startswith(_SCALAR_PREFIXES) and "." not in name else "object"
            form = self._form_of[name, keys] = self._forms[_Form(kind, name, None, None, " ".join(keys))]
        value = leaf.get("value", _ABSENT)
        if value is _ABSENT:
            text = None
        else:
            is_text = value.__class__ is str
            text = value if is_text else _text(value)
            reads_as_text = name == "str" or (is_text and not _is_json(text))
            if is_text != reads_as_text:  # else its type is lost
                extra = (extra or {}) | {"value": value}
        self._add_value(place, form, text)
        if extra:
            self._sparse["extra"][len(self) - 1] = self._text_of(extra)

    def _add_value(self, place: _Place, form: int, value: str | None) -> None:
        if value is not None:
            self._sparse["value"][len(self)] = value
        self._max.append(0.0)
        self._min.append(0.0)
        self._mean.append(0.0)
        self._norm.append(0.0)
        self._place_codes.append(place.code if place.code >= 0 else self._number(place))
        self._form_codes.append(form)
        self._shape_codes.append(self._shapes[None])
        self._letter_codes.append(self._letters[None])

    def _text_of(self, extra: dict[str, Any]) -> str:
        """`extra` as JSON text. A process group and the like is written again and again; so its text is kept."""
        shown = repr(extra)
        text = self._extra_texts.get(shown)
        if text is None:
            text = json.dumps(extra)
            if len(self._extra_texts) < _KEPT_TEXTS:
                self._extra_texts[shown] = text
        return text

    def _too_many(self) -> DumpError:
        return DumpError(f"{self._where}: {self._op} has more than {MOST_LEAVES} leaves; it is not a dump")

    def _wrong(self, place: _Place, what: str) -> DumpError:
        name = f"{self._op}.{place.slot}".removesuffix(".")
        return DumpError(f"{self._where}: {name} has {what}; the dump is damaged or not msprobe's")


class Renumbering:
    """Makes the rows of dumps that differ from one in their numbers only, without looking at their leaves again."""

    def __init__(self, batch: pa.RecordBatch, varied: VariedRows) -> None:
        """`batch` has all leaves of the one dump, the first one in row 0, and its rows `varied` have the numbers."""
        import numpy as np

        self._batch, self._varied = batch, varied
        letters = batch.column("stat_types").to_pylist()
        self._types = [_RENUMBERED.get(letter, object) for row in varied.statistics for letter in letters[row] or ""]
        self._rows = np.array(varied.statistics, dtype=np.int64)
        self._wide_rows = np.array(varied.wides, dtype=np.int64)
        self._integers = {
            column: (_present_in(batch.column(column)), self._integers_of(position))
            for position, column in enumerate(("max_int", "min_int"))
        }
        """The integers in two columns by row, and where those that vary are: row, and place among the numbers."""

    def _integers_of(self, position: int) -> list[tuple[int, int]]:
        types = self._types[position::4]
        return [(row, place) for place, row in enumerate(self._varied.statistics) if types[place] is int]

    def batch(self, varying: Varying) -> pa.RecordBatch | None:
        """Return the rows with other numbers. None if there are more or fewer of them, or some of another type."""
        import pyarrow as pa

        numbers = (len(self._varied.wides) * len(WIDE), len(self._varied.values))
        if (len(varying.wides), len(varying.values)) != numbers or [*map(type, varying.statistics)] != self._types:
            return None
        columns = dict(zip(self._batch.schema.names, self._batch.columns, strict=True))
        of_leaves = [varying.statistics[position::4] for position in range(4)]
        for column, found in zip(("max", "min", "mean", "norm"), of_leaves, strict=True):
            columns[column] = refilled(columns[column], self._rows, found)
        if not varying.is_floats:
            for (column, (present, places)), found in zip(self._integers.items(), of_leaves, strict=False):
                whole = present | {row: found[place] for row, place in places}
                columns[column] = placed([*whole.values()], [*whole], len(self._batch), columns[column].type)
        if self._varied.wides:
            for position, column in enumerate(WIDE):
                found = varying.wides[position :: len(WIDE)]
                columns[column] = placed(found, self._wide_rows, len(self._batch), columns[column].type)
        if self._varied.values:
            texts = dict(zip(self._varied.values, varying.values, strict=True))
            columns["value"] = sparse(_present_in(columns["value"]) | texts, len(self._batch), columns["value"].type)
        return pa.record_batch(list(columns.values()), names=list(columns))


def _present_in(column: pa.Array) -> dict[int, Any]:
    """Return the values of a column by their rows."""
    return {row: value for row, value in enumerate(column.to_pylist()) if value is not None}


def _expanded(ranges: Sequence[range]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The length of each range, and all their numbers, one range after the other."""
    import numpy as np

    starts, lengths = np.array([one.start for one in ranges]), np.array([*map(len, ranges)])
    ends = lengths.cumsum()
    return lengths, np.arange(ends[-1]) + (starts - ends + lengths).repeat(lengths)


def _text(value: Any) -> str:
    """`value` as JSON text; most values of a dump are integers, which need no encoder."""
    return str(value) if value.__class__ is int else json.dumps(value)


@lru_cache(maxsize=1024)
def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
