"""Reads the result tables of other tools, csv and xlsx, with the headers and cells that they have.

Which kinds there are, and by which headers a file is known, is said in schemas/data/foreign_tables.yaml. A column
becomes numbers only where no digit of any cell changes by it. It knows nothing of the lake.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.errors import DumpError
from lakeprobe.readers import table_files
from lakeprobe.readers.source import Listing, numbered
from lakeprobe.readers.table_files import ENDINGS, MOST_COLUMNS, Row
from lakeprobe.shown import as_text

if TYPE_CHECKING:
    import pyarrow as pa

_STEM = r"(?P<name>.+?)(?:_rank(?P<rank>\d{1,9})(?:-rank\d{1,9})?)?(?:_(?P<time>\d{14}))?(?:_part_(?P<part>\d{1,9}))?"
_CALLED_A_RESULT = re.compile(
    r"(debug_)?compare_result|accuracy_checking|api_precision_compare|multi_ranks_compare_merge|free_benchmark|grad_summary"
)
"""The names of files that must be readable. Other damaged csv files and workbooks are ignored."""

_STEP_FOLDER = numbered("step", "_?")
_RANK_FOLDER = re.compile(r"rank_?(\d{1,9})|[\w-]{0,40}-rank(\d{1,9})-.*")
"""rank3 (compare, grad_probe), rank_3 (monitor_v2), and Dec03_21-34-40-rank3-x1y2 (monitor)."""

_LONGEST_NAME = 190
_BATCH_ROWS, _BATCH_CHARACTERS = 20_480, 1 << 24

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?|nan|-?inf")
_LONGEST_NUMBER = 40


class Kind(Struct, frozen=True):
    """A kind of result table: what its headers are, and how its files are called. schemas/data/foreign_tables.yaml."""

    kind: str
    of: str
    begins: tuple[str, ...]
    ends: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    only: bool = False
    rest: str = ".*"
    stem: str = _STEM
    texts: tuple[str, ...] = ()
    ragged: bool = False
    sheets: bool = False

    def has(self, headers: Sequence[str]) -> bool:
        """Whether these are the headers of this kind."""
        first, last = len(self.begins), len(headers) - len(self.ends)
        return (
            tuple(headers[:first]) == self.begins
            and (len(headers) == first if self.only else last >= first)
            and tuple(headers[last:]) == self.ends
            and (not self.any_of or not set(self.any_of).isdisjoint(headers))
            and all(re.fullmatch(self.rest, header, re.DOTALL) for header in headers[first:])
        )


class TableFile(Struct, frozen=True):
    """A file with a result table: its kind and headers, and what its name and its folders say of its rows.

    `root` is its folder without folders of a step or rank; `name` is its name without step, rank, time and part.
    `sheets` are the sheets of a workbook that have the table, `left_out` the others.
    """

    path: Path
    kind: Kind
    headers: tuple[str, ...]
    root: Path
    name: str
    time: str = ""
    step: int | None = None
    rank: int | None = None
    part: int = 0
    sheets: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class ForeignTable(Struct, frozen=True):
    """A result table: the files that it is in, which differ in step, rank or part."""

    name: str
    files: tuple[TableFile, ...]

    @property
    def kind(self) -> Kind:
        """The kind of table."""
        return self.files[0].kind

    @property
    def left_out(self) -> list[str]:
        """The sheets that do not belong to the table."""
        return [f"{file.path.name}: sheet {sheet}" for file in self.files for sheet in file.left_out]


@cache
def kinds() -> tuple[Kind, ...]:
    """The kinds of result tables, in the order in which a file is held against them."""
    described = resources.read_yaml(resources.folder("schemas") / "data" / "foreign_tables.yaml")
    return tuple(_kind(**kind) for kind in described["kinds"])


def _kind(**described: Any) -> Kind:
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in described.items()
    }
    return Kind(**fields)


# ---- which files


def find(listing: Listing) -> list[TableFile]:
    """The files in a folder that have a result table, judged by their headers.

    Raises DumpError for a file that is called a result and cannot be opened.
    """
    found = []
    for name in listing.files:
        if name.endswith(ENDINGS):
            try:
                file = _recognised(listing.folder / name)
            except DumpError:
                if _CALLED_A_RESULT.match(name):
                    raise
            else:
                found += [file] if file else []
    return found


def _recognised(path: Path) -> TableFile | None:
    heads = table_files.heads(path)
    for headers in (headers for headers in heads.values() if len(headers) <= MOST_COLUMNS):
        kind = next((kind for kind in kinds() if kind.has(headers)), None)
        if kind:
            sheets = tuple(sheet for sheet, others in heads.items() if others == headers)
            left_out = tuple(sheet for sheet, others in heads.items() if others and others != headers)
            return _placed(path, kind, headers, sheets, left_out)
    return None


def _placed(
    path: Path, kind: Kind, headers: tuple[str, ...], sheets: tuple[str, ...], left_out: tuple[str, ...]
) -> TableFile:
    stem = _stem(path)
    named = re.fullmatch(kind.stem, stem) or re.fullmatch(_STEM, stem)
    parts = named.groupdict() if named else {"name": stem}
    root, step, rank = _place(path.parent, _number(parts.get("step")), _number(parts.get("rank")))
    time, part = parts.get("time") or "", _number(parts.get("part")) or 0
    return TableFile(path, kind, headers, root, parts["name"], time, step, rank, part, sheets, left_out)


def _stem(path: Path) -> str:
    return next(path.name.removesuffix(ending) for ending in ENDINGS if path.name.endswith(ending))


def _number(digits: str | None) -> int | None:
    return int(digits) if digits else None


def _place(folder: Path, step: int | None, rank: int | None) -> tuple[Path, int | None, int | None]:
    """`folder` without its folders of a rank and a step, and the step and rank that they or the file's name say."""
    if match := _RANK_FOLDER.fullmatch(folder.name):
        folder, rank = folder.parent, int(match[1] or match[2]) if rank is None else rank
    if match := _STEP_FOLDER.fullmatch(folder.name):
        folder, step = folder.parent, int(match[1]) if step is None else step
    return folder, step, rank


# ---- which of them are one table


def gather(files: Iterable[TableFile], run: str | None = None) -> list[ForeignTable]:
    """The tables that `files` are, each with a name of its own; `run` is put before the names if it is given.

    Files of one folder are one table where only their step, rank, part and time differ: the ranks of one comparison
    are asked for together more often than apart, and the columns step, rank and file tell them apart. A second file
    of a step, rank and part begins another table: a later comparison in the same folder.

    A table of one file has that file's name; one of several the name that is left, and the first file's time. Where
    two have the same name, that of the folder is put before it, and of its parents as far as needed.
    """
    tables: list[dict[tuple[int, int, int], TableFile]] = []
    last: dict[tuple[object, ...], dict[tuple[int, int, int], TableFile]] = {}
    for file in sorted(files, key=_order):
        key, place = (file.root, file.kind.kind, file.name, file.headers), _place_order(file)
        if place in last.get(key, (place,)):
            last[key] = {}
            tables.append(last[key])
        last[key][place] = file
    together = [tuple(table[place] for place in sorted(table)) for table in tables]
    return [ForeignTable(name, table) for name, table in zip(_names(together, run), together, strict=True)]


def _order(file: TableFile) -> tuple[object, ...]:
    return file.root, file.name, file.time, _place_order(file), file.path


def _place_order(file: TableFile) -> tuple[int, int, int]:
    return -1 if file.step is None else file.step, -1 if file.rank is None else file.rank, file.part


def _names(tables: Sequence[tuple[TableFile, ...]], run: str | None) -> list[str]:
    """A name for each table, unlike the others' in more than upper and lower case, as SQL wants it."""
    roots = [files[0].root for files in tables]
    own = _numbered([_own_name(files) for files in tables], roots)
    folders = [0] * len(tables)
    names = [_in_full(root, name, 0, run) for root, name in zip(roots, own, strict=True)]
    while deeper := [place for place in _clashing(names) if folders[place] < len(roots[place].parts)]:
        for place in deeper:
            folders[place] += 1
            names[place] = _in_full(roots[place], own[place], folders[place], run)
    return _numbered(names, [None] * len(names))


def _own_name(files: Sequence[TableFile]) -> str:
    first = min(files, key=lambda file: file.time)
    common = f"{first.name}_{first.time}" if first.time else first.name
    return common if len(files) > 1 else _stem(first.path)


def _in_full(root: Path, name: str, folders: int, run: str | None) -> str:
    """`name` after `run` and the last `folders` of the folders on the way to it."""
    above = [part for part in root.parts if part != root.anchor][-folders:] if folders else []
    whole = ".".join(_plain(part) for part in (*([] if run is None else [run]), *above, name))
    return whole[-_LONGEST_NAME:].lstrip(". -")


def _numbered(names: Sequence[str], scopes: Sequence[object]) -> list[str]:
    """`names`, those numbered that are there already in their scope."""
    seen: Counter[tuple[object, str]] = Counter()
    numbered = []
    for name, scope in zip(names, scopes, strict=True):
        seen[scope, name.lower()] += 1
        count = seen[scope, name.lower()]
        numbered.append(f"{name}_{count}" if count > 1 else name)
    return numbered


def _plain(part: str) -> str:
    """`part` with what a name in the lake may have (lakeprobe.lake.layout.check_name)."""
    return re.sub(r"[^\w.+ -]", "_", part).strip(". -") or "_"


def _clashing(names: Sequence[str]) -> list[int]:
    """The places of names that are there more than once."""
    counts = Counter(name.lower() for name in names)
    return [place for place, name in enumerate(names) if counts[name.lower()] > 1]


# ---- their rows


def read(table: ForeignTable) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns of a table and its rows, batch by batch. The files are read twice: for the types, and for the rows.

    Columns: file (its name); step and rank where its name or folders say them and no header does; sheet for kinds
    whose sheets differ; then the headers, a second one of the same name numbered, and what rows have beyond them.
    Types: BIGINT or DOUBLE where every cell that is not empty is such a number, written so that SQL shows the same
    digits; else VARCHAR. An empty cell is NULL.

    Raises DumpError for a file that is damaged, ends too early or has a row of another length.
    """
    import pyarrow as pa

    columns = _survey(table)
    leading = _leading(table)
    width = len(columns)
    headers = [*table.files[0].headers, *(f"column_{place + 1}" for place in range(len(table.files[0].headers), width))]
    names = _unique([*leading, *headers])
    types = [pa.int32() if name in ("step", "rank") else pa.string() for name in leading]
    types += [column.type() for column in columns]
    schema = pa.schema(list(zip(names, types, strict=True)))
    return schema, _batches(table, leading, schema)


def _leading(table: ForeignTable) -> list[str]:
    taken = {header.lower() for header in table.files[0].headers}
    columns = {
        "file": True,
        "step": any(file.step is not None for file in table.files) and "step" not in taken,
        "rank": any(file.rank is not None for file in table.files) and "rank" not in taken,
        "sheet": table.kind.sheets,
    }
    return [name for name, is_used in columns.items() if is_used]


def _unique(names: Sequence[str]) -> list[str]:
    """Return `names` with numbers added to repeated and empty ones. SQL ignores case."""
    unique: list[str] = []
    taken = {name.lower() for name in names}
    seen: set[str] = set()
    for place, name in enumerate(names):
        chosen, count = name, place + 1 if not name else 2
        while not chosen or chosen.lower() in seen or (chosen != name and chosen.lower() in taken):
            chosen, count = f"{name or 'column'}_{count}", count + 1
        seen.add(chosen.lower())
        unique.append(chosen)
    return unique


class _Column:
    """The types of the cells of a column so far."""

    __slots__ = ("_doubles", "_integers", "_seen")

    def __init__(self, text: bool) -> None:
        self._seen = False
        self._integers = self._doubles = not text

    def take(self, cells: Iterable[str | None]) -> None:
        """Look at some more cells."""
        if self._integers or self._doubles:
            filled = [cell for cell in cells if cell is not None]
            self._seen = self._seen or bool(filled)
            self._integers = self._integers and all(map(_is_integer, filled))
            self._doubles = self._doubles and (_are_as_shown(filled) or all(map(_is_double, filled)))

    def type(self) -> pa.DataType:
        """The type that holds all cells as they are."""
        import pyarrow as pa

        if self._seen and self._integers:
            return pa.int64()
        return pa.float64() if self._seen and self._doubles else pa.string()


def _is_integer(cell: str) -> bool:
    return _INTEGER.fullmatch(cell) is not None and -(2**63) <= int(cell) < 2**63


def _are_as_shown(cells: list[str]) -> bool:
    """Return whether all cells are doubles as Python shows them: a fast `_is_double` for many cells."""
    try:
        return list(map(repr, map(float, cells))) == cells
    except ValueError:
        return False


def _is_double(cell: str) -> bool:
    """Return whether Python shows the double nearest to `cell` with the same digits, up to trailing zeros."""
    if len(cell) > _LONGEST_NUMBER or not _NUMBER.fullmatch(cell):
        return False
    shown = repr(float(cell))
    return shown == cell or Decimal(shown) == Decimal(cell)


def _survey(table: ForeignTable) -> list[_Column]:
    """Return the types of the columns over all files."""
    headers = table.files[0].headers
    columns = [_Column(header in table.kind.texts) for header in headers]
    for file in table.files:
        for _, rows in _blocks(file):
            cells = list(zip_longest(*rows))
            columns += [_Column(False) for _ in range(len(columns), len(cells))]
            for column, these in zip(columns, cells, strict=False):
                column.take(these)
    return columns


def _batches(table: ForeignTable, leading: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    fields = list(schema)[len(leading) :]
    for file in table.files:
        for sheet, rows in _blocks(file):
            origin = {"file": as_text(file.path.name), "step": file.step, "rank": file.rank, "sheet": sheet}
            arrays = [
                pa.array([origin[name]] * len(rows), field.type) for name, field in zip(leading, schema, strict=False)
            ]
            cells = list(zip_longest(*rows))
            cells += [(None,) * len(rows)] * (len(fields) - len(cells))
            arrays += [
                pa.array(column, pa.string()).cast(field.type) for column, field in zip(cells, fields, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _blocks(file: TableFile) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of a file below its headers in blocks, each with its sheet. No block is empty."""
    for sheet, rows in table_files.sections(file.path, file.sheets, len(file.headers)):
        _check_headers(file, next(rows, []))
        block: list[Row] = []
        characters = 0
        for number, row in enumerate(rows, 2):
            if len(row) != len(file.headers) and (not file.kind.ragged or len(row) > MOST_COLUMNS):
                raise DumpError(
                    f"{file.path} row {number} has {len(row)} cells, not {len(file.headers)} as the headers; "
                    f"it is cut off or damaged: let the tool write it again"
                )
            block.append(row)
            characters += sum(map(len, filter(None, row)))
            if len(block) == _BATCH_ROWS or characters > _BATCH_CHARACTERS:
                yield sheet, block
                block, characters = [], 0
        if block:
            yield sheet, block


def _check_headers(file: TableFile, row: Row) -> None:
    if tuple(cell or "" for cell in row) != file.headers:
        raise DumpError(f"{file.path} changed while it was read; read it again when the tool is done")
