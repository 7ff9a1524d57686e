"""A recommender: bags of embeddings, crossed features, two towers, BatchNorm, weighted binary loss; Adagrad."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

ITEMS, FIELDS, WIDTH, BATCH, DENSE = 80, 4, 16, 24, 6


class Cross(nn.Module):
    """x₀·(W·x + b) + x."""

    has_residual = True

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, first: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        crossed = first * self.linear(x)
        return crossed + x if self.has_residual else crossed


class Recommender(nn.Module):
    """Guesses whether something is chosen."""

    weight = 2.0
    """What a positive counts."""
    temperature = 0.5

    def __init__(self) -> None:
        super().__init__()
        self.fields = nn.ModuleList(nn.EmbeddingBag(ITEMS, WIDTH, mode="mean") for _ in range(FIELDS))
        self.dense = nn.Sequential(nn.Linear(DENSE, WIDTH), nn.BatchNorm1d(WIDTH), nn.PReLU())
        width = WIDTH * (FIELDS + 1)
        self.crosses = nn.ModuleList(Cross(width) for _ in range(3))
        self.deep = nn.Sequential(
            nn.Linear(width, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()
        )
        self.last = nn.Linear(width + 32, 1)

    def forward(self, items: torch.Tensor, dense: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        parts = [field(items[:, number]) for number, field in enumerate(self.fields)]
        first = torch.cat([*parts, self.dense(dense)], dim=1)
        crossed = first
        for cross in self.crosses:
            crossed = cross(first, crossed)
        score = self.last(torch.cat([crossed, self.deep(first)], dim=1)).squeeze(1)
        near = functional.cosine_similarity(parts[0], parts[1]) / self.temperature
        return functional.binary_cross_entropy_with_logits(
            score + near, chosen, pos_weight=torch.tensor(self.weight, dtype=score.dtype)
        )


def build() -> Training:
    generator = torch.Generator().manual_seed(91)
    batches = [
        {
            "items": torch.randint(0, ITEMS, (BATCH, FIELDS, 3), generator=generator),
            "dense": torch.randn(BATCH, DENSE, generator=generator),
            "chosen": torch.randint(0, 2, (BATCH,), generator=generator).float(),
        }
        for _ in range(2)
    ]
    return Training(Recommender(), batches, optimizer=torch.optim.Adagrad, settings={"lr": 1e-2, "foreach": False})


def _one_item(batch: Batch) -> None:
    batch["items"][5, 2, 1] = (batch["items"][5, 2, 1] + 3) % ITEMS


def _one_number(batch: Batch) -> None:
    batch["dense"][0, 0] += 0.3


def _one_choice(batch: Batch) -> None:
    batch["chosen"][3] = 1 - batch["chosen"][3]


def _no_residual(training: Training) -> None:
    training.module("crosses.1").has_residual = False


def _sums(training: Training) -> None:
    training.module("fields.2").mode = "sum"


def _weight(training: Training) -> None:
    training.module("").weight = 1.8


def _temperature(training: Training) -> None:
    training.module("").temperature = 0.49


_LOSS = call("binary_cross_entropy_with_logits|tensor")
DEFECTS = (
    Defect("sums", "argument", inside("fields.2", "embedding_bag"), _sums),
    Defect("pos_weight", "argument", _LOSS, _weight),
    Defect("temperature", "argument", call(r"__r?truediv__|div"), _temperature),
    defects.setting("norm_eps", "deep.1", "eps", 1e-2, "batch_norm"),
    defects.setting("momentum", "deep.4", "momentum", 0.2, "batch_norm"),
    defects.setting("no_bias", "crosses.2.linear", "bias", None, "linear"),
    defects.replaced("relu", "dense.2", lambda old: nn.ReLU()),
    Defect(
        "no_residual", "wiring", within("crosses.1", r"__r?add__|__r?mul__") + inside("crosses.1", "x"), _no_residual
    ),
    defects.changed_weight("flipped", "crosses.0.linear", "linear", defects.flipped),
    defects.changed_weight("one_element", "deep.3", "linear", defects.one_element),
    defects.changed_weight("other_start", "fields.1", "embedding_bag", defects.reinitialised),
    defects.changed_weight("slope", "dense.2", "prelu", lambda tensor: tensor * 1.02),
    defects.frozen("frozen", "crosses.1.linear", "linear"),
    defects.lower_precision("deep_bf16", "deep.3", "linear"),
    defects.other_data("one_item", (*inside("fields.2", "embedding_bag"), *call("__getitem__")), _one_item),
    defects.other_data("one_number", inside("dense.0", "linear"), _one_number),
    defects.other_data("one_choice", _LOSS, _one_choice, batch=1),
    defects.optimizer("eps", r"add_|addcdiv_", eps=1e-4),
    defects.optimizer("rate", r"addcdiv_|mul_", lr=1.05e-2),
    defects.no_clipping(),
    defects.faulty_kernel("norm_kernel", inside("deep.1", "batch_norm"), ATEN.native_batch_norm, 1, scaled(1.001)),
    defects.faulty_kernel(
        "bag_one_element", inside("fields.1", "embedding_bag"), ATEN._embedding_bag, 1, one_element_wrong
    ),
)


MODEL = Model(build, DEFECTS)
