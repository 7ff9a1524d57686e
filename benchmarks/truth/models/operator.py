"""A Fourier neural operator that is rolled out by Heun's method: products of spectra, circular convolutions; Adam.

What a user changes: how many modes are kept, how a transform is scaled, a weight that is conjugated or indexed the
other way, the grid's last point, the step of time, where the second slope is taken, what an error is divided by.
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
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Batch, Training

CHANNELS, POINTS, MODES, BATCH, LAYERS = 12, 32, 8, 4, 3


class Spectral(nn.Module):
    """A convolution as a product of the low frequencies."""

    modes, scaling, indices, conjugates = MODES, "backward", "bim,iom->bom", False

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CHANNELS, CHANNELS, MODES, 2) / CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x.float(), norm="backward")
        weight = torch.view_as_complex(self.weight.float())
        if self.conjugates:
            weight = weight.conj().resolve_conj()
        low = torch.einsum(self.indices, spectrum[..., : self.modes], weight[..., : self.modes])
        filled = functional.pad(low, (0, spectrum.shape[-1] - low.shape[-1]))
        return torch.fft.irfft(filled, n=x.shape[-1], norm=self.scaling).to(x.dtype)


class Layer(nn.Module):
    """A spectral and a local convolution, a norm and an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.spectral = Spectral()
        self.local = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1, padding_mode="circular")
        self.norm = nn.InstanceNorm1d(CHANNELS, affine=True)
        self.activation = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.activation(self.norm(self.spectral(x) + self.local(x)))


class Slope(nn.Module):
    """How a field changes with time."""

    last = 1 - 1 / POINTS

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(2, CHANNELS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.project = nn.Sequential(nn.Linear(CHANNELS, 2 * CHANNELS), nn.GELU(), nn.Linear(2 * CHANNELS, 1))

    def forward(self, field: torch.Tensor) -> torch.Tensor:
        grid = torch.linspace(0, self.last, POINTS, dtype=field.dtype).expand_as(field)
        x = self.lift(torch.stack([field, grid], -1)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.project(x.transpose(1, 2)).squeeze(-1)


class Rollout(nn.Module):
    """The mean relative error of the fields after some steps."""

    pace, is_ahead, own_size = 0.25, True, False

    def __init__(self) -> None:
        super().__init__()
        self.slope = Slope()

    def forward(self, field: torch.Tensor, later: torch.Tensor) -> torch.Tensor:
        errors = []
        for wanted in later.unbind(1):
            first = self.slope(field)
            second = self.slope(field + self.pace * first if self.is_ahead else field)
            field = field + self.pace / 2 * (first + second)
            size = torch.linalg.vector_norm(field if self.own_size else wanted, dim=-1)
            errors.append(torch.linalg.vector_norm(field - wanted, dim=-1) / size)
        return torch.stack(errors).mean()


def build() -> Training:
    generator = torch.Generator().manual_seed(89)
    batches: list[Batch] = []
    places = torch.arange(POINTS) / POINTS * 2 * torch.pi
    for _ in range(3):
        phases = torch.rand(BATCH, 3, 1, generator=generator) * 6
        sizes = torch.randn(BATCH, 3, 1, generator=generator)
        waves = [
            (sizes * torch.sin(places * torch.arange(1, 4)[:, None] + phases + 0.2 * time)).sum(1) for time in range(3)
        ]
        batches.append({"field": waves[0], "later": torch.stack(waves[1:], 1)})
    return Training(
        Rollout(),
        batches,
        optimizer=torch.optim.Adam,
        settings={"lr": 1e-3, "weight_decay": 1e-4, "foreach": False},
        clip=None,
        accumulate=2,
    )


def _negated(weight: torch.Tensor) -> torch.Tensor:
    weight[..., 1] *= -1
    return weight


def _zero_padding(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: functional.conv1d(x, module.weight, module.bias, padding=1)


def _before_norm(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: x + module.norm(module.activation(module.spectral(x) + module.local(x)))


DEFECTS = (
    defects.setting("modes", "slope.layers.1.spectral", "modes", 7, "__getitem__|einsum|pad"),
    defects.setting("scaling", "slope.layers.2.spectral", "scaling", "ortho", "fft_irfft|irfft"),
    defects.setting("indices", "slope.layers.0.spectral", "indices", "bim,oim->bom", "einsum"),
    defects.setting("conjugate", "slope.layers.1.spectral", "conjugates", True, "conj|resolve_conj|einsum|__getitem__"),
    defects.setting("last_point", "slope", "last", 1.0, "linspace|expand_as|stack|linear"),
    defects.of_network("pace", "argument", call("__mul__|__rmul__|mul"), pace=0.2),
    defects.of_network(
        "same_place",
        "wiring",
        (*call("__add__|add|__mul__|mul|__rmul__|stack"), *within("slope", "stack")),
        is_ahead=False,
    ),
    defects.of_network("own_size", "wiring", call("vector_norm|linalg_vector_norm"), own_size=True),
    defects.setting("tanh", "slope.layers.2.activation", "approximate", "tanh", "gelu"),
    defects.setting("eps", "slope.layers.0.norm", "eps", 1e-3, "instance_norm|batch_norm"),
    defects.changed_forward(
        "zero_padding", "op", "slope.layers.1.local", _zero_padding, inside("slope.layers.1.local", "conv1d|pad")
    ),
    defects.changed_forward(
        "norm_last", "wiring", "slope.layers.1", _before_norm, within("slope.layers.1", "gelu|instance_norm|batch_norm")
    ),
    defects.changed_weight(
        "negated", "slope.layers.0.spectral", "float|to|view_as_complex|__getitem__|einsum", _negated
    ),
    defects.loop("undivided", call("__truediv__|div"), divides=False),
    defects.optimizer("decay", r"add|add_|_foreach_add_", weight_decay=1e-2),
    defects.faulty_kernel(
        "irfft", inside("slope.layers.1.spectral", "fft_irfft|irfft"), ATEN._fft_c2r, 1, scaled(1.002)
    ),
    defects.faulty_kernel("gelu", inside("slope.layers.0.activation", "gelu"), ATEN.gelu, 0, one_element_wrong),
    defects.faulty_kernel("conv", inside("slope.layers.2.local", "conv1d"), ATEN.convolution, 2, scaled(1.002)),
)

MODEL = Model(build, DEFECTS)
