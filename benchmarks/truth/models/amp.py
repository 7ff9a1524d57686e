"""A pre-norm transformer with gated feed-forward under autocast to bfloat16: what mixed precision looks like; AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Training, WithLoss

VOCABULARY, WIDTH, HEADS, LENGTH = 88, 64, 4, 16


class Attention(nn.Module):
    """Causal attention with queries, keys and values from one product."""

    first_hidden = 1
    """How far ahead the first token is that is not seen."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.scale = (WIDTH // HEADS) ** -0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        scores = torch.matmul(query, key.transpose(-2, -1)) * self.scale
        future = torch.ones(length, length, dtype=torch.bool).triu(self.first_hidden)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return self.out(torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, WIDTH))


class Layer(nn.Module):
    """Attention and a gated feed-forward, each behind a norm and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(WIDTH, eps=1e-6)
        self.attention = Attention()
        self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.glu(self.gate(self.norm2(x)), dim=-1))


class Decoder(nn.Module):
    """Tokens to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape [batch, length, vocabulary]."""
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def build() -> Training:
    batches = [
        {"inputs": tokens, "labels": tokens.roll(-1, 1)} for tokens in random_tokens(43, (2, LENGTH), VOCABULARY)
    ]
    return Training(WithLoss(Decoder(), nn.CrossEntropyLoss()), batches, autocast=torch.bfloat16)


LAYER = "network.layers"


def _scale(training: Training) -> None:
    training.module(f"{LAYER}.1.attention").scale *= 1.1


def _sees_next(training: Training) -> None:
    training.module(f"{LAYER}.2.attention").first_hidden = 2


def _full_precision(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The product is made in float32, as where an op stands on another list of autocast."""

    def computed(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            return forward(x.float()).bfloat16()

    return computed


def _norm_of_sum(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The residual goes around the norm's result instead of its input."""

    def rewired(x: torch.Tensor) -> torch.Tensor:
        x = x + module.attention(module.norm1(x))
        normed = module.norm2(x)
        return normed + module.down(functional.glu(module.gate(normed), dim=-1))

    return rewired


DEFECTS = (
    Defect("scale", "argument", within(f"{LAYER}.1.attention", "__mul__"), _scale),
    defects.setting("norm_eps", f"{LAYER}.0.norm1", "eps", 1e-1, "rms_norm"),
    defects.setting("ignore_index", "criterion", "ignore_index", 9, "cross_entropy"),
    Defect("mask", "wiring", within(f"{LAYER}.2.attention", "masked_fill|triu"), _sees_next),
    defects.changed_forward(
        "residual_behind_norm", "wiring", f"{LAYER}.1", _norm_of_sum, within(f"{LAYER}.1", "__add__")
    ),
    defects.changed_forward(
        "gate_float32",
        "dtype",
        f"{LAYER}.1.gate",
        _full_precision,
        inside(f"{LAYER}.1.gate", "linear|float|bfloat16|to"),
    ),
    defects.replaced("no_norm", f"{LAYER}.2.norm2", lambda old: nn.Identity(), r"\w+"),
    defects.changed_weight("halves_exchanged", f"{LAYER}.2.gate", "linear", defects.permuted),
    defects.changed_weight("transposed", f"{LAYER}.1.down", "linear", defects.transposed),
    defects.changed_weight("one_element", f"{LAYER}.0.attention.out", "linear", defects.one_element),
    defects.changed_weight("other_start", "network.head", "linear", defects.reinitialised),
    defects.frozen("frozen", f"{LAYER}.1.attention.qkv", "linear"),
    defects.other_data(
        "token", inside("network.tokens", "embedding"), lambda batch: replace_token(batch, "inputs", VOCABULARY)
    ),
    defects.other_data(
        "label", inside("criterion", "cross_entropy"), lambda batch: replace_token(batch, "labels", VOCABULARY), batch=1
    ),
    defects.no_clipping(),
    defects.optimizer("betas", "mul_|addcmul_", betas=(0.9, 0.98)),
    defects.optimizer("decay", "mul_", weight_decay=0.1),
    defects.faulty_kernel("softmax_kernel", within(f"{LAYER}.1.attention", "softmax"), ATEN._softmax, 1, scaled(1.02)),
    defects.faulty_kernel(
        "softmax_one_element", within(f"{LAYER}.2.attention", "softmax"), ATEN._softmax, 2, one_element_wrong
    ),
    defects.faulty_kernel("glu_backward", within(f"{LAYER}.1", "glu", "backward"), ATEN.glu_backward, 1, scaled(1.02)),
    defects.two(
        "mask_and_decay",
        Defect("", "wiring", within(f"{LAYER}.2.attention", "masked_fill|triu"), _sees_next),
        defects.optimizer("", "mul_", weight_decay=0.3),
    ),
)


MODEL = Model(build, DEFECTS)
