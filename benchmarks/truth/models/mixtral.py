"""Mixtral of transformers: a mixture of experts with top-2 routing; AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Training

VOCABULARY, LENGTH, BATCH = 96, 16, 2


def build() -> Training:
    config = transformers.MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=32, use_cache=False,
        attn_implementation="eager", experts_implementation="eager", output_router_logits=True,
    )  # fmt: skip
    batches = [
        {"input_ids": tokens, "labels": tokens.clone()} for tokens in random_tokens(37, (BATCH, LENGTH), VOCABULARY)
    ]
    return Training(transformers.MixtralForCausalLM(config), batches)


LAYER = "model.layers"
ROTARY = (*within("model.rotary_emb", r"\w+"), Cause(r"^Module\.model\.rotary_emb\."))


def _shares_as_they_are(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The shares of the chosen experts do not add up to one."""

    def routed(hidden: torch.Tensor) -> Any:
        logits = functional.linear(hidden.reshape(-1, hidden.shape[-1]), module.weight)
        shares = functional.softmax(logits.float(), dim=-1)
        chosen, experts = torch.topk(shares, module.top_k, dim=-1)
        return logits, chosen, experts

    return routed


def _base(training: Training) -> None:
    training.module("model.rotary_emb").inv_freq *= 1.01


def _scale(training: Training) -> None:
    training.module(f"{LAYER}.1.self_attn").scaling *= 1.1


def _one_expert_off(training: Training) -> None:
    with torch.no_grad():
        training.module(f"{LAYER}.0.mlp.experts").down_proj[2, 4, 5] += 1e-2


DEFECTS = (
    defects.setting("norm_eps", f"{LAYER}.0.post_attention_layernorm", "variance_epsilon", 1e-6, "__add__"),
    defects.setting("one_expert", f"{LAYER}.1.mlp.gate", "top_k", 1, "topk"),
    Defect("scale", "argument", within(f"{LAYER}.1.self_attn", "__mul__"), _scale),
    Defect(
        "balance_weight",
        "loop",
        call(r"__r?mul__|__i?add__"),
        lambda training: setattr(training.network, "router_aux_loss_coef", 0.01),
    ),
    Defect("rotary_base", "weights", ROTARY, _base),
    defects.changed_forward(
        "shares_as_they_are",
        "op",
        f"{LAYER}.1.mlp.gate",
        _shares_as_they_are,
        inside(f"{LAYER}.1.mlp.gate", "sum|__i?truediv__|div_?"),
    ),
    defects.changed_weight("router_element", f"{LAYER}.0.mlp.gate", "linear", defects.one_element),
    defects.changed_weight(
        "experts_exchanged", f"{LAYER}.1.mlp.experts", "linear|__getitem__", defects.permuted, "gate_up_proj"
    ),
    Defect("one_expert_off", "weights", within(f"{LAYER}.0.mlp.experts", "linear|__getitem__"), _one_expert_off),
    defects.changed_weight("transposed", f"{LAYER}.0.self_attn.o_proj", "linear", defects.transposed),
    defects.replaced("gelu", f"{LAYER}.1.mlp.experts.act_fn", lambda old: nn.GELU()),
    defects.lower_precision("value_bf16", f"{LAYER}.1.self_attn.v_proj", "linear"),
    defects.frozen("frozen_router", f"{LAYER}.1.mlp.gate", "linear"),
    defects.other_data(
        "token",
        inside("model.embed_tokens", "embedding"),
        lambda batch: replace_token(batch, "input_ids", VOCABULARY),
    ),
    defects.no_clipping(),
    defects.optimizer("betas", "mul_|addcmul_", betas=(0.9, 0.95)),
    defects.optimizer("decay", "mul_", weight_decay=0.1),
    defects.faulty_kernel("silu_kernel", within(f"{LAYER}.1.mlp.experts.act_fn", "silu"), ATEN.silu, 5, scaled(1.001)),
    defects.faulty_kernel(
        "softmax_one_element", within(f"{LAYER}.1.self_attn", "softmax"), ATEN._softmax, 2, one_element_wrong
    ),
    defects.two(
        "gelu_and_frozen",
        defects.replaced("", f"{LAYER}.0.mlp.experts.act_fn", lambda old: nn.GELU()),
        defects.frozen("", f"{LAYER}.1.self_attn.q_proj", "linear"),
    ),
)


MODEL = Model(build, DEFECTS)
