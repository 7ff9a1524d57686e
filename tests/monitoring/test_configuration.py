"""msprobe's monitor_config.json: what each key asks for, mistakes, and a file that changes while the training runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import lakeprobe  # noqa: E402
from lakeprobe.errors import UsageError  # noqa: E402
from lakeprobe.monitoring import configuration  # noqa: E402
from lakeprobe.monitoring.settings import Settings, fits  # noqa: E402
from lakeprobe.monitoring.trainer import TrainerMon  # noqa: E402


def loaded(tmp_path: Path, **content: Any) -> Settings:
    path = tmp_path / "monitor_config.json"
    path.write_text(json.dumps(content))
    return configuration.load(path)


def test_keys_become_points_metrics_and_steps(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, targets={"0:head": {}, "wide": {}}, wg_distribution=True, mv_distribution=True, ops=["mean", "id"],
        start_step=3, step_interval=2, collect_times=5, module_ranks=[0, 2], eps=1e-6, format="csv", ndigits=12,
        cc_distribution={"enable": True, "cc_codeline": ["train.py"]}, alert={"rules": [], "dump": True},
    )  # fmt: skip
    assert found.points == ("gradient_unreduced", "gradient", "moment1", "moment2", "received")
    assert found.metrics == ("mean", "shape", "dtype")
    assert (found.start, found.every, found.times, found.ranks, found.eps) == (3, 2, 5, (0, 2), 1e-6)
    assert found.lines == ("train.py",)
    names = ["head.weight", "wide.bias", "1:wide.bias", "other.head"]
    assert [name for name in names if fits(name, found.parameters)] == [
        "head.weight", "wide.bias", "1:wide.bias",
    ]  # fmt: skip
    assert [name for name in ("head", "wide", "wide.0") if fits(name, found.modules)] == ["head", "wide"]


@pytest.mark.parametrize(
    ("content", "points"),
    [
        ({"xy_distribution": True}, ("input", "output", "input_gradient", "output_gradient")),
        ({"xy_distribution": True, "forward_only": True}, ("input", "output")),
        ({"xy_distribution": True, "backward_only": True}, ("input_gradient", "output_gradient")),
        ({"param_distribution": True, "mg_direction": True}, ("parameter", "parameter_updated", "agreement")),
        ({"cc_distribution": {"enable": True, "cc_pre_hook": True}}, ("sent", "received")),
        ({"cc_distribution": {"enable": False}}, ()),
    ],
)
def test_points(tmp_path: Path, content: dict[str, Any], points: tuple[str, ...]) -> None:
    assert loaded(tmp_path, **content).points == points
    assert loaded(tmp_path, **content).modules == ("*",)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"targts": {}}, "there is no key targts; did you mean targets?"),
        ({"wg_distribution": 1}, "wg_distribution should be true or false, not 1"),
        ({"start_step": True}, "start_step should be a whole number, not true"),
        ({"step_interval": 0}, "step_interval should be a whole number from 1, not 0"),
        ({"ops": ["median"]}, 'ops should be a list of some of norm, .*, not "median"'),
        ({"print_struct": True}, "print_struct is not supported: a run's modules are in its series"),
        ({"squash_name": True}, "squash_name is not supported"),
        ({"cc_distribution": {"enable": True, "cc_log_only": True}}, "cc_log_only is not supported"),
        ({"cc_distribution": {"log": True}}, "cc_distribution: there is no key log"),
        ({"sa_order": "h,d"}, "sa_order should be s,b,h,d or b,s,h,d"),
        ({"recording_l2_features": True, "l2_targets": {"conv_hook": []}}, "l2_targets should have lists of names"),
    ],
)
def test_mistakes(tmp_path: Path, content: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        loaded(tmp_path, **content)


def test_a_file_that_is_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "monitor_config.json"
    with pytest.raises(UsageError, match="cannot be read"):
        configuration.load(path)
    for text, says in (("{", "is not JSON"), ("[]", "should be an object")):
        path.write_text(text)
        with pytest.raises(UsageError, match=says):
            configuration.load(path)


def training(monitor: TrainerMon, config: Path, turns: dict[int, dict[str, Any]]) -> None:
    """Train ten steps. `turns` changes keys of the configuration ahead of a step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor.set_monitor(model, optimizer, start_iteration=100)
    for step in range(10):
        if step in turns:
            config.write_text(json.dumps(json.loads(config.read_text()) | turns[step]))
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
    monitor.close()


def steps(lake: Path, run: str) -> list[int]:
    with lakeprobe.open(lake) as opened:
        query = "SELECT DISTINCT step FROM series WHERE run = $run AND point = 'gradient' ORDER BY step"
        return [step for (step,) in opened.sql(query, {"run": run}).fetchall()]


def test_dynamic_on_begins_with_the_next_step_and_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "monitor_config.json"
    content = {"wg_distribution": True, "dynamic_on": False, "collect_times": 2, "step_interval": 2, "start_step": 7}
    config.write_text(json.dumps(content))
    monkeypatch.setenv("DYNAMIC_MONITOR", "True")
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    training(TrainerMon(config), config, {2: {"dynamic_on": True}})
    assert steps(tmp_path / "lake", "out") == [103, 105]
    assert json.loads(config.read_text())["dynamic_on"] is False


def test_collect_times_ranks_and_a_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "monitor_config.json"
    config.write_text(json.dumps({"wg_distribution": True, "collect_times": 3, "start_step": 102}))
    training(TrainerMon(config, run="times", lake=tmp_path / "lake"), config, {})
    assert steps(tmp_path / "lake", "times") == [102, 103, 104]
    config.write_text(json.dumps({"wg_distribution": True, "module_ranks": [1]}))
    training(TrainerMon(config, run="other_ranks", lake=tmp_path / "lake"), config, {})
    assert steps(tmp_path / "lake", "other_ranks") == []
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    switch = tmp_path / "on"
    options = {"run": "switched", "lake": tmp_path / "lake", "switch": str(switch)}
    with lakeprobe.monitor(model, optimizer, **options):
        for step in range(6):
            if step == 2:
                switch.touch()
            if step == 4:
                switch.unlink()
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()
    assert steps(tmp_path / "lake", "switched") == [3, 4]
