"""A graph network: attention over edges by gathers and scatters, a gated update, a head over nodes; AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

NODES, EDGES, FEATURES, HIDDEN, CLASSES = 40, 160, 12, 24, 5


class Attention(nn.Module):
    """Each node takes the mean of its senders' messages, weighted by a softmax over the edges that end in it."""

    slope = 0.2
    is_scaled = True
    """Whether scores are divided by the root of their width."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)
        self.edge = nn.Linear(3, HIDDEN, bias=False)

    def forward(self, nodes: torch.Tensor, ends: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        senders, receivers = ends[0], ends[1]
        along = self.edge(edges)
        scores = (self.query(nodes)[receivers] * (self.key(nodes)[senders] + along)).sum(-1)
        scores = functional.leaky_relu(scores / HIDDEN**0.5 if self.is_scaled else scores, self.slope)
        weights = torch.exp(scores - scores.max())
        totals = torch.zeros(len(nodes), dtype=weights.dtype).index_add(0, receivers, weights)
        share = weights / totals[receivers].clamp(min=1e-6)
        messages = (self.value(nodes)[senders] + along) * share[:, None]
        return torch.zeros_like(nodes).index_add(0, receivers, messages)


class Layer(nn.Module):
    """Attention, a gate between what was and what came, LayerNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.gate = nn.Linear(2 * HIDDEN, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.dropout = nn.Dropout(0.1)

    def forward(self, nodes: torch.Tensor, ends: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        came = self.attention(nodes, ends, edges)
        gate = torch.sigmoid(self.gate(torch.cat([nodes, came], dim=-1)))
        return self.norm(gate * nodes + (1 - gate) * self.dropout(came))


class Graph(nn.Module):
    """Classifies nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ELU())
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.head = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES))

    def forward(
        self, nodes: torch.Tensor, ends: torch.Tensor, edges: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        hidden = self.enter(nodes)
        for layer in self.layers:
            hidden = layer(hidden, ends, edges)
        return functional.cross_entropy(self.head(hidden), labels)


def build() -> Training:
    generator = torch.Generator().manual_seed(51)
    batches = [
        {
            "nodes": torch.randn(NODES, FEATURES, generator=generator),
            "ends": torch.randint(0, NODES, (2, EDGES), generator=generator),
            "edges": torch.randn(EDGES, 3, generator=generator),
            "labels": torch.randint(0, CLASSES, (NODES,), generator=generator),
        }
        for _ in range(2)
    ]
    return Training(Graph(), batches, clip=0.1)


def _one_edge(batch: Batch) -> None:
    batch["ends"][1, 7] = (batch["ends"][1, 7] + 1) % NODES


def _one_feature(batch: Batch) -> None:
    batch["nodes"][3, 4] += 0.5


def _one_label(batch: Batch) -> None:
    batch["labels"][2] = (batch["labels"][2] + 1) % CLASSES


def _reversed_edges(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda nodes, ends, edges: forward(nodes, ends.flip(0), edges)


def _not_scaled(training: Training) -> None:
    training.module("layers.1.attention").is_scaled = False


# Gathers are not recorded, so the first op that takes what they gave is the cause.
_ENDS = call(r"__mul__|__add__|index_add")
DEFECTS = (
    Defect(
        "slope",
        "argument",
        within("layers.1.attention", "leaky_relu"),
        lambda training: setattr(training.module("layers.1.attention"), "slope", 0.1),
    ),
    Defect("not_scaled", "op", within("layers.1.attention", r"__r?truediv__|div|leaky_relu"), _not_scaled),
    defects.setting("norm_eps", "layers.2.norm", "eps", 1e-3, "layer_norm"),
    defects.setting("dropout", "layers.1.dropout", "p", 0.2, "dropout"),
    defects.setting("no_bias", "layers.0.gate", "bias", None, "linear"),
    defects.replaced("relu", "enter.1", lambda old: nn.ReLU()),
    defects.changed_forward(
        "reversed", "wiring", "layers.2.attention", _reversed_edges, within("layers.2.attention", ".*") + _ENDS
    ),
    defects.changed_weight("transposed", "layers.1.attention.value", "linear", defects.transposed),
    defects.changed_weight("one_element", "layers.0.attention.key", "linear", defects.one_element),
    defects.swapped_weights("swapped", "layers.2.attention.query", "layers.2.attention.key"),
    defects.changed_weight("other_start", "head.0", "linear", defects.reinitialised),
    defects.frozen("frozen", "layers.1.attention.edge", "linear"),
    defects.lower_precision("gate_bf16", "layers.1.gate", "linear"),
    defects.other_data("one_edge", _ENDS, _one_edge),
    defects.other_data("one_feature", inside("enter.0", "linear"), _one_feature),
    defects.other_data("one_label", call("cross_entropy"), _one_label, batch=1),
    defects.optimizer("betas", r"mul_|lerp_|addcmul_", betas=(0.9, 0.99)),
    defects.no_clipping(),
    defects.faulty_kernel("exp_kernel", within("layers.1.attention", "exp"), ATEN.exp, 1, scaled(1.002)),
    defects.faulty_kernel("sigmoid_one_element", within("layers.0", "sigmoid"), ATEN.sigmoid, 0, one_element_wrong),
    defects.faulty_kernel(
        "norm_backward",
        inside("layers.1.norm", "layer_norm", "backward"),
        ATEN.native_layer_norm_backward,
        1,
        scaled(1.002),
    ),
)


MODEL = Model(build, DEFECTS)
