"""A small GAN: transposed convolutions and batch normalisation against convolutions and leaky ReLU; Adam, β₁ of 0.5."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

LATENT, CHANNELS, BATCH = 12, 12, 4


class Gan(nn.Module):
    """Generator and discriminator in one; both losses are added, and each trains its own half."""

    detaches = True
    """Whether the discriminator's loss leaves the generator alone."""
    truth = 0.9
    """What the discriminator should say of a real image."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(LATENT, 2 * CHANNELS, 4), nn.BatchNorm2d(2 * CHANNELS), nn.ReLU(),
            nn.ConvTranspose2d(2 * CHANNELS, CHANNELS, 4, 2, 1), nn.BatchNorm2d(CHANNELS), nn.ReLU(),
            nn.ConvTranspose2d(CHANNELS, 3, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, CHANNELS, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(CHANNELS, 2 * CHANNELS, 4, 2, 1), nn.BatchNorm2d(2 * CHANNELS), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * CHANNELS, 1, 4),
        )  # fmt: skip

    def forward(self, latent: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        made = self.generator(latent)
        fooled = self._loss(self.discriminator(made), 1.0)
        told = self._loss(self.discriminator(image), self.truth) + self._loss(
            self.discriminator(made.detach() if self.detaches else made), 0.0
        )
        return fooled + told

    @staticmethod
    def _loss(judged: torch.Tensor, truth: float) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(judged, torch.full_like(judged, truth))


def build() -> Training:
    generator = torch.Generator().manual_seed(40)
    batches = [
        {
            "latent": torch.randn(BATCH, LATENT, 1, 1, generator=generator),
            "image": torch.rand(BATCH, 3, 16, 16, generator=generator) * 2 - 1,
        }
        for _ in range(2)
    ]
    settings = {"lr": 2e-3, "betas": (0.5, 0.999), "foreach": False}
    return Training(Gan(), batches, torch.optim.Adam, settings, clip=None)


def _keeps_gradient(training: Training) -> None:
    training.module("").detaches = False


def _truth(training: Training) -> None:
    training.module("").truth = 1.0


def _half_range(batch: Batch) -> None:
    batch["image"] = (batch["image"] + 1) / 2


DEFECTS = (
    defects.setting("norm_momentum", "generator.1", "momentum", 0.2, "batch_norm"),
    defects.setting("norm_eps", "discriminator.3", "eps", 1e-3, "batch_norm"),
    defects.setting("slope", "discriminator.1", "negative_slope", 0.1, "leaky_relu"),
    defects.setting("output_padding", "generator.3", "padding", (0, 0), "conv_transpose2d"),
    defects.replaced("no_tanh", "generator.7", lambda old: nn.Identity()),
    defects.replaced("relu", "discriminator.4", lambda old: nn.ReLU()),
    Defect(
        "not_detached",
        "wiring",
        (
            *inside("discriminator.0", "conv2d"),
            *inside("generator.7", "tanh", "backward"),
            *call("detach"),
            *inside("discriminator.0", "conv2d", "backward"),
        ),
        _keeps_gradient,
    ),
    Defect(
        "truth",
        "argument",
        (*inside("discriminator.5", "conv2d", "backward"), *call("binary_cross_entropy_with_logits|__add__")),
        _truth,
    ),
    defects.changed_weight("one_element", "discriminator.2", "conv2d", defects.one_element),
    defects.changed_weight("other_start", "generator.3", "conv_transpose2d", defects.reinitialised),
    defects.changed_weight("transposed", "generator.6", "conv_transpose2d", defects.transposed),
    defects.changed_weight("norm_weight", "generator.4", "batch_norm", lambda weight: weight * 1.02),
    defects.frozen("frozen", "generator.0", "conv_transpose2d"),
    defects.lower_precision("conv_bf16", "discriminator.2", "conv2d"),
    defects.other_data("half_range", inside("discriminator.0", "conv2d"), _half_range),
    defects.optimizer("betas", "lerp_", betas=(0.9, 0.999)),
    defects.optimizer("rate", "addcdiv_", lr=1e-3),
    defects.loop("clipped", defects.CLIPPING, clip=0.5),
    defects.faulty_kernel("leaky_kernel", inside("discriminator.4", "leaky_relu"), ATEN.leaky_relu, 1, scaled(1.001)),
    defects.faulty_kernel("tanh_one_element", inside("generator.7", "tanh"), ATEN.tanh, 0, one_element_wrong),
    defects.faulty_kernel(
        "tanh_backward", inside("generator.7", "tanh", "backward"), ATEN.tanh_backward, 0, scaled(1.002)
    ),
    defects.two(
        "slope_and_betas",
        defects.setting("", "discriminator.1", "negative_slope", 0.25, "leaky_relu"),
        defects.optimizer("", "mul_|addcmul_", betas=(0.5, 0.99)),
    ),
)


MODEL = Model(build, DEFECTS)
