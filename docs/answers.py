"""Makes docs/answers.md: the answer in each case, from comparisons of the bundled dumps that are made here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from lakeprobe.analysis.verdict import Coverage, Verdict
from lakeprobe.cli import app
from lakeprobe.ingest import ingest
from lakeprobe.session import Lake

DUMPS = Path(__file__).resolve().parents[1] / "tests" / "data" / "dumps"
GOLDEN, TARGET = (DUMPS / "demo" / side / "step0" for side in ("golden", "target"))
SPACING = 2.0**-22
"""Two spacings of float32 at 1, as much as another order of a sum may change."""


@dataclass(frozen=True)
class Said:
    """The answer in one case: lines of `compare`, its coverage, and the exit codes."""

    case: str
    lake: Path
    remarks: tuple[str, ...]
    lines: tuple[str, ...]
    coverage: Coverage
    on_error: int
    on_warning: int
    first_diff: int


TEXT = """\
<!-- Made by docs/generate.py: edit docs/answers.py and run it again. -->

# Answers

`compare` begins with a verdict on the whole. It says how much of both sides was compared before it gives the result, so
nothing is called equal that was not compared. `print(result)`, a notebook, the workbook's overview and the file
`advisor_*.txt` say the same; in Python it is `result.verdict`, and `result.summary().coverage` has the counts.

| Verdict | Meaning |
|---|---|
{verdicts}

The first that applies is the verdict. `compare --fail-on error` exits with 1 if a row is an error, if anything could
not be read, or if nothing was compared; `--fail-on warning` also if a row is a warning or differs, or if a row, step or
rank has no counterpart (unless the rule expects that) or is incomplete. `first-diff --fail-on difference` exits with 1
unless the verdict is one of the last two; with a `--threshold` or `--noise`, unless everything was compared and nothing
differs by that measure.

`first-diff` begins with the verdict on the steps and ranks asked for, and `blame` shows it if it has no suspect; their
JSON has the field `verdict`. In Python, `first_difference().is_equal` is true where that command exits with 0.

A row of the table `results` that is not judged has a verdict of its own: `unmatched`, `unreadable`, or `skipped`
(memory that was never written, data that had not arrived, late digests, settings of optimizers that one tool alone
records, and rows that the rule expects to have no counterpart). Its `outcome` is `unrecorded` if dtype and shape agree
and the dumps do not have values of both sides, for example digests on one side and statistics on the other. The
`difference` of an unreadable or unrecorded row is NULL, unless the recorded statistics show that the two sides differ.

## The answers

Comparisons of the bundled dumps, changed as each case needs it. The exit codes are those of `compare --fail-on error`,
`compare --fail-on warning` and `first-diff --fail`.

| Case | Answer | error | warning | first-diff |
|---|---|---|---|---|"""


def copied(source: Path, folder: Path, change: Callable[[dict[str, Any]], object] = lambda dump: None) -> Path:
    """Copy the bundled dump `source` to `folder`, with its dump.json changed."""
    shutil.copytree(source, folder)
    for path in folder.rglob("dump.json"):
        dump = json.loads(path.read_text())
        change(dump)
        path.write_text(json.dumps(dump))
    return folder


def shaken(value: Any) -> Any:
    """Return `value` with every norm two spacings of float32 larger."""
    if isinstance(value, dict):
        return {
            key: inner * (1 + SPACING) if key == "Norm" and isinstance(inner, float) else shaken(inner)
            for key, inner in value.items()
        }
    return [shaken(inner) for inner in value] if isinstance(value, list) else value


def without_values(dump: dict[str, Any]) -> None:
    """Make it a structure dump, with names only."""
    dump |= {"task": "structure", "data": {name: {} for name in dump["data"]}}


def renamed(dump: dict[str, Any]) -> None:
    """Make it the dump of another model: one op of another name, on a tensor of another shape."""
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3, 5, 7, 11], "requires_grad": False}
    tensor |= {"Max": 77.5, "Min": -13.25, "Mean": 31.0, "Norm": 1234.5}
    dump["data"] = {"Torch.other.0.forward": {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}}


def cut_off(lake: Path, run: str) -> None:
    """Mark the units of `run` as the collector does if its process ends in the middle of a step."""
    for path in lake.glob(f"run={run}/step=*/rank=*/*/dumps.parquet"):
        table = pq.ParquetFile(path).read()
        place = table.schema.get_field_index("complete")
        pq.write_table(table.set_column(place, "complete", pa.array([False] * len(table))), path)


def cases(folder: Path) -> Iterator[tuple[str, Path, tuple[str | Path, str | Path]]]:
    """Yield every case: its name, the lake, and the sides. Its dumps are made when it is reached."""
    golden = copied(GOLDEN, folder / "golden")
    target = copied(TARGET, folder / "target")
    yield "equal", folder / "lake", (copied(GOLDEN, folder / "same"), golden)
    noise = copied(GOLDEN, folder / "noise", lambda dump: dump.update(data=shaken(dump["data"])))
    yield "equal within noise", folder / "lake", (noise, golden)
    yield "different", folder / "lake", (target, golden)
    yield "nothing compared", folder / "lake", (copied(GOLDEN, folder / "stranger", renamed), golden)
    cross = DUMPS / "cross"
    sides = (cross / "ms_mix_stat" / "golden", cross / "pt_mix_stat" / "golden")
    for run, side in zip(("mindspore", "pytorch"), sides, strict=True):
        ingest(side, lake=folder / "cross", run=run)
    yield "partly compared", folder / "cross", ("mindspore", "pytorch")
    for side in ("npu", "gpu"):
        (folder / side).mkdir()
        np.save(folder / side / "weight.npy", np.ones(4))
        (folder / side / "bias.npy").write_bytes(b"\x93NUMPY and no more")
    yield "unreadable", folder / "lake", (folder / "npu", folder / "gpu")
    ingest(copied(GOLDEN, folder / "killed"), lake=folder / "lake")
    cut_off(folder / "lake", "killed")
    yield "incomplete", folder / "lake", ("killed", "golden")
    bare = [copied(GOLDEN, folder / name, without_values) for name in ("names", "bare")]
    yield "structure only", folder / "lake", (bare[0], bare[1])
    shutil.rmtree(folder / "same")
    yield "another dump than last time", folder / "lake", (copied(TARGET, folder / "same"), golden)


def said(case: str, lake: Path, sides: tuple[str | Path, str | Path]) -> Said:
    """Return the answer for the comparison of two sides."""
    names = [Path(side).name for side in sides]
    with Lake(lake) as opened:
        result = opened.compare(*sides, name=f"{names[0]}_vs_{names[1]}")
        lines = str(result).splitlines()
        coverage = result.summary().coverage
        report = result.report
    assert report is not None
    changed = any(unit.has_changed for done in report.ingested for unit in done.units)
    remarks = ("an older dump in the lake was replaced, because it has changed",) if changed else ()
    codes = (int(coverage.has_errors), int(coverage.has_warnings))  # as `compare` decides; comparing again is dear
    first_diff = exit_code("first-diff", report.name, "--fail-on", "difference", "--lake", lake)
    return Said(case, lake, remarks, tuple(lines[2 : lines.index("", 2)]), coverage, *codes, first_diff)


def exit_code(*words: Any) -> int:
    """Return the exit code of a command."""
    return CliRunner().invoke(app, [str(word) for word in words]).exit_code


def everything_said() -> list[Said]:
    """Return the answer in each case."""
    with TemporaryDirectory() as folder:
        return [said(*case) for case in cases(Path(folder))]


def page(said: Iterable[Said] | None = None) -> str:
    """Return docs/answers.md for the answers `said`, by default those of now, which take some 20 seconds."""
    meanings = zip(Verdict, _meanings(), strict=True)
    verdicts = "\n".join(f"| {verdict} | {meaning} |" for verdict, meaning in meanings)
    lines = [TEXT.format(verdicts=verdicts)]
    for it in said or everything_said():
        text = "<br>".join(line.strip() for line in (*it.remarks, *it.lines))
        lines.append(f"| {it.case} | {text} | {it.on_error} | {it.on_warning} | {it.first_diff} |")
    return "\n".join(lines) + "\n"


def _meanings() -> Iterator[str]:
    import inspect

    texts = inspect.getsource(Verdict).split('"""')[3::2]
    return (" ".join(text.split()) for text in texts)
