"""Slots that compete for the places of an image, and an image drawn from each of them; attention over slots, GRU cells.

What a user changes: the axis of a softmax, an epsilon of the weighted mean, the number of rounds, a scale, a grid, a
residual, a mask without its softmax, the order of gates, a weight that is turned, a schedule.
"""

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

BATCH, SIZE, SLOTS, WIDTH, HIDDEN = 3, 12, 4, 24, 32


def grid(size: int) -> torch.Tensor:
    """How far each place is from the four edges."""
    along = torch.linspace(0.0, 1.0, size)
    both = torch.stack(torch.meshgrid(along, along, indexing="ij"), -1)
    return torch.cat([both, 1.0 - both], -1)[None]


class Places(nn.Module):
    """A linear function of its place is added to each place."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(4, WIDTH)
        self.register_buffer("grid", grid(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dense(self.grid)


class Encoder(nn.Module):
    """Convolutions, places, and a vector for each place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, WIDTH, 5, padding=2), nn.Conv2d(WIDTH, WIDTH, 5, padding=2, stride=2)
        self.places, self.norm = Places(SIZE // 2), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.second(functional.relu(self.first(image))))
        x = self.places(x.permute(0, 2, 3, 1))
        return self.mlp(self.norm(x.flatten(1, 2)))


class SlotAttention(nn.Module):
    """Slots ask the places, each of which is shared out among the slots."""

    eps, rounds, over_slots, is_weighted, keeps_residual, scale = 1e-8, 3, True, True, True, WIDTH**-0.5

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.log_spread = nn.Parameter(torch.full((1, 1, WIDTH), -0.5))
        self.norm_inputs, self.norm_slots, self.norm_mlp = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, WIDTH))

    def forward(self, inputs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        slots = self.mean + self.log_spread.exp() * noise
        inputs = self.norm_inputs(inputs)
        key, value = self.key(inputs), self.value(inputs)
        for _ in range(self.rounds):
            before = slots
            query = self.query(self.norm_slots(slots))
            scores = torch.einsum("bid,bjd->bij", query, key) * self.scale
            shares = scores.softmax(dim=1 if self.over_slots else 2) + self.eps
            if self.is_weighted:
                shares = shares / shares.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", value, shares)
            slots = self.cell(updates.reshape(-1, WIDTH), before.reshape(-1, WIDTH)).reshape(before.shape)
            refined = self.mlp(self.norm_mlp(slots))
            slots = slots + refined if self.keeps_residual else refined
        return slots


class Decoder(nn.Module):
    """An image and a mask of each slot, and what they are together."""

    has_softmax, is_shared = True, True

    def __init__(self) -> None:
        super().__init__()
        self.places = Places(SIZE // 2)
        self.up = nn.ConvTranspose2d(WIDTH, WIDTH, 5, stride=2, padding=2, output_padding=1)
        self.out = nn.Conv2d(WIDTH, 4, 3, padding=1)

    def forward(self, slots: torch.Tensor) -> torch.Tensor:
        x = slots.reshape(-1, 1, 1, WIDTH).repeat(1, SIZE // 2, SIZE // 2, 1)
        x = self.places(x).permute(0, 3, 1, 2)
        x = self.out(functional.relu(self.up(x))).view(BATCH, SLOTS, 4, SIZE, SIZE)
        image, mask = x.split([3, 1], dim=2)
        mask = torch.softmax(mask, dim=1) if self.has_softmax else torch.sigmoid(mask)
        return (image * mask).sum(1)


class Slots(nn.Module):
    """How far the image that is drawn is from the one that was given."""

    is_sum = False

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.attention, self.decoder = Encoder(), SlotAttention(), Decoder()

    def forward(self, image: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        drawn = self.decoder(self.attention(self.encoder(image), noise))
        squares = (drawn - image).pow(2)
        return squares.flatten(1).sum(-1).mean() if self.is_sum else squares.mean()


def build() -> Training:
    generator = torch.Generator().manual_seed(127)
    batches: list[Batch] = []
    for _ in range(2):
        image = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator) * 0.2
        for nth in range(BATCH):
            image[nth, nth % 3, nth : nth + 4, 3:8] += 1.0
        batches.append({"image": image, "noise": torch.randn(BATCH, SLOTS, WIDTH, generator=generator)})
    return Training(
        Slots(),
        batches,
        optimizer=torch.optim.Adam,
        settings={"lr": 4e-4, "betas": (0.9, 0.999), "foreach": False},
        clip=0.05,
        schedule=_warming(4),
    )


def _warming(steps: int) -> Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]:
    return lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))


MIRRORED = inside("decoder.places", r"linear|__add__") + inside("decoder.up", "conv_transpose2d")
"""The grid is taken by a linear function first, but its mirror image has the same statistics."""


def _mirrored(training: Training) -> None:
    buffer = training.module("decoder.places").grid
    buffer.copy_(buffer.flip(2))


def _gates(weight: torch.Tensor) -> torch.Tensor:
    """Gates in the order update, reset, new."""
    reset, update, new = weight.chunk(3)
    return torch.cat([update, reset, new])


def _brighter(batch: Batch) -> None:
    batch["image"] = batch["image"] * 1.05


def _less_noise(batch: Batch) -> None:
    batch["noise"] = batch["noise"] * 0.9


def _half(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: forward(x.half().to(x.dtype))


ATTENTION = "attention"
SCALED = "__mul__|mul|einsum"

DEFECTS = (
    defects.setting("eps", ATTENTION, "eps", 1e-3, "__add__|add"),
    defects.setting("over_places", ATTENTION, "over_slots", False, "softmax"),
    defects.setting("unweighted", ATTENTION, "is_weighted", False, "sum|__truediv__|einsum"),
    defects.setting("rounds", ATTENTION, "rounds", 2, r"\w+"),
    defects.setting("no_residual", ATTENTION, "keeps_residual", False, "__add__|add|layer_norm"),
    defects.setting("scale", ATTENTION, "scale", HIDDEN**-0.5, SCALED),
    defects.setting("norm_eps", "attention.norm_mlp", "eps", 1e-3, "layer_norm"),
    defects.changed_forward("half", "dtype", "attention.mlp.0", _half, inside("attention.mlp.0", "half|to|linear")),
    defects.lower_precision("low_key", "attention.key", "linear"),
    defects.setting("sigmoid", "decoder", "has_softmax", False, "softmax|sigmoid"),
    defects.replaced("elu", "attention.mlp.1", lambda module: nn.ELU(), "elu|relu"),
    defects.of_network("sum", "op", call("mean|sum|flatten"), is_sum=True),
    Defect("mirrored", "weights", MIRRORED, _mirrored),
    defects.changed_weight("gates", "attention.cell", "gru_cell", _gates, "weight_hh"),
    defects.changed_weight("turned", "decoder.up", "conv_transpose2d", lambda weight: weight.transpose(-1, -2)),
    defects.changed_weight("one_weight", "encoder.mlp.2", "linear", defects.one_element),
    defects.changed_weight("spread", ATTENTION, "exp", lambda weight: weight + 0.01, "log_spread"),
    defects.frozen("frozen", "attention.value", "linear"),
    defects.other_data("brighter", inside("encoder.first", "conv2d"), _brighter),
    defects.other_data("less_noise", within(ATTENTION, "__mul__|mul|__add__"), _less_noise),
    defects.loop("warming", call(r"addcdiv_|mul_"), schedule=_warming(2)),
    defects.optimizer("betas", r"mul_|addcmul_", betas=(0.9, 0.95)),
    defects.no_clipping(),
    defects.faulty_kernel("softmax", within(ATTENTION, "softmax"), ATEN._softmax, 1, scaled(1.001)),
    defects.faulty_kernel("bmm", within(ATTENTION, "einsum"), ATEN.bmm, 3, one_element_wrong),
    defects.faulty_kernel("exp", within(ATTENTION, "exp"), ATEN.exp, 0, scaled(1.001)),
    defects.faulty_kernel("conv", inside("decoder.up", "conv_transpose2d"), ATEN.convolution, 2, scaled(1.002)),
)

MODEL = Model(build, DEFECTS)
