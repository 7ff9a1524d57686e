"""A wave learned from its equation: derivatives of the network are part of the loss (double backward); Adam."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

WIDTH, POINTS = 32, 64


class Features(nn.Module):
    """Waves of random frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.randn(2, WIDTH // 2))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        angles = points @ self.frequencies
        return torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1)


class Block(nn.Module):
    """Two layers around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.act = nn.Tanh()
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.second(self.act(self.first(hidden)))


class Wave(nn.Module):
    """The displacement at a place and time, and by how much it breaks the equation of a wave."""

    speed = 1.0
    border = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.features = Features()
        self.inwards = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.outwards = nn.Linear(WIDTH, 1)

    def displacement(self, points: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.inwards(self.features(points)))
        for block in self.blocks:
            hidden = block(hidden)
        return self.outwards(hidden)[:, 0]

    def forward(self, points: torch.Tensor, edge: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        points = points.detach().requires_grad_()
        first = torch.autograd.grad(self.displacement(points).sum(), points, create_graph=True)[0]
        of_place = torch.autograd.grad(first[:, 0].sum(), points, create_graph=True)[0][:, 0]
        of_time = torch.autograd.grad(first[:, 1].sum(), points, create_graph=True)[0][:, 1]
        residual = of_time - self.speed**2 * of_place
        wrong = self.displacement(edge) - value
        return torch.mean(residual**2) + self.border * torch.mean(wrong**2)


def build() -> Training:
    generator = torch.Generator().manual_seed(65)
    batches = []
    for _ in range(2):
        edge = torch.rand(POINTS // 2, 2, generator=generator)
        batches.append({
            "points": torch.rand(POINTS, 2, generator=generator),
            "edge": edge,
            "value": torch.sin(math.pi * edge[:, 0]),
        })  # fmt: skip
    settings = {"lr": 1e-3, "foreach": False}
    return Training(Wave(), batches, torch.optim.Adam, settings)


def _speed(training: Training) -> None:
    training.network.speed = 1.02


def _border(training: Training) -> None:
    training.network.border = 11.0


def _frequencies(training: Training) -> None:
    training.module("features").frequencies *= 1.01


def _sines_last(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def rewired(points: torch.Tensor) -> torch.Tensor:
        angles = points @ module.frequencies
        return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)

    return rewired


def _no_residual(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda hidden: module.second(module.act(module.first(hidden)))


def _point(batch: Batch) -> None:
    batch["points"] = batch["points"].clone()
    batch["points"][7, 0] += 0.05


def _value(batch: Batch) -> None:
    batch["value"] = batch["value"].clone()
    batch["value"][3] += 0.05


def _scaled_edge(batch: Batch) -> None:
    batch["edge"] = batch["edge"] * 1.01


DEFECTS = (
    Defect("speed", "argument", call(r"__r?mul__|mul"), _speed),
    Defect("border", "argument", call(r"__r?mul__|mul"), _border),
    Defect("frequencies", "weights", within("features", r"__r?matmul__|matmul"), _frequencies),
    defects.changed_forward("sines_last", "wiring", "features", _sines_last,
                            (*within("features", "sin|cos"), *inside("inwards", "linear"))),
    defects.changed_forward("no_residual", "op", "blocks.1", _no_residual, within("blocks.1", r"__r?add__|add")),
    defects.replaced("activation", "blocks.1.act", lambda old: nn.Softsign()),
    defects.replaced("sigmoid", "blocks.2.act", lambda old: nn.SiLU()),
    defects.lower_precision("bf16", "blocks.0.second", "linear"),
    defects.changed_weight("one_element", "blocks.1.first", "linear", defects.one_element),
    defects.changed_weight("transposed", "blocks.2.second", "linear", defects.transposed),
    defects.changed_weight("reinitialised", "blocks.0.first", "linear", defects.reinitialised),
    defects.swapped_weights("swapped", "blocks.1.first", "blocks.1.second"),
    defects.frozen("frozen", "blocks.1.first", "linear"),
    defects.other_data("point", within("features", r"__r?matmul__|matmul") + call("detach"), _point),
    defects.other_data("value", call(r"__r?sub__|sub"), _value, batch=1),
    defects.other_data("edge", within("features", r"__r?matmul__|matmul"), _scaled_edge),
    defects.optimizer("betas", r"lerp_|mul_|addcmul_", betas=(0.9, 0.99)),
    defects.optimizer("eps", r"add_|addcdiv_", eps=1e-6),
    defects.no_clipping(),
    defects.faulty_kernel("tanh_kernel", inside("blocks.0.act", "tanh"), ATEN.tanh, 1, scaled(1.002)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
