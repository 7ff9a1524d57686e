"""Clouds of points in classes: nearest neighbours, gathered edges, the largest message, a learnt turn; Adadelta.

What a user changes: how many neighbours, whether a point is its own, an edge's two ends, an offset of flat indices, the
mean in place of the largest, a turn that is transposed, power iterations of a spectral norm, labels that are smoothed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

CLOUDS, POINTS, NEIGHBOURS, WIDTH, CLASSES = 6, 20, 5, 24, 5


class Turn(nn.Module):
    """A matrix that turns a cloud, near to the identity."""

    is_transposed = False

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(3, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.out = nn.Linear(WIDTH, 9)

    def forward(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.out(self.each(points).amax(1)).view(-1, 3, 3) * 0.1
        turn = found + torch.eye(3, dtype=points.dtype)
        return torch.bmm(points, turn.transpose(1, 2) if self.is_transposed else turn), turn


class Edges(nn.Module):
    """What each point hears of its neighbours."""

    neighbours, skip, offset, is_relative, own_first, largest = NEIGHBOURS, 1, POINTS, True, False, True

    def __init__(self, inward: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * inward, WIDTH, bias=False)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.activation = nn.LeakyReLU(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        apart = torch.cdist(x.float(), x.float())
        near = apart.topk(self.neighbours + self.skip, dim=-1, largest=False).indices[..., self.skip :]
        flat = near + torch.arange(CLOUDS)[:, None, None] * self.offset
        others = x.reshape(CLOUDS * POINTS, -1).index_select(0, flat.flatten()).view(*flat.shape, -1)
        own = x[:, :, None].expand_as(others)
        others = others - own if self.is_relative else others
        edges = torch.cat([own, others] if self.own_first else [others, own], -1)
        heard = self.norm(self.linear(edges).flatten(0, 2)).view(*flat.shape, -1)
        heard = self.activation(heard)
        return heard.amax(2) if self.largest else heard.mean(2)


class Points(nn.Module):
    """The loss over classes, and how far the turn is from one that keeps lengths."""

    share, smoothing = 0.05, 0.1

    def __init__(self) -> None:
        super().__init__()
        self.turn = Turn()
        self.edges = nn.ModuleList([Edges(3), Edges(WIDTH)])
        self.wide = nn.utils.parametrizations.spectral_norm(nn.Linear(2 * WIDTH, 2 * WIDTH))
        self.head = nn.Sequential(
            nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Hardswish(), nn.Dropout(0.3), nn.Linear(WIDTH, CLASSES)
        )

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x, turn = self.turn(points)
        found = []
        for layer in self.edges:
            x = layer(x)
            found.append(x)
        wide = functional.leaky_relu(self.wide(torch.cat(found, -1)), 0.2)
        logits = self.head(torch.cat([wide.amax(1), wide.mean(1)], -1))
        unlike = torch.bmm(turn, turn.transpose(1, 2)) - torch.eye(3, dtype=turn.dtype)
        loss = functional.cross_entropy(logits, labels, label_smoothing=self.smoothing)
        return loss + self.share * torch.linalg.matrix_norm(unlike.float()).mean()


def build() -> Training:
    generator = torch.Generator().manual_seed(97)
    batches: list[Batch] = []
    for _ in range(2):
        labels = torch.randint(0, CLASSES, (CLOUDS,), generator=generator)
        points = torch.randn(CLOUDS, POINTS, 3, generator=generator)
        batches.append({"points": points * (1 + 0.2 * labels[:, None, None]), "labels": labels})
    return Training(
        Points(), batches, optimizer=torch.optim.Adadelta, settings={"lr": 1.0, "rho": 0.9, "foreach": False}, clip=2.0
    )


def _iterations(training: Training) -> None:
    training.module("wide.parametrizations.weight.0").n_power_iterations = 2


def _stale(training: Training) -> None:
    buffer = training.module("wide.parametrizations.weight.0")._v
    buffer.copy_(functional.normalize(torch.randn(buffer.shape, generator=torch.Generator().manual_seed(5)), dim=0))


def _tail(value: torch.Tensor) -> torch.Tensor:
    """The last row is not written."""
    changed = ATEN.clone.default(value)
    ATEN.zero_.default(ATEN.select.int(changed, 0, -1))
    return changed


def _last_point(batch: Batch) -> None:
    batch["points"][0, -1] = batch["points"][0, 0]


def _low_norm(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: forward(x.half().to(x.dtype))


DEFECTS = (
    defects.setting("neighbours", "edges.0", "neighbours", 4, "topk"),
    defects.setting("itself", "edges.1", "skip", 0, "topk"),
    defects.setting("offset", "edges.0", "offset", POINTS - 1, "__mul__|mul"),
    defects.setting("absolute", "edges.1", "is_relative", False, "__sub__|sub|cat"),
    defects.setting("own_first", "edges.0", "own_first", True, "cat|linear"),
    defects.setting("mean", "edges.1", "largest", False, "amax|mean"),
    defects.setting("transposed", "turn", "is_transposed", True, "transpose|bmm"),
    defects.setting("slope", "edges.0.activation", "negative_slope", 0.1, "leaky_relu"),
    defects.setting("momentum", "edges.1.norm", "momentum", 0.01, "batch_norm"),
    defects.changed_forward("half_norm", "dtype", "head.1", _low_norm, inside("head.1", "half|to|layer_norm")),
    Defect("iterations", "op", within("wide", r"\w+"), _iterations),
    Defect("stale", "weights", within("wide", r"\w+"), _stale),
    defects.of_network("smoothing", "argument", call("cross_entropy"), smoothing=0.0),
    defects.of_network("share", "argument", call("__mul__|__rmul__|mul"), share=0.1),
    defects.setting("dropout", "head.3", "p", 0.2, "dropout"),
    defects.other_data("repeated", (*within("turn", "linear|bmm"), *inside("turn.each.0", "linear")), _last_point),
    defects.changed_weight("one_weight", "edges.1.linear", "linear", defects.one_element),
    defects.optimizer("rho", r"mul_|addcmul_|_foreach_mul_", rho=0.95),
    defects.faulty_kernel("gather", within("edges.1", "index_select"), ATEN.index_select, 1, _tail),
    defects.faulty_kernel("hardswish", inside("head.2", "hardswish"), ATEN.hardswish, 0, one_element_wrong),
    defects.faulty_kernel("bmm", within("turn", "bmm"), ATEN.bmm, 0, scaled(1.002)),
)

MODEL = Model(build, DEFECTS)
