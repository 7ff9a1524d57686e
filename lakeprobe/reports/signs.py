"""The similarity of signs of two runs as msprobe's files: a table for each rank, and a picture for each parameter."""

from __future__ import annotations

import csv
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import outputs
from lakeprobe.shown import csv_cell
from lakeprobe.system import files

if TYPE_CHECKING:
    from lakeprobe.analysis.signs import Signs

_Lines = dict[str, dict[int, float]]


def write(signs: Signs, out: str | os.PathLike[str], *, pictures: bool = False) -> Path:
    """Write rankR/similarities.csv into the new or empty folder `out`, a line per parameter and a column per step.

    With `pictures` also rankR/similarities_picture/PARAMETER_similarities.png, which needs matplotlib. Raises
    UsageError for a folder that is not empty, and LakeError.
    """
    target = outputs.empty_folder(out)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        for rank, lines in _by_rank(signs).items():
            folder = draft / f"rank{rank}"
            folder.mkdir(parents=True)
            steps = sorted({step for values in lines.values() for step in values})
            with (folder / "similarities.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["step", *steps])
                for name, values in lines.items():
                    writer.writerow([csv_cell(name), *(values.get(step, "") for step in steps)])
            if pictures:
                _draw(lines, folder / "similarities_picture")
        files.put_in_place(draft, target)
    except OSError as error:
        raise LakeError.from_system(error, target, "nothing was written") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _by_rank(signs: Signs) -> dict[int, _Lines]:
    """Return the similarities by rank, line and step. The summary comes last."""
    ranks: dict[int, _Lines] = {}
    rows = signs.rows.order("rank, is_summary, name, step").project("rank, name, step, similarity").fetchall()
    for rank, name, step, similarity in rows:
        ranks.setdefault(rank, {}).setdefault(name, {})[step] = similarity
    return ranks


def _draw(lines: _Lines, folder: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("pictures need matplotlib: pip install matplotlib") from error
    folder.mkdir()
    for name, values in lines.items():
        figure = Figure(figsize=(6, 3), layout="constrained")
        axes = figure.subplots()
        axes.plot(list(values), list(values.values()), marker=".")
        axes.set(xlabel="step", ylabel="share of equal signs", title=name)
        figure.savefig(folder / f"{re.sub('[^A-Za-z0-9_.-]', '_', name)[:200]}_similarities.png")
