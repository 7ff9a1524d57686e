"""Two long trainings against each other: rounding is not a difference, a defect is named at its step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import lakeprobe  # noqa: E402
from lakeprobe.cli import app  # noqa: E402
from lakeprobe.errors import UsageError  # noqa: E402

STEPS, BEGINS = 200, 120
RATE = 1e-2


def network() -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 16), nn.Tanh(), nn.Linear(16, 4)
    )


def trained(lake: Path, run: str, *, rounding: float = 0.0, defect: str = "") -> None:
    """Train a network whose gradients are off by a share of `rounding`, with a defect from the step BEGINS on."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    data, noise = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    with lakeprobe.monitor(model, optimizer, run=run, lake=lake) as monitor:
        for step in range(STEPS):
            acts = step >= BEGINS
            inputs = torch.randn(16, 1, 8, 8, generator=data)
            classes = inputs.reshape(16, 4, 16).mean(2).argmax(1)
            loss = torch.nn.functional.cross_entropy(model(inputs), classes, label_smoothing=0.05 * (
                acts and defect == "loss"
            ))  # fmt: skip
            optimizer.zero_grad()
            loss.backward()
            monitor.log("loss", loss)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.grad.mul_(1 + rounding * torch.randn(parameter.shape, generator=noise))
                    if acts and defect == "decay":
                        parameter.mul_(1 - 1e-3)
                if acts and defect == "gradient":
                    model[6].weight.grad.mul_(0.9)
                if acts and defect == "frozen":
                    model[4].weight.grad.zero_()
            optimizer.step()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drift") / "lake"
    trained(path, "golden")
    return path


def test_rounding_is_no_difference(lake: Path) -> None:
    trained(lake, "rounding", rounding=1e-6)
    with lakeprobe.open(lake) as opened:
        assert opened.series_drift("golden", "rounding").fetchall() == []
        differing = opened.sql(
            "SELECT count(*) FROM series a JOIN series b USING (step, name, point, metric) "
            "WHERE a.run = 'golden' AND b.run = 'rounding' AND a.value <> b.value"
        ).fetchall()
        assert differing > [(1000,)]
    said = CliRunner().invoke(app, ["drift", "golden", "rounding", "--lake", str(lake)])
    assert said.stdout == "rounding does not leave golden in any step that both have\n"


@pytest.mark.sampled
@pytest.mark.parametrize("rounding", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("defect", "first"),
    [
        ("loss", (BEGINS, "loss", "logged")),
        ("gradient", (BEGINS, "6.weight", "gradient")),
        ("frozen", (BEGINS, "4.weight", "gradient")),
        ("decay", (BEGINS, None, "parameter")),
    ],
)
def test_a_defect_is_named_at_its_step(lake: Path, rounding: float, defect: str, first: tuple[Any, ...]) -> None:
    run = f"{defect}.{rounding:g}"
    trained(lake, run, rounding=rounding, defect=defect)
    with lakeprobe.open(lake) as opened:
        rows = opened.series_drift("golden", run).project("step, name, point").fetchall()
    step, name, point = rows[0]
    assert (step, name if first[1] else None, point) == first
    [loss] = [step for step, name, _ in rows if name == "loss"]
    assert BEGINS <= loss <= BEGINS + 5


def test_a_picture_of_the_series_that_leave(lake: Path, tmp_path: Path) -> None:
    trained(lake, "drawn", defect="gradient")
    picture = tmp_path / "drift.svg"
    said = CliRunner().invoke(app, ["drift", "golden", "drawn", "-o", str(picture), "--lake", str(lake)])
    assert (said.exit_code, said.stderr.splitlines()[-1]) == (0, f"written: {picture}")
    text = picture.read_text()
    assert "Value over steps: drawn against golden" in text
    titles = [title for title in ("6.weight: norm of its gradient", "loss") if f">{title}<" in text]
    assert titles == ["6.weight: norm of its gradient", "loss"]
    with lakeprobe.open(lake) as opened, pytest.raises(UsageError, match="golden does not leave golden"):
        opened.draw_series("golden", "golden", picture)
