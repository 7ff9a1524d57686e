"""torch.nn.TransformerEncoder over tokens, with a causal mask: next token, AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.models.tokens import replace_token
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Training, WithLoss

VOCABULARY, WIDTH, LENGTH, BATCH = 80, 48, 20, 3


class Encoder(nn.Module):
    """Tokens to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 96, dropout=0.0, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape [batch, length, vocabulary]."""
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.encoder(self.tokens(tokens) + self.positions, mask=mask))


def build() -> Training:
    network = WithLoss(Encoder(), nn.CrossEntropyLoss(ignore_index=0))
    generator = torch.Generator().manual_seed(21)
    batches = []
    for _ in range(2):
        tokens = torch.randint(1, VOCABULARY, (BATCH, LENGTH), generator=generator)
        labels = tokens.roll(-1, 1)
        labels[:, -1] = 0
        batches.append({"inputs": tokens, "labels": labels})
    return Training(network, batches)


LAYER = "network.encoder.layers"


def _no_mask(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def unmasked(source: torch.Tensor, src_mask: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
        return forward(source, src_mask=torch.zeros(LENGTH, LENGTH), **options | {"is_causal": False})

    return unmasked


def _norm_after(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The residual is added behind the second norm, where it belongs before it."""

    def rewired(source: torch.Tensor, src_mask: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
        hidden = module.norm1(source + module._sa_block(source, src_mask, None, is_causal=True))
        return hidden + module.norm2(module._ff_block(hidden))

    return rewired


def _norm_first(training: Training) -> None:
    training.module(f"{LAYER}.1").norm_first = True


def _other_count(training: Training) -> None:
    """The loss is divided by all tokens, where those that count are fewer."""
    criterion = training.module("criterion")
    criterion.reduction = "sum"
    forward = criterion.forward
    criterion.forward = lambda logits, labels: forward(logits, labels) / labels.numel()


_ATTENTION = "multi_head_attention_forward"
DEFECTS = (
    defects.setting("norm_eps", f"{LAYER}.1.norm2", "eps", 1e-3, "layer_norm"),
    defects.setting("dropout", f"{LAYER}.2.dropout1", "p", 0.1, "dropout"),
    defects.setting("ignore_index", "criterion", "ignore_index", 7, "cross_entropy"),
    Defect("norm_first", "wiring", within(f"{LAYER}.1", r"\w+"), _norm_first),
    defects.changed_forward(
        "residual_after_norm",
        "wiring",
        f"{LAYER}.1",
        _norm_after,
        (*inside(f"{LAYER}.1.norm2", "layer_norm"), *within(f"{LAYER}.1", "__add__")),
    ),
    defects.changed_forward("no_mask", "wiring", f"{LAYER}.0", _no_mask, inside(f"{LAYER}.0.self_attn", _ATTENTION)),
    defects.changed_weight(
        "queries_for_keys",
        f"{LAYER}.1.self_attn",
        _ATTENTION,
        lambda weight: torch.cat([weight[WIDTH : 2 * WIDTH], weight[:WIDTH], weight[2 * WIDTH :]]),
        "in_proj_weight",
    ),
    defects.changed_weight("one_element", f"{LAYER}.0.linear2", "linear", defects.one_element),
    defects.changed_weight("other_start", f"{LAYER}.2.linear1", "linear", defects.reinitialised),
    defects.frozen("frozen_norm", f"{LAYER}.1.norm1", "layer_norm"),
    defects.lower_precision("linear_bf16", f"{LAYER}.1.linear1", "linear"),
    defects.replaced("relu", f"{LAYER}.2.linear2", lambda linear: nn.Sequential(nn.ReLU(), linear)),
    defects.other_data(
        "token",
        inside("network.tokens", "embedding"),
        lambda batch: replace_token(batch, "inputs", VOCABULARY),
    ),
    defects.other_data(
        "label", inside("criterion", "cross_entropy"), lambda batch: replace_token(batch, "labels", VOCABULARY)
    ),
    Defect("loss_count", "loop", (*inside("criterion", "cross_entropy|__truediv__"),), _other_count),
    defects.no_clipping(),
    defects.optimizer("betas", "mul_|addcmul_", betas=(0.9, 0.99)),
    defects.optimizer("decay", "mul_", weight_decay=0.1),
    defects.faulty_kernel("linear_kernel", inside(f"{LAYER}.1.linear2", "linear"), ATEN.addmm, 5, scaled(1.001)),
    defects.faulty_kernel(
        "norm_one_element", inside(f"{LAYER}.1.norm1", "layer_norm"), ATEN.native_layer_norm, 2, one_element_wrong
    ),
    defects.faulty_kernel(
        "norm_backward",
        inside(f"{LAYER}.2.norm1", "layer_norm", "backward"),
        ATEN.native_layer_norm_backward,
        1,
        scaled(1.001),
    ),
    defects.two(
        "eps_and_betas",
        defects.setting("", f"{LAYER}.2.norm1", "eps", 1e-4, "layer_norm"),
        defects.optimizer("", "lerp_", betas=(0.8, 0.999)),
    ),
)


MODEL = Model(build, DEFECTS)
