"""DeBERTa-v2 of transformers: attention to contents and to relative positions, dropout, padding; AdamW."""

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
from benchmarks.truth.training import Batch, Training

VOCABULARY, LENGTH, BATCH, CLASSES = 90, 14, 3, 5


def build() -> Training:
    config = transformers.DebertaV2Config(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=32, relative_attention=True, position_buckets=8, max_relative_positions=32,
        pos_att_type=["c2p", "p2c"], share_att_key=False, norm_rel_ebd="layer_norm", position_biased_input=False,
        type_vocab_size=0, pad_token_id=0, num_labels=CLASSES, conv_kernel_size=3, conv_act="gelu",
    )  # fmt: skip
    batches = []
    for tokens in random_tokens(63, (BATCH, LENGTH), VOCABULARY):
        mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
        mask[1, 10:] = 0
        tokens[1, 10:] = 0
        labels = tokens % CLASSES
        labels[1, 10:] = -100
        batches.append({"input_ids": tokens, "attention_mask": mask, "labels": labels})
    return Training(transformers.DebertaV2ForTokenClassification(config), batches)


LAYER = "deberta.encoder.layer"


def _buckets(training: Training) -> None:
    training.module("deberta.encoder").position_buckets = 6


def _kinds(training: Training) -> None:
    training.module(f"{LAYER}.1.attention.self").pos_att_type = ["c2p"]


def _mask(batch: Batch) -> None:
    batch["attention_mask"] = batch["attention_mask"].clone()
    batch["attention_mask"][1, 9] = 0


def _token(batch: Batch) -> None:
    replace_token(batch, "input_ids", VOCABULARY)


def _label(batch: Batch) -> None:
    batch["labels"] = batch["labels"].clone()
    batch["labels"][2, 3] = (batch["labels"][2, 3] + 1) % CLASSES


def _position_table(training: Training) -> None:
    with torch.no_grad():
        weight = training.module("deberta.encoder.rel_embeddings").weight
        weight.copy_(weight.flip(0).clone())


def _no_residual(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def rewired(hidden: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
        return module.LayerNorm(module.dropout(module.dense(hidden)))

    return rewired


def _norm_before_sum(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def rewired(hidden: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
        return module.LayerNorm(module.dropout(module.dense(hidden))) + taken

    return rewired


def _head_bias(training: Training) -> None:
    head = training.module("classifier")
    with torch.no_grad():
        head.bias += 0.01


ADD = r"__i?r?add__|add"
DEFECTS = (
    defects.setting("norm_eps", f"{LAYER}.0.attention.output.LayerNorm", "eps", 1e-3, "layer_norm"),
    defects.setting("dropout", f"{LAYER}.1.output.dropout", "p", 0.2, "dropout"),
    Defect("buckets", "argument", within("deberta.encoder", r"\w+"), _buckets),
    Defect("kinds", "op", within(f"{LAYER}.1.attention.self", r"\w+"), _kinds),
    defects.lower_precision("bf16", f"{LAYER}.0.intermediate.dense", "linear"),
    defects.replaced("activation", f"{LAYER}.1.intermediate.intermediate_act_fn", lambda old: nn.GELU("tanh")),
    defects.replaced("no_norm", "deberta.encoder.LayerNorm", lambda old: nn.Identity()),
    defects.changed_forward("no_residual", "wiring", f"{LAYER}.1.output", _no_residual,
                            (*within(f"{LAYER}.1.output", f"layer_norm|{ADD}"),
                             Cause(rf"^Module\.{LAYER}\.1\.output\.LayerNorm\."))),
    defects.changed_forward("norm_before_sum", "wiring", f"{LAYER}.0.attention.output", _norm_before_sum,
                            (*within(f"{LAYER}.0.attention.output", f"layer_norm|{ADD}"),
                             Cause(rf"^Module\.{LAYER}\.0\.attention\.output\.LayerNorm\."))),
    defects.setting("circular", "deberta.encoder.conv.conv", "padding_mode", "circular", "conv1d|pad"),
    Defect("table", "weights", (*within("deberta.encoder", "layer_norm|dropout|linear|bmm"),
                                *inside("deberta.encoder.LayerNorm", "layer_norm")), _position_table),
    Defect("head_bias", "weights", inside("classifier", "linear"), _head_bias),
    defects.changed_weight("one_element", f"{LAYER}.1.attention.self.value_proj", "linear", defects.one_element),
    defects.changed_weight("transposed", f"{LAYER}.0.attention.self.pos_key_proj", "linear", defects.transposed),
    defects.changed_weight("reinitialised", f"{LAYER}.1.output.dense", "linear", defects.reinitialised),
    defects.swapped_weights("swapped", f"{LAYER}.0.attention.self.query_proj", f"{LAYER}.0.attention.self.key_proj"),
    defects.frozen("frozen", f"{LAYER}.1.attention.self.pos_query_proj", "linear"),
    defects.other_data("mask", within("deberta", r"\w+"), _mask),
    defects.other_data("token", call("embedding"), _token, batch=1),
    defects.other_data("label", call("cross_entropy|view"), _label),
    defects.optimizer("betas", r"lerp_|mul_|addcmul_", betas=(0.9, 0.98)),
    defects.optimizer("decay", r"mul_", weight_decay=0.1),
    defects.no_clipping(),
    defects.faulty_kernel("gelu_kernel", inside(f"{LAYER}.0.intermediate.intermediate_act_fn", "gelu"), ATEN.gelu, 0,
                          scaled(1.002)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
