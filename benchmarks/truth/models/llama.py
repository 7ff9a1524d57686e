"""Llama of transformers: RMSNorm, rotary positions, grouped heads, SiLU; two micro-batches a step; AdamW."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

VOCABULARY, LENGTH, BATCH = 100, 16, 2


def build() -> Training:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip
    positions = torch.arange(LENGTH).repeat(BATCH, 1)
    batches = [
        {"input_ids": tokens, "labels": tokens.clone(), "position_ids": positions.clone()}
        for tokens in random_tokens(34, (BATCH, LENGTH), VOCABULARY, 4)
    ]
    settings = {"lr": 2e-3, "betas": (0.9, 0.95), "weight_decay": 0.1, "foreach": False}
    return Training(transformers.LlamaForCausalLM(config), batches, settings=settings, accumulate=2)


LAYER = "model.layers"
ROTARY = (*within("model.rotary_emb", r"\w+"), Cause(r"^Module\.model\.rotary_emb\."))


def _scale(training: Training) -> None:
    training.module(f"{LAYER}.2.self_attn").scaling *= 1.1


def _base(training: Training) -> None:
    """Rotary positions with another base."""
    training.module("model.rotary_emb").inv_freq *= torch.linspace(1.0, 0.5, 6)


def _positions(batch: Batch) -> None:
    batch["position_ids"] = batch["position_ids"] + 1


def _stretched(batch: Batch) -> None:
    """One token stands a place too far."""
    batch["position_ids"] = batch["position_ids"].clone()
    batch["position_ids"][1, -1] += 1


DEFECTS = (
    defects.setting("norm_eps", f"{LAYER}.1.post_attention_layernorm", "variance_epsilon", 1e-5, "__add__"),
    Defect("scale", "argument", within(f"{LAYER}.2.self_attn", "scaled_dot_product_attention"), _scale),
    Defect(
        "not_causal",
        "argument",
        within(f"{LAYER}.0.self_attn", "scaled_dot_product_attention"),
        lambda training: setattr(training.module(f"{LAYER}.0.self_attn"), "is_causal", False),
    ),
    Defect("rotary_base", "weights", ROTARY, _base),
    defects.other_data("positions", (*ROTARY, Cause(r"\.(diff|__sub__)\.", r"^Module\.model\.LlamaModel")), _positions),
    defects.other_data("position", (*ROTARY, Cause(r"\.(diff|__sub__)\.", r"^Module\.model\.LlamaModel")), _stretched),
    defects.other_data(
        "token",
        inside("model.embed_tokens", "embedding"),
        lambda batch: replace_token(batch, "input_ids", VOCABULARY),
    ),
    defects.changed_weight(
        "other_heads",
        f"{LAYER}.1.self_attn.k_proj",
        "linear",
        defects.permuted,
        shows=within(f"{LAYER}.1.self_attn", "__mul__|scaled_dot_product_attention"),
    ),
    defects.changed_weight("one_element", f"{LAYER}.1.mlp.up_proj", "linear", defects.one_element),
    defects.swapped_weights("gate_for_up", f"{LAYER}.2.mlp.gate_proj", f"{LAYER}.2.mlp.up_proj"),
    defects.frozen("frozen", f"{LAYER}.1.mlp.down_proj", "linear"),
    defects.replaced("gelu", f"{LAYER}.1.mlp.act_fn", lambda old: nn.GELU()),
    defects.lower_precision("query_bf16", f"{LAYER}.1.self_attn.q_proj", "linear"),
    defects.loop("not_divided", call("__truediv__|div"), divides=False),
    defects.loop("gradients_kept", (Cause("parameters_grad"), *defects.CLIPPING), step=1, zeroes=False),
    defects.no_clipping(),
    defects.optimizer("betas", "mul_|addcmul_", betas=(0.9, 0.999)),
    defects.optimizer("decay", "mul_", weight_decay=0.01),
    defects.faulty_kernel("silu_kernel", inside(f"{LAYER}.1.mlp.act_fn", "silu"), ATEN.silu, 1, scaled(1.001)),
    defects.faulty_kernel(
        "rsqrt_one_element", within(f"{LAYER}.1.input_layernorm", "rsqrt"), ATEN.rsqrt, 2, one_element_wrong
    ),
    defects.faulty_kernel(
        "silu_backward", inside(f"{LAYER}.1.mlp.act_fn", "silu", "backward"), ATEN.silu_backward, 1, scaled(1.002)
    ),
    defects.two(
        "eps_and_frozen",
        defects.setting("", f"{LAYER}.2.input_layernorm", "variance_epsilon", 1e-4, "__add__"),
        defects.frozen("", f"{LAYER}.0.self_attn.o_proj", "linear"),
    ),
)


MODEL = Model(build, DEFECTS)
