"""A denoiser of small pictures: residual convolutions, attention, time steps and classes; two batches a step; AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

CHANNELS, SIZE, CLASSES, STEPS = 32, 8, 5, 100


class Times(nn.Module):
    """Waves of a time step, and what two layers make of them."""

    period = 10000.0

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(CHANNELS, 2 * CHANNELS)
        self.down = nn.Linear(2 * CHANNELS, CHANNELS)

    def forward(self, times: torch.Tensor) -> torch.Tensor:
        frequencies = torch.exp(-math.log(self.period) * torch.arange(CHANNELS // 2) / (CHANNELS // 2))
        angles = times[:, None].float() * frequencies
        waves = torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1)
        return self.down(functional.silu(self.up(waves)))


class Block(nn.Module):
    """Two convolutions around a residual; time and class scale and shift between them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(4, CHANNELS)
        self.conv1 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.modulation = nn.Linear(CHANNELS, 2 * CHANNELS)
        self.norm2 = nn.GroupNorm(4, CHANNELS)
        self.conv2 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        hidden = self.conv1(functional.silu(self.norm1(x)))
        scale, shift = self.modulation(condition)[:, :, None, None].chunk(2, dim=1)
        hidden = self.norm2(hidden) * (1 + scale) + shift
        return x + self.conv2(functional.silu(hidden))


class Attention(nn.Module):
    """All places of a picture see each other."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, CHANNELS)
        self.qkv = nn.Conv2d(CHANNELS, 3 * CHANNELS, 1)
        self.out = nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        seen = functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(seen.transpose(1, 2).reshape(x.shape))


class Denoiser(nn.Module):
    """Pictures with noise, time steps and classes to the noise."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.times = Times()
        self.classes = nn.Embedding(CLASSES + 1, CHANNELS)
        self.above = Block()
        self.pool = nn.AvgPool2d(2)
        self.below = Block()
        self.attention = Attention()
        self.beside = Block()
        self.norm = nn.GroupNorm(4, CHANNELS)
        self.outwards = nn.Conv2d(CHANNELS, 3, 3, padding=1)

    def forward(self, noisy: torch.Tensor, times: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        condition = self.times(times) + self.classes(classes)
        above = self.above(self.inwards(noisy), condition)
        below = self.attention(self.below(self.pool(above), condition))
        x = above + functional.interpolate(below, scale_factor=2.0, mode="nearest")
        return self.outwards(functional.silu(self.norm(self.beside(x, condition))))


class Diffusion(nn.Module):
    """The loss of a denoiser on random noise at random times; some classes are hidden from it."""

    hidden = 0.2
    last_beta = 0.02

    def __init__(self) -> None:
        super().__init__()
        self.denoiser = Denoiser()
        self.loss = nn.MSELoss()

    def forward(self, pictures: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        kept = torch.cumprod(1 - torch.linspace(1e-4, self.last_beta, STEPS), dim=0)
        times = torch.randint(0, STEPS, (len(pictures),))
        noise = torch.randn_like(pictures)
        share = kept[times][:, None, None, None]
        noisy = share.sqrt() * pictures + (1 - share).sqrt() * noise
        classes = torch.where(torch.rand(len(classes)) < self.hidden, CLASSES, classes)
        return self.loss(self.denoiser(noisy, times, classes), noise)


def build() -> Training:
    generator = torch.Generator().manual_seed(71)
    batches = [
        {
            "pictures": torch.randn(6, 3, SIZE, SIZE, generator=generator),
            "classes": torch.randint(0, CLASSES, (6,), generator=generator),
        }
        for _ in range(4)
    ]
    return Training(Diffusion(), batches, accumulate=2)


def _period(training: Training) -> None:
    training.module("denoiser.times").period = 1000.0


def _schedule(training: Training) -> None:
    training.network.last_beta = 0.025


def _cosine_first(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The waves stand in the other order."""

    def exchanged(times: torch.Tensor) -> torch.Tensor:
        frequencies = torch.exp(-math.log(module.period) * torch.arange(CHANNELS // 2) / (CHANNELS // 2))
        angles = times[:, None].float() * frequencies
        waves = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)
        return module.down(functional.silu(module.up(waves)))

    return exchanged


def _shift_first(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Scale and shift are taken for each other."""

    def exchanged(x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        hidden = module.conv1(functional.silu(module.norm1(x)))
        shift, scale = module.modulation(condition)[:, :, None, None].chunk(2, dim=1)
        hidden = module.norm2(hidden) * (1 + scale) + shift
        return x + module.conv2(functional.silu(hidden))

    return exchanged


def _mean_scale(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Scores are scaled otherwise."""

    def other(x: torch.Tensor) -> torch.Tensor:
        query, key, value = module.qkv(module.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        seen = functional.scaled_dot_product_attention(query, key, value, scale=1 / CHANNELS)
        return x + module.out(seen.transpose(1, 2).reshape(x.shape))

    return other


def _other_class(batch: Batch) -> None:
    batch["classes"] = batch["classes"].clone()
    batch["classes"][2] = (batch["classes"][2] + 1) % CLASSES


def _brighter(batch: Batch) -> None:
    batch["pictures"] = batch["pictures"] * 1.05


DEFECTS = (
    Defect("period", "argument", within("denoiser.times", r"__r?mul__|exp"), _period),
    Defect("schedule", "argument", within("", "linspace") + defects.call("linspace|__rsub__|cumprod"), _schedule),
    defects.setting("groups", "denoiser.below.norm1", "num_groups", 8, "group_norm"),
    defects.setting("norm_eps", "denoiser.norm", "eps", 1e-3, "group_norm"),
    defects.lower_precision("conv_bf16", "denoiser.beside.conv1", "conv2d"),
    defects.changed_forward(
        "cosine_first", "wiring", "denoiser.times", _cosine_first, within("denoiser.times", "cat|cos|sin")
        + inside("denoiser.times.up", "linear"),
    ),
    defects.changed_forward(
        "shift_first", "wiring", "denoiser.below", _shift_first, within("denoiser.below", r"__r?add__|__r?mul__")
    ),
    defects.changed_forward(
        "attention_scale", "argument", "denoiser.attention", _mean_scale,
        within("denoiser.attention", "scaled_dot_product_attention"),
    ),
    defects.replaced("max_pool", "denoiser.pool", lambda old: nn.MaxPool2d(2), r"\w+"),
    defects.changed_weight("flipped", "denoiser.above.conv2", "conv2d", defects.flipped),
    defects.changed_weight("one_element", "denoiser.attention.qkv", "conv2d", defects.one_element),
    defects.changed_weight("other_start", "denoiser.outwards", "conv2d", defects.reinitialised),
    defects.frozen("frozen", "denoiser.below.modulation", "linear"),
    defects.other_data("class", defects.call("where") + inside("denoiser.classes", "embedding"), _other_class),
    defects.other_data("brighter", defects.call("__mul__"), _brighter),
    defects.loop("not_divided", defects.call(r"__r?truediv__|div_?") + within("", "mse_loss", "backward")
                 + defects.call("mse_loss", "backward"), divides=False),
    defects.no_clipping(),
    defects.optimizer("betas", "mul_|addcmul_", betas=(0.9, 0.98)),
    defects.optimizer("decay", "mul_", weight_decay=0.1),
    defects.faulty_kernel("norm_kernel", inside("denoiser.attention.norm", "group_norm"), ATEN.native_group_norm, 4,
                          scaled(1.002)),
    defects.faulty_kernel("silu_one_element", within("denoiser.beside", "silu"), ATEN.silu, 5, one_element_wrong),
    defects.faulty_kernel("conv_backward", inside("denoiser.beside.conv1", "conv2d", "backward"),
                          ATEN.convolution_backward, 2, scaled(1.002)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
