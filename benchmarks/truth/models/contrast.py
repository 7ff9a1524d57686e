"""Two views of each picture are to be alike: an encoder with batch norms, and a slow copy of it that gives the targets.

What a user changes: the temperature, the pace of the slow copy, the dimension of a norm, gradients into the targets,
the order of channels, Nesterov's momentum, where the norm of a projection is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Batch, Training

WIDTH, BATCH, SIZE = 16, 12, 12


class Residual(nn.Module):
    """Two convolutions with norms around a shortcut."""

    def __init__(self, inward: int, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inward, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.short = nn.Conv2d(inward, width, 1, stride=2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.short(x))


class Encoder(nn.Module):
    """A picture as a direction."""

    dimension = -1

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(Residual(3, WIDTH), Residual(WIDTH, 2 * WIDTH))
        self.project = nn.Sequential(
            nn.Linear(2 * WIDTH, 2 * WIDTH), nn.BatchNorm1d(2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.project(self.stages(x).mean((2, 3))), dim=self.dimension)


class Contrast(nn.Module):
    """The loss of two views, each predicted from the other."""

    temperature, pace, stops = 0.2, 0.9, True

    def __init__(self) -> None:
        super().__init__()
        self.online = Encoder()
        self.slow = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for slow, online in zip(self.slow.parameters(), self.online.parameters(), strict=True):
                slow.mul_(self.pace).add_(online, alpha=1 - self.pace)
        asked = self.online(first)
        with torch.set_grad_enabled(not self.stops):
            answers = self.slow(second) if self.stops else self.online(second)
        likeness = asked @ answers.T / self.temperature
        own = torch.arange(len(first))
        return (functional.cross_entropy(likeness, own) + functional.cross_entropy(likeness.T, own)) / 2


def build() -> Training:
    generator = torch.Generator().manual_seed(67)
    batches: list[Batch] = []
    for _ in range(2):
        pictures = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator)
        noise = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator) * 0.3
        batches.append({"first": pictures.flip(-1), "second": pictures + noise})
    settings = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4, "nesterov": True, "foreach": False}
    return Training(Contrast(), batches, optimizer=torch.optim.SGD, settings=settings, clip=None)


def _channels_last(batch: Batch) -> None:
    batch["first"] = batch["first"].flip(1)


def _norm_after(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def other(x: torch.Tensor) -> torch.Tensor:
        y = module.norm1(functional.relu(module.conv1(x)))
        return functional.relu(module.norm2(module.conv2(y)) + module.short(x))

    return other


DEFECTS = (
    defects.of_network("temperature", "argument", call("__truediv__|div"), temperature=0.25),
    defects.of_network("pace", "argument", call("mul_|add_"), pace=0.99),
    defects.of_network(
        "into_targets",
        "wiring",
        (*call("mul_|add_"), *within("slow", r"\w+"), *within("online", r"\w+")),
        stops=False,
    ),
    defects.setting("dimension", "online", "dimension", 0, "normalize|linalg_vector_norm|norm|div|expand_as|clamp_min"),
    defects.setting("eps", "online.stages.1.norm2", "eps", 1e-3, "batch_norm"),
    defects.setting("momentum", "online.project.1", "momentum", 0.01, "batch_norm"),
    defects.changed_forward(
        "norm_after", "wiring", "online.stages.1", _norm_after, within("online.stages.1", "relu|batch_norm")
    ),
    defects.other_data(
        "channels", (*inside("online.stages.0.conv1", "conv2d"), *within("online.stages.0", "conv2d")), _channels_last
    ),
    defects.changed_weight(
        "transposed",
        "online.stages.0.conv2",
        "conv2d",
        lambda weight: weight.transpose(0, 1),
        shows=call("add_"),
    ),
    defects.optimizer("no_nesterov", r"add|add_", nesterov=False),
    defects.optimizer("decay", r"add|add_", weight_decay=1e-3),
    defects.faulty_kernel(
        "conv_weight", within("online.stages.1", "conv2d", "backward"), ATEN.convolution_backward, 1, scaled(1.002), 1
    ),
    defects.faulty_kernel("conv_forward", within("online.stages.1", "conv2d"), ATEN.convolution, 3, scaled(1.001)),
)

MODEL = Model(build, DEFECTS)
