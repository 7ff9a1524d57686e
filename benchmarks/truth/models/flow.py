"""A normalizing flow with a condition: norms set by the first batch, mixing by L and U, affine couplings; Adam.

What a user changes: the bound of a scale, a log-determinant's sign, one that is forgotten or has no gradient, the half
that is kept, the deviation of a sample, the constant of a normal distribution, a schedule that is a step late.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

WIDTH, HIDDEN, BATCH, KINDS = 10, 32, 24, 4

Moved = tuple[torch.Tensor, torch.Tensor]
"""Values, and the logarithm of how much the step before spread them."""


class Standard(nn.Module):
    """A shift and a scale per channel, which make the first batch standard."""

    eps, correction = 1e-6, 1

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(WIDTH))
        self.log_scale = nn.Parameter(torch.zeros(WIDTH))
        self.is_set = False

    def forward(self, x: torch.Tensor) -> Moved:
        if not self.is_set:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.log_scale.copy_(-torch.log(x.std(0, correction=self.correction) + self.eps))
            self.is_set = True
        return (x + self.shift) * torch.exp(self.log_scale), self.log_scale.sum()


class Mixing(nn.Module):
    """A matrix that has an inverse: a permutation, a lower and an upper triangle."""

    below, is_transposed = -1, False

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("order", torch.eye(WIDTH)[torch.randperm(WIDTH)])
        self.lower = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.1)
        self.upper = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.1)
        self.log_diagonal = nn.Parameter(torch.randn(WIDTH) * 0.1)

    def forward(self, x: torch.Tensor) -> Moved:
        lower = torch.tril(self.lower, diagonal=self.below) + torch.eye(WIDTH, dtype=x.dtype)
        upper = torch.triu(self.upper, diagonal=1) + torch.diag(torch.exp(self.log_diagonal))
        matrix = self.order @ lower @ upper
        return x @ (matrix.T if self.is_transposed else matrix), self.log_diagonal.sum()


class Coupling(nn.Module):
    """One half is scaled and shifted by what a network makes of the other half and of the condition."""

    bound, keeps_first, has_gradient = 2.0, True, True

    def __init__(self) -> None:
        super().__init__()
        enter = nn.Linear(WIDTH // 2 + HIDDEN // 4, HIDDEN)
        self.inner = nn.Sequential(enter, nn.ELU(), nn.Linear(HIDDEN, HIDDEN), nn.ELU(), nn.Linear(HIDDEN, WIDTH))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> Moved:
        kept, moved = x.chunk(2, dim=-1)
        if not self.keeps_first:
            kept, moved = moved, kept
        raw, shift = self.inner(torch.cat([kept, condition], -1)).chunk(2, dim=-1)
        log_scale = torch.tanh(raw / self.bound) * self.bound
        moved = moved * torch.exp(log_scale) + shift
        spread = log_scale if self.has_gradient else log_scale.detach()
        return torch.cat([kept, moved], -1), spread.sum(-1)


class Step(nn.Module):
    """A norm, a mixing and a coupling."""

    sign, counts = 1, True

    def __init__(self) -> None:
        super().__init__()
        self.standard, self.mixing, self.coupling = Standard(), Mixing(), Coupling()

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> Moved:
        x, first = self.standard(x)
        x, second = self.mixing(x)
        x, third = self.coupling(x, condition)
        spread = first + second if self.sign > 0 else first - second
        return x, spread + third if self.counts else spread


class Flow(nn.Module):
    """How unlikely a batch is, per number."""

    constant, is_mean = math.log(2 * math.pi), True

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(KINDS, HIDDEN // 4)
        self.steps = nn.ModuleList(Step() for _ in range(3))

    def forward(self, x: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
        condition = self.kinds(kind)
        total = torch.zeros(len(x), dtype=x.dtype)
        for step in self.steps:
            x, spread = step(x, condition)
            total = total + spread
        normal = -0.5 * (x.square() + self.constant).sum(-1)
        unlikely = -(normal + total)
        return unlikely.mean() / WIDTH if self.is_mean else unlikely.sum() / WIDTH


def build() -> Training:
    generator = torch.Generator().manual_seed(83)
    batches: list[Batch] = []
    mixed = torch.randn(WIDTH, WIDTH, generator=generator) * 0.5
    for _ in range(2):
        kind = torch.randint(0, KINDS, (BATCH,), generator=generator)
        batches.append(
            {"x": torch.randn(BATCH, WIDTH, generator=generator) @ mixed + kind[:, None] * 0.3, "kind": kind}
        )
    return Training(
        Flow(),
        batches,
        optimizer=torch.optim.Adam,
        settings={"lr": 2e-3, "foreach": False},
        clip=5.0,
        schedule=_warming(1),
    )


def _warming(first: int) -> Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]:
    return lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + first) / 4))


def _forgets(training: Training) -> None:
    training.network.steps[2].counts = False


DEFECTS = (
    defects.setting("bound", "steps.1.coupling", "bound", 3.0, "__truediv__|div|__mul__|mul"),
    defects.setting("correction", "steps.0.standard", "correction", 0, "std"),
    defects.setting("eps", "steps.2.standard", "eps", 1e-2, "__add__|add"),
    defects.setting("sign", "steps.1", "sign", -1, "__sub__|__add__|sub|add"),
    Defect("forgotten", "wiring", call("__add__|add"), _forgets),
    defects.setting("other_half", "steps.1.coupling", "keeps_first", False, "cat|linear"),
    defects.setting("detached", "steps.0.coupling", "has_gradient", False, r"detach|sum"),
    defects.of_network("constant", "argument", call("__add__|add"), constant=math.log(math.pi)),
    defects.of_network("sum", "op", call("sum|mean"), is_mean=False),
    defects.setting("triangle", "steps.2.mixing", "below", 0, "tril|__add__|add"),
    defects.setting("transposed", "steps.1.mixing", "is_transposed", True, "T|matmul|__matmul__|transpose"),
    defects.replaced("selu", "steps.2.coupling.inner.3", lambda module: nn.SELU(), "selu|elu"),
    defects.loop("late_schedule", call(r"addcdiv_|_foreach_addcdiv_|mul_|lerp_|add_"), schedule=_warming(0)),
    defects.optimizer("betas", r"lerp_|_foreach_lerp_|mul_|addcmul_", betas=(0.9, 0.99)),
    defects.faulty_kernel("exp", within("steps.1.coupling", "exp"), ATEN.exp, 5, scaled(1.001)),
    defects.faulty_kernel("tanh", within("steps.2.coupling", "tanh"), ATEN.tanh, 2, one_element_wrong),
    defects.faulty_kernel("linear", inside("steps.1.coupling.inner.2", "linear"), ATEN.addmm, 4, scaled(1.002)),
)

MODEL = Model(build, DEFECTS)
