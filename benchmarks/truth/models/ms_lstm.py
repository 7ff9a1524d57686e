"""An LSTM of MindSpore over tokens, with a LayerNorm; next token; Adam."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mindspore import Tensor, nn, ops

from benchmarks.truth import cells
from benchmarks.truth.cells import Training, inside
from benchmarks.truth.planted import Cause, Defect, Model

VOCABULARY, WIDTH, HIDDEN, LENGTH, BATCH = 50, 16, 24, 8, 3


class Language(nn.Cell):
    """Tokens and labels to a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, 2, batch_first=True)
        self.norm = nn.LayerNorm((HIDDEN,), epsilon=1e-5)
        self.act = nn.Tanh()
        self.head = nn.Dense(HIDDEN, VOCABULARY)

    def construct(self, tokens: Tensor, labels: Tensor) -> Tensor:
        states, _ = self.lstm(self.tokens(tokens))
        logits = self.head(self.act(self.norm(states))).reshape(-1, VOCABULARY)
        return ops.cross_entropy(logits, labels.reshape(-1))


def build() -> Training:
    """Two layers."""
    generator = np.random.default_rng(52)
    batches = []
    for _ in range(2):
        tokens = generator.integers(3, VOCABULARY, (BATCH, LENGTH)).astype(np.int32)
        batches.append((Tensor(tokens), Tensor(np.roll(tokens, -1, 1))))
    return Training(Language(), batches)


def _gates(values: np.ndarray) -> np.ndarray:
    """Gates in the order input, forget, output, cell."""
    first, second, cell, output = np.split(values, 4)
    return np.concatenate([first, second, output, cell])


def _other_token(arrays: list[np.ndarray]) -> None:
    arrays[0][0, 5] = 3 + arrays[0][0, 5] % (VOCABULARY - 3)


EMBEDDING = inside("tokens", "Gather|Reshape")
RECURRENT = (Cause(r"\.forward", r"^Cell\.lstm\."),)


def _recurrent(name: str, change: Callable[[np.ndarray], np.ndarray], parameter: str) -> Defect:
    """A parameter of the LSTM starts from other values."""

    def plant(training: Training) -> None:
        found = [p for p in training.network.get_parameters() if p.name.endswith(parameter)]
        found[0].set_data(Tensor(np.ascontiguousarray(change(found[0].asnumpy().copy()))))

    return Defect(name, "weights", RECURRENT, plant)


DEFECTS = (
    cells.replaced("norm_eps", "argument", "norm", lambda old: nn.LayerNorm((HIDDEN,), epsilon=1e-3), "LayerNorm"),
    cells.replaced("relu", "op", "act", lambda old: nn.ReLU()),
    cells.replaced("no_norm", "op", "norm", lambda old: nn.Identity()),
    _recurrent("gate_order", _gates, "weight_hh_l0"),
    _recurrent("forget_bias", lambda values: values + np.float32(0.05), "bias_ih_l1"),
    cells.changed_weight("one_element", "head", "MatMul|BiasAdd", cells.one_element),
    cells.changed_weight("other_start", "head", "MatMul|BiasAdd", lambda values: values[::-1]),
    cells.other_data("token", EMBEDDING, _other_token),
    cells.other_data("later_token", EMBEDDING, _other_token, batch=1),
    cells.loop("rate", learning_rate=2e-3),
)


MODEL = Model(build, DEFECTS)
