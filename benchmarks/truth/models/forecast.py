"""A forecaster of series: causal convolutions with batch norms, a GRU and a robust loss; gradients averaged in float32.

What a user changes: the order of norm and activation, the decay that Adam adds to gradients or to weights, gradients
that are reduced in low precision, a sum in place of an average, the running share of a batch norm.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

SERIES, WIDTH, BATCH, LENGTH, AHEAD = 3, 24, 8, 40, 4


class Block(nn.Module):
    """A causal convolution, a norm and an activation around a residual."""

    is_activated_first = False

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(functional.pad(x, (self.past, 0)))
        y = self.norm(functional.elu(y)) if self.is_activated_first else functional.elu(self.norm(y))
        return x + y


class Forecast(nn.Module):
    """The next values of some series."""

    beta = 0.5

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(SERIES, WIDTH, 1)
        self.blocks = nn.ModuleList(Block(2**n) for n in range(4))
        self.memory = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, SERIES * AHEAD)

    def forward(self, past: torch.Tensor, future: torch.Tensor) -> torch.Tensor:
        level = past.mean(-1, keepdim=True)
        spread = past.std(-1, keepdim=True) + 1e-3
        hidden = self.enter((past - level) / spread)
        for block in self.blocks:
            hidden = block(hidden)
        states, _ = self.memory(hidden.transpose(1, 2))
        ahead = self.out(states[:, -1]).unflatten(-1, (SERIES, AHEAD)) * spread + level
        return functional.smooth_l1_loss(ahead, future, beta=self.beta)


def _averaged(network: nn.Module) -> None:
    """What data parallel training does to gradients: halves what two ranks added up."""
    for parameter in network.parameters():
        parameter.grad.add_(parameter.grad).div_(2)


def build() -> Training:
    generator = torch.Generator().manual_seed(53)
    batches: list[Batch] = []
    for _ in range(2):
        walk = torch.randn(BATCH, SERIES, LENGTH + AHEAD, generator=generator).cumsum(-1)
        batches.append({"past": walk[..., :LENGTH], "future": walk[..., LENGTH:]})
    settings = {"lr": 3e-3, "weight_decay": 0.01, "foreach": False}
    return Training(Forecast(), batches, settings=settings, after_backward=_averaged, clip=0.1)


def _order(training: Training) -> None:
    training.module("blocks.2").is_activated_first = True


def _in_low_precision(network: nn.Module) -> None:
    for parameter in network.parameters():
        other = torch.float16 if parameter.dtype == torch.bfloat16 else torch.bfloat16
        low = parameter.grad.to(other)
        parameter.grad.copy_(low.add_(low).div_(2))


def _reduced_low(training: Training) -> None:
    training.after_backward = _in_low_precision


def _not_averaged(network: nn.Module) -> None:
    for parameter in network.parameters():
        parameter.grad.add_(parameter.grad)


def _sums(training: Training) -> None:
    training.after_backward = _not_averaged


def _into_gradients(training: Training) -> None:
    training.optimizer = torch.optim.Adam


def _beta(training: Training) -> None:
    training.network.beta = 1.0


def _not_causal(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def centred(x: torch.Tensor) -> torch.Tensor:
        return forward(x.roll(-1, -1))

    return centred


_ORDER = (*within("blocks.2", r"elu|batch_norm"), Cause(r"^Module\.blocks\.2\.norm\.BatchNorm1d\.forward"))

DEFECTS = (
    Defect("order", "wiring", _ORDER, _order),
    Defect("reduced_low", "dtype", call(r"to|add_"), _reduced_low),
    Defect("sums", "loop", call(r"div_|_foreach_norm|vector_norm"), _sums),
    Defect("into_gradients", "loop", call(r"mul_|add|lerp_"), _into_gradients),
    Defect("beta", "argument", call("smooth_l1_loss"), _beta),
    defects.setting("momentum", "blocks.1.norm", "momentum", 0.01, "batch_norm"),
    defects.changed_forward("roll", "wiring", "blocks.3.conv", _not_causal, within("blocks.3.conv", "roll|conv1d")),
    defects.faulty_kernel("conv_kernel", inside("blocks.2.conv", "conv1d"), ATEN.convolution, 3, scaled(1.001)),
    defects.faulty_kernel(
        "elu_backward", within("blocks.1", "elu", "backward"), ATEN.elu_backward, 2, one_element_wrong
    ),
)


MODEL = Model(build, DEFECTS)
