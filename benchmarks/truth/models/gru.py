"""A tagger with a bidirectional GRU cell loop of its own and attention over time; RMSprop."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

VOCABULARY, WIDTH, HIDDEN, TAGS = 70, 20, 32, 7


class Tagger(nn.Module):
    """Tags every token, looking forwards and backwards."""

    temperature = 0.5
    turns_back = True
    """Whether states that were made from the end are put in the order of the tokens again."""
    activation = staticmethod(lambda hidden: torch.tanh(hidden))

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.forwards = nn.GRUCell(WIDTH, HIDDEN)
        self.backwards = nn.GRUCell(WIDTH, HIDDEN)
        self.score = nn.Linear(2 * HIDDEN, 1)
        self.mix = nn.Linear(4 * HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, TAGS)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, tokens: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        embedded = self.tokens(tokens)
        reverse = self._run(self.backwards, embedded.flip(1))
        states = torch.cat([self._run(self.forwards, embedded), reverse.flip(1) if self.turns_back else reverse], -1)
        weights = torch.softmax(self.score(states) / self.temperature, dim=1)
        summary = (weights * states).sum(dim=1, keepdim=True).expand_as(states)
        hidden = self.activation(self.mix(torch.cat([states, summary], -1)))
        return self.loss(self.head(hidden).reshape(-1, TAGS), tags.reshape(-1))

    @staticmethod
    def _run(cell: nn.GRUCell, inputs: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(inputs.shape[0], HIDDEN, dtype=inputs.dtype)
        states = []
        for time in range(inputs.shape[1]):
            state = cell(inputs[:, time], state)
            states.append(state)
        return torch.stack(states, dim=1)


def build() -> Training:
    batches = [{"tokens": tokens, "tags": tokens % TAGS} for tokens in random_tokens(42, (4, 9), VOCABULARY)]
    return Training(Tagger(), batches, torch.optim.RMSprop, {"lr": 2e-3, "alpha": 0.95, "foreach": False}, clip=0.1)


def _temperature(training: Training) -> None:
    training.module("").temperature = 0.45


def _not_turned_back(training: Training) -> None:
    training.module("").turns_back = False


def _no_tanh(training: Training) -> None:
    training.module("").activation = lambda hidden: torch.relu(hidden)


def _reversed(batch: Batch) -> None:
    batch["tokens"] = batch["tokens"].flip(1)


def _gates(weight: torch.Tensor) -> torch.Tensor:
    """Gates in the order update, reset, new."""
    reset, update, new = weight.chunk(3)
    return torch.cat([update, reset, new])


_LABELS = inside("loss", "cross_entropy")
DEFECTS = (
    Defect("temperature", "argument", call("__truediv__"), _temperature),
    defects.setting("label_smoothing", "loss", "label_smoothing", 0.1, "cross_entropy"),
    defects.setting("no_bias", "mix", "bias", None, "linear"),
    Defect("relu", "op", call("tanh|relu"), _no_tanh),
    Defect("not_turned_back", "wiring", (*call("flip|cat"), *inside("score", "linear")), _not_turned_back),
    defects.changed_weight("gate_order", "forwards", "gru_cell", _gates, "weight_hh"),
    defects.changed_weight("one_element", "backwards", "gru_cell", defects.one_element, "weight_ih"),
    defects.changed_weight("one_element_mix", "mix", "linear", defects.one_element),
    defects.changed_weight("other_start", "head", "linear", defects.reinitialised),
    defects.frozen("frozen", "tokens", "embedding", shows=call("embedding", "backward")),
    defects.lower_precision("mix_bf16", "mix", "linear"),
    defects.other_data("reversed", inside("tokens", "embedding") + inside("backwards", "gru_cell"), _reversed),
    defects.other_data(
        "token", inside("tokens", "embedding"), lambda batch: replace_token(batch, "tokens", VOCABULARY), batch=1
    ),
    defects.other_data("label", _LABELS, lambda batch: replace_token(batch, "tags", TAGS)),
    defects.no_clipping(),
    defects.optimizer("alpha", "mul_|addcmul_", alpha=0.99),
    defects.optimizer("eps", "add_", eps=1e-5),
    defects.optimizer("decay", "add|add_", weight_decay=1e-2),
    defects.faulty_kernel("softmax_kernel", call("softmax"), ATEN._softmax, 0, scaled(1.001)),
    defects.faulty_kernel("tanh_one_element", call("tanh"), ATEN.tanh, 0, one_element_wrong),
    defects.faulty_kernel(
        "softmax_backward", call("softmax", "backward"), ATEN._softmax_backward_data, 0, scaled(1.002)
    ),
    defects.two(
        "bias_and_alpha",
        defects.setting("", "score", "bias", None, "linear"),
        defects.optimizer("", "mul_|addcmul_", alpha=0.9),
    ),
)


MODEL = Model(build, DEFECTS)
