"""A training in PyTorch, collected into the lake through the entry points that users have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_unit_sink import rows, violations

import lakeprobe
from lakeprobe.collect.debugger import PrecisionDebugger
from lakeprobe.collect.session import collect

torch = pytest.importorskip("torch")


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


def test_names_of_the_program_may_have_any_character_in_them(tmp_path: Path) -> None:
    model = torch.nn.Sequential()
    model.add_module("enc/0", torch.nn.Linear(4, 3))
    x = torch.ones(2, 4)
    saved = {"a/b": x, "a\\b": x * 2, "\0": x * 3, "..": x * 4}
    with collect(model, run="npu", lake=tmp_path / "lake", level="mix", task="tensor") as collector:
        model(x)
        collector.save("loss/main", saved, backward=False)
        collector.step()
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert lake.sql("SELECT notes FROM dumps").fetchall() == [([],)]
        of_point = "WHERE op = 'loss/main.0.debug'"
        found = lake.sql(f"SELECT slot, max FROM tensors {of_point} AND content IS NOT NULL ORDER BY max").fetchall()
        assert found == [("a/b", 1.0), ("a\\b", 2.0), ("\0", 3.0), ("..", 4.0)]
        kept = lake.sql(f"SELECT count(DISTINCT content) FROM tensors {of_point}").fetchall()
        assert kept == [(4,)]
    names = [row[2] for row in rows(tmp_path / "lake", "ops", "npu")]
    assert names == ["Functional.linear.0.forward", "Module.enc/0.Linear.forward.0", "loss/main.0.debug"]


@pytest.mark.parametrize(
    ("way", "differing"),
    [("micro batches in another order", set()), ("a detached branch", {"Tensor.__add__.2.forward"})],
)
def test_a_backward_call_is_held_against_that_of_its_forward_call(
    tmp_path: Path, way: str, differing: set[str]
) -> None:
    """In the order in which they ran, all gradients but the first would be held against those of other calls."""
    lake = tmp_path / "lake"
    for run in ("golden", "target"):
        torch.manual_seed(0)
        layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))
        batches = torch.randn(2, 3, 4)
        with collect(layers, run=run, lake=lake, level="L1") as collector:
            losses = []
            for batch in batches if way.startswith("micro") else batches[:1]:
                for number, layer in enumerate(layers):
                    branch = layer(batch)
                    if way == "a detached branch" and run == "target" and number == 2:
                        branch = branch.detach()
                    batch = batch + branch
                losses.append(batch.square().mean())
            for loss in losses[::-1] if run == "target" else losses:
                loss.backward()
            collector.step()
    with lakeprobe.open(lake) as opened:
        result = opened.compare("target", "golden")
        paired = opened.sql(
            "FROM results WHERE role = 'input' AND target_op LIKE '%.backward' AND target_row + golden_row IS NOT NULL"
        )
        assert paired.filter("target_op <> golden_op").fetchall() == []
        ops = result.first_difference().ranks.project("op").fetchall()
    assert {op for (op,) in ops if op} == differing
