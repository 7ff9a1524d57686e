"""Gives every reader damaged and forged files, as many as there is time for. Each must be read or refused in one line.

    python tests/fuzz/readers.py SECONDS [READER...]      (make fuzz SECONDS=600)

Those that are named, or all, take turns, the one with the fewest inputs first; those that have had ENOUGH drop out.
.fuzz/tally.json adds up those of all runs; what a reader stumbles over is kept beside it. Seeds are small sound files;
damage cuts, doubles, replaces and inserts.

One input in some hundreds goes through all of the reader, the others through the part that reads what is damaged. What
does not depend on an input is done once for many: files stay open, and rows become Arrow together. If that fails, each
input is given again by itself.
"""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import random
import re
import resource
import secrets
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import torch
from openpyxl.styles.stylesheet import apply_stylesheet
from openpyxl.worksheet._read_only import ReadOnlyWorksheet

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "readers"), str(TESTS / "hostile"), str(TESTS / "compare")]
import test_acl  # noqa: E402
import test_foreign_tables  # noqa: E402
import test_kernel  # noqa: E402
from checkpoints import ckpt, distributed, safetensors  # noqa: E402
from corpus import pt  # noqa: E402
from test_damage import VALID  # noqa: E402

from lakeprobe.errors import LakeprobeError  # noqa: E402
from lakeprobe.layouts import layout_file  # noqa: E402
from lakeprobe.mapping import compare_json  # noqa: E402
from lakeprobe.mapping import files as mappings  # noqa: E402
from lakeprobe.readers import archive, foreign_tables, merge_config, mindspore_ir, result_tables, sheets, table_files  # noqa: E402
from lakeprobe.readers.foreign_tables import TableFile  # noqa: E402
from lakeprobe.readers.formats import FORMATS  # noqa: E402
from lakeprobe.readers.leaves import Leaves  # noqa: E402
from lakeprobe.readers.locate import locate  # noqa: E402
from lakeprobe.readers.source import Listing, Source  # noqa: E402
from lakeprobe.readers.tables import Tables  # noqa: E402
from lakeprobe.schema import arrow_schema  # noqa: E402
from lakeprobe.system.files import open_regular  # noqa: E402
from lakeprobe.tensors import TensorReference, content_hash, read_tensor  # noqa: E402
from lakeprobe.tensors.statistics import measure  # noqa: E402

KEPT = Path(".fuzz")
TALLY = KEPT / "tally.json"
ENOUGH = 1_000_000
"""Inputs that each reader should have had, over all runs."""
SECONDS_A_TURN = 60
SECONDS_EACH = 20
"""That one input may take."""
GROUP = 64
"""Inputs whose rows become Arrow together."""
WHOLE_EVERY = 4
"""Of so many groups the first input of one goes through all of the reader."""
BYTES = 3 << 30
"""That may be allocated: torch takes a third of it from the start, and another is DuckDB's, which hardly fills it."""
WORDS = (
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-Infinity", b"1e999", b"true", b"\n", b"\0", b"\xff",
    b"9" * 40, b"-1", b"4294967296", b"18446744073709551615", b'"data": {}', b"\\ud800", b"../", b"<x>", b"</x>", b"'",
    b"\r\n", b"\t", b"=", b"&a *a", b"!!python/object", b"\x80\x02", b"R.", b"K\x00", b"(", b")",
)  # fmt: skip
TOKEN = re.compile(rb'"[^"]*"|[\w.+-]+|\S')

Call = Callable[[], object]


@dataclass(frozen=True)
class Target:
    """A reader, the files that it is given, which one is damaged, and how it is called on their folder."""

    files: dict[str, bytes]
    damaged: str
    read: Callable[[Path], object]
    packed: Callable[[bytes], bytes] = bytes
    """What a damaged content is packed into, so that damage is also inside."""
    at_once: int = 1
    """How many damaged files lie side by side, where each is read for itself. `damaged` has a {} for their number."""
    part: Callable[[Path], Call] | None = None
    """What makes, from the sound files, the way to read the part that is damaged. PARTS has those of whole readers."""

    @property
    def names(self) -> list[str]:
        """The damaged files."""
        return [self.damaged.format(number) for number in range(self.at_once)]

    def quick(self, folder: Path) -> Call:
        """What reads the damaged part of the files in `folder`, which are sound by now."""
        way = self.part or PARTS.get(self.read)
        return way(folder) if way else partial(self.read, folder)


class Damage:
    """Damages copies of a sound `content`."""

    def __init__(self, content: bytes, choose: random.Random) -> None:
        self._content, self._choose = content, choose
        self._tokens = [match.span() for match in TOKEN.finditer(content)]

    def __call__(self) -> bytes:
        """A damaged copy. A third have one token in another's place: well-formed for the most part, but wrong."""
        if self._choose.random() < 0.33:
            (start, end), (other, last) = self._choose.choice(self._tokens), self._choose.choice(self._tokens)
            return self._content[:start] + self._content[other:last] + self._content[end:]
        return self._torn()

    def _torn(self) -> bytes:
        content, choose = self._content, self._choose
        for _ in range(choose.randint(1, 3)):
            start = choose.randint(0, len(content))
            end = min(len(content), start + choose.choice((0, 1, 1, 2, 8, 40)))
            how = choose.random()
            if how < 0.3:
                instead = choose.choice(WORDS)
            elif how < 0.5:
                instead = choose.randbytes(choose.randint(1, 4))
            elif how < 0.7:
                other = choose.randint(0, len(content))
                instead = content[other : other + choose.choice((1, 8, 60, 400))]
            elif how < 0.8:
                instead = content[start:end] * choose.choice((2, 3, 50))
            elif how < 0.85:
                return content[:start]
            else:
                instead = b""
            content = content[:start] + instead + content[end:]
        return content


# ---- readers ----------------------------------------------------------------------------------------------


def read_dumps(folder: Path) -> None:
    for run in locate(folder).runs:
        for source in run.sources:
            read_source(source)


Content = tuple[str | None, str | None]


def content_of(folder: Path | None, tensor: str | TensorReference) -> Content:
    try:
        return content_hash(read_tensor((folder or Path()) / tensor) if isinstance(tensor, str) else tensor), None
    except LakeprobeError as error:
        return None, one_line(str(error))


def read_source(source: Source, content: Callable[[Path | None, Any], Content] = content_of) -> None:
    contents = partial(content, source.tensors)
    summary = FORMATS[source.format].read(source, contents, lambda table, batch: batch.validate(full=True))
    for note in summary.notes:
        one_line(note)


def one_line(message: str) -> str:
    if "\n" in message:
        raise AssertionError(f"more than one line: {message!r}")
    return message


def sources_read(folder: Path, content: Callable[[Path | None, Any], Content] = content_of) -> Call:
    """Reads the sources that are found when all is sound: to look for a small dump takes longer than to read it."""
    sources = [source for run in locate(folder).runs for source in run.sources]

    def read() -> None:
        for source in sources:
            read_source(source, content)

    return read


def described(folder: Path) -> Call:
    """Reads the sources whose tensors are not damaged, and each of these once."""
    return sources_read(folder, lru_cache(1024)(content_of))


def read_one_tensor(folder: Path) -> None:
    (path,) = folder.iterdir()
    reference = read_tensor(path)
    content_hash(reference)
    measure(reference)


def read_tables(folder: Path) -> None:
    read_gathered(locate(folder).tables)


def read_gathered(files: Iterable[TableFile]) -> None:
    for table in foreign_tables.gather(files):
        _, batches = foreign_tables.read(table)
        for batch in batches:
            batch.validate(full=True)


def tables_read(folder: Path) -> Call:
    """Reads the result tables of a folder whose listing is known."""
    listing = Listing(folder, sorted(path.name for path in folder.iterdir()), [], folder)
    return lambda: read_gathered(foreign_tables.find(listing))


def read_results(folder: Path) -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        result_texts(connection, folder)


class Rows:
    """A connection that answers with rows, and plans a statement once where a table of Arrow is planned twice."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})

    def sql(self, statement: str) -> Any:
        self._rows = self._connection.execute(statement).fetchall()
        return self

    def to_arrow_table(self) -> Any:
        return self

    def rename_columns(self, headers: Sequence[str]) -> pa.Table:
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(headers)
        return pa.table(
            {header: pa.array(column, pa.string()) for header, column in zip(headers, columns, strict=True)}
        )


def results_read(folder: Path) -> Call:
    """Reads msprobe's result files with one connection for all: to open one takes longer than to read a file."""
    return partial(result_texts, Rows(), folder)


def result_texts(connection: Any, folder: Path) -> None:
    for file in result_tables.find([folder]):
        result_tables.texts(connection, file, file.headers)


def read_archive(folder: Path) -> None:
    (path,) = folder.iterdir()
    if archive.is_archive(path):
        with archive.opened(path) as top:
            read_dumps(top)


def read_mapping(folder: Path) -> None:
    mappings.read(cell=folder / "m.yaml", data=folder / "m.yaml")


def read_compare_json(folder: Path) -> None:
    compare_json.read(folder / "compare.json")


def read_layout(folder: Path) -> None:
    layout_file.read(folder / "m.yaml")


def read_merge_config(folder: Path) -> None:
    merge_config.read_config(folder / "m.yaml")


def read_ir(folder: Path) -> None:
    mindspore_ir.frames_by_kernel([folder / "g.ir"])


def sheet_read(folder: Path) -> Call:
    """Reads a sheet of a workbook that is open: openpyxl takes many times longer to set up the rest."""
    (path,) = folder.iterdir()
    with sheets.opened_workbook(path) as workbook:
        shared = workbook.worksheets[0]._shared_strings

    def read() -> None:
        with sheets.readable(path), path.open("rb") as file:
            workbook._archive = sheets._BoundedZip(path, file)
            sheet = ReadOnlyWorksheet(workbook, "S", SHEET, shared)
            headers = table_files._head(sheet)
            list(table_files._sheet_rows(path, sheet, len(headers)))

    return read


def styles_read(folder: Path) -> Call:
    """Reads the styles of a workbook that is open."""
    (path,) = folder.iterdir()
    with sheets.opened_workbook(path) as workbook:
        pass

    def read() -> None:
        with sheets.readable(path), sheets.no_warnings(), path.open("rb") as file:
            apply_stylesheet(sheets._BoundedZip(path, file), workbook)

    return read


def workbook_read(folder: Path) -> Call:
    """Reads the parts of a workbook. openpyxl is asked where one differs: it takes most of the time."""
    (path,) = folder.iterdir()
    whole = tables_read(folder)

    def parts() -> list[tuple[str, bytes]]:
        with sheets.readable(path), open_regular(path) as file:
            workbook = sheets._BoundedZip(path, file)
            return [(part.filename, workbook.read(part)) for part in workbook.infolist()]

    sound = parts()

    def read() -> None:
        if parts() != sound:
            whole()

    return read


def archive_read(folder: Path) -> Call:
    """Reads all members of an archive, unpacked into one folder, without looking for dumps among them."""
    (path,) = folder.iterdir()
    unpacked = folder.parent / "unpacked"
    unpacked.mkdir()

    @contextmanager
    def same_folder(prefix: str) -> Iterator[str]:
        yield str(unpacked)

    def read() -> None:
        if archive.is_archive(path):
            with patch.object(tempfile, "TemporaryDirectory", same_folder), archive.opened(path) as top:
                folders = [top]
                for inner in folders:
                    names = archive.names_in(inner, top)
                    folders += [inner / name for name in names.folders]
                    for name in names.files:
                        with open_regular(inner / name) as file:
                            file.read()

    return read


PARTS = {read_archive: archive_read, read_dumps: sources_read, read_tables: tables_read, read_results: results_read}


# ---- seeds ------------------------------------------------------------------------------------------------


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(12, dtype=">f4").reshape(3, 4).T)
    return stream.getvalue()


def _pt() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        pt(Path(folder) / "x.pt", (1, 1), (1, 1))
        return (Path(folder) / "x.pt").read_bytes()


def _checkpoint(name: str, write: Callable[[Path, dict[str, torch.Tensor]], object]) -> bytes:
    """The file `name` of a checkpoint of two parameters that `write` writes."""
    tensors = {"a.weight": torch.ones(2, 3), "a.bias": torch.zeros(2, dtype=torch.bfloat16)}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name, tensors)
        return (Path(folder) / name).read_bytes()


def _state_dict(path: Path, tensors: dict[str, torch.Tensor], is_zip: bool = True) -> None:
    torch.save(tensors, path, _use_new_zipfile_serialization=is_zip)


_legacy = partial(_state_dict, is_zip=False)


def _distributed() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        distributed(Path(folder) / "d", {"w": torch.ones(2, 3)})
        return {path.name: path.read_bytes() for path in (Path(folder) / "d").iterdir()}


def _nodes() -> bytes:
    """The first nodes of an IR of MindSpore."""
    lines = (TESTS / "data/mindspore_ir/graph.ir").read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith(b"subgraph"))
    return b"".join([*lines[first : first + 40], b"}\n"])


def _zip(name: str) -> Callable[[bytes], bytes]:
    """What puts a content into a zip, as the member `name`, beside the other parts where it is one of a workbook."""
    others = {other: part for other, part in WORKBOOK.items() if name in WORKBOOK and other != name}
    rest = io.BytesIO()
    with zipfile.ZipFile(rest, "w") as whole:
        for other, part in others.items():
            whole.writestr(other, part)

    def packed(content: bytes) -> bytes:
        stream = io.BytesIO(rest.getvalue())
        with zipfile.ZipFile(stream, "a") as whole:
            whole.writestr(name, content)
        return stream.getvalue()

    return packed


def _part(root: str, content: str, namespace: str = "spreadsheetml/2006/main", more: str = "") -> bytes:
    """A part of a workbook, with no more than a reader needs."""
    return f'<{root} xmlns="{SCHEMAS}/{namespace}"{more}>{content}</{root}>'.encode()


SCHEMAS = "http://schemas.openxmlformats.org"
OF_WORKBOOK = f"{SCHEMAS}/officeDocument/2006/relationships"
SHEET, STYLES, TEXTS = "xl/worksheets/sheet1.xml", "xl/styles.xml", "xl/sharedStrings.xml"
HEADERS = test_foreign_tables.COMPARE
CELLS_OF_SHEET = (
    '<c t="n"><v>1</v></c><c t="s"><v>1</v></c><c/><c t="b"><v>1</v></c><c s="1"><v>45000.5</v></c>'
    '<c t="str"><f>1+1</f><v>2</v></c><c t="e"><v>#N/A</v></c><c t="inlineStr"><is><t>a</t></is></c><c><v>1e300</v></c>'
)
KINDS = {"xl/workbook.xml": "sheet.main", SHEET: "worksheet", STYLES: "styles", TEXTS: "sharedStrings"}
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.{}+xml"
TYPES = "".join(f'<Override PartName="/{part}" ContentType="{TYPE.format(kind)}"/>' for part, kind in KINDS.items())
HEAD = "".join(f'<c t="inlineStr"><is><t>{header}</t></is></c>' for header in HEADERS[:-1]) + '<c t="s"><v>0</v></c>'
WORKBOOK = {
    "[Content_Types].xml": _part("Types", TYPES, "package/2006/content-types"),
    "xl/workbook.xml": _part(
        "workbook", '<sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets>', more=f' xmlns:r="{OF_WORKBOOK}"'
    ),
    "xl/_rels/workbook.xml.rels": _part(
        "Relationships",
        f'<Relationship Id="rId1" Type="{OF_WORKBOOK}/worksheet" Target="/{SHEET}"/>',
        "package/2006/relationships",
    ),
    TEXTS: _part("sst", "<si><t>Result</t></si><si><r><rPr/><t>rich </t></r><r><t>text</t></r></si>"),
    STYLES: _part(
        "styleSheet",
        '<numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy-mm-dd"/></numFmts>'
        '<fonts count="1"><font><sz val="11"/><b/></font></fonts><fills count="1"><fill><patternFill/></fill></fills>'
        '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0"/></cellStyleXfs>'
        '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="164" fontId="0" xfId="0"/></cellXfs>',
    ),
    SHEET: _part(
        "worksheet",
        f'<dimension ref="A1:I2"/><sheetData><row r="1">{HEAD}</row><row r="2">{CELLS_OF_SHEET}</row></sheetData>',
    ),
}


def _tar(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as whole:
        for name, content in files.items():
            info = tarfile.TarInfo(f"d/{name}")
            info.size = len(content)
            whole.addfile(info, io.BytesIO(content))
    return stream.getvalue()[: 512 * 4]  # header, content and end, without the rest of a tape's block


SMALL = json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "data": {}}).encode()
"""A dump.json that takes no time to read."""


LINES = b"".join(
    json.dumps(line).encode() + b"\n"
    for line in (
        ["Torch_add_0_forward_input.0", 1, [], "torch.float32", [2, 2], [1.0, 0.0, 0.5]],
        ["Torch_add_0_forward_input.1", 1, [], "<class 'int'>", [], [1, 1, 1]],
        ["Torch_add_0_forward_output", 1, [], "torch.float32", [2, 2], [1.0, 0.0, float("nan")]],
        ["Torch_add_0_forward_stack_info", [["a.py", "1", "f", "x"], ["b.py", "2", "g", "y"]]],
    )
)
SAVED = b'{"data": {"x": {"max": 1.0, "min": 0.5, "mean": 0.75, "norm": 2.0, "shape": [2]}}}'
CSV = f"{','.join(HEADERS)}\n{','.join('1' for _ in HEADERS)}\n".encode()
MSPROBE_HEADERS = (
    "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,Max diff,"
    "NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench l2norm"
)
MSPROBE = f"{MSPROBE_HEADERS}\n{','.join(['a'] * 15)}\n".encode()
CELLS = [f'"{cell}"' for cell in test_kernel.STATISTIC]
STATISTICS = f"{','.join(test_kernel.HEADER)}\n{','.join(CELLS)}\n".encode()
YAML = b'Primitive.add: Torch.add\n"a.b": "c.d"\nc.e: f.g\n'
LAYOUT = (
    b"axes: {pp: 2, tp: 2}\ntensors:\n  mlp.weight: {tp: shard 0}\n  hidden: b s[pp] h[tp]\n  x: {tp: partial sum}\n"
)
CONFIG = b"api:\n  - Distributed.all_reduce\n  - Torch.add\ncompare_index:\n  - Max diff\n"
PREFLIGHT = json.dumps({
    "preflight": 1, "framework": "pytorch", "lakeprobe": "0.2.0", "packages": {"torch": "2.13"},
    "settings": {"tf32": True, "threads": 4, "x": None, "y": 2.5, "z": "a text"},
    "weights": {"w": {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": 1.0, "md5": "0" * 8}},
}).encode()  # fmt: skip
OLD = b'{"npu_path": "/tmp", "bench_path": "/tmp", "rank_id": [0], "common": false, "map_dict": {"a": "b"}}'
KERNEL = "Add.Default_Add-op{}.0.0.1700000000000000"
RESULT = "compare_result_rank0_20260102030405"

TARGETS = {
    "dump.json": Target({"dump.json": VALID["dump.json", 1]}, "dump.json", read_dumps, part=described),
    "dump.json, flat": Target({"dump.json": VALID["dump.json", None]}, "dump.json", read_dumps, part=described),
    "stack.json": Target({"dump.json": SMALL, "stack.json": VALID["stack.json", 1]}, "stack.json", read_dumps),
    "construct.json": Target({"dump.json": SMALL, "construct.json": VALID["construct.json", 1]}, "construct.json",
                             read_dumps),
    "debug.json": Target({"debug.json": VALID["debug.json", 1]}, "debug.json", read_dumps, part=described),
    "SingleSave": Target({"data/x/step0/rank0/x.json": SAVED, "data/x/step0/rank0/x.x.npy": _npy()},
                         "data/x/step0/rank0/x.json", read_dumps, part=described),
    ".npy": Target({"x.npy": _npy()}, "x.npy", read_one_tensor),
    ".pt": Target({"x.pt": _pt()}, "x.pt", read_one_tensor),
    "npy folder": Target({"x_float32_{}.npy": _npy()}, "x_float32_{}.npy", read_dumps, at_once=64),
    "ptdbg": Target({"dump.pkl": LINES}, "dump.pkl", read_dumps),
    "kernel dump": Target({KERNEL: test_acl.kernel_file(
        [np.arange(4, dtype=np.float32)], [np.arange(3, dtype=np.int64)])}, KERNEL, read_dumps, at_once=64),
    "statistic.csv": Target({"rank_0/Net/0/0/statistic.csv": STATISTICS}, "rank_0/Net/0/0/statistic.csv", read_dumps),
    "csv": Target({f"{RESULT}.csv": CSV}, f"{RESULT}.csv", read_tables),
    "csv.gz": Target({f"{RESULT}.csv.gz": CSV}, f"{RESULT}.csv.gz", read_tables, gzip.compress),
    "msprobe's csv": Target({f"{RESULT}.csv": MSPROBE}, f"{RESULT}.csv", read_results),
    "xlsx sheet": Target({f"{RESULT}.xlsx": WORKBOOK[SHEET]}, f"{RESULT}.xlsx", read_tables, _zip(SHEET),
                         part=sheet_read),
    "xlsx styles": Target({f"{RESULT}.xlsx": WORKBOOK[STYLES]}, f"{RESULT}.xlsx", read_tables, _zip(STYLES),
                          part=styles_read),
    "xlsx": Target({f"{RESULT}.xlsx": _zip(SHEET)(WORKBOOK[SHEET])}, f"{RESULT}.xlsx", read_tables,
                   part=workbook_read),
    "tar": Target({"d.tar": _tar({"dump.json": SMALL})}, "d.tar", read_archive),
    "tar.gz": Target({"d.tar.gz": _tar({"dump.json": SMALL})}, "d.tar.gz", read_archive,
                     lambda content: gzip.compress(content, 1)),
    "zip": Target({"d.zip": _zip("d/dump.json")(SMALL)}, "d.zip", read_archive),
    "mapping": Target({"m.yaml": YAML}, "m.yaml", read_mapping),
    "compare.json": Target({"compare.json": OLD}, "compare.json", read_compare_json),
    "layout file": Target({"m.yaml": LAYOUT}, "m.yaml", read_layout),
    "merge config": Target({"m.yaml": CONFIG}, "m.yaml", read_merge_config),
    "preflight": Target({"preflight.json": PREFLIGHT}, "preflight.json", read_dumps),
    "safetensors": Target({"model.safetensors": _checkpoint("x", safetensors)}, "model.safetensors", read_dumps),
    "state_dict": Target({"model.pt": _checkpoint("x", _state_dict)}, "model.pt", read_dumps),
    "legacy state_dict": Target({"model.pt": _checkpoint("x", _legacy)}, "model.pt", read_dumps),
    "MindSpore checkpoint": Target({"model.ckpt": _checkpoint("x", ckpt)}, "model.ckpt", read_dumps),
    "distributed checkpoint": Target(_distributed(), ".metadata", read_dumps),
    "MindSpore IR": Target({"g.ir": _nodes()}, "g.ir", read_ir),
}  # fmt: skip


# ---- running ----------------------------------------------------------------------------------------------


class TooLongError(BaseException):
    """An input took longer than SECONDS_EACH."""


def _too_long(*_: object) -> None:
    raise TooLongError


@contextmanager
def sound_files(target: Target) -> Iterator[Path]:
    """A folder with the files of a reader, none of them damaged yet."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "d"
        for file, content in target.files.items():
            for name in target.names if file == target.damaged else [file]:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(target.packed(content) if file == target.damaged else content)
        yield folder


def fuzz(name: str, seconds: float, seed: int) -> Counter[str]:
    """How many inputs a reader was given in that time, and how often it refused one or stumbled over it."""
    target, choose = TARGETS[name], random.Random(f"{name} {seed}")
    damage, count = Damage(target.files[target.damaged], choose), Counter(inputs=0, refused=0, stumbled=0)
    with sound_files(target) as folder, ExitStack() as stack:
        whole = partial(target.read, folder)
        whole()
        quick = target.quick(folder)
        files = [stack.enter_context((folder / name).open("r+b", buffering=0)) for name in target.names]
        gc.collect()
        gc.freeze()  # a collection looks through all modules otherwise, and takes longer than an input
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            group = [[target.packed(damage()) for _ in files] for _ in range(GROUP // len(files))]
            first = whole if choose.randrange(WHOLE_EVERY) == 0 else quick
            for contents, outcome in zip(group, outcomes(group, files, first, quick), strict=True):
                count[outcome] += 1
                count["inputs"] += len(contents)
                if outcome == "stumbled":
                    keep(contents, f"{name.replace(' ', '_')}-{seed}-{count['inputs']}")
    return count


def outcomes(group: Sequence[Sequence[bytes]], files: Sequence[BinaryIO], first: Call, quick: Call) -> list[str]:
    """What became of each input of a group: the contents that `files` have when it is read. `first` reads the first."""

    def given(contents: Sequence[bytes], read: Call) -> str:
        for file, content in zip(files, contents, strict=True):
            os.pwrite(file.fileno(), content, 0)
            os.truncate(file.fileno(), len(content))
        return tried(read)

    rows = RowsTogether()
    found = [given(group[0], first)]
    with rows.postponed():
        found += [given(contents, quick) for contents in group[1:]]
    try:
        rows.become_arrow()
    except Exception:  # noqa: BLE001 whose fault it is, is asked next
        found = [given(contents, quick) if was == "read" else was for contents, was in zip(group, found, strict=True)]
    return found


class RowsTogether:
    """The rows of many inputs. To make Arrow of them takes nearly all of the time of a small file that is sound."""

    NONE = SimpleNamespace(validate=lambda full: None)
    """What stands for a batch until then."""

    def __init__(self) -> None:
        self._columns: dict[str, list[list[Any]]] = {}
        self._leaves: list[Leaves] = []

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Let readers hand their rows on to this, as they are."""

        def batch(_: Tables, table: str, columns: Sequence[Sequence[Any]]) -> object:
            so_far = self._columns.setdefault(table, [[] for _ in arrow_schema(table)])
            for column, values in zip(so_far, columns, strict=True):
                column += values
            return self.NONE

        def take(leaves: Leaves) -> object:
            self._leaves.append(copy(leaves))
            leaves._taken += len(leaves)
            leaves._reset()
            return self.NONE

        with patch.object(Tables, "_batch", batch), patch.object(Leaves, "take", take):
            yield

    def become_arrow(self) -> None:
        """Make Arrow of the rows, and look whether it is sound."""
        batches = [Tables._batch(SimpleNamespace(_path="input"), *rows) for rows in self._columns.items()]
        if self._leaves:
            together, *others = self._leaves
            for leaves in others:
                add_leaves(together, leaves)
            batches.append(together.take())
        for batch in batches:
            batch.validate(full=True)


def add_leaves(together: Leaves, more: Leaves) -> None:
    """Add the collected leaves of another dump."""
    row, place = len(together), len(together._places)
    together._places += more._places
    together._place_codes.extend([place + code for code in more._place_codes])
    for what, codes in (("_forms", "_form_codes"), ("_shapes", "_shape_codes"), ("_letters", "_letter_codes")):
        numbers = [getattr(together, what)[value] for value in getattr(more, what)]
        getattr(together, codes).extend(map(numbers.__getitem__, getattr(more, codes)))
    for column in ("_ops", "_seqs", "_rows", "_max", "_min", "_mean", "_norm"):
        getattr(together, column).extend(getattr(more, column))
    for column, found in more._sparse.items():
        together._sparse[column] |= {row + other: value for other, value in found.items()}
    together._wide_rows.extend([row + other for other in more._wide_rows])
    together._wides += more._wides


def tried(read: Call) -> str:
    """What became of an input: read, refused in one line, or stumbled over."""
    signal.alarm(SECONDS_EACH)
    try:
        try:
            read()
        except LakeprobeError as error:
            one_line(str(error))
            return "refused"
    except (Exception, TooLongError):  # noqa: BLE001 the one thing that is looked for
        traceback.print_exc()
        return "stumbled"
    finally:
        signal.alarm(0)
    return "read"


def keep(contents: Iterable[bytes], stem: str) -> None:
    KEPT.mkdir(exist_ok=True)
    for number, content in enumerate(contents):
        (KEPT / f"{stem}-{number}").write_bytes(content)


def main() -> int:
    """Give the readers their turns."""
    seconds = float(sys.argv[1])
    tally = json.loads(TALLY.read_text()) if TALLY.is_file() else {}
    names = sys.argv[2:] or list(TARGETS)
    stumbled, turns = 0, Counter[str]()
    signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        had = {name: tally.get(name, {}).get("inputs", 0) for name in names}
        unfinished = [name for name in names if had[name] < ENOUGH] or names
        name = min(unfinished, key=lambda name: (turns[name], had[name]))
        turns[name] += 1
        count = fuzz(name, min(left, SECONDS_A_TURN), secrets.randbits(32))
        stumbled += count["stumbled"]
        tally[name] = dict(count + Counter(tally.get(name, {})))
        KEPT.mkdir(exist_ok=True)
        TALLY.write_text(json.dumps(tally, indent=1))
        tried_here, in_all = count["inputs"], tally[name]["inputs"]
        print(f"{name:22} {tried_here:9} inputs, {in_all:9} in all; {count['stumbled']} stumbled over", flush=True)
    return 1 if stumbled else 0


if __name__ == "__main__":
    if Path("/dev/shm").is_dir():
        tempfile.tempdir = "/dev/shm"
    sys.exit(main())
