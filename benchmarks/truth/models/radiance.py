"""A radiance field: waves of coordinates, a coarse and a fine network, light that is let through from sample to sample.

What a user changes: the frequencies of the waves, the activation of a density, the background, the length of the last
step, what is let through, samples that are not sorted or that have a gradient, the loss of the coarse network.
"""

from __future__ import annotations

import math
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

RAYS, COARSE, FINE, WIDTH, OCTAVES, TURNS = 24, 12, 12, 40, 4, 2
POINT, VIEW = 3 + 6 * OCTAVES, 3 + 6 * TURNS


class Waves(nn.Module):
    """A vector, and sines and cosines of its parts."""

    scale, cosine_first = math.pi, False

    def __init__(self, octaves: int) -> None:
        super().__init__()
        self.register_buffer("frequencies", 2.0 ** torch.arange(octaves))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = x[..., None] * (self.frequencies * self.scale)
        waves = [torch.sin(angles), torch.cos(angles)]
        if self.cosine_first:
            waves.reverse()
        return torch.cat([x, torch.stack(waves, -1).flatten(-3)], -1)


class Field(nn.Module):
    """The density and the colour at a point, seen from a side."""

    shift, skips_last, is_soft, view_dtype = -1.0, False, True, None

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(POINT, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH + POINT, WIDTH)])
        self.density, self.feature = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)
        self.view, self.colour = nn.Linear(WIDTH + VIEW, WIDTH // 2), nn.Linear(WIDTH // 2, 3)

    def forward(self, points: torch.Tensor, views: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = points
        for nth, layer in enumerate(self.layers):
            if nth == 2:
                hidden = torch.cat([hidden, points] if self.skips_last else [points, hidden], -1)
            hidden = functional.relu(layer(hidden), inplace=True)
        raw = self.density(hidden).squeeze(-1) + self.shift
        density = functional.softplus(raw) if self.is_soft else functional.relu(raw)
        views = views[:, None, :].expand(*points.shape[:2], VIEW)
        seen = functional.relu(self.view(torch.cat([self.feature(hidden), views], -1)), inplace=True)
        return torch.sigmoid(self.colour(seen)), density


class Radiance(nn.Module):
    """The difference between the colours of rays and those of a picture."""

    background, last, lets_itself, has_lengths = 1.0, 1e10, False, True
    is_detached, is_sorted, is_right, coarse_share, floor = True, True, True, 1.0, 1e-5

    def __init__(self) -> None:
        super().__init__()
        self.points, self.views = Waves(OCTAVES), Waves(TURNS)
        self.coarse, self.fine = Field(), Field()

    def forward(
        self, origins: torch.Tensor, directions: torch.Tensor, depths: torch.Tensor, uniform: torch.Tensor,
        colours: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        views = self.views(directions / torch.norm(directions, dim=-1, keepdim=True))
        first, weights = self.shine(self.coarse, origins, directions, views, depths)
        middles = 0.5 * (depths[..., 1:] + depths[..., :-1])
        samples = self.samples(middles, weights[..., 1:-1], uniform)
        depths = torch.cat([depths, samples], -1)
        if self.is_sorted:
            depths, _ = torch.sort(depths, -1)
        second, _ = self.shine(self.fine, origins, directions, views, depths)
        loss = functional.mse_loss(second, colours)
        return loss + self.coarse_share * functional.mse_loss(first, colours)

    def shine(
        self, field: nn.Module, origins: torch.Tensor, directions: torch.Tensor, views: torch.Tensor,
        depths: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """The colours of rays, and how much each sample counts."""
        points = origins[:, None, :] + directions[:, None, :] * depths[..., None]
        colour, density = field(self.points(points), views)
        steps = depths[..., 1:] - depths[..., :-1]
        steps = torch.cat([steps, torch.full_like(steps[..., :1], self.last)], -1)
        if self.has_lengths:
            steps = steps * torch.norm(directions[:, None, :], dim=-1)
        alpha = 1.0 - torch.exp(-density * steps)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[..., :1]), 1.0 - alpha + 1e-10], -1), -1)
        weights = alpha * (through[..., 1:] if self.lets_itself else through[..., :-1])
        shone = torch.sum(weights[..., None] * colour, -2)
        return shone + self.background * (1.0 - weights.sum(-1, keepdim=True)), weights

    def samples(self, middles: torch.Tensor, weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
        """More depths where more light comes from, by the inverse of the cumulated weights."""
        if self.is_detached:
            weights = weights.detach()
        weights = weights + self.floor
        shares = weights / torch.sum(weights, -1, keepdim=True)
        sums = torch.cumsum(shares, -1)
        sums = torch.cat([torch.zeros_like(sums[..., :1]), sums], -1)
        places = torch.searchsorted(sums.detach(), uniform, right=self.is_right)
        below, above = (places - 1).clamp(min=0), places.clamp(max=sums.shape[-1] - 1)
        low, high = torch.gather(sums, -1, below), torch.gather(sums, -1, above)
        left, right = torch.gather(middles, -1, below), torch.gather(middles, -1, above)
        width = high - low
        width = torch.where(width < 1e-5, torch.ones_like(width), width)
        return left + (uniform - low) / width * (right - left)


def build() -> Training:
    generator = torch.Generator().manual_seed(113)
    batches: list[Batch] = []
    for _ in range(2):
        directions = torch.randn(RAYS, 3, generator=generator)
        bounds = torch.linspace(0.5, 3.0, COARSE + 1)
        jitter = torch.rand(RAYS, COARSE, generator=generator)
        batches.append(
            {
                "origins": torch.randn(RAYS, 3, generator=generator) * 0.3,
                "directions": directions,
                "depths": bounds[:-1] + (bounds[1:] - bounds[:-1]) * jitter,
                "uniform": torch.rand(RAYS, FINE, generator=generator),
                "colours": torch.sigmoid(directions * 2),
            }
        )
    return Training(
        Radiance(),
        batches,
        optimizer=torch.optim.Adam,
        settings={"lr": 5e-4, "eps": 1e-8, "foreach": False},
        clip=None,
        schedule=_fading(0.5),
    )


def _fading(rate: float) -> Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]:
    return lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, rate)


def _cosine_first(training: Training) -> None:
    training.module("views").cosine_first = True


def _gamma(batch: Batch) -> None:
    batch["colours"] = batch["colours"] ** 2.2


def _unit(batch: Batch) -> None:
    batch["directions"] = batch["directions"] / batch["directions"].norm(dim=-1, keepdim=True)


def _exchanged(weight: torch.Tensor) -> torch.Tensor:
    """The coordinates in the order z, y, x."""
    return torch.cat([weight[:, :3].flip(1), weight[:, 3:]], 1)


def _gelu(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: forward(functional.gelu(x))


SHINE = "__mul__|mul|__rmul__"
STEPS = "norm|__mul__|mul"

DEFECTS = (
    defects.setting("no_pi", "points", "scale", 1.0, SHINE),
    Defect("cosine_first", "wiring", inside("coarse.view", "linear"), _cosine_first),
    defects.setting("shift", "coarse", "shift", 0.0, "__add__|add"),
    defects.setting("relu", "fine", "is_soft", False, "softplus|relu"),
    defects.setting("skips_last", "fine", "skips_last", True, "cat|linear"),
    defects.lower_precision("low_view", "fine.view", "linear"),
    defects.changed_forward("more_gelu", "op", "fine.colour", _gelu, within("fine", "gelu|linear")),
    defects.of_network("black", "argument", call(rf"{SHINE}|__add__"), background=0.0),
    defects.of_network("last_step", "argument", call(SHINE), last=1e-3),
    defects.of_network("lets_itself", "wiring", call(SHINE), lets_itself=True),
    defects.of_network("no_lengths", "op", call(STEPS), has_lengths=False),
    defects.of_network("undetached", "wiring", call("__add__|add|sum|__truediv__"), is_detached=False),
    defects.of_network("unsorted", "op", call(f"sort|__mul__|{SHINE}"), is_sorted=False),
    defects.of_network("left", "argument", call("searchsorted"), is_right=False),
    defects.of_network("floor", "argument", call("__add__|add"), floor=1e-2),
    defects.of_network("coarse_share", "argument", call("__mul__|__rmul__|mul"), coarse_share=0.1),
    defects.changed_weight("exchanged", "coarse.layers.0", "linear", _exchanged),
    defects.changed_weight("one_weight", "fine.feature", "linear", defects.one_element),
    defects.swapped_weights("swapped", "coarse.feature", "fine.feature"),
    defects.other_data("gamma", call("mse_loss"), _gamma),
    defects.other_data("unit", call("norm|__truediv__|__mul__"), _unit, 1),
    defects.optimizer("eps", r"add_|addcdiv_", eps=1e-6),
    defects.loop("rate", call(r"addcdiv_|mul_"), 1, schedule=_fading(0.9)),
    defects.faulty_kernel("cumprod", call("cumprod"), ATEN.cumprod, 1, scaled(1.002)),
    defects.faulty_kernel("sigmoid", within("coarse", "sigmoid"), ATEN.sigmoid, 0, one_element_wrong),
    defects.faulty_kernel("linear", inside("fine.feature", "linear"), ATEN.addmm, 11, scaled(1.002)),
)

MODEL = Model(build, DEFECTS)
