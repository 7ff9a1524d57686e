"""Callbacks of trainers: with stand-ins that make the same calls, and with the packages where they are installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import lakeprobe
from lakeprobe import callbacks

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Any, labels: Any = None) -> Any:
        return {"loss": self.layer(x).square().mean() if labels is None else (self.layer(x) - labels).square().mean()}


def linears(lake: Path) -> list[tuple[int, bool, int]]:
    """Of each step: whether it is complete, and how many forwards of the layer it has."""
    sql = """
        SELECT step, complete, count(*) FILTER (op LIKE 'Module.layer.Linear.forward.%')
        FROM ops JOIN dumps USING (run, step, rank) GROUP BY ALL ORDER BY step
    """
    with lakeprobe.open(lake, create=True) as opened:
        return opened.sql(sql).fetchall()


class Hooks:
    """Has every event that a trainer could ask for."""


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers, lightning, pytorch = (ModuleType(name) for name in ("transformers", "lightning", "lightning.pytorch"))
    transformers.TrainerCallback = Hooks  # type: ignore[attr-defined]
    pytorch.Callback = Hooks  # type: ignore[attr-defined]
    for module in (transformers, lightning, pytorch):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("stand_ins")
def test_the_calls_of_transformers_make_a_unit_a_step(tmp_path: Path) -> None:
    callback = callbacks.for_transformers(run="npu", lake=tmp_path, level="L0")
    model, state = Net(), SimpleNamespace(global_step=5)
    callback.on_train_begin(None, state, None, model=model)
    for _ in range(2):
        callback.on_step_begin(None, state, None, model=model)
        for _ in range(3):
            model(torch.ones(2, 4))["loss"].backward()
        state.global_step += 1
        callback.on_step_end(None, state, None, model=model)
        model(torch.ones(2, 4))  # an evaluation
    callback.on_train_end(None, state, None, model=model)
    assert linears(tmp_path) == [(5, True, 3), (6, True, 3)]


@pytest.mark.usefixtures("stand_ins")
def test_the_calls_of_lightning_make_a_unit_a_step(tmp_path: Path) -> None:
    callback = callbacks.for_lightning(run="npu", lake=tmp_path, level="L0")
    model, trainer = Net(), SimpleNamespace(global_step=0)
    callback.on_train_start(trainer, model)
    for number in range(4):
        callback.on_train_batch_start(trainer, model, None, number)
        model(torch.ones(2, 4))["loss"].backward()
        trainer.global_step += number % 2  # gradients of two batches are added up
        callback.on_train_batch_end(trainer, model, None, None, number)
    callback.on_train_batch_start(trainer, model, None, 4)
    model(torch.ones(2, 4))
    callback.on_exception(trainer, model, ValueError("on purpose"))
    assert linears(tmp_path) == [(0, True, 2), (1, True, 2), (2, False, 1)]


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("transformers", "accelerate")),
    reason="needs transformers and accelerate",
)
def test_a_trainer_of_transformers(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=2, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    data = [{"x": torch.ones(4), "labels": torch.zeros(1)} for _ in range(8)]
    callback = callbacks.for_transformers(run="npu", lake=tmp_path / "lake", level="L0")
    Trainer(Net(), arguments, train_dataset=data, callbacks=[callback]).train()
    assert linears(tmp_path / "lake") == [(0, True, 2), (1, True, 2)]


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="needs lightning")
def test_a_trainer_of_lightning(tmp_path: Path) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def training_step(self, batch: Any, _number: int) -> Any:
            return self.layer(batch).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = callbacks.for_lightning(run="npu", lake=tmp_path / "lake", level="L0")
    trainer = lightning.Trainer(
        max_steps=2, accumulate_grad_batches=2, accelerator="cpu", callbacks=[callback], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2))
    assert linears(tmp_path / "lake") == [(0, True, 2), (1, True, 2)]
