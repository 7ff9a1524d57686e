"""GPT-2 of transformers, eager attention; tied embeddings; next token; AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

VOCABULARY, LENGTH, BATCH = 112, 18, 2


def build() -> Training:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=48, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, attn_implementation="eager", use_cache=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    positions = torch.arange(LENGTH).repeat(BATCH, 1)
    batches = [
        {"input_ids": tokens, "labels": tokens.clone(), "position_ids": positions.clone()}
        for tokens in random_tokens(31, (BATCH, LENGTH), VOCABULARY)
    ]
    return Training(transformers.GPT2LMHeadModel(config), batches)


LAYER = "transformer.h"


def _sees_next(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Every token sees the one behind it too. The masks are made beforehand, where nothing records them."""
    hidden = torch.ones(LENGTH, LENGTH).triu(2).bool()
    masks = {
        dtype: torch.zeros(1, 1, LENGTH, LENGTH, dtype=dtype).masked_fill(hidden, torch.finfo(dtype).min)
        for dtype in (torch.float32, torch.bfloat16)
    }

    def masked(*inputs: Any, **options: Any) -> Any:
        return forward(*inputs, **options | {"attention_mask": masks[inputs[0].dtype]})

    return masked


def _other_count(training: Training) -> None:
    loss = training.network.loss_function
    training.network.loss_function = lambda *inputs, **options: loss(
        *inputs, **options | {"num_items_in_batch": BATCH * LENGTH}
    )


def _positions(batch: Batch) -> None:
    batch["position_ids"] = batch["position_ids"] + 1


def _scale(training: Training) -> None:
    training.module(f"{LAYER}.2.attn").scaling *= 1.1


DEFECTS = (
    defects.setting("norm_eps", f"{LAYER}.2.ln_1", "eps", 1e-3, "layer_norm"),
    Defect("scale", "argument", within(f"{LAYER}.2.attn", "__mul__"), _scale),
    defects.replaced("gelu_exact", f"{LAYER}.0.mlp.act", lambda old: nn.GELU()),
    defects.replaced("no_norm", f"{LAYER}.1.ln_2", lambda old: nn.Identity()),
    defects.changed_forward("mask", "wiring", f"{LAYER}.1.attn", _sees_next, within(f"{LAYER}.1.attn", "__add__")),
    defects.changed_weight("transposed", f"{LAYER}.2.attn.c_proj", "addmm", defects.transposed),
    defects.changed_weight("one_element", f"{LAYER}.0.mlp.c_fc", "addmm", defects.one_element),
    defects.changed_weight(
        "queries_for_keys",
        f"{LAYER}.1.attn.c_attn",
        "addmm",
        lambda weight: torch.cat([weight[:, 48:96], weight[:, :48], weight[:, 96:]], 1),
        shows=within(f"{LAYER}.1.attn", "matmul"),
    ),
    defects.frozen("frozen", f"{LAYER}.1.mlp.c_proj", "addmm"),
    defects.lower_precision("mlp_bf16", f"{LAYER}.1.mlp.c_fc", "addmm"),
    defects.other_data(
        "token", inside("transformer.wte", "embedding"), lambda batch: replace_token(batch, "input_ids", VOCABULARY)
    ),
    defects.other_data(
        "positions",
        (*inside("transformer.wpe", "embedding"), Cause(r"\.(diff|__sub__)\.", r"Module\.transformer\.GPT2Model")),
        _positions,
    ),
    Defect("loss_count", "loop", call("cross_entropy|__truediv__"), _other_count),
    defects.no_clipping(),
    defects.optimizer("eps", "add_", eps=1e-5),
    defects.optimizer("decay", "mul_", weight_decay=0.1),
    defects.optimizer("rate", "mul_|addcdiv_", lr=1.2e-3),
    defects.faulty_kernel("softmax_kernel", within(f"{LAYER}.1.attn", "softmax"), ATEN._softmax, 1, scaled(1.001)),
    defects.faulty_kernel(
        "norm_backward",
        inside(f"{LAYER}.2.ln_1", "layer_norm", "backward"),
        ATEN.native_layer_norm_backward,
        2,
        scaled(1.001),
    ),
    defects.faulty_kernel("tanh_one_element", within(f"{LAYER}.1.mlp.act", "tanh"), ATEN.tanh, 1, one_element_wrong),
    defects.two(
        "eps_and_token",
        defects.setting("", f"{LAYER}.0.ln_2", "eps", 1e-3, "layer_norm"),
        defects.other_data(
            "", inside("transformer.wte", "embedding"), lambda batch: replace_token(batch, "input_ids", VOCABULARY)
        ),
    ),
)


MODEL = Model(build, DEFECTS)
