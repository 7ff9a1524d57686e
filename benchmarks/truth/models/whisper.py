"""Whisper of transformers: convolutions over frames, an encoder and a decoder of transformers; AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.tokens import random_tokens
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

VOCABULARY, BATCH, BANDS, FRAMES, WIDTH = 90, 2, 16, 48, 48


def build() -> Training:
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=BANDS, d_model=WIDTH, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, dropout=0.0,
        max_source_positions=FRAMES // 2, max_target_positions=24, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None, use_cache=False,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(57)
    batches = [
        {"input_features": torch.randn(BATCH, BANDS, FRAMES, generator=generator), "labels": labels}
        for labels in random_tokens(58, (BATCH, 14), VOCABULARY)
    ]
    settings = {"lr": 1e-3, "weight_decay": 0.01, "foreach": False}
    return Training(transformers.WhisperForConditionalGeneration(config), batches, torch.optim.AdamW, settings)


ENCODER, DECODER = "model.encoder.layers", "model.decoder.layers"


def _scale(training: Training) -> None:
    training.module(f"{DECODER}.1.encoder_attn").scaling *= 1.05


def _activation(training: Training) -> None:
    training.module(f"{ENCODER}.1").activation_fn = nn.GELU(approximate="tanh")


def _positions(training: Training) -> None:
    with torch.no_grad():
        weight = training.module("model.encoder.embed_positions").weight
        weight.copy_(weight.roll(1, 0).clone())


def _ignored(batch: Batch) -> None:
    batch["labels"] = batch["labels"].clone()
    batch["labels"][1, 10:] = -100


def _one_label(batch: Batch) -> None:
    batch["labels"] = batch["labels"].clone()
    batch["labels"][0, 6] = 3 + batch["labels"][0, 6] % 40


def _quieter(batch: Batch) -> None:
    batch["input_features"] = batch["input_features"] * 0.99


def _shifted(batch: Batch) -> None:
    batch["input_features"] = batch["input_features"].roll(1, 2)


def _untied(training: Training) -> None:
    head = training.module("proj_out")
    head.weight = nn.Parameter(head.weight.detach().clone() * 1.02)


def _sees_the_future(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def rewired(*inputs: Any, attention_mask: Any = None, **options: Any) -> Any:
        module.is_causal = False
        return forward(*inputs, attention_mask=None, **options)

    return rewired


def _after_the_sum(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The first norm is applied to what is taken, and the residual is that norm."""

    def rewired(hidden_states: torch.Tensor, *inputs: Any, **options: Any) -> Any:
        return forward(module.final_layer_norm(hidden_states), *inputs, **options)

    return rewired


# labels, shifted by one, are what the decoder reads
TAKES_LABELS = "embedding|copy_|__setitem__|clone|eq|masked_fill_|new_zeros"
DEFECTS = (
    defects.setting("norm_eps", f"{DECODER}.0.encoder_attn_layer_norm", "eps", 1e-2, "layer_norm"),
    Defect("scaled", "argument", within(f"{DECODER}.1.encoder_attn", r"scaled_dot_product_attention|__?mul__?|matmul"),
           _scale),
    Defect("tanh_gelu", "argument", inside(f"{ENCODER}.1.activation_fn", "gelu"), _activation),
    defects.setting("circular", "model.encoder.conv1", "padding_mode", "circular", "conv1d|pad"),
    defects.setting("no_bias", f"{ENCODER}.0.fc1", "bias", None, "linear"),
    defects.lower_precision("bf16", f"{DECODER}.0.fc2", "linear"),
    defects.replaced("no_norm", f"{ENCODER}.1.final_layer_norm", lambda old: nn.Identity()),
    defects.replaced("dropout", f"{DECODER}.1.encoder_attn_layer_norm",
                     lambda old: nn.Sequential(old, nn.Dropout(0.1))),
    defects.changed_forward("future", "wiring", f"{DECODER}.0.self_attn", _sees_the_future,
                            within(f"{DECODER}.0.self_attn", "scaled_dot_product_attention")),
    defects.changed_forward("normed_first", "wiring", f"{ENCODER}.1", _after_the_sum,
                            (*within(f"{ENCODER}.1", "layer_norm"),
                             Cause(rf"^Module\.{ENCODER}\.1\.final_layer_norm"))),
    Defect("positions", "weights", (*within("model.encoder", "__i?add__|add"),
                                    *inside("model.encoder.embed_positions", "embedding")), _positions),
    Defect("untied", "weights", inside("proj_out", "linear"), _untied),
    defects.changed_weight("one_element", f"{DECODER}.1.self_attn.v_proj", "linear", defects.one_element),
    defects.changed_weight("transposed", f"{ENCODER}.0.self_attn.q_proj", "linear", defects.transposed),
    defects.changed_weight("reinitialised", f"{DECODER}.1.fc1", "linear", defects.reinitialised),
    defects.swapped_weights("swapped", f"{DECODER}.0.encoder_attn.k_proj", f"{DECODER}.0.encoder_attn.v_proj"),
    defects.frozen("frozen", f"{ENCODER}.1.fc2", "linear"),
    defects.other_data("ignored", call(f"cross_entropy|{TAKES_LABELS}"), _ignored),
    defects.other_data("label", call(f"cross_entropy|{TAKES_LABELS}"), _one_label),
    defects.other_data("quieter", inside("model.encoder.conv1", "conv1d"), _quieter, batch=1),
    defects.other_data("shifted", inside("model.encoder.conv1", "conv1d"), _shifted),
    defects.optimizer("betas", r"lerp_|mul_|addcmul_", betas=(0.9, 0.98)),
    defects.optimizer("decay", r"mul_", weight_decay=0.1),
    defects.optimizer("eps", r"add_|addcdiv_", eps=1e-6),
    defects.no_clipping(),
    defects.faulty_kernel("gelu_kernel", inside(f"{ENCODER}.0.activation_fn", "gelu"), ATEN.gelu, 2,
                          scaled(1.002)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
