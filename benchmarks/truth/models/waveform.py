"""Samples of sound, one after another: dilated causal convolutions with gates, weights with a norm of their own, and a
mixture of logistic distributions cut to the steps of 8 bits.

What a user changes: a dilation, padding on both sides, halves of a gate, the scale of a residual, what is skipped, a
bound of a logarithm, the width of a step, an edge that is not open, the condition, the norm of a weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

BATCH, LENGTH, WIDTH, SKIPPED, SPEAKERS, MIXTURES = 3, 40, 16, 24, 5, 4


class Block(nn.Module):
    """A dilated convolution with a gate; what it adds and what it hands to the end."""

    is_causal, tanh_first, root, adds_condition = True, True, math.sqrt(0.5), True

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.conv = weight_norm(nn.Conv1d(WIDTH, 2 * WIDTH, 2, dilation=dilation))
        self.condition = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.keep, self.skip = weight_norm(nn.Conv1d(WIDTH, WIDTH, 1)), weight_norm(nn.Conv1d(WIDTH, SKIPPED, 1))

    def forward(self, x: torch.Tensor, speaker: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = (self.dilation, 0) if self.is_causal else (0, self.dilation)
        both = self.conv(functional.pad(x, before))
        if self.adds_condition:
            both = both + self.condition(speaker).unsqueeze(-1)
        filtered, gate = both.chunk(2, dim=1) if self.tanh_first else reversed(both.chunk(2, dim=1))
        gated = torch.tanh(filtered) * torch.sigmoid(gate)
        return (x + self.keep(gated)) * self.root, self.skip(gated)


def logistic_loss(
    given: torch.Tensor, samples: torch.Tensor, steps: int, least: float, open_edges: bool, least_log: float
) -> torch.Tensor:
    """How unlikely samples are in a mixture of logistic distributions, of which each step holds a part."""
    weights, means, log_scales = given.chunk(3, dim=-1)
    log_scales = torch.clamp(log_scales, min=least_log)
    samples = samples.unsqueeze(-1).expand_as(means)
    centred = samples - means
    inverse = torch.exp(-log_scales)
    above, below = inverse * (centred + 1.0 / steps), inverse * (centred - 1.0 / steps)
    share = torch.sigmoid(above) - torch.sigmoid(below)
    middle = inverse * centred
    density = middle - log_scales - 2.0 * functional.softplus(middle)
    inner = torch.where(share > 1e-5, torch.log(torch.clamp(share, min=least)), density - math.log(steps / 2))
    if open_edges:
        inner = torch.where(samples > 0.999, -functional.softplus(below), inner)
        inner = torch.where(samples < -0.999, above - functional.softplus(above), inner)
    return -torch.logsumexp(inner + functional.log_softmax(weights, dim=-1), dim=-1)


class Waveform(nn.Module):
    """How unlikely each sample is after those before it."""

    steps, least, least_log, open_edges, ahead, has_first = 255, 1e-12, -7.0, True, 1, True

    def __init__(self) -> None:
        super().__init__()
        self.speakers = nn.Embedding(SPEAKERS, WIDTH)
        self.enter = weight_norm(nn.Conv1d(1, WIDTH, 1))
        self.blocks = nn.ModuleList(Block(2**nth) for nth in (0, 1, 2, 0, 1, 2))
        self.first, self.last = nn.Conv1d(SKIPPED, SKIPPED, 1), nn.Conv1d(SKIPPED, 3 * MIXTURES, 1)

    def forward(self, samples: torch.Tensor, speaker: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        condition = self.speakers(speaker)
        x = self.enter(samples.unsqueeze(1))
        skipped = torch.zeros(BATCH, SKIPPED, LENGTH, dtype=x.dtype)
        for nth, block in enumerate(self.blocks):
            x, skip = block(x, condition)
            if nth > 0 or self.has_first:
                skipped += skip
        given = self.last(functional.relu(self.first(functional.relu(skipped)))).transpose(1, 2)
        loss = logistic_loss(
            given[:, : -self.ahead], samples[:, self.ahead :], self.steps, self.least, self.open_edges, self.least_log
        )
        mask = (torch.arange(LENGTH - self.ahead)[None] < lengths[:, None]).to(loss.dtype)
        return (loss * mask).sum() / mask.sum()


def build() -> Training:
    generator = torch.Generator().manual_seed(131)
    batches: list[Batch] = []
    for _ in range(2):
        pitch = torch.rand(BATCH, 1, generator=generator) * 0.8 + 0.2
        wave = torch.sin(torch.arange(LENGTH) * pitch) * 1.1 + torch.randn(BATCH, LENGTH, generator=generator) * 0.1
        batches.append(
            {
                "samples": (wave.clamp(-1, 1) * 127.5).round() / 127.5,
                "speaker": torch.randint(0, SPEAKERS, (BATCH,), generator=generator),
                "lengths": torch.tensor([LENGTH, LENGTH - 4, LENGTH - 11]),
            }
        )
    settings = {"lr": 1e-3, "eps": 1e-8, "foreach": False}
    return Training(Waveform(), batches, optimizer=torch.optim.Adam, settings=settings, clip=0.2)


def _dilation(training: Training) -> None:
    block = training.module("blocks.4")
    block.dilation, block.conv.dilation = 1, (1,)


def _one_norm(training: Training) -> None:
    training.module("blocks.2.keep").parametrizations.weight[0].dim = -1


def _tanh(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: torch.tanh(forward(x))


def _fewer_samples(batch: Batch) -> None:
    batch["lengths"] = batch["lengths"] - 1


def _linear(batch: Batch) -> None:
    batch["samples"] = torch.sign(batch["samples"]) * batch["samples"].abs() ** 1.1


LOSS = "__add__|__sub__|__radd__|__truediv__|add|sub"

DEFECTS = (
    Defect("dilation", "argument", within("blocks.4", "pad|conv1d"), _dilation),
    defects.setting("acausal", "blocks.3", "is_causal", False, "pad"),
    defects.setting("gate_first", "blocks.1", "tanh_first", False, "tanh|sigmoid"),
    defects.setting("root", "blocks.2", "root", 1.0, "__mul__|mul"),
    defects.setting("unconditioned", "blocks.5", "adds_condition", False, "linear|__add__"),
    Defect("one_norm", "argument", inside("blocks.2.keep.parametrizations.weight.0", r"\w+"), _one_norm),
    defects.of_network("first_forgotten", "wiring", call("__iadd__|add_"), has_first=False),
    defects.of_network("steps", "argument", call(LOSS), steps=256),
    defects.of_network("closed_edges", "op", call("where|softplus|__gt__|gt|__lt__"), open_edges=False),
    defects.of_network("least_log", "argument", call("clamp|exp"), least_log=-0.05),
    defects.of_network("same_sample", "wiring", call(f"{LOSS}|chunk"), ahead=2),
    defects.lower_precision("low_skip", "blocks.3.skip", "conv1d"),
    defects.changed_forward("more_tanh", "op", "first", _tanh, within("first", "tanh")),
    defects.changed_weight(
        "magnitude",
        "blocks.1.keep.parametrizations.weight",
        r"\w+",
        lambda weight: weight * 1.003,
        "original0",
        shows=inside("blocks.1.keep.parametrizations.weight.0", r"\w+"),
    ),
    defects.changed_weight(
        "one_weight",
        "blocks.4.conv.parametrizations.weight",
        r"\w+",
        defects.one_element,
        "original1",
        shows=inside("blocks.4.conv.parametrizations.weight.0", r"\w+"),
    ),
    defects.changed_weight("bias", "last", "conv1d", lambda bias: bias.roll(MIXTURES), "bias"),
    defects.changed_weight("flipped", "first", "conv1d", lambda weight: weight.flip(1)),
    defects.frozen("frozen", "speakers", "embedding", shows=call("embedding", "backward")),
    defects.other_data("lengths", call("__lt__|lt|__mul__"), _fewer_samples),
    defects.other_data("linear", inside("enter", "conv1d") + call("conv1d"), _linear, 1),
    defects.optimizer("eps", r"add_|addcdiv_", eps=1e-5),
    defects.optimizer("decay", r"add|add_", weight_decay=1e-2),
    defects.no_clipping(),
    defects.faulty_kernel("tanh", within("blocks.2", "tanh"), ATEN.tanh, 2, one_element_wrong),
    defects.faulty_kernel("sigmoid", within("blocks.5", "sigmoid"), ATEN.sigmoid, 5, scaled(1.001)),
    defects.faulty_kernel("softplus", call("softplus"), ATEN.softplus, 1, scaled(1.002)),
    defects.faulty_kernel("conv", inside("blocks.3.keep", "conv1d"), ATEN.convolution, 11, scaled(1.002)),
)

MODEL = Model(build, DEFECTS)
