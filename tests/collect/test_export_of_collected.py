"""What is collected and exported again is what msprobe 26.2.0 writes of the same training, and its compare takes it."""

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msprobe_runs
import pytest

import lakeprobe.collect
from lakeprobe.export import export

torch = pytest.importorskip("torch")
if importlib.util.find_spec("msprobe") is None:
    pytest.skip("msprobe is not installed", allow_module_level=True)

import models  # noqa: E402
from test_torch_peer import mended, shared_frames  # noqa: E402

RUNS = [
    ("transformer", "L0", "statistics", "statistics"),
    ("transformer", "L1", "statistics", "statistics"),
    ("bfloat16", "mix", "statistics", "xor"),
    ("transformer", "mix", "statistics", "statistics"),
    ("transformer", "mix", "tensor", "statistics"),
    ("transformer", "mix", "structure", "statistics"),
    ("transformer", "mix", "statistics", "statistics", "extra_info=false"),
    ("reentrant", "mix", "statistics", "statistics", 'risk_level="ALL"'),
    ("odd", "L0", "statistics", "statistics"),
    ("odd", "mix", "statistics", "statistics", 'risk_level="ALL"'),
]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Path]:
    """msprobe's dump of each run."""
    return msprobe_runs.dumps_of(models.__file__, RUNS, tmp_path_factory)


def exported(tmp_path: Path, run: tuple[str, ...]) -> Path:
    """The run collected into a lake, and exported from it."""
    name, level, task, summary_mode, *keys = run
    options = msprobe_runs.options(keys)

    def watch(model: Any) -> Any:
        return lakeprobe.collect(  # type: ignore[operator]
            model, run="ours", lake=tmp_path / "lake", level=level, task=task, summary_mode=summary_mode, **options
        )

    made: list[Any] = []
    models.train(name, lambda model: made.append(watch(model)) or made[0])
    made[0].close()
    export(tmp_path / "lake", "ours", tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_the_files_are_msprobes(tmp_path: Path, dumps: dict[tuple[str, ...], Path], run: tuple[str, ...]) -> None:
    folder = exported(tmp_path, run)
    for step in (0, 1):
        ours = folder / f"step{step}" / "rank0"
        (theirs,) = dumps[run].glob(f"step{step}/*")
        own, dump = read(ours / "dump.json"), read(theirs / "dump.json")
        assert own.keys() == dump.keys()
        assert [own[key] for key in ("task", "level", "framework")] == [run[2], run[1], "pytorch"]
        assert as_text(own["data"]) == as_text(mended(dump["data"]))
        construct, expected = read(ours / "construct.json"), read(theirs / "construct.json")
        if construct is None or expected is None:
            assert construct is None
            assert expected is None
            continue
        if "ALL" in str(run) or run[1] == "L0":
            # A module of odd has a backward that begins and never ends: msprobe gives it a place, and no entry.
            open_for_ever = {"Module.act.ReLU.backward.0"} & expected.keys() if run[0] == "odd" else set()
            assert construct.keys() | open_for_ever == expected.keys()
            assert run[0] == "odd" or list(construct) == list(expected)
        # Of APIs that it does not record at this risk level, msprobe has the parents all the same.
        assert construct == {op: parent for op, parent in expected.items() if op in construct}
        assert stacks(ours / "stack.json") == stacks(theirs / "stack.json")
        tensors = [path.name for path in (theirs / "dump_tensor_data").glob("*")]
        assert sorted(path.name for path in (ours / "dump_tensor_data").glob("*")) == sorted(tensors)
        for name in tensors:
            mine, other = torch.load(ours / "dump_tensor_data" / name), torch.load(theirs / "dump_tensor_data" / name)
            assert mine.dtype == other.dtype
            assert torch.equal(mine, other), name


def test_msprobes_compare_takes_it(tmp_path: Path, dumps: dict[tuple[str, ...], Path]) -> None:
    run = ("transformer", "mix", "tensor", "statistics")
    ours = exported(tmp_path, run) / "step0" / "rank0"
    (theirs,) = dumps[run].glob("step0/*")
    program = [str(Path(sys.executable).with_name("msprobe")), "compare", "-tp", str(ours / "dump.json"),
               "-gp", str(theirs / "dump.json"), "-o", str(tmp_path / "result")]  # fmt: skip
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (tmp_path / "result").glob("*compare_result*.csv")
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    tensors = [row for row in rows if row["Cosine"] != "unsupported"]
    assert len(tensors) > 100
    assert {row["MaxAbsErr"] for row in tensors} == {"0.0"}
    assert {row["Result"] for row in rows} == {"pass"}


def read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def as_text(value: Any) -> str:
    """All of it in order, NaN and -0.0 included."""
    return json.dumps(value, indent=1)


def stacks(path: Path) -> list[Any]:
    """By number: the ops in their order, and the frames that both runs have."""
    found = read(path)
    assert list(found) == [str(number) for number in range(len(found))]
    return [[ops, shared_frames(frames)] for ops, frames in found.values()]
