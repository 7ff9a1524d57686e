"""BERT of transformers with a padding mask; masked tokens; AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

VOCABULARY, LENGTH, BATCH = 90, 16, 3
MASK, NO_LABEL = 2, -100


def build() -> Training:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return Training(
        transformers.BertForMaskedLM(config),
        [_batch(tokens) for tokens in random_tokens(32, (BATCH, LENGTH), VOCABULARY)],
    )


def _batch(tokens: torch.Tensor) -> Batch:
    is_masked = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    is_masked[:, ::4] = True
    is_real = torch.ones(BATCH, LENGTH, dtype=torch.long)
    is_real[1, 11:] = 0
    return {
        "input_ids": tokens.masked_fill(is_masked, MASK),
        "labels": tokens.masked_fill(~is_masked, NO_LABEL),
        "attention_mask": is_real,
        "token_type_ids": (torch.arange(LENGTH) > 8).long().repeat(BATCH, 1),
    }


LAYER = "bert.encoder.layer"


def _no_padding(batch: Batch) -> None:
    batch["attention_mask"] = torch.ones_like(batch["attention_mask"])


def _no_types(batch: Batch) -> None:
    batch["token_type_ids"] = torch.zeros_like(batch["token_type_ids"])


def _no_residual(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The residual is added behind the norm."""

    def rewired(hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return module.LayerNorm(module.dropout(module.dense(hidden))) + residual

    return rewired


def _scale(training: Training) -> None:
    training.module(f"{LAYER}.1.attention.self").scaling *= 1.05


DEFECTS = (
    defects.setting("norm_eps", f"{LAYER}.2.attention.output.LayerNorm", "eps", 1e-5, "layer_norm"),
    Defect("scale", "argument", within(f"{LAYER}.1.attention.self", "scaled_dot_product_attention"), _scale),
    defects.setting("no_bias", f"{LAYER}.0.output.dense", "bias", None, "linear"),
    defects.setting("dropout", f"{LAYER}.2.output.dropout", "p", 0.1, "dropout"),
    defects.replaced("no_embedding_norm", "bert.embeddings.LayerNorm", lambda old: nn.Identity()),
    defects.replaced("tanh_for_norm", "cls.predictions.transform.LayerNorm", lambda old: nn.Tanh()),
    defects.changed_forward(
        "residual_after_norm",
        "wiring",
        f"{LAYER}.1.output",
        _no_residual,
        (*within(f"{LAYER}.1.output", "__add__"), *inside(f"{LAYER}.1.output.LayerNorm", "layer_norm")),
    ),
    defects.swapped_weights("queries_for_keys", f"{LAYER}.1.attention.self.query", f"{LAYER}.1.attention.self.key"),
    defects.changed_weight("one_element", f"{LAYER}.1.intermediate.dense", "linear", defects.one_element),
    defects.changed_weight("transposed", f"{LAYER}.0.attention.output.dense", "linear", defects.transposed),
    defects.changed_weight("norm_weight", f"{LAYER}.2.output.LayerNorm", "layer_norm", lambda weight: weight * 1.01),
    defects.lower_precision("value_bf16", f"{LAYER}.2.attention.self.value", "linear"),
    defects.other_data(
        "no_padding",
        (
            Cause(r"\.forward", r"^Module\.bert\.BertModel"),
            *within(f"{LAYER}.0.attention.self", "scaled_dot_product_attention"),
        ),
        _no_padding,
    ),
    defects.other_data("no_types", inside("bert.embeddings.token_type_embeddings", "embedding"), _no_types),
    defects.other_data(
        "token",
        inside("bert.embeddings.word_embeddings", "embedding"),
        lambda batch: replace_token(batch, "input_ids", VOCABULARY),
        batch=1,
    ),
    defects.optimizer("betas", "lerp_", betas=(0.95, 0.999)),
    defects.optimizer("eps", "add_", eps=1e-6),
    defects.no_clipping(),
    defects.loop("gradients_kept", (Cause("parameters_grad"), *defects.CLIPPING), step=1, zeroes=False),
    defects.faulty_kernel(
        "gelu_kernel",
        (*inside(f"{LAYER}.1.intermediate", "gelu"), *inside(f"{LAYER}.1.intermediate.intermediate_act_fn", "gelu")),
        ATEN.gelu,
        1,
        scaled(1.001),
    ),
    defects.faulty_kernel(
        "linear_one_element", inside(f"{LAYER}.1.intermediate.dense", "linear"), ATEN.addmm, 10, one_element_wrong
    ),
    defects.two(
        "types_and_decay",
        defects.other_data("", inside("bert.embeddings.token_type_embeddings", "embedding"), _no_types),
        defects.optimizer("", "mul_", weight_decay=0.3),
    ),
)


MODEL = Model(build, DEFECTS)
