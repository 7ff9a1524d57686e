"""A classifier of sequences with quantised linears and a mixture of experts, trained through the rounding; SGD.

A weight is rounded to 8 bits by row, and its gradient passes as if it were not. Each token goes to two of four experts,
and a loss of its own keeps them equally busy. What a user changes: a scale for the whole weight, the number of bits,
the order of softmax and choice, a norm behind the residual.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, within
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

FEATURES, WIDTH, EXPERTS, CHOSEN, CLASSES, BATCH, LENGTH = 20, 32, 4, 2, 7, 6, 12


class Quantised(nn.Linear):
    """A linear layer whose weight is rounded to 8 bits."""

    is_by_row = True
    largest = 127.0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        size = self.weight.detach().abs()
        scale = (size.amax(dim=1, keepdim=True) if self.is_by_row else size.amax()) / self.largest
        rounded = torch.clamp(torch.round(self.weight / scale), -self.largest, self.largest) * scale
        return functional.linear(input, self.weight + (rounded - self.weight).detach(), self.bias)


class Experts(nn.Module):
    """Sends each token to two of four experts."""

    chosen = CHOSEN
    is_chosen_first = False
    """Whether the softmax is over the chosen experts only."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(Quantised(WIDTH, 2 * WIDTH), nn.SiLU(), Quantised(2 * WIDTH, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = x.flatten(0, 1)
        scores = self.router(tokens)
        shares = torch.softmax(scores, dim=-1)
        if self.is_chosen_first:
            kept, chosen = torch.topk(scores, self.chosen, dim=-1)
            kept = torch.softmax(kept, dim=-1)
        else:
            kept, chosen = torch.topk(shares, self.chosen, dim=-1)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            output = output.index_add(0, token, expert(tokens[token]) * kept[token, place, None])
        busy = functional.one_hot(chosen, EXPERTS).to(shares.dtype).sum(1).mean(0)
        return output.view_as(x), EXPERTS * (busy * shares.mean(0)).sum() / self.chosen


class Layer(nn.Module):
    """Mixes along the sequence, then through experts, each around a residual."""

    is_post = False

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(LENGTH, LENGTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.experts = Experts()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.is_post:
            x = self.norm1(x + self.mix(x.transpose(1, 2)).transpose(1, 2))
        else:
            x = x + self.mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        added, busy = self.experts(self.norm2(x))
        return x + added, busy


class Classifier(nn.Module):
    """Features of a sequence to its class."""

    share_of_busy = 0.01

    def __init__(self) -> None:
        super().__init__()
        self.enter = Quantised(FEATURES, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = Quantised(WIDTH, CLASSES)

    def forward(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.enter(features)
        total = torch.zeros((), dtype=hidden.dtype)
        for layer in self.layers:
            hidden, busy = layer(hidden)
            total = total + busy
        logits = self.head(self.norm(hidden).mean(1))
        return functional.cross_entropy(logits, labels) + self.share_of_busy * total


def build() -> Training:
    generator = torch.Generator().manual_seed(31)
    batches: list[Batch] = [
        {
            "features": torch.randn(BATCH, LENGTH, FEATURES, generator=generator),
            "labels": torch.randint(0, CLASSES, (BATCH,), generator=generator),
        }
        for _ in range(2)
    ]
    settings = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4, "foreach": False}
    return Training(Classifier(), batches, optimizer=torch.optim.SGD, settings=settings)


def _by_tensor(training: Training) -> None:
    training.module("layers.1.experts.experts.2.0").is_by_row = False


def _seven_bits(training: Training) -> None:
    training.module("enter").largest = 63.0


def _one_chosen(training: Training) -> None:
    training.module("layers.0.experts").chosen = 1


def _chosen_first(training: Training) -> None:
    training.module("layers.1.experts").is_chosen_first = True


def _share_of_busy(training: Training) -> None:
    training.network.share_of_busy = 0.02


def _post(training: Training) -> None:
    training.module("layers.1").is_post = True


DEFECTS = (
    Defect("by_tensor", "argument", within("layers.1.experts.experts.2.0", r"amax"), _by_tensor),
    Defect("seven_bits", "argument", within("enter", r"__r?truediv__|div|clamp"), _seven_bits),
    Defect("one_chosen", "argument", within("layers.0.experts", "topk"), _one_chosen),
    Defect("chosen_first", "wiring", within("layers.1.experts", "topk|softmax"), _chosen_first),
    Defect("share_of_busy", "argument", call(r"__r?mul__"), _share_of_busy),
    Defect("post", "wiring", (*within("layers.1", r"transpose|linear|__r?add__|layer_norm"),), _post),
    defects.optimizer("plain_momentum", r"add_?|mul_|sub_|clone", nesterov=False),
    defects.faulty_kernel(
        "silu_backward", within("layers.0.experts.experts.3", "silu", "backward"), ATEN.silu_backward, 4, scaled(1.002)
    ),
)


MODEL = Model(build, DEFECTS)
