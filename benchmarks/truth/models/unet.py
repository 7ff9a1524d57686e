"""A small U-Net that takes the noise out of images: GroupNorm, SiLU, skips, an embedded time; AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

CHANNELS, BATCH, SIZE = 16, 3, 16


class Block(nn.Module):
    """Two convolutions with the time added between them, around a residual."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(4, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(CHANNELS, outputs)
        self.norm2 = nn.GroupNorm(4, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        self.act1, self.act2 = nn.SiLU(), nn.SiLU()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.conv1(self.act1(self.norm1(x)))
        hidden = hidden + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(self.act2(self.norm2(hidden)))


class UNet(nn.Module):
    """Guesses the noise in an image; its loss is the mean squared error."""

    skips_first = True
    """Whether what goes around the coarse half stands before what comes out of it."""
    decay = 0.8
    """How much slower each wave of the time is than the one before, as a power of e."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(CHANNELS, CHANNELS), nn.SiLU(), nn.Linear(CHANNELS, CHANNELS))
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.down = Block(CHANNELS, CHANNELS)
        self.pool = nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, stride=2, padding=1)
        self.middle = Block(2 * CHANNELS, 2 * CHANNELS)
        self.rise = nn.ConvTranspose2d(2 * CHANNELS, CHANNELS, 4, stride=2, padding=1)
        self.up = Block(2 * CHANNELS, CHANNELS)
        self.last = nn.Conv2d(CHANNELS, 3, 3, padding=1)

    def forward(self, image: torch.Tensor, time: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        embedded = self.time(self.waves(time))
        share = (time / 100.0)[:, None, None, None]
        fine = self.down(self.first(image * (1 - share) + noise * share), embedded)
        coarse = self.middle(self.pool(fine), embedded)
        halves = [fine, self.rise(coarse)]
        together = torch.cat(halves if self.skips_first else halves[::-1], dim=1)
        return functional.mse_loss(self.last(self.up(together, embedded)), noise)

    def waves(self, time: torch.Tensor) -> torch.Tensor:
        """Sines and cosines of the time, of shape [batch, channels]."""
        frequencies = torch.exp(-torch.arange(CHANNELS // 2) * self.decay).to(time.dtype)
        angles = time[:, None] * frequencies[None, :]
        return torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1)


def build() -> Training:
    generator = torch.Generator().manual_seed(39)
    batches = [
        {
            "image": torch.randn(BATCH, 3, SIZE, SIZE, generator=generator),
            "time": torch.randint(1, 100, (BATCH,), generator=generator).float(),
            "noise": torch.randn(BATCH, 3, SIZE, SIZE, generator=generator),
        }
        for _ in range(2)
    ]
    return Training(UNet(), batches, clip=0.25)


def _scaled_loss(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The loss is multiplied for mixed precision, and nobody divides the gradients again."""
    return lambda **batch: forward(**batch) * 2.0


def _one_pixel(batch: Batch) -> None:
    batch["image"][1, 2, 5, 5] += 0.1


def _other_noise(batch: Batch) -> None:
    batch["noise"] = batch["noise"].flip(0)


def _other_order(training: Training) -> None:
    training.module("").skips_first = False


def _other_waves(training: Training) -> None:
    training.module("").decay = 0.75


# Statistics cannot tell the order of the channels; the first op that does not see it goes by is a convolution.
_TOGETHER = (
    *inside("up.norm1", "group_norm"),
    *inside("up.conv1", "conv2d"),
    *inside("up.skip", "conv2d"),
    *call("cat"),
)
DEFECTS = (
    defects.setting("groups", "middle.norm1", "num_groups", 8, "group_norm"),
    defects.setting("norm_eps", "down.norm2", "eps", 1e-3, "group_norm"),
    defects.setting("no_bias", "up.conv2", "bias", None, "conv2d"),
    defects.setting("padding_mode", "pool", "padding_mode", "circular", "conv2d|pad"),
    defects.replaced("relu", "middle.act2", lambda old: nn.ReLU()),
    Defect("skip_order", "wiring", _TOGETHER, _other_order),
    Defect("waves", "argument", (*inside("time.0", "linear"), *call(r"exp|__r?mul__|sin|cos|cat")), _other_waves),
    defects.changed_weight("flipped", "rise", "conv_transpose2d", defects.flipped),
    defects.changed_weight("one_element", "middle.conv1", "conv2d", defects.one_element),
    defects.changed_weight("other_start", "up.conv1", "conv2d", defects.reinitialised),
    defects.frozen("frozen", "middle.conv2", "conv2d"),
    defects.lower_precision("conv_bf16", "up.conv1", "conv2d"),
    defects.other_data("one_pixel", (*inside("first", "conv2d"), *call(r"__r?mul__|__add__")), _one_pixel),
    defects.other_data("other_noise", (*inside("first", "conv2d"), *call(r"__r?mul__|__add__")), _other_noise, batch=1),
    defects.changed_forward("scaled_loss", "loop", "", _scaled_loss, call(r"__r?mul__")),
    defects.optimizer("decay", "mul_", weight_decay=0.1),
    defects.optimizer("eps", "add_", eps=1e-5),
    defects.no_clipping(),
    defects.faulty_kernel("norm_kernel", inside("up.norm1", "group_norm"), ATEN.native_group_norm, 4, scaled(1.001)),
    defects.faulty_kernel("silu_one_element", inside("down.act2", "silu"), ATEN.silu, 2, one_element_wrong),
    defects.faulty_kernel(
        "conv_backward", inside("middle.conv1", "conv2d", "backward"), ATEN.convolution_backward, 6, scaled(1.002)
    ),
    defects.two(
        "groups_and_noise",
        defects.setting("", "up.norm2", "num_groups", 2, "group_norm"),
        defects.changed_weight("", "down.conv1", "conv2d", defects.flipped),
    ),
)


MODEL = Model(build, DEFECTS)
