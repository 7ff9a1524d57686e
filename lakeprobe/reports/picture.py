"""Draws a drift: a panel per row, golden as a thick grey line, runs in colour, a ring where one leaves golden.

matplotlib draws it. It is an extra (`pip install lakeprobe[plot]`), imported only for a picture.
"""

from __future__ import annotations

import io
import math
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict

from lakeprobe.analysis.drift import Drift, Followed
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import outputs
from lakeprobe.output import ranges

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

MOST_PANELS = 6
"""The most rows in a picture: the loss, the norm of all gradients, then the rows that leave first and farthest."""

MOST_LINES = 8
"""The most ranks that get a line each; more become a band from the least to the largest, with the median."""

FORMATS = (".png", ".svg")

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette for colour-blind readers, without its black and yellow."""
_MARKERS = ("o", "s", "^", "D", "v", "P")
_GOLDEN = "#A8A8A8"
_INK = "#333333"

Line = dict[int, float]
"""The value at each step; NaN makes a gap in the line."""


class _Series(Struct):
    """A row of a run or of golden: its values and distances by rank, and where it first leaves golden."""

    values: dict[int, Line] = field(default_factory=dict)
    distances: dict[int, Line] = field(default_factory=dict)
    leaves: tuple[int, float, int] | None = None
    """The first step at which a rank leaves golden, the negated distance of the farthest rank, and that rank."""


class DriftReport(Drift, frozen=True):
    """A drift that draws itself in a notebook, and can be written as a picture."""

    @classmethod
    def of(cls, drift: Drift) -> DriftReport:
        """Return the same drift, with pictures."""
        return cls(**asdict(drift))

    __repr__ = Drift.__repr__

    def figure(self, most: int = MOST_PANELS) -> Figure:
        """Return the picture, with panels for `most` rows. Raises UsageError without matplotlib."""
        return figure(self, most)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to `path`, as PNG or SVG by its suffix. Raises UsageError and LakeError."""
        return write(self, path)

    def _repr_png_(self) -> bytes | None:
        """Return the picture for a notebook; None without matplotlib, so that the notebook shows the text."""
        stream = io.BytesIO()
        try:
            self.figure().savefig(stream, format="png", dpi=110)
        except UsageError:
            return None
        return stream.getvalue()


def checked(path: str | os.PathLike[str]) -> Path:
    """Return `path`. Raises UsageError for a suffix or place that is not that of a picture, or without matplotlib."""
    chosen = Path(path)
    if chosen.suffix.lower() not in FORMATS:
        raise UsageError(f"{chosen} is not a picture; end its name in {' or '.join(FORMATS)}")
    outputs.file_at(chosen)
    _figure_class()
    return chosen


def write(drift: Followed, path: str | os.PathLike[str]) -> Path:
    """Write the picture of `drift` to `path`, as PNG (150 dots per inch) or SVG (text as text) by its suffix."""
    chosen = checked(path)
    import matplotlib

    # without salt and date the same drift gives the same file
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lakeprobe"}):
        metadata = {"Date": None} if chosen.suffix.lower() == ".svg" else {}
        try:
            with outputs.draft(chosen) as hidden:
                figure(drift).savefig(hidden, format=chosen.suffix[1:].lower(), dpi=150, metadata=metadata)
        except OSError as error:
            raise LakeError.from_system(error, chosen, "the picture was not written") from error
    return chosen


def figure(drift: Followed, most: int = MOST_PANELS) -> Figure:
    """Return the picture of `drift`: for up to `most` rows, the metric and the distance from golden over steps.

    Raises UsageError if there is no row.
    """
    create = _figure_class()
    names = drawn(drift, most)
    if not names:
        raise UsageError(f"{', '.join(drift.runs)} does not leave {drift.golden}; there is nothing to draw")
    rows_of_panels = math.ceil(len(names) / 2)
    columns = min(2, len(names))
    height = 2.1 if drift.metric == "error" else 3.5
    picture = create(figsize=(5.4 * columns, height * rows_of_panels + 1.0), layout=_layout(), dpi=100)
    panels = picture.subfigures(rows_of_panels, columns, squeeze=False).ravel()
    series = _series(drift, names)
    losses = {name for name, role in drift.rows.project("name, role").fetchall() if role == "loss"}
    for panel, name in zip(panels, names, strict=False):
        _panel(panel, drift, f"loss: {name}" if name in losses else name, series[name])
    picture.supxlabel("\n".join(_remarks(drift, names, series)), fontsize=8)
    _legend(picture, drift, [part for name in names for part in series[name].values()])
    return picture


def drawn(drift: Followed, most: int) -> list[str]:
    """Return the names of the rows that a picture of `drift` shows."""
    order: dict[str, tuple[int, float, float]] = {}
    first = {"loss": 0, "logged": 0, "parameters_grad together": 1}
    for name, role, leaves_at, worst in drift.rows.project("name, role, leaves_at, worst").fetchall():
        key = (first.get(role, 2), math.inf if leaves_at is None else leaves_at, -1.0 if worst is None else -worst)
        order[name] = min(key, order.get(name, key))
    return sorted(order, key=lambda name: (order[name], name))[:most]


def _figure_class() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("a picture needs matplotlib; install it with: pip install 'lakeprobe[plot]'") from error
    return Figure


def _layout() -> ConstrainedLayoutEngine:
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)


def _heading(drift: Followed) -> str:
    what = "Distance" if drift.metric == "error" else drift.metric.capitalize()
    return f"{what} over steps: {', '.join(drift.runs)} against {drift.golden}"


def _remarks(drift: Followed, names: Sequence[str], series: Mapping[str, Mapping[str, _Series]]) -> Iterator[str]:
    """Yield what the picture omits or summarises."""
    rows = len({name for (name,) in drift.rows.project("name").fetchall()})
    if rows > len(names):
        yield f"{len(names)} of {rows} rows: those that leave golden first and farthest"
    ranks = max(len(part.values) for runs in series.values() for part in runs.values())
    if ranks > MOST_LINES:
        yield f"{ranks} ranks: a band from the least to the largest, and the median"


def _series(drift: Followed, names: Sequence[str]) -> dict[str, dict[str, _Series]]:
    """Return what to draw, by row and run, golden included."""
    from duckdb import ColumnExpression, ConstantExpression

    wanted = ColumnExpression("name").isin(*(ConstantExpression(name) for name in names))
    columns = "name, run, coalesce(golden_step, step), coalesce(golden_rank, rank), value, golden, distance, state"
    series = {name: {run: _Series() for run in (drift.golden, *drift.runs)} for name in names}
    for name, run, step, rank, value, golden, distance, state in drift.steps.filter(wanted).project(columns).fetchall():
        ours = series[name][run]
        _add(ours.values, rank, step, value)
        _add(ours.distances, rank, step, distance)
        theirs = series[name][drift.golden]
        if golden is not None or step not in theirs.values.get(rank, {}):
            _add(theirs.values, rank, step, golden)
        if state == "away":
            ours.leaves = min((step, -distance, rank), ours.leaves or (step, 0.0, rank))
    return series


def _add(lines: dict[int, Line], rank: int, step: int, value: float | None) -> None:
    lines.setdefault(rank, {})[step] = math.nan if value is None else value


def _panel(panel: Any, drift: Followed, title: str, series: Mapping[str, _Series]) -> None:
    """Draw one row: its values above, its distances from golden below; only the distances if they are the metric."""
    if drift.metric == "error":
        upper, lower = None, panel.subplots()
    else:
        upper, lower = panel.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    (upper or lower).set_title(_broken(title), fontsize=9, color=_INK, loc="left")
    for axes in filter(None, (upper, lower)):
        _plain(axes)
    if upper is not None:
        _values(upper, drift, series)
    _distances(lower, drift, series)
    lower.set_xlabel("step", fontsize=8)


def _values(axes: Axes, drift: Followed, series: Mapping[str, _Series]) -> None:
    _lines(axes, series[drift.golden].values, _GOLDEN, None, golden=True)
    for number, run in enumerate(drift.runs):
        _lines(axes, series[run].values, _colour(number), _marker(number))
        leaves = series[run].leaves
        if leaves:
            step, _, rank = leaves
            _ring(axes, step, series[run].values.get(rank, {}).get(step), _colour(number))
    _scale(axes, [value for part in series.values() for value in _finite(part.values)])
    axes.set_ylabel(drift.metric, fontsize=8)


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """Use a logarithmic scale if positive values span more than two decades; else a range in which 1 % looks small."""
    least, largest = min(values, default=0.0), max(values, default=0.0)
    if least > 0 and largest > 100 * least:
        axes.set_yscale("log")
        return
    lacking = 0.1 * max(abs(least), abs(largest)) - (largest - least)
    if lacking > 0:
        axes.set_ylim(least - lacking / 2, largest + lacking / 2)


def _distances(axes: Axes, drift: Followed, series: Mapping[str, _Series]) -> None:
    from matplotlib.ticker import NullLocator

    positive = [value for run in drift.runs for value in _finite(series[run].distances) if value > 0]
    lowest = math.floor(math.log10(min([*positive, drift.threshold or 1e-6, 1e-3])))
    highest = math.ceil(math.log10(max([*positive, drift.threshold, 10.0 ** (lowest + 1)])))
    axes.set_yscale("symlog", linthresh=10.0**lowest, linscale=0.6)
    axes.set_ylim(0, 10.0 ** (highest + 0.4))
    stride = math.ceil((highest - lowest + 1) / 4)
    axes.set_yticks([0.0, *(10.0**power for power in range(highest, lowest, -stride))])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.axhline(drift.threshold, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)))
    for number, run in enumerate(drift.runs):
        _lines(axes, series[run].distances, _colour(number), _marker(number))
        leaves = series[run].leaves
        if leaves:
            step, minus_distance, _ = leaves
            _ring(axes, step, -minus_distance, _colour(number))
    axes.set_ylabel("distance\n(share of golden)", fontsize=8)


def _lines(axes: Axes, lines: Mapping[int, Line], colour: str, marker: str | None, golden: bool = False) -> None:
    """Draw one line per rank, or a band with its median for many ranks."""
    width = 4.5 if golden else 1.5 if len(lines) == 1 or len(lines) > MOST_LINES else 0.9
    order = 1.5 if golden else 2.5
    drawn_lines = list(lines.values())
    if len(lines) > MOST_LINES:
        steps = sorted({step for line in lines.values() for step in line})
        least, median, largest = zip(*(_spread(lines, step) for step in steps), strict=True)
        axes.fill_between(steps, least, largest, color=colour, alpha=0.25, linewidth=0, zorder=order - 0.1)
        drawn_lines = [dict(zip(steps, median, strict=True))]
    for line in drawn_lines:
        steps = sorted(line)
        values = [line[step] if math.isfinite(line[step]) else math.nan for step in steps]
        style: dict[str, Any] = {"color": colour, "linewidth": width, "zorder": order}
        axes.plot(steps, values, marker=marker, markersize=3.5, markevery=math.ceil(len(steps) / 24), **style)
    if not golden and 1 < len(lines) <= MOST_LINES:
        _name_lines(axes, lines, colour)


def _name_lines(axes: Axes, lines: Mapping[int, Line], colour: str) -> None:
    """Write the ranks at the last finite points of their lines; lines that end in one point share a name."""
    ends: dict[tuple[int, float], list[int]] = {}
    for rank, line in lines.items():
        step = max((step for step, value in line.items() if math.isfinite(value)), default=None)
        if step is not None:
            ends.setdefault((step, float(f"{line[step]:.3g}")), []).append(rank)
    place: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
    for end, ranks in ends.items():
        name = f"rank {ranges(ranks)}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"
        axes.annotate(name, end, fontsize=6, color=colour, annotation_clip=False, **place)


def _spread(lines: Mapping[int, Line], step: int) -> tuple[float, float, float]:
    """Return the least, median and largest finite value of all ranks at `step`; NaN if there is none."""
    found = sorted(line[step] for line in lines.values() if math.isfinite(line.get(step, math.nan)))
    return (found[0], found[len(found) // 2], found[-1]) if found else (math.nan, math.nan, math.nan)


def _ring(axes: Axes, step: int, value: float | None, colour: str) -> None:
    """Mark where a run leaves golden: a ring, or a cross at the upper edge if it leaves with NaN or inf."""
    if value is not None and math.isfinite(value):
        axes.plot([step], [value], "o", markersize=11, markerfacecolor="none", markeredgecolor=colour, zorder=4)
    else:
        edge = axes.get_xaxis_transform()
        axes.plot([step], [0.94], "X", markersize=9, color=colour, transform=edge, zorder=4, clip_on=False)


def _finite(lines: Mapping[int, Line]) -> Iterable[float]:
    return (value for line in lines.values() for value in line.values() if math.isfinite(value))


def _plain(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=_INK, length=3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _legend(picture: Figure, drift: Followed, series: Iterable[_Series]) -> None:
    """Explain lines and marks above the panels; marks only if there are any."""
    from matplotlib.lines import Line2D

    entries = []
    if drift.metric != "error":
        entries.append(Line2D([], [], color=_GOLDEN, linewidth=4.5, label=drift.golden))
    for number, run in enumerate(drift.runs):
        entries.append(Line2D([], [], color=_colour(number), marker=_marker(number), markersize=4, label=run))
    dashes: dict[str, Any] = {"color": _INK, "linewidth": 0.9, "linestyle": (0, (4, 3))}
    entries.append(Line2D([], [], label=f"threshold {drift.threshold:g}", **dashes))
    wide = len(picture.subfigs) > 1
    where = {math.isfinite(part.leaves[1]) for part in series if part.leaves}
    mark: dict[str, Any] = {"linestyle": "none", "color": _INK}
    if True in where:
        entries.append(Line2D([], [], marker="o", markersize=10, markerfacecolor="none", label="leaves golden", **mark))
    if False in where:
        entries.append(Line2D([], [], marker="X", markersize=8, label="leaves with NaN or inf", **mark))
    picture.legend(
        handles=entries,
        loc="outside upper center",
        ncols=min(len(entries), 6 if wide else 3),
        title=textwrap.fill(_heading(drift), 100 if wide else 48),
        title_fontsize=12,
        fontsize=8,
        frameon=False,
    )


def _broken(name: str) -> str:
    """Break a long name into two lines, at the dot nearest to its middle."""
    if len(name) <= 56:
        return name
    dots = [place for place, letter in enumerate(name) if letter == "."] or [len(name) - 1]
    place = min(dots, key=lambda dot: abs(dot - len(name) // 2)) + 1
    return f"{name[:place]}\n{name[place:]}"


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _marker(number: int) -> str:
    return _MARKERS[(number + number // len(_COLOURS)) % len(_MARKERS)]
