"""A language model with two LSTM layers and dropout; SGD with momentum and a tight clip."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Training, WithLoss

VOCABULARY, WIDTH, HIDDEN = 84, 24, 40


class Language(nn.Module):
    """Tokens to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, 2, batch_first=True)
        self.norm = nn.LayerNorm(HIDDEN)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape [batch, length, vocabulary]."""
        return self.head(self.dropout(self.norm(self.lstm(self.tokens(tokens))[0])))


def build() -> Training:
    batches = [{"inputs": tokens, "labels": tokens.roll(-1, 1)} for tokens in random_tokens(41, (3, 14), VOCABULARY)]
    settings = {"lr": 0.1, "momentum": 0.9, "foreach": False}
    return Training(WithLoss(Language(), nn.CrossEntropyLoss()), batches, torch.optim.SGD, settings, clip=0.25)


def _forget_bias(bias: torch.Tensor) -> torch.Tensor:
    """The forget gate starts from 1, as other libraries do."""
    bias[HIDDEN : 2 * HIDDEN] += 1.0
    return bias


def _gates(weight: torch.Tensor) -> torch.Tensor:
    """Gates in the order input, forget, output, cell."""
    first, second, cell, output = weight.chunk(4)
    return torch.cat([first, second, output, cell])


DEFECTS = (
    defects.setting("dropout", "network.dropout", "p", 0.2, "dropout"),
    defects.setting("norm_eps", "network.norm", "eps", 1e-3, "layer_norm"),
    defects.setting("ignore_index", "criterion", "ignore_index", 5, "cross_entropy"),
    defects.setting("no_bias", "network.head", "bias", None, "linear"),
    defects.replaced("no_norm", "network.norm", lambda old: nn.Identity()),
    defects.changed_weight("forget_bias", "network.lstm", "lstm", _forget_bias, "bias_ih_l1"),
    defects.changed_weight("gate_order", "network.lstm", "lstm", _gates, "weight_hh_l0"),
    defects.changed_weight("one_element", "network.lstm", "lstm", defects.one_element, "weight_ih_l1"),
    defects.changed_weight("other_start", "network.head", "linear", defects.reinitialised),
    defects.frozen("frozen", "network.tokens", "embedding", shows=call("embedding", "backward")),
    defects.lower_precision("head_bf16", "network.head", "linear"),
    defects.other_data(
        "token",
        inside("network.tokens", "embedding"),
        lambda batch: replace_token(batch, "inputs", VOCABULARY),
        batch=1,
    ),
    defects.other_data(
        "label", inside("criterion", "cross_entropy"), lambda batch: replace_token(batch, "labels", VOCABULARY)
    ),
    Defect("momentum", "loop", call("mul_|add_"), lambda training: training.settings.update(momentum=0.95), 1),
    defects.loop("clip", defects.CLIPPING, clip=0.2),
    defects.no_clipping(),
    defects.optimizer("decay", "add|add_", weight_decay=1e-3),
    defects.loop("gradients_kept", (Cause("parameters_grad"), *defects.CLIPPING), step=1, zeroes=False),
    defects.faulty_kernel(
        "norm_one_element", inside("network.norm", "layer_norm"), ATEN.native_layer_norm, 0, one_element_wrong
    ),
    defects.faulty_kernel("head_kernel", inside("network.head", "linear"), ATEN.addmm, 0, scaled(1.001)),
    defects.faulty_kernel(
        "loss_backward",
        inside("criterion", "cross_entropy", "backward"),
        ATEN._log_softmax_backward_data,
        0,
        scaled(1.002),
    ),
    defects.two(
        "gates_and_decay",
        defects.changed_weight("", "network.lstm", "lstm", _gates, "weight_hh_l1"),
        defects.optimizer("", "add|add_", weight_decay=1e-2),
    ),
)


MODEL = Model(build, DEFECTS)
