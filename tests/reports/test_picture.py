"""The picture of a drift: what is drawn of hand-made values, and that the files are what they claim to be."""

from __future__ import annotations

import math
import re
import struct
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeprobe.analysis.drift import Drift
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.reports import picture
from lakeprobe.reports.picture import DriftReport

pytest.importorskip("matplotlib")

NORM = "Module.fc.Linear.parameters_grad.0.weight"
Point = tuple[str, int, int, str, float | None, float | None, float | None, str]
"""Run, step, rank, name, value, golden, distance, state."""


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def points(run: str, leaves_at: int | None, name: str = NORM, ranks: int = 1, steps: int = 5) -> list[Point]:
    """A run that is half as large again as golden from a step on."""
    found: list[Point] = []
    for rank in range(ranks):
        for step in range(steps):
            golden = 1.0 + step + rank
            away = leaves_at is not None and step >= leaves_at
            value = golden * 1.5 if away else golden
            found.append((run, step, rank, name, value, golden, 0.5 if away else 0.0, "away" if away else "equal"))
    return found


def report(connection: duckdb.DuckDBPyConnection, found: list[Point], metric: str = "norm") -> DriftReport:
    columns = "run, step, rank, name, value, golden, distance, state"
    connection.execute(
        "CREATE OR REPLACE TABLE points (run VARCHAR, step INTEGER, rank INTEGER, name VARCHAR, "
        "value DOUBLE, golden DOUBLE, distance DOUBLE, state VARCHAR)"
    )
    connection.executemany(f"INSERT INTO points VALUES ({', '.join('?' * 8)})", found)
    role = "if(name = 'Functional.loss.0.forward.output.0', 'loss', 'parameters_grad')"
    steps = connection.sql(f"SELECT {columns}, step AS golden_step, rank AS golden_rank, {role} AS role FROM points")
    rows = connection.sql(
        f"SELECT run, rank, name, {role} AS role, min(step) FILTER (WHERE state = 'away') AS leaves_at, "
        "max(distance) AS worst FROM points GROUP BY ALL"
    )
    runs = tuple(dict.fromkeys(point[0] for point in found))
    return DriftReport.of(
        Drift("golden", runs, metric, 0.001, rows=rows, steps=steps, by_run=rows, modules=rows, missing=rows)
    )


def axes_of(figure: Any) -> list[list[Any]]:
    """By panel, its axes from top to bottom."""
    return [panel.axes for panel in figure.subfigs if panel.axes]


def lines(axes: Any) -> list[Any]:
    """The lines of golden and the runs: neither the threshold nor a mark at one step."""
    return [
        line
        for line in axes.lines
        if line.get_linestyle() == "-" and line.get_marker() not in ("X",) and len(line.get_xdata()) > 1
    ]


def marks(axes: Any, marker: str) -> list[tuple[float, float]]:
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in axes.lines
        if line.get_marker() == marker and len(line.get_xdata()) == 1
    ]


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_panel_has_golden_and_every_run(connection: duckdb.DuckDBPyConnection) -> None:
    figure = report(connection, points("a", 2) + points("b", None) + points("c", 4)).figure()
    ((values, distances),) = axes_of(figure)
    golden, *runs = lines(values)
    assert list(golden.get_ydata()) == [1, 2, 3, 4, 5]
    assert golden.get_linewidth() > 2 * max(line.get_linewidth() for line in runs)
    assert [list(line.get_ydata()) for line in runs] == [
        [1, 2, 4.5, 6, 7.5],
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 7.5],
    ]
    assert len({line.get_color() for line in (golden, *runs)}) == 4
    assert len({line.get_marker() for line in runs}) == 3
    assert [list(line.get_ydata()) for line in lines(distances)] == [
        [0, 0, 0.5, 0.5, 0.5],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0.5],
    ]
    assert values.get_title(loc="left") == NORM
    assert (values.get_ylabel(), distances.get_xlabel()) == ("norm", "step")
    assert legend(figure) == ["golden", "a", "b", "c", "threshold 0.001", "leaves golden"]


def test_a_ring_stands_where_a_run_leaves(connection: duckdb.DuckDBPyConnection) -> None:
    ((values, distances),) = axes_of(report(connection, points("a", 2) + points("b", None)).figure())
    assert marks(values, "o") == [(2, 4.5)]
    assert marks(distances, "o") == [(2, 0.5)]


def test_leaving_with_nan_is_a_cross(connection: duckdb.DuckDBPyConnection) -> None:
    found = points("a", None)
    found[3] = ("a", 3, 0, NORM, math.nan, 4.0, math.inf, "away")
    figure = report(connection, found).figure()
    ((values, distances),) = axes_of(figure)
    for axes in (values, distances):
        assert [step for step, _ in marks(axes, "X")] == [3]
        assert not marks(axes, "o")
    run = lines(values)[1]
    assert [math.isnan(value) for value in run.get_ydata()] == [False, False, False, True, False]
    assert legend(figure)[-1] == "leaves with NaN or inf"


def test_ranks_are_lines_and_many_are_a_band(connection: duckdb.DuckDBPyConnection) -> None:
    few = report(connection, points("a", 1, ranks=3)).figure()
    ((values, _),) = axes_of(few)
    assert len(lines(values)) == 3 + 3
    assert not values.collections
    assert [text.get_text() for text in values.texts] == ["rank 0", "rank 1", "rank 2"]
    many = report(connection, points("a", 1, ranks=picture.MOST_LINES + 1)).figure()
    ((values, distances),) = axes_of(many)
    assert [text.get_text() for text in values.texts] == []
    golden, run = lines(values)
    assert list(golden.get_ydata()) == [5, 6, 7, 8, 9]
    assert list(run.get_ydata()) == [5, 9, 10.5, 12, 13.5]
    assert len(values.collections) == 2
    assert len(distances.collections) == 1
    assert many.get_supxlabel() == "9 ranks: a band from the least to the largest, and the median"
    band = values.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (1, 13)


def test_the_loss_is_first_then_what_leaves_first_and_gets_farthest(connection: duckdb.DuckDBPyConnection) -> None:
    loss = "Functional.loss.0.forward.output.0"
    found = [point for number in range(9) for point in points("a", 8 - number, f"row{number}", steps=9)]
    found += points("a", None, "never", steps=9) + points("a", None, loss, steps=9)
    made = report(connection, found)
    assert picture.drawn(made, 4) == [loss, "row8", "row7", "row6"]
    figure = made.figure()
    assert [panel[0].get_title(loc="left") for panel in axes_of(figure)] == [
        f"loss: {loss}",
        "row8",
        "row7",
        "row6",
        "row5",
        "row4",
    ]
    assert figure.get_supxlabel() == "6 of 11 rows: those that leave golden first and farthest"
    assert len(axes_of(made.figure(3))) == 3


def test_error_is_one_axes_of_distances(connection: duckdb.DuckDBPyConnection) -> None:
    found = [(*point[:4], point[6], 0.0, *point[6:]) for point in points("a", 2)]
    figure = report(connection, found, "error").figure()
    ((distances,),) = axes_of(figure)
    assert [list(line.get_ydata()) for line in lines(distances)] == [[0, 0, 0.5, 0.5, 0.5]]
    assert distances.get_title(loc="left") == NORM


@pytest.mark.parametrize(("largest", "scale"), [(90.0, "linear"), (1e4, "log")])
def test_a_wide_range_is_logarithmic(connection: duckdb.DuckDBPyConnection, largest: float, scale: str) -> None:
    found = points("a", None)
    found[4] = ("a", 4, 0, NORM, largest, 5.0, largest / 5, "away")
    ((values, _),) = axes_of(report(connection, found).figure())
    assert values.get_yscale() == scale


def test_a_small_difference_does_not_look_large(connection: duckdb.DuckDBPyConnection) -> None:
    found: list[Point] = [("a", step, 0, NORM, 5.00001, 5.0, 2e-6, "near") for step in range(3)]
    ((values, _),) = axes_of(report(connection, found).figure())
    least, largest = values.get_ylim()
    assert largest - least == pytest.approx(0.5, rel=0.01)
    assert least < 5 < largest


def test_a_missing_step_is_a_gap(connection: duckdb.DuckDBPyConnection) -> None:
    found = points("a", None)
    found[2] = ("a", 2, 0, NORM, None, 3.0, None, "missing in run")
    ((values, _),) = axes_of(report(connection, found).figure())
    golden, run = lines(values)
    assert list(golden.get_xdata()) == [0, 1, 2, 3, 4]
    assert [step for step, value in zip(run.get_xdata(), run.get_ydata(), strict=True) if math.isfinite(value)] == [
        0,
        1,
        3,
        4,
    ]
    assert math.isnan(dict(zip(run.get_xdata(), run.get_ydata(), strict=True))[2])


def test_png(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    made = report(connection, points("a", 2))
    content = made.write(tmp_path / "drift.png").read_bytes()
    for found in (content, made._repr_png_()):
        assert png_size(found) > (300, 200)


def png_size(content: bytes) -> tuple[int, int]:
    """Width and height, after every chunk's checksum has been checked."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    place, kinds, size = 8, [], (0, 0)
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        body = content[place + 4 : place + 8 + length]
        assert zlib.crc32(body) == struct.unpack(">I", content[place + 8 + length : place + 12 + length])[0]
        kinds.append(body[:4])
        if body[:4] == b"IHDR":
            size = struct.unpack(">II", body[4:12])
        place += 12 + length
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    return size


def test_svg(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    made = report(connection, points("a_run", 2))
    path = made.write(tmp_path / "drift.svg")
    root = ElementTree.fromstring(path.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))
    for word in ("a_run", "golden", "leaves golden", "step", NORM):
        assert re.search(re.escape(word), texts), word
    first = path.read_bytes()
    assert made.write(path).read_bytes() == first


def test_other_endings_are_refused(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"drift\.pdf is not a picture; end its name in \.png or \.svg"):
        report(connection, points("a", 2)).write(tmp_path / "drift.pdf")
    with pytest.raises(UsageError, match="is not a picture"):
        picture.checked("drift")


def test_a_folder_that_is_not_there(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"nowhere/drift\.png: No such file or directory; the picture was not written"):
        report(connection, points("a", 2)).write(tmp_path / "nowhere" / "drift.png")


def test_without_matplotlib(connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    made = report(connection, points("a", 2))
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"needs matplotlib; install it with: pip install 'lakeprobe\[plot\]'"):
        made.figure()
    with pytest.raises(UsageError, match="needs matplotlib"):
        picture.checked("drift.png")
    assert made._repr_png_() is None
    assert repr(made) == "<drift of a from golden: norm>"
