"""grad_probe: gradients of each level against numpy, the signs of two runs, and msprobe's files."""

from __future__ import annotations

import csv
import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import lakeprobe  # noqa: E402
from lakeprobe.cli import app  # noqa: E402
from lakeprobe.collect.debugger import PrecisionDebugger  # noqa: E402
from lakeprobe.errors import UsageError  # noqa: E402

STEPS = 4
BOUNDS = [-0.01, 0, 0.01]
Gradients = list[dict[str, np.ndarray]]


def trained(folder: Path, run: str, level: str, flip: float = 0.0, **keys: Any) -> Gradients:
    """A training with task grad_probe. Returns its gradients; from step 2 on a share `flip` of signs is wrong."""
    config = folder / f"{run}.json"
    probe = {"grad_level": level, "param_list": keys.pop("param_list", []), "bounds": BOUNDS}
    config.write_text(json.dumps({"task": "grad_probe", "dump_path": str(folder / run), "grad_probe": probe} | keys))
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = PrecisionDebugger(config_path=str(config))
    debugger.monitor(model)
    seen = []
    for step in range(STEPS):
        debugger.start(model)
        optimizer.zero_grad()
        model(torch.randn(6, 5)).square().mean().backward()
        if step >= 2:
            flat = model[0].weight.grad.view(-1)
            flat[: int(flip * len(flat))] *= -1
        seen.append({name: parameter.grad.numpy().copy() for name, parameter in model.named_parameters()})
        optimizer.step()
        debugger.stop()
        debugger.step()
    debugger.close()
    return seen


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Gradients]]:
    """A lake's folder with a run of each level, and one whose signs differ from step 2 on."""
    folder = tmp_path_factory.mktemp("probed")
    seen = {level: trained(folder, level, level) for level in ("L0", "L1", "L2")}
    seen["wrong"] = trained(folder, "wrong", "L1", flip=0.2)
    return folder, seen


def lines(folder: Path, lake: Path, level: str) -> list[list[dict[str, str]]]:
    with lakeprobe.open(lake) as opened:
        opened.export_series(level, folder, "grad_probe")
    found = []
    for step in range(STEPS):
        with (folder / "rank0" / f"grad_summary_{step}.csv").open(encoding="utf-8") as file:
            found.append(list(csv.DictReader(file)))
    return found


@pytest.mark.parametrize("level", ["L0", "L1", "L2"])
def test_the_files_have_the_numbers_of_numpy(probed: tuple[Path, Any], tmp_path: Path, level: str) -> None:
    folder, seen = probed
    extra = {"L0": ["MD5"], "L1": [], "L2": ["(-inf, -0.01]", "(-0.01, 0]", "(0, 0.01]", "(0.01, inf)", "=0"]}[level]
    for step, rows in enumerate(lines(tmp_path / "out", folder / "lake", level)):
        assert list(rows[0]) == ["param_name", *extra, "max", "min", "norm", "shape"]
        assert [row["param_name"] for row in rows] == sorted(seen[level][step])
        for row in rows:
            gradient = seen[level][step][row["param_name"]]
            assert row["shape"] == str(list(gradient.shape))
            assert (float(row["max"]), float(row["min"])) == (gradient.max(), gradient.min())
            assert float(row["norm"]) == pytest.approx(np.linalg.norm(gradient.astype(np.float64)), rel=1e-12)
            if level == "L0":
                assert row["MD5"] == hashlib.md5(gradient.tobytes()).hexdigest()
            if level == "L2":
                ends = [-np.inf, *np.float32(BOUNDS), np.inf]
                counts = [((low < gradient) & (gradient <= high)).sum() for low, high in pairwise(ends)]
                expected = [*counts, (gradient == 0).sum()]
                assert [float(row[name]) for name in extra] == [count / gradient.size for count in expected]
            signs = tmp_path / "out" / "rank0" / f"step{step}" / f"{row['param_name']}.npy"
            assert signs.exists() == (level != "L0")
            if level != "L0":
                assert (np.load(signs) == (gradient > 0)).all()


def test_the_similarity_of_signs(probed: tuple[Path, Any]) -> None:
    folder, seen = probed
    with lakeprobe.open(folder / "lake") as lake:
        found = lake.signs("L1", "wrong")
        rows = {tuple(row[:2]): row[2] for row in found.rows.project("step, name, similarity").fetchall()}
        same = lake.signs("L1", "L2")
        assert same.problems == ()
        assert same.summary.project("similarity").fetchall() == [(1.0,)] * STEPS
    for step in range(STEPS):
        counts = {}
        for name, golden in seen["L1"][step].items():
            equal = (golden > 0) == (seen["wrong"][step][name] > 0)
            assert rows[step, name] == equal.mean()
            counts[name] = (equal.sum(), equal.size)
        total = sum(count for count, _ in counts.values()) / sum(size for _, size in counts.values())
        assert rows[step, "summary"] == total
    assert {(problem.step, problem.name) for problem in found.problems} >= {(2, "0.weight"), (2, None)}
    assert min(problem.step for problem in found.problems) == 2


def test_the_command_and_its_files(probed: tuple[Path, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder, _ = probed
    lake = ["--lake", str(folder / "lake")]
    out = tmp_path / "out"
    said = CliRunner().invoke(app, ["signs", "L1", "wrong", "--out", str(out), "--pictures", *lake])
    assert said.exit_code == 1
    assert "step 2, rank 0: " in said.stderr
    with (out / "rank0" / "similarities.csv").open(encoding="utf-8") as file:
        table = list(csv.reader(file))
    assert table[0] == ["step", "0", "1", "2", "3"]
    assert [row[0] for row in table[1:]] == ["0.bias", "0.weight", "2.bias", "2.weight", "summary"]
    assert table[-1][1:3] == ["1.0", "1.0"]
    pictures = out / "rank0" / "similarities_picture"
    assert sorted(file.name for file in pictures.iterdir())[0] == "0.bias_similarities.png"
    again = CliRunner().invoke(app, ["signs", "L1", "L2", "--out", str(out), *lake])
    assert str(again.exception) == f"{out} is not an empty folder; choose another"
    quiet = CliRunner().invoke(app, ["signs", "L1", "L2", *lake])
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    without = CliRunner().invoke(app, ["signs", "L1", "L0", *lake])
    assert "have no signs of a gradient in the same step and rank; monitor both with metrics signs" in str(
        without.exception
    )


def test_parameters_and_steps_are_chosen(tmp_path: Path) -> None:
    trained(tmp_path, "some", "L1", param_list=["2.bias"], step=[1, 3])
    with lakeprobe.open(tmp_path / "lake") as lake:
        rows = lake.sql("SELECT DISTINCT step, name FROM series WHERE point = 'gradient' ORDER BY step").fetchall()
    assert rows == [(1, "2.bias"), (3, "2.bias")]


def test_monitor_needs_the_task(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=str(tmp_path / "run"))
    try:
        with pytest.raises(UsageError, match="needs task grad_probe"):
            debugger.monitor(torch.nn.Linear(1, 1))
    finally:
        debugger.close()
    config = tmp_path / "config.json"
    for probe, says in (({"bounds": [1, 0]}, "numbers that ascend"), ({"grad_level": "L3"}, "one of L0, L1, L2")):
        config.write_text(json.dumps({"task": "grad_probe", "dump_path": str(tmp_path), "grad_probe": probe}))
        with pytest.raises(UsageError, match=says):
            PrecisionDebugger(config_path=str(config))
