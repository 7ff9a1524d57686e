"""Gemma-2 of transformers: scores and logits that a tanh caps, four norms a layer, sliding windows; AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Training

VOCABULARY, LENGTH, BATCH = 96, 16, 2


def build() -> Training:
    config = transformers.Gemma2Config(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=12, query_pre_attn_scalar=12, sliding_window=6, max_position_embeddings=64,
        use_cache=False, attn_implementation="eager", final_logit_softcapping=30.0, attn_logit_softcapping=50.0,
    )  # fmt: skip
    batches = [
        {"input_ids": tokens, "labels": tokens.clone()} for tokens in random_tokens(81, (BATCH, LENGTH), VOCABULARY)
    ]
    return Training(transformers.Gemma2ForCausalLM(config), batches)


LAYER = "model.layers"
SCORES = r"__r?i?truediv__|div|tanh|__r?i?mul__|mul"


def _cap_of_scores(training: Training) -> None:
    training.module(f"{LAYER}.1.self_attn").attn_logit_softcapping = 45.0


def _no_cap_of_scores(training: Training) -> None:
    training.module(f"{LAYER}.2.self_attn").attn_logit_softcapping = None


def _cap_of_logits(training: Training) -> None:
    training.network.config.final_logit_softcapping = 25.0


def _scale(training: Training) -> None:
    training.module(f"{LAYER}.1.self_attn").scaling = 0.3


def _window(training: Training) -> None:
    training.network.config.sliding_window = 8


def _all_see_everything(training: Training) -> None:
    training.network.config.layer_types[2] = "full_attention"


def _base(training: Training) -> None:
    training.module("model.rotary_emb").inv_freq *= 1.01


def _weight_as_it_is(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The weight of the norm is not counted from one, as in Llama."""
    return lambda x: module._norm(x.float()) * module.weight.float()


def _norm_after_residual(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The norm after attention takes the sum, as in a layer of BERT."""

    def rewired(hidden_states: torch.Tensor, **others: Any) -> torch.Tensor:
        attended, _ = module.self_attn(hidden_states=module.input_layernorm(hidden_states), **others)
        hidden_states = module.post_attention_layernorm(hidden_states + attended)
        fed = module.mlp(module.pre_feedforward_layernorm(hidden_states))
        return hidden_states + module.post_feedforward_layernorm(fed)

    return rewired


def _gate_and_up(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: module.down_proj(module.act_fn(module.up_proj(x)) * module.gate_proj(x))


def _one_token(batch: dict[str, Any]) -> None:
    replace_token(batch, "input_ids", VOCABULARY)


def _one_label(batch: dict[str, Any]) -> None:
    replace_token(batch, "labels", VOCABULARY)


ATTENTION = within(f"{LAYER}.2.self_attn", r"__r?add__|add|softmax") + call("where|full|__and__|le|gt|__rsub__")
DEFECTS = (
    Defect("cap_of_scores", "argument", within(f"{LAYER}.1.self_attn", SCORES), _cap_of_scores),
    Defect("no_cap", "op", within(f"{LAYER}.2.self_attn", SCORES), _no_cap_of_scores),
    Defect("cap_of_logits", "argument", call(r"__r?i?truediv__|div"), _cap_of_logits),
    Defect("scale", "argument", within(f"{LAYER}.1.self_attn", r"__r?i?mul__|mul"), _scale),
    Defect("window", "argument", within(f"{LAYER}.0.self_attn", r"__r?add__|add|softmax") + call(r"\w+"), _window),
    Defect("full", "wiring", ATTENTION, _all_see_everything),
    Defect("rotary_base", "weights", within("model.rotary_emb", r"\w+"), _base),
    defects.setting("norm_eps", f"{LAYER}.1.post_attention_layernorm", "eps", 1e-3, r"__r?add__|add"),
    defects.changed_forward("weight_as_it_is", "op", f"{LAYER}.2.pre_feedforward_layernorm", _weight_as_it_is,
                            within(f"{LAYER}.2.pre_feedforward_layernorm", r"\w+")),
    defects.changed_forward("norm_after_residual", "wiring", f"{LAYER}.1", _norm_after_residual,
                            (*within(f"{LAYER}.1.post_attention_layernorm", r"\w+"),
                             *within(f"{LAYER}.1", r"__r?add__|add"))),
    defects.changed_forward("gate_and_up", "wiring", f"{LAYER}.0.mlp", _gate_and_up, within(f"{LAYER}.0.mlp", r"\w+")),
    defects.replaced("no_norm", f"{LAYER}.3.post_feedforward_layernorm", lambda old: nn.Identity()),
    defects.replaced("exact_gelu", f"{LAYER}.2.mlp.act_fn", lambda old: nn.GELU()),
    defects.lower_precision("bf16", f"{LAYER}.1.mlp.gate_proj", "linear"),
    defects.changed_weight("one_element", f"{LAYER}.2.self_attn.k_proj", "linear", defects.one_element),
    defects.changed_weight("permuted", f"{LAYER}.1.self_attn.v_proj", "linear", defects.permuted,
                           shows=within(f"{LAYER}.1.self_attn", "matmul")),
    defects.changed_weight("norm_weight", f"{LAYER}.0.input_layernorm", r"__r?add__|add|float",
                           lambda tensor: tensor + 0.01),
    defects.swapped_weights("swapped", f"{LAYER}.2.self_attn.k_proj", f"{LAYER}.2.self_attn.v_proj"),
    defects.frozen("frozen", f"{LAYER}.1.mlp.down_proj", "linear"),
    defects.other_data("token", call("embedding"), _one_token),
    defects.other_data("label", call("pad|cross_entropy|contiguous|view|to|__getitem__"), _one_label, batch=1),
    defects.optimizer("decay", r"mul_", weight_decay=0.1),
    defects.optimizer("eps", r"add_|addcdiv_", eps=1e-6),
    defects.loop("clip", defects.CLIPPING, clip=0.9),
    defects.faulty_kernel("tanh_kernel", within(f"{LAYER}.1.self_attn", "tanh"), ATEN.tanh, 1, scaled(1.002)),
    defects.faulty_kernel("softmax_element", within(f"{LAYER}.2.self_attn", "softmax"), ATEN._softmax, 2,
                          one_element_wrong),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
