"""A transformer encoder of MindSpore cells, written by hand; next token; Adam."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mindspore import Tensor, nn, ops

from benchmarks.truth import cells
from benchmarks.truth.cells import Training, inside, within
from benchmarks.truth.planted import Cause, Defect, Model

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH = 64, 32, 4, 12, 2


class Attention(nn.Cell):
    """Causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(WIDTH, WIDTH) for _ in range(4))
        self.scale = (WIDTH // HEADS) ** -0.5
        self.first_hidden = 1

    def construct(self, x: Tensor) -> Tensor:
        query, key, value = (self._heads(part(x)) for part in (self.query, self.key, self.value))
        scores = ops.matmul(query, key.swapaxes(-1, -2)) * self.scale
        future = Tensor(np.triu(np.full((LENGTH, LENGTH), -1e4, np.float32), self.first_hidden))
        weights = ops.softmax(scores + future, axis=-1)
        return self.out(ops.matmul(weights, value).swapaxes(1, 2).reshape(BATCH, LENGTH, WIDTH))

    @staticmethod
    def _heads(x: Tensor) -> Tensor:
        return x.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).swapaxes(1, 2)


class Layer(nn.Cell):
    """Attention and a feed-forward, each behind a norm and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.up = nn.Dense(WIDTH, 2 * WIDTH)
        self.act = nn.GELU(approximate=False)
        self.down = nn.Dense(2 * WIDTH, WIDTH)

    def construct(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Encoder(nn.Cell):
    """Tokens and labels to a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.CellList([Layer() for _ in range(3)])
        self.norm = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.head = nn.Dense(WIDTH, VOCABULARY)

    def construct(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x)).reshape(-1, VOCABULARY)
        return ops.cross_entropy(logits, labels.reshape(-1))


def build() -> Training:
    """Three layers, next token."""
    generator = np.random.default_rng(50)
    batches = []
    for _ in range(2):
        tokens = generator.integers(3, VOCABULARY, (BATCH, LENGTH)).astype(np.int32)
        batches.append((Tensor(tokens), Tensor(np.roll(tokens, -1, 1))))
    return Training(Encoder(), batches)


def _scale(training: Training) -> None:
    training.cell("layers.1.attention").scale *= 1.1


def _sees_next(training: Training) -> None:
    training.cell("layers.2.attention").first_hidden = 2


def _norm_of_sum(cell: Layer) -> Callable[[Tensor], Tensor]:
    """The residual goes around the norm's result instead of its input."""

    def rewired(x: Tensor) -> Tensor:
        x = x + cell.attention(cell.norm1(x))
        normed = cell.norm2(x)
        return normed + cell.down(cell.act(cell.up(normed)))

    return rewired


def _other_token(arrays: list[np.ndarray]) -> None:
    arrays[0][0, 5] = 3 + arrays[0][0, 5] % (VOCABULARY - 3)


def _other_label(arrays: list[np.ndarray]) -> None:
    arrays[1][1, 2] = 3 + arrays[1][1, 2] % (VOCABULARY - 3)


EMBEDDING = inside("tokens", "Gather|Reshape")
DENSE = "MatMul|BiasAdd"
DEFECTS = (
    cells.replaced(
        "norm_eps", "argument", "layers.1.norm2", lambda old: nn.LayerNorm((WIDTH,), epsilon=1e-3), "LayerNorm"
    ),
    Defect("scale", "argument", within("layers.1.attention", "__mul__"), _scale),
    Defect("mask", "wiring", within("layers.2.attention", "__add__"), _sees_next),
    cells.replaced("gelu_tanh", "argument", "layers.0.act", lambda old: nn.GELU(approximate=True), "gelu|GeLU"),
    cells.replaced("relu", "op", "layers.2.act", lambda old: nn.ReLU()),
    cells.rewired("residual_behind_norm", "wiring", "layers.1", _norm_of_sum, within("layers.1", "__add__")),
    cells.changed_weight("transposed", "layers.1.attention.out", DENSE, np.transpose),
    cells.changed_weight("one_element", "layers.0.up", DENSE, cells.one_element),
    cells.changed_weight("other_start", "layers.2.down", DENSE, lambda values: values[::-1]),
    cells.changed_weight("norm_weight", "layers.2.norm1", "LayerNorm|to", lambda values: values * 1.01, "gamma"),
    cells.other_data("token", EMBEDDING, _other_token),
    cells.other_data("later_token", EMBEDDING, _other_token, batch=1),
    cells.other_data("label", (Cause(r"cross_entropy\.\d+\.forward|Tensor\.reshape\.\d+\.forward"),), _other_label),
    cells.loop("rate", learning_rate=2e-3),
    Defect(
        "no_clip",
        "loop",
        (Cause("clip_by_global_norm"), *cells.OPTIMIZER),
        lambda training: setattr(training, "clip", None),
    ),
)


MODEL = Model(build, DEFECTS)
