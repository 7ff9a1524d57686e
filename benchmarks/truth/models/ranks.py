"""Four ranks: two that hold the halves of each layer (tensor parallel), times two that see other data (data parallel).

Written by hand over gloo: a column-parallel product, a row-parallel one and an all-reduce of its result in every layer;
then an all-reduce of gradients, whose mean is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from benchmarks.group_sums import SumBackward, SumForward
from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training, WithLoss

VOCABULARY, WIDTH, HIDDEN, HALVES, COPIES = 60, 32, 64, 2, 2


class Layer(nn.Module):
    """A feed-forward layer of which this rank has a half, around a residual."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, HIDDEN // HALVES)
        self.down = nn.Linear(HIDDEN // HALVES, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = SumBackward.apply(self.norm(x), self.group)
        return x + SumForward.apply(self.down(functional.gelu(self.up(given))), self.group)


class Tokens(nn.Module):
    """Tokens to logits."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer(group) for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape [batch, length, vocabulary]."""
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def build() -> Training:
    """The half and the data of this rank."""
    copy, half = divmod(dist.get_rank(), HALVES)
    halves = [dist.new_group([c * HALVES + h for h in range(HALVES)]) for c in range(COPIES)]
    copies = [dist.new_group([c * HALVES + h for c in range(COPIES)]) for h in range(HALVES)]
    network = WithLoss(Tokens(halves[copy]), nn.CrossEntropyLoss())
    _take_half(network.network, half)
    batches = [
        {"inputs": tokens, "labels": tokens.roll(-1, 1)} for tokens in random_tokens(60 + copy, (3, 12), VOCABULARY)
    ]
    return Training(network, batches, clip=None, after_backward=Average(copies[half]))


def _take_half(network: Tokens, half: int) -> None:
    """Give this rank its half of the layers, out of random numbers that all ranks share."""
    generator = torch.Generator().manual_seed(77)
    with torch.no_grad():
        for layer in network.layers:
            for linear, dimension in ((layer.up, 0), (layer.down, 1)):
                shape = list(linear.weight.shape)
                shape[dimension] *= HALVES
                whole = torch.randn(shape, generator=generator) * 0.15
                linear.weight.copy_(whole.chunk(HALVES, dimension)[half])


@dataclass
class Average:
    """The mean of the gradients over the ranks that see other data."""

    group: dist.ProcessGroup
    divisor: int = COPIES

    def __call__(self, network: nn.Module) -> None:
        """Take the mean of each gradient, in its place."""
        for parameter in network.parameters():
            dist.all_reduce(parameter.grad, group=self.group)
            parameter.grad /= self.divisor


def _on(rank: int, defect: Defect) -> Defect:
    """The defect on one rank only."""

    def plant(training: Training) -> None:
        if dist.get_rank() == rank:
            defect.plant(training)

    causes = tuple(Cause(cause.op, cause.module, rank) for cause in defect.causes)
    return Defect(defect.name, defect.kind, causes, plant, defect.step)


def _no_sum(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The halves are not added up."""

    def alone(x: torch.Tensor) -> torch.Tensor:
        given = SumBackward.apply(module.norm(x), module.group)
        return x + module.down(functional.gelu(module.up(given)))

    return alone


def _half_mean(training: Training) -> None:
    """Gradients are divided by another number than there are copies."""
    training.after_backward.divisor = 1


def _other_token(batch: Batch) -> None:
    replace_token(batch, "inputs", VOCABULARY)


LAYER = "network.layers"
EMBEDDING = inside("network.tokens", "embedding")
DEFECTS = (
    _on(2, defects.setting("norm_eps", f"{LAYER}.1.norm", "eps", 1e-3, "layer_norm")),
    _on(1, defects.changed_weight("wrong_half", f"{LAYER}.1.down", "linear", defects.reinitialised)),
    _on(3, defects.changed_weight("one_element", f"{LAYER}.0.up", "linear", defects.one_element)),
    _on(0, defects.lower_precision("down_bf16", f"{LAYER}.2.down", "linear")),
    defects.changed_forward("no_sum", "wiring", f"{LAYER}.2", _no_sum, within(f"{LAYER}.2", "all_reduce|clone")),
    Defect("not_averaged", "loop", call("__i?truediv__|div_?|lerp_"), _half_mean),
    _on(2, defects.other_data("token", EMBEDDING, _other_token)),
    _on(1, defects.other_data("later_token", EMBEDDING, _other_token, batch=1)),
    _on(2, defects.optimizer("betas", "mul_|addcmul_", betas=(0.9, 0.99))),
    _on(0, defects.optimizer("decay", "mul_", weight_decay=0.1)),
    _on(3, defects.faulty_kernel("up_kernel", inside(f"{LAYER}.1.up", "linear"), ATEN.addmm, 1, scaled(1.001))),
    _on(
        1,
        defects.faulty_kernel(
            "norm_one_element", inside(f"{LAYER}.2.norm", "layer_norm"), ATEN.native_layer_norm, 2, one_element_wrong
        ),
    ),
    _on(
        2,
        defects.faulty_kernel(
            "norm_backward",
            inside(f"{LAYER}.1.norm", "layer_norm", "backward"),
            ATEN.native_layer_norm_backward,
            1,
            scaled(1.002),
        ),
    ),
    defects.two(
        "eps_and_betas",
        _on(0, defects.setting("", f"{LAYER}.0.norm", "eps", 1e-3, "layer_norm")),
        _on(3, defects.optimizer("", "mul_|addcmul_", betas=(0.9, 0.99))),
    ),
)

MODEL = Model(build, DEFECTS, ranks=HALVES * COPIES)
