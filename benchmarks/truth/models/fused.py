"""A decoder with fused attention on grouped heads, rotation by complex numbers, tied words, dropout and padding; Adam.

What a user changes between two such programs: a base of the rotation, a mask of another type, dropout that stays off, a
smoothed loss, words that are no longer tied.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.tokens import random_tokens
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

VOCABULARY, WIDTH, HEADS, SHARED, LENGTH, PADDING = 71, 48, 6, 2, 14, 0
SIZE = WIDTH // HEADS


class Attention(nn.Module):
    """Six heads of queries on two of keys and values."""

    base = 10000.0
    is_additive = False
    """Whether ones and zeros are added to the scores, in place of a mask of booleans."""
    scale: float | None = None

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key_value = nn.Linear(WIDTH, 2 * SHARED * SIZE, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """Each pair of elements, turned by an angle that grows with the position."""
        speeds = self.base ** (-torch.arange(0, SIZE, 2).float() / SIZE)
        angles = torch.outer(torch.arange(x.shape[1]).float(), speeds)
        turns = torch.polar(torch.ones_like(angles), angles)[:, None, :]
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)

    def forward(self, x: torch.Tensor, is_word: torch.Tensor) -> torch.Tensor:
        query = self.turned(self.query(x).unflatten(-1, (HEADS, SIZE))).transpose(1, 2)
        key, value = self.key_value(x).unflatten(-1, (2, SHARED, SIZE)).unbind(2)
        key, value = self.turned(key).transpose(1, 2), value.transpose(1, 2)
        key, value = (part.repeat_interleave(HEADS // SHARED, dim=1) for part in (key, value))
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        mask = past & is_word[:, None, None, :]
        if self.is_additive:
            mask = mask.to(query.dtype)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=self.scale)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    """Attention and a gated feed-forward, each behind a norm, with dropout before it is added."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(WIDTH, eps=1e-6)
        self.attention = Attention()
        self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.activation = nn.GELU(approximate="tanh")
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, is_word: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), is_word))
        gate, up = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.dropout(self.down(self.activation(gate) * up))


class Decoder(nn.Module):
    """Predicts the next word; padding counts nowhere."""

    is_tied = True

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PADDING)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        nn.init.normal_(self.words.weight, std=0.2)
        self.head.weight = self.words.weight
        self.loss = nn.CrossEntropyLoss(ignore_index=PADDING, label_smoothing=0.1)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.words(words) * WIDTH**0.5
        is_word = words != PADDING
        for layer in self.layers:
            hidden = layer(hidden, is_word)
        logits = self.head(self.norm(hidden))
        return self.loss(logits[:, :-1].flatten(0, 1), words[:, 1:].flatten())


def build() -> Training:
    batches: list[Batch] = []
    for words in random_tokens(5, (4, LENGTH), VOCABULARY):
        words[1, 9:] = PADDING
        words[3, 12:] = PADDING
        batches.append({"words": words})
    return Training(Decoder(), batches, optimizer=torch.optim.Adam, accumulate=2)


def _base(training: Training) -> None:
    training.module("layers.1.attention").base = 500000.0


def _added_mask(training: Training) -> None:
    training.module("layers.1.attention").is_additive = True


def _scale(training: Training) -> None:
    training.module("layers.2.attention").scale = 1 / SIZE


def _no_dropout(training: Training) -> None:
    training.module("layers.0.dropout").p = 0.0


def _untied(training: Training) -> None:
    """The head has a weight of its own, which begins as the same numbers."""
    head = training.module("head")
    head.weight = nn.Parameter(head.weight.detach().clone())


_UNTIED = (
    *inside("head", "linear", "backward"), *within("head", "linear", "backward"), *inside("words", "embedding"),
    *inside("head", "linear"), *inside("words", "embedding", "backward"),
    Cause(r"^Module\.head\.Linear\.parameters_grad"), *call("_foreach_norm|vector_norm|stack|mul_|lerp_"),
)  # fmt: skip


DEFECTS = (
    Defect("base", "argument", within("layers.1.attention", r"__rpow__|pow|outer|polar"), _base),
    Defect("added_mask", "dtype", within("layers.1.attention", "to|scaled_dot_product_attention"), _added_mask),
    Defect("scale", "argument", within("layers.2.attention", "scaled_dot_product_attention"), _scale),
    Defect("no_dropout", "argument", inside("layers.0.dropout", "dropout"), _no_dropout),
    Defect("untied", "weights", _UNTIED, _untied),
    defects.setting("smoothing", "loss", "label_smoothing", 0.0, "cross_entropy"),
    defects.setting("erf", "layers.1.activation", "approximate", "none", "gelu"),
    defects.faulty_kernel("gelu_kernel", inside("layers.1.activation", "gelu"), ATEN.gelu, 1, scaled(1.001)),
)


MODEL = Model(build, DEFECTS)
