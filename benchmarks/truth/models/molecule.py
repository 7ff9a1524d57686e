"""A molecule's energy by messages between atoms, and its forces by a gradient of it: the loss is of both.

What a user changes: the cutoff of distances, the width of the radial basis, a mean in place of a sum over atoms, the
weight of forces, positions that lose their gradient, a neighbour that is missed, AMSGrad.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

WIDTH, RADII, MOLECULES, ATOMS, KINDS = 24, 12, 4, 7, 5


class Radii(nn.Module):
    """Distances in a basis of bells, which fade at a cutoff."""

    cutoff, sharpness = 5.0, 10.0

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centres", torch.linspace(0, 5, RADII))

    def forward(self, distances: torch.Tensor) -> torch.Tensor:
        bells = torch.exp((distances[:, None] - self.centres).square() * -self.sharpness)
        fade = (torch.cos(distances * (math.pi / self.cutoff)) + 1) * 0.5
        return bells * fade[:, None]


class Messages(nn.Module):
    """What each atom hears of its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(RADII, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.before = nn.Linear(WIDTH, WIDTH, bias=False)
        self.activation = nn.SiLU()
        self.after = nn.Linear(WIDTH, WIDTH)

    def forward(self, atoms: torch.Tensor, radii: torch.Tensor, heard: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        messages = self.before(atoms)[heard] * self.filter(radii)
        summed = torch.zeros_like(atoms).index_add(0, by, messages)
        return atoms + self.after(self.activation(summed))


class Molecule(nn.Module):
    """Energies of molecules and the forces on their atoms."""

    weight, is_mean = 10.0, False

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(KINDS, WIDTH)
        self.radii = Radii()
        self.layers = nn.ModuleList(Messages() for _ in range(3))
        self.out = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))

    def forward(
        self,
        kinds: torch.Tensor,
        places: torch.Tensor,
        edges: torch.Tensor,
        energies: torch.Tensor,
        forces: torch.Tensor,
    ) -> torch.Tensor:
        places = places.detach().requires_grad_()
        heard, by = edges
        apart = places[heard] - places[by]
        radii = self.radii(torch.sqrt(apart.square().sum(-1)))
        atoms = self.embed(kinds)
        for layer in self.layers:
            atoms = layer(atoms, radii, heard, by)
        of_atoms = self.out(atoms).view(MOLECULES, ATOMS)
        found = of_atoms.mean(1) if self.is_mean else of_atoms.sum(1)
        (pull,) = torch.autograd.grad(found.sum(), places, create_graph=True)
        return functional.mse_loss(found, energies) + functional.l1_loss(-pull, forces) * self.weight


def build() -> Training:
    generator = torch.Generator().manual_seed(61)
    batches: list[Batch] = []
    count = MOLECULES * ATOMS
    pairs = [
        (m * ATOMS + i, m * ATOMS + j) for m in range(MOLECULES) for i in range(ATOMS) for j in range(ATOMS) if i != j
    ]
    for _ in range(2):
        batches.append({
            "kinds": torch.randint(0, KINDS, (count,), generator=generator),
            "places": torch.randn(count, 3, generator=generator) * 1.5,
            "edges": torch.tensor(pairs).T.contiguous(),
            "energies": torch.randn(MOLECULES, generator=generator),
            "forces": torch.randn(count, 3, generator=generator) * 0.1,
        })  # fmt: skip
    return Training(Molecule(), batches, optimizer=torch.optim.Adam, settings={"lr": 1e-3, "foreach": False})


def _mean(training: Training) -> None:
    training.network.is_mean = True


def _weight(training: Training) -> None:
    training.network.weight = 1.0


def _without_gradient(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def detached(atoms: torch.Tensor, radii: torch.Tensor, heard: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return forward(atoms, radii.detach(), heard, by)

    return detached


def _overwrites(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """An index that is put in place of one that adds: of several neighbours the last is heard."""

    def last(atoms: torch.Tensor, radii: torch.Tensor, heard: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        messages = module.before(atoms)[heard] * module.filter(radii)
        summed = torch.zeros_like(atoms).index_copy(0, by, messages)
        return atoms + module.after(module.activation(summed))

    return last


def _missed(batch: Batch) -> None:
    batch["edges"] = torch.cat([batch["edges"][:, :-1], batch["edges"][:, -2:-1]], dim=1)


DEFECTS = (
    defects.setting("cutoff", "radii", "cutoff", 6.0, "__mul__|mul"),
    defects.setting("sharpness", "radii", "sharpness", 8.0, "__mul__|mul|exp"),
    Defect("mean", "op", call("mean|sum"), _mean),
    Defect("weight", "argument", call("__mul__|mul"), _weight),
    defects.changed_forward(
        "detached", "wiring", "layers.1", _without_gradient, within("layers.1", r"detach|\w+") + call("detach")
    ),
    defects.changed_forward("overwrites", "op", "layers.0", _overwrites, within("layers.0", "index_copy|index_add")),
    defects.other_data("missed", call("__sub__"), _missed),
    defects.replaced("relu", "layers.2.activation", lambda module: nn.ReLU(), "relu|silu"),
    defects.changed_weight("one_weight", "layers.1.filter.2", "linear", defects.one_element),
    defects.optimizer("amsgrad", r"maximum|max|_?foreach_maximum_|sqrt", amsgrad=True),
    defects.faulty_kernel("index_add", within("layers.2", "index_add"), ATEN.index_add, 2, scaled(1.002)),
    defects.faulty_kernel("tanh", inside("layers.1.filter.1", "tanh"), ATEN.tanh, 1, one_element_wrong),
)

MODEL = Model(build, DEFECTS)
