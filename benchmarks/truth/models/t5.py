"""T5 of transformers: encoder and decoder, relative positions, RMSNorm; Adam without weight decay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

VOCABULARY, BATCH = 96, 2


def build() -> Training:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0, use_cache=False,
    )  # fmt: skip
    sources = random_tokens(35, (BATCH, 18), VOCABULARY)
    labels = random_tokens(36, (BATCH, 12), VOCABULARY)
    is_real = torch.ones(BATCH, 18, dtype=torch.long)
    is_real[1, 14:] = 0
    batches = [
        {"input_ids": source, "attention_mask": is_real.clone(), "labels": label}
        for source, label in zip(sources, labels, strict=True)
    ]
    return Training(
        transformers.T5ForConditionalGeneration(config), batches, torch.optim.Adam, {"lr": 1e-3, "foreach": False}
    )


CROSS = "decoder.block.0.layer.1.EncDecAttention"
BIASED = "decoder.block.0.layer.0.SelfAttention"


def _scale(training: Training) -> None:
    training.module("encoder.block.1.layer.0.SelfAttention").scaling = 12**-0.5


def _no_padding(batch: Batch) -> None:
    batch["attention_mask"] = torch.ones_like(batch["attention_mask"])


def _one_label(batch: Batch) -> None:
    batch["labels"] = batch["labels"].clone()
    batch["labels"][0, 4] = 3


def _from_itself(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Attention to the encoder looks at the encoder's result in reverse."""

    def rewired(*inputs: Any, key_value_states: torch.Tensor, **options: Any) -> Any:
        return forward(*inputs, key_value_states=key_value_states.flip(1), **options)

    return rewired


DEFECTS = (
    defects.setting("norm_eps", "decoder.block.1.layer.2.layer_norm", "variance_epsilon", 1e-2, "__add__"),
    Defect(
        "scaled", "argument", within("encoder.block.1.layer.0.SelfAttention", "scaled_dot_product_attention"), _scale
    ),
    defects.setting("buckets", BIASED, "relative_attention_num_buckets", 16, r"__\w+__|where|min|log"),
    defects.setting("distance", BIASED, "relative_attention_max_distance", 64, r"__\w+__|where|min|log"),
    defects.replaced("gelu", "encoder.block.0.layer.1.DenseReluDense.act", lambda old: nn.GELU()),
    defects.changed_forward(
        "source_reversed", "wiring", CROSS, _from_itself, (*inside(f"{CROSS}.k", "linear"), *within(CROSS, "flip"))
    ),
    defects.swapped_weights("queries_for_keys", f"{CROSS}.q", f"{CROSS}.k"),
    defects.changed_weight("one_bias", f"{BIASED}.relative_attention_bias", "embedding", defects.one_element),
    defects.changed_weight("one_element", "encoder.block.1.layer.1.DenseReluDense.wo", "linear", defects.one_element),
    defects.changed_weight("transposed", "decoder.block.1.layer.0.SelfAttention.o", "linear", defects.transposed),
    defects.lower_precision("wi_bf16", "decoder.block.1.layer.2.DenseReluDense.wi", "linear"),
    defects.other_data(
        "no_padding",
        (
            Cause(r"\.forward", r"^Module\.encoder\.T5Stack"),
            *within("encoder.block.0.layer.0.SelfAttention", "where|scaled_dot_product_attention"),
        ),
        _no_padding,
    ),
    defects.other_data(
        "token",
        inside("encoder.embed_tokens", "embedding") + inside("shared", "embedding"),
        lambda batch: replace_token(batch, "input_ids", VOCABULARY),
    ),
    defects.other_data(
        "label",
        inside("decoder.embed_tokens", "embedding")
        + inside("shared", "embedding")
        + (Cause("masked_fill_|__setitem__|clone|__eq__"),),
        _one_label,
        batch=1,
    ),
    defects.optimizer("eps", "add_", eps=1e-6),
    defects.optimizer("betas", "lerp_", betas=(0.85, 0.999)),
    defects.no_clipping(),
    defects.faulty_kernel(
        "relu_one_element",
        inside("decoder.block.0.layer.2.DenseReluDense.act", "relu"),
        ATEN.relu,
        2,
        one_element_wrong,
    ),
    defects.faulty_kernel(
        "linear_kernel", inside("encoder.block.1.layer.1.DenseReluDense.wi", "linear"), ATEN.mm, 10, scaled(1.001)
    ),
    defects.faulty_kernel(
        "relu_backward",
        inside("decoder.block.1.layer.2.DenseReluDense.act", "relu", "backward"),
        ATEN.threshold_backward,
        0,
        scaled(1.002),
    ),
    defects.two(
        "eps_and_label",
        defects.setting("", "encoder.block.0.layer.1.layer_norm", "variance_epsilon", 1e-1, "__add__"),
        defects.optimizer("", "add_", eps=1e-5),
    ),
)


MODEL = Model(build, DEFECTS)
