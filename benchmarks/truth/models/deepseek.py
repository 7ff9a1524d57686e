"""DeepSeek-V3 of transformers: latent attention, experts that sigmoids and groups choose, one that all share; AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Training

VOCABULARY, LENGTH, BATCH = 96, 16, 2


def build() -> Training:
    config = transformers.DeepseekV3Config(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=4, n_shared_experts=1, n_routed_experts=8, routed_scaling_factor=1.5,
        kv_lora_rank=24, q_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=12, n_group=2,
        topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, max_position_embeddings=64, use_cache=False,
        attn_implementation="eager", experts_implementation="eager", rope_interleave=True,
    )  # fmt: skip
    batches = [
        {"input_ids": tokens, "labels": tokens.clone()} for tokens in random_tokens(61, (BATCH, LENGTH), VOCABULARY)
    ]
    network = transformers.DeepseekV3ForCausalLM(config)
    generator = torch.Generator().manual_seed(62)
    for layer in (1, 2):
        gate = network.get_submodule(f"model.layers.{layer}.mlp.gate")
        gate.e_score_correction_bias.copy_(0.1 * torch.randn(8, generator=generator))
    return Training(network, batches)


LAYER = "model.layers"
ROUTER = f"{LAYER}.1.mlp.gate"


def _scale(training: Training) -> None:
    training.module(f"{LAYER}.1.self_attn").scaling *= 1.05


def _halves(training: Training) -> None:
    training.module(f"{LAYER}.2.self_attn").config.rope_interleave = False


def _base(training: Training) -> None:
    training.module("model.rotary_emb").inv_freq *= 1.01


def _factor(training: Training) -> None:
    training.module(ROUTER).routed_scaling_factor = 1.0


def _shares_as_they_are(training: Training) -> None:
    training.module(f"{LAYER}.2.mlp.gate").norm_topk_prob = False


def _correction(training: Training) -> None:
    training.module(ROUTER).e_score_correction_bias.zero_()


def _one_group(training: Training) -> None:
    training.module(ROUTER).topk_group = 2


def _expert(training: Training) -> None:
    with torch.no_grad():
        training.module(f"{LAYER}.1.mlp.experts").down_proj[5] *= 1.05


def _exchanged_experts(training: Training) -> None:
    weight = training.module(f"{LAYER}.2.mlp.experts").gate_up_proj
    with torch.no_grad():
        weight.copy_(weight[[1, 0, 2, 3, 4, 5, 6, 7]].clone())


def _gate_and_up(training: Training) -> None:
    """The two halves of the fused weight stand in the other order."""
    weight = training.module(f"{LAYER}.1.mlp.experts").gate_up_proj
    with torch.no_grad():
        weight.copy_(weight.roll(32, 1).clone())


def _nothing_shared(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def routed(hidden: torch.Tensor) -> torch.Tensor:
        _, shares, chosen = module.gate(hidden)
        flat = hidden.view(-1, hidden.shape[-1])
        return module.experts(flat, chosen, shares).view(*hidden.shape)

    return routed


def _ignored(batch: dict[str, Any]) -> None:
    batch["labels"] = batch["labels"].clone()
    batch["labels"][0, :4] = -100


def _one_token(batch: dict[str, Any]) -> None:
    replace_token(batch, "input_ids", VOCABULARY)


EXPERTS = within(f"{LAYER}.1.mlp.experts", r"\w+")
TAKES_LABELS = "pad|cross_entropy|contiguous|view|to|__getitem__|getitem"
DEFECTS = (
    defects.setting("norm_eps", f"{LAYER}.1.self_attn.kv_a_layernorm", "variance_epsilon", 1e-3, r"__r?add__|add"),
    Defect("scaled", "argument", within(f"{LAYER}.1.self_attn", r"__r?i?mul__|mul|scaled_dot_product_attention"),
           _scale),
    Defect("rotary_halves", "wiring", within(f"{LAYER}.0.self_attn", r"\w+"), _halves),
    Defect("rotary_base", "weights", (*within("model.rotary_emb", r"\w+"), Cause(r"^Module\.model\.rotary_emb\.")),
           _base),
    Defect("factor", "argument", within(ROUTER, r"__r?i?mul__|mul"), _factor),
    Defect("shares", "op", within(f"{LAYER}.2.mlp.gate", r"\w+"), _shares_as_they_are),
    Defect("correction", "weights", within(ROUTER, r"__r?add__|add"), _correction),
    Defect("groups", "argument", within(ROUTER, "topk"), _one_group),
    Defect("expert", "weights", EXPERTS, _expert),
    Defect("exchanged_experts", "weights", within(f"{LAYER}.2.mlp.experts", r"\w+"), _exchanged_experts),
    Defect("gate_and_up", "weights", EXPERTS, _gate_and_up),
    defects.changed_forward("nothing_shared", "op", f"{LAYER}.2.mlp", _nothing_shared,
                            (*within(f"{LAYER}.2.mlp", r"__r?add__|add"),
                             *within(f"{LAYER}.2.mlp.shared_experts", r"\w+"),
                             Cause(rf"^Module\.{LAYER}\.2\.mlp\.shared_experts"))),
    defects.lower_precision("bf16", f"{LAYER}.0.mlp.down_proj", "linear"),
    defects.replaced("no_norm", f"{LAYER}.1.self_attn.q_a_layernorm", lambda old: nn.Identity()),
    defects.replaced("activation", f"{LAYER}.0.mlp.act_fn", lambda old: nn.GELU()),
    defects.changed_weight("one_element", f"{LAYER}.2.self_attn.kv_b_proj", "linear", defects.one_element),
    defects.changed_weight("reinitialised", f"{LAYER}.1.self_attn.q_b_proj", "linear", defects.reinitialised),
    defects.changed_weight("flipped", f"{LAYER}.2.mlp.shared_experts.up_proj", "linear", defects.flipped),
    defects.frozen("frozen", f"{LAYER}.1.self_attn.o_proj", "linear"),
    defects.other_data("ignored", call(TAKES_LABELS), _ignored),
    defects.other_data("token", call("embedding"), _one_token, batch=1),
    defects.optimizer("betas", r"lerp_|mul_|addcmul_", betas=(0.9, 0.95)),
    defects.optimizer("eps", r"add_|addcdiv_", eps=1e-6),
    defects.no_clipping(),
    defects.faulty_kernel("silu_kernel", inside(f"{LAYER}.0.mlp.act_fn", "silu"), ATEN.silu, 0, scaled(1.002)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
