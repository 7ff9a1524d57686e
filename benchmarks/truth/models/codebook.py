"""An autoencoder of signals whose codes come from a book (VQ-VAE): distances, argmin, straight through; RAdam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

BATCH, CHANNELS, LENGTH, WIDTH, CODES = 4, 2, 64, 24, 16


class Residual(nn.Module):
    """Dilated convolutions around a residual."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.act = nn.LeakyReLU(0.1)
        self.wide = nn.Conv1d(WIDTH, WIDTH, 3, padding=dilation, dilation=dilation)
        self.narrow = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return signal + self.narrow(self.act(self.wide(self.act(signal))))


class Book(nn.Module):
    """The nearest code of each place; the codes follow what they stand for."""

    pace = 0.9
    commitment = 0.25

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randn(CODES, WIDTH))
        self.register_buffer("sizes", torch.ones(CODES))
        self.register_buffer("sums", self.codes.clone())

    def distances(self, places: torch.Tensor) -> torch.Tensor:
        """The squared distance of each place to each code."""
        return places.pow(2).sum(1, keepdim=True) - 2 * places @ self.codes.t() + self.codes.pow(2).sum(1)

    def forward(self, signal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = signal.permute(0, 2, 1).reshape(-1, WIDTH)
        chosen = functional.one_hot(self.distances(places).argmin(1), CODES).type(places.dtype)
        coded = chosen @ self.codes
        with torch.no_grad():
            self.sizes.mul_(self.pace).add_(chosen.sum(0), alpha=1 - self.pace)
            self.sums.mul_(self.pace).add_(chosen.t() @ places, alpha=1 - self.pace)
            self.codes.copy_(self.sums / (self.sizes.unsqueeze(1) + 1e-5))
        loss = self.commitment * functional.mse_loss(places, coded.detach())
        through = places + (coded - places).detach()
        return through.view(signal.shape[0], -1, WIDTH).permute(0, 2, 1), loss


class Autoencoder(nn.Module):
    """Signals to the loss of what comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv1d(CHANNELS, WIDTH, 4, stride=2, padding=1), Residual(1), nn.Conv1d(WIDTH, WIDTH, 4, 2, 1),
            Residual(3), nn.InstanceNorm1d(WIDTH, affine=True),
        )  # fmt: skip
        self.book = Book()
        self.up = nn.Sequential(
            Residual(3), nn.ConvTranspose1d(WIDTH, WIDTH, 4, 2, 1), Residual(1),
            nn.ConvTranspose1d(WIDTH, CHANNELS, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        coded, loss = self.book(self.down(signal))
        return functional.smooth_l1_loss(self.up(coded), signal) + loss


def build() -> Training:
    generator = torch.Generator().manual_seed(82)
    batches = [{"signal": torch.rand(BATCH, CHANNELS, LENGTH, generator=generator) * 2 - 1} for _ in range(2)]
    return Training(Autoencoder(), batches, torch.optim.RAdam, {"lr": 2e-3, "foreach": False})


def _commitment(training: Training) -> None:
    training.module("book").commitment = 0.3


def _pace(training: Training) -> None:
    training.module("book").pace = 0.95


def _dilation(training: Training) -> None:
    wide = training.module("up.0.wide")
    wide.dilation = wide.padding = (2,)


def _farthest(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The squares of the places are left out: a constant for argmin, and so another value, but no other choice."""

    def changed(places: torch.Tensor) -> torch.Tensor:
        return -2 * places @ module.codes.t() + module.codes.pow(2).sum(1)

    module.distances = changed
    return forward


def _not_through(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Gradients do not reach the encoder by the codes."""

    def changed(signal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        coded, loss = forward(signal)
        return coded.detach(), loss

    return changed


def _no_residual(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda signal: module.narrow(module.act(module.wide(module.act(signal))))


def _louder(batch: Batch) -> None:
    batch["signal"] = batch["signal"] * 1.02


def _sample(batch: Batch) -> None:
    batch["signal"] = batch["signal"].clone()
    batch["signal"][1, 0, 7] = 0.9


DEFECTS = (
    Defect("commitment", "argument", call(r"__r?mul__|mul"), _commitment),
    Defect("pace", "argument", within("book", r"mul_"), _pace),
    defects.changed_forward("distances", "op", "book", _farthest, within("book", r"\w+")),
    defects.changed_forward("not_through", "wiring", "book", _not_through,
                            (*call("detach"), *inside("up.0.act", "leaky_relu"), *within("up.0", r"\w+"),
                             *within("book", r"\w+", "backward"))),
    defects.changed_forward("no_residual", "op", "down.3", _no_residual, within("down.3", r"__r?add__|add")),
    defects.setting("slope", "down.1.act", "negative_slope", 0.2, "leaky_relu"),
    defects.setting("norm_eps", "down.4", "eps", 1e-3, "instance_norm"),
    Defect("dilation", "argument", inside("up.0.wide", "conv1d"), _dilation),
    defects.lower_precision("bf16", "up.1", "conv_transpose1d"),
    defects.replaced("activation", "up.4", lambda old: nn.Hardtanh()),
    defects.replaced("no_norm", "down.4", lambda old: nn.Identity()),
    defects.changed_weight("codes", "book", r"__r?matmul__|matmul|pow|t|T", lambda codes: codes * 1.02, "codes"),
    defects.changed_weight("exchanged_codes", "book", r"__r?matmul__|matmul|argmin|one_hot|sum|__add__|mul_|add_",
                           defects.permuted, "codes"),
    defects.changed_weight("one_element", "down.3.wide", "conv1d", defects.one_element),
    defects.changed_weight("flipped", "up.2.wide", "conv1d", defects.flipped),
    defects.changed_weight("reinitialised", "up.3", "conv_transpose1d", defects.reinitialised),
    defects.swapped_weights("swapped", "down.1.narrow", "down.3.narrow", "conv1d"),
    defects.frozen("frozen", "down.2", "conv1d"),
    defects.other_data("louder", inside("down.0", "conv1d"), _louder),
    defects.other_data("sample", inside("down.0", "conv1d"), _sample, batch=1),
    defects.optimizer("betas", r"lerp_|mul_|addcmul_", betas=(0.9, 0.99)),
    defects.optimizer("rate", r"add_|addcdiv_|mul_|__r?mul__", lr=2.1e-3),
    defects.no_clipping(),
    defects.faulty_kernel("convolution_kernel", inside("up.0.narrow", "conv1d"), ATEN.convolution, 7, scaled(1.002)),
    defects.faulty_kernel("tanh_element", inside("up.4", "tanh"), ATEN.tanh, 0, one_element_wrong),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
