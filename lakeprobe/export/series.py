"""Writes the series of a monitored run as the csv files of msprobe's monitor, or as TensorBoard's event files."""

from __future__ import annotations

import csv
import math
import os
import shutil
import socket
import struct
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe import resources
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import outputs
from lakeprobe.shown import csv_cell
from lakeprobe.system import files

if TYPE_CHECKING:
    import duckdb

FORMS = ("monitor", "grad_probe", "tensorboard")

_FIXED = ("vpp_stage", "name", "step", "micro_step")
_MOST_DIGITS = 20


def export_series(
    connection: duckdb.DuckDBPyConnection, run: str, out: str | os.PathLike[str], form: str, *,
    digits: int = 6, steps_in_file: int = 1,
) -> list[Path]:  # fmt: skip
    """Write the series of `run` into the new or empty folder `out`. Returns the files.

    `form` monitor: a folder per rank with msprobe's files PREFIX_FIRST-LAST.csv, numbers rounded to `digits` digits
    behind the point, `steps_in_file` steps in each, as ndigits and step_count_per_record of its configuration say.
    `form` grad_probe: a folder per rank with grad_summary_STEP.csv and, if signs were measured, stepSTEP/PARAMETER.npy.
    `form` tensorboard: a folder per rank with an event file, which TensorBoard opens.

    Raises UsageError for a run without series, a folder that is not empty and for an option that means nothing, and
    LakeError if a file cannot be written. `out` is complete or stays as it was.
    """
    if form not in FORMS:
        raise UsageError(f"export: the form should be {' or '.join(FORMS)}, not {form!r}")
    if not 0 <= digits <= _MOST_DIGITS or steps_in_file < 1:
        raise UsageError(f"export: digits should be from 0 to {_MOST_DIGITS}, and steps in a file from 1")
    if not connection.execute("SELECT count(*) FROM series WHERE run = $run", {"run": run}).fetchall()[0][0]:
        raise UsageError(f"the lake has no monitored run {run}")
    target = outputs.empty_folder(out)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        draft.mkdir(parents=True)
        if form == "monitor":
            _write_monitor(connection, run, draft, digits, steps_in_file)
        elif form == "grad_probe":
            _write_grad_probe(connection, run, draft)
        else:
            _write_tensorboard(connection, run, draft)
        files.put_in_place(draft, target)
    except OSError as error:
        raise LakeError.from_system(error, target, "nothing was exported") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return sorted(file for file in target.rglob("*") if file.is_file())


def _write_monitor(
    connection: duckdb.DuckDBPyConnection, run: str, folder: Path, digits: int, steps_in_file: int
) -> None:
    lines = connection.sql(resources.sql("export/monitor"), params={"run": run})
    columns = lines.columns
    label = f"{datetime.now(UTC):%b%d_%H-%M-%S}"
    began = uuid.uuid4().hex[:8]
    rank, prefix, step = (columns.index(name) for name in ("rank", "prefix", "step"))
    rows = iter(lines.fetchall())
    for (number, name), of_file in groupby(rows, key=lambda row: (row[rank], row[prefix])):
        held = list(of_file)
        used = [column for column in _header(columns) if _is_used(held, columns.index(column), column)]
        place = folder / f"{label}-rank{number}-{began}"
        place.mkdir(exist_ok=True)
        for first, some in groupby(held, key=lambda row: row[step] // steps_in_file * steps_in_file):
            file = place / f"{name}_{first}-{first + steps_in_file - 1}.csv"
            with file.open("w", newline="", encoding="utf-8") as opened:
                writer = csv.writer(opened, lineterminator="\n")
                writer.writerow(used)
                writer.writerows([_cell(row[columns.index(column)], column, digits) for column in used] for row in some)


def _header(columns: list[str]) -> list[str]:
    return [*_FIXED, *(column for column in columns if column not in (*_FIXED, "rank", "prefix"))]


def _is_used(rows: list[tuple[Any, ...]], place: int, column: str) -> bool:
    """Whether a file has the column. micro_step is left out where every step has one micro batch."""
    if column == "micro_step":
        return any(row[place] is not None for row in rows)
    return column in _FIXED or any(row[place] is not None for row in rows)


def _cell(value: Any, column: str, digits: int) -> Any:
    """Return a cell as msprobe writes it: what is missing is nan."""
    if value is None:
        return "nan"
    if not isinstance(value, float):
        return csv_cell(value)
    if column == "nans":
        return int(value)
    return round(value, digits) if math.isfinite(value) else repr(value)


def _write_grad_probe(connection: duckdb.DuckDBPyConnection, run: str, folder: Path) -> None:
    rows = connection.sql(resources.sql("export/grad_probe"), params={"run": run}).fetchall()
    for (rank, step), lines in groupby(rows, key=lambda row: row[:2]):
        place = folder / f"rank{rank}"
        place.mkdir(exist_ok=True)
        held = [
            (name, md5, sorted(shares or [], key=lambda share: _low(share[0])), (most, least, norm, shape), signs)
            for _, _, name, md5, most, least, norm, shape, signs, shares in lines
        ]
        _, md5, shares, _, _ = held[0]
        header = ["param_name", *(["MD5"] if md5 else []), *(interval for interval, _ in shares)]
        with (place / f"grad_summary_{step}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*header, "max", "min", "norm", "shape"])
            for name, md5, shares, rest, signs in held:
                cells = [name, *([md5] if md5 else []), *(share for _, share in shares), *rest]
                writer.writerow(map(csv_cell, cells))
                if signs is not None:
                    _write_signs(place / f"step{step}", name, signs, rest[3])


def _low(interval: str) -> float:
    """Return the lower end of an interval such as (-1, 0]; that of zeros comes last."""
    return math.inf if interval == "=0" else float(interval[1:].partition(",")[0])


def _write_signs(folder: Path, name: str, signs: bytes, shape: str | None) -> None:
    import numpy as np

    folder.mkdir(exist_ok=True)
    sides = [int(side) for side in (shape or "[]").strip("[]").split(",") if side.strip()]
    if -(-math.prod(sides) // 8) != len(signs):
        raise LakeError(f"{name} has {len(signs)} bytes of signs and the shape {shape}; the series are damaged")
    bits = np.unpackbits(np.frombuffer(signs, np.uint8), count=math.prod(sides)).astype(bool)
    np.save(folder / f"{name.replace('/', '_')}.npy", bits.reshape(sides))


# ---- TensorBoard's event files: records of protobuf messages (tensorboard/compat/proto/event.proto) ----


def _write_tensorboard(connection: duckdb.DuckDBPyConnection, run: str, folder: Path) -> None:
    rows = connection.sql(resources.sql("export/scalars"), params={"run": run}).fetchall()
    now = datetime.now(UTC).timestamp()
    for rank, scalars in groupby(rows, key=lambda row: row[0]):
        place = folder / f"rank{rank}"
        place.mkdir()
        with (place / f"events.out.tfevents.{int(now)}.{socket.gethostname()}").open("wb") as file:
            file.write(_record(_event(now, None, _text(3, b"brain.Event:2"))))
            for step, of_step in groupby(scalars, key=lambda row: row[1]):
                values = b"".join(_text(1, _text(1, tag.encode()) + _float(2, value)) for *_, tag, value in of_step)
                file.write(_record(_event(now, step, _text(5, values))))


def _event(seconds: float, step: int | None, what: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", seconds) + (b"" if step is None else b"\x10" + _varint(step)) + what


def _text(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _float(field: int, value: float) -> bytes:
    try:
        packed = struct.pack("<f", value)
    except OverflowError:  # float32 has no such number
        packed = struct.pack("<f", math.copysign(math.inf, value))
    return bytes([field << 3 | 5]) + packed


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _record(content: bytes) -> bytes:
    """Return a record: its length, and the masked CRC-32C of both."""
    length = struct.pack("<Q", len(content))
    return length + _masked(length) + content + _masked(content)


def _masked(content: bytes) -> bytes:
    crc = _crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc32c(content: Iterable[int]) -> int:
    crc, table = 0xFFFFFFFF, _crc_table()
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    """The table of Castagnoli's polynomial, a byte at a time."""

    def entries() -> Iterator[int]:
        for byte in range(256):
            crc = byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
            yield crc

    return tuple(entries())
