"""A variational autoencoder of images: convolutions down and up, batch norm, a drawn code, two losses; Adamax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

BATCH, SIZE, WIDTH, CODE = 6, 16, 12, 8


class Autoencoder(nn.Module):
    """Images to the bound of their likelihood."""

    weight_of_code = 0.5
    temperature = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(1, WIDTH, 4, stride=2, padding=1), nn.BatchNorm2d(WIDTH), nn.SiLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 4, stride=2, padding=1), nn.BatchNorm2d(2 * WIDTH), nn.SiLU(),
        )  # fmt: skip
        self.mean = nn.Linear(2 * WIDTH * 16, CODE)
        self.spread = nn.Linear(2 * WIDTH * 16, CODE)
        self.open = nn.Linear(CODE, 2 * WIDTH * 16)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(2 * WIDTH, WIDTH, 4, stride=2, padding=1), nn.GroupNorm(3, WIDTH), nn.ELU(),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(WIDTH, 1, 3, padding=1),
        )  # fmt: skip

    def draw(self, mean: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
        """A code near its mean."""
        return mean + torch.exp(0.5 * spread) * torch.randn_like(mean) * self.temperature

    def bound(self, images: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
        """The loss of images with these codes."""
        opened = functional.softplus(self.open(self.draw(mean, spread))).view(-1, 2 * WIDTH, 4, 4)
        guess = self.up(opened)
        painted = functional.binary_cross_entropy_with_logits(guess, images, reduction="sum") / images.shape[0]
        coded = -0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp(), dim=1)
        return painted + self.weight_of_code * coded.mean()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = self.down(images).flatten(1)
        return self.bound(images, self.mean(seen), self.spread(seen))


def build() -> Training:
    generator = torch.Generator().manual_seed(71)
    batches = [{"images": torch.rand(BATCH, 1, SIZE, SIZE, generator=generator)} for _ in range(2)]
    return Training(Autoencoder(), batches, torch.optim.Adamax, {"lr": 2e-3, "foreach": False}, clip=5.0)


def _set(name: str, value: float) -> Callable[[Training], None]:
    return lambda training: setattr(training.network, name, value)


def _mean_only(training: Training) -> None:
    training.network.draw = lambda mean, spread: mean  # type: ignore[assignment,method-assign]


def _no_half(training: Training) -> None:
    training.network.draw = (  # type: ignore[assignment,method-assign]
        lambda mean, spread: mean + torch.exp(spread) * torch.randn_like(mean)
    )


def _running(training: Training) -> None:
    norm = training.module("down.1")
    norm.eval()
    norm.train = lambda mode=True: norm  # type: ignore[assignment,method-assign]


def _inverted(batch: Batch) -> None:
    batch["images"] = 1 - batch["images"]


def _one_image(batch: Batch) -> None:
    batch["images"] = batch["images"].clone()
    batch["images"][2] = batch["images"][3]


def _shuffled(batch: Batch) -> None:
    batch["images"] = batch["images"].roll(1, 0)


def _swapped(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The bound takes the mean for the spread, and the spread for the mean."""

    def rewired(images: torch.Tensor) -> torch.Tensor:
        seen = module.down(images).flatten(1)
        return module.bound(images, module.spread(seen), module.mean(seen))

    return rewired


DEFECTS = (
    Defect("weight_of_code", "argument", call(r"__r?mul__|mul"), _set("weight_of_code", 0.45)),
    Defect("temperature", "argument", call(r"__r?mul__|mul"), _set("temperature", 0.95)),
    Defect("mean_only", "op", call(r"__add__|add|exp|linear|__r?mul__|randn_like"), _mean_only),
    Defect("no_half", "op", call(r"__r?mul__|mul|exp"), _no_half),
    Defect("running", "argument", inside("down.1", "batch_norm"), _running),
    defects.setting("momentum", "down.4", "momentum", 0.01, "batch_norm"),
    defects.setting("align", "up.3", "align_corners", True, "interpolate|upsample_bilinear2d|upsample"),
    defects.setting("nearest", "up.3", "mode", "bicubic", "interpolate|upsample_bilinear2d|upsample"),
    defects.setting("elu", "up.2", "alpha", 0.9, "elu"),
    defects.setting("groups", "up.1", "num_groups", 4, "group_norm"),
    defects.setting("norm_eps", "down.4", "eps", 1e-3, "batch_norm"),
    defects.lower_precision("bf16", "open", "linear"),
    defects.replaced("relu", "down.5", lambda old: nn.ReLU()),
    defects.changed_weight("one_element", "mean", "linear", defects.one_element),
    defects.changed_weight("transposed", "up.0", "conv_transpose2d", defects.transposed),
    defects.changed_weight("norm_weight", "down.1", "batch_norm", lambda tensor: tensor * 1.01),
    defects.frozen("frozen", "spread", "linear"),
    defects.changed_forward("swapped", "wiring", "", _swapped, call(r"linear|__r?mul__|exp|pow|__add__|__r?add__")),
    defects.other_data("inverted", inside("down.0", "conv2d"), _inverted),
    defects.other_data("one_image", inside("down.0", "conv2d"), _one_image, batch=1),
    defects.other_data("shuffled", (*inside("down.0", "conv2d"), *inside("down.1", "batch_norm"),
                                    *call(r"__r?mul__|mul")), _shuffled),
    defects.optimizer("rate", r"addcdiv_|mul_|div", lr=2.05e-3),
    defects.optimizer("betas", r"mul_|lerp_|lerp|maximum|amax", betas=(0.9, 0.99)),
    defects.loop("clip", defects.CLIPPING, clip=4.0),
    defects.faulty_kernel("exp_kernel", call("exp"), ATEN.exp, 0, scaled(1.002)),
    defects.faulty_kernel("group_norm_element", inside("up.1", "group_norm"), ATEN.native_group_norm, 0,
                          one_element_wrong),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
