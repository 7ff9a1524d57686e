"""A training in PyTorch, collected into the lake through the entry points that users have."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from test_unit_sink import notes, rows, violations, wait_for_unit

from lakeprobe.collect.debugger import PrecisionDebugger
from lakeprobe.collect.session import collect
from lakeprobe.lake import layout

torch = pytest.importorskip("torch")


def test_four_ranks_fill_one_lake_and_the_one_that_is_killed_leaves_what_it_had(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, str(Path(__file__).parent / "ranks.py"), str(lake)]
    ranks = [subprocess.Popen([*program, str(rank), "4", str(port), "2"]) for rank in range(4)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0, -signal.SIGKILL, 0]
    wait_for_unit(lake, "npu", 2, step=1)
    assert len(layout.units(lake)) == 8
    ops = {
        (key.step, key.rank): [row[2] for row in rows(lake, "ops", "npu", key.step, key.rank)]
        for key in layout.units(lake)
    }
    cut = ops.pop((1, 2))
    assert all(found == ops[step, 0] for (step, _), found in ops.items())
    assert cut == ops[1, 0][: len(cut)]
    assert len(cut) > 500
    for step, rank in ops:
        assert notes(lake, "npu", rank, step) == []
    assert notes(lake, "npu", 2, 1)[0].startswith("incomplete")
    assert violations(lake) == []


def model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)), torch.randn(5, 4)


def test_the_debugger_reads_a_config_and_collects_what_collect_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"task": "tensor", "level": "mix", "dump_path": str(tmp_path / "npu")}))
    debugger = PrecisionDebugger(config_path=str(path))
    model, batch = model_and_input()
    debugger.start(model)
    model(batch).sum().backward()
    debugger.stop()
    debugger.step()
    debugger.close()
    model, batch = model_and_input()
    with collect(model, run="other", lake=tmp_path / "lake", level="mix", task="tensor") as collector:
        model(batch).sum().backward()
        collector.step()
    for table in ("tensors", "contents"):
        assert rows(tmp_path / "lake", table, "npu") == rows(tmp_path / "lake", table, "other")
    names = [row[2] for row in rows(tmp_path / "lake", "ops", "npu")]
    assert names[0] == "Functional.linear.0.forward"
    assert {"Module.0.Linear.forward.0", "Module.2.Linear.backward.0", "Module.0.Linear.parameters_grad.0"} <= set(
        names
    )
    assert len(rows(tmp_path / "lake", "contents", "npu")) > 10
    assert violations(tmp_path / "lake") == []
