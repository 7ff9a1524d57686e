"""Vision transformer of transformers; classes of images; SGD with momentum."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

BATCH, CLASSES = 3, 10


def build() -> Training:
    config = transformers.ViTConfig(
        image_size=24, patch_size=6, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
        num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(33)
    batches = [
        {
            "pixel_values": torch.randn(BATCH, 3, 24, 24, generator=generator),
            "labels": torch.randint(0, CLASSES, (BATCH,), generator=generator),
        }
        for _ in range(2)
    ]
    settings = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4, "foreach": False}
    return Training(transformers.ViTForImageClassification(config), batches, torch.optim.SGD, settings)


LAYER = "vit.layers"
PATCHES = (
    *inside("vit.embeddings.patch_embeddings.projection", "conv2d"),
    Cause(r"^Module\.vit\.embeddings\.patch_embeddings\.\w+\.forward"),
)


def _scale(training: Training) -> None:
    training.module(f"{LAYER}.1.attention").scaling *= 0.9


def _position(training: Training) -> None:
    with torch.no_grad():
        training.module("vit.embeddings").position_embeddings[0, 3, 7] += 1e-3


def _brighter(batch: Batch) -> None:
    batch["pixel_values"] = (batch["pixel_values"] + 0.02) / 1.01


def _other_channels(batch: Batch) -> None:
    batch["pixel_values"] = batch["pixel_values"].flip(1).contiguous()


def _other_label(batch: Batch) -> None:
    batch["labels"] = (batch["labels"] + 1) % CLASSES


DEFECTS = (
    defects.setting("norm_eps", f"{LAYER}.1.layernorm_after", "eps", 1e-5, "layer_norm"),
    Defect("scale", "argument", within(f"{LAYER}.1.attention", "scaled_dot_product_attention"), _scale),
    defects.replaced("relu", f"{LAYER}.2.mlp.fc2", lambda linear: nn.Sequential(nn.ReLU(), linear)),
    defects.replaced("no_norm", f"{LAYER}.2.layernorm_before", lambda old: nn.Identity()),
    defects.swapped_weights("queries_for_keys", f"{LAYER}.2.attention.q_proj", f"{LAYER}.2.attention.k_proj"),
    defects.changed_weight("patches_flipped", "vit.embeddings.patch_embeddings.projection", "conv2d", defects.flipped),
    defects.changed_weight("one_element", f"{LAYER}.1.mlp.fc1", "linear", defects.one_element),
    defects.changed_weight("other_start", "classifier", "linear", defects.reinitialised),
    Defect("position", "weights", within("vit.embeddings", "__add__"), _position),
    defects.frozen("frozen", f"{LAYER}.0.attention.v_proj", "linear"),
    defects.lower_precision("output_bf16", f"{LAYER}.0.attention.o_proj", "linear"),
    defects.other_data("brighter", PATCHES, _brighter),
    defects.other_data("channels", PATCHES, _other_channels),
    defects.other_data("label", (Cause(r"cross_entropy\.\d+\.forward"),), _other_label, batch=1),
    Defect(
        "momentum",
        "loop",
        (Cause(r"\.(mul_|add_)\.\d+\.forward"),),
        lambda training: training.settings.update(momentum=0.95),
        1,
    ),
    defects.optimizer("decay", "add|add_", weight_decay=1e-3),
    defects.optimizer("rate", "add_", lr=0.06),
    defects.optimizer("nesterov", "add", nesterov=True),
    defects.faulty_kernel("linear_kernel", inside(f"{LAYER}.1.mlp.fc2", "linear"), ATEN.addmm, 11, scaled(1.001)),
    defects.faulty_kernel(
        "norm_one_element",
        inside(f"{LAYER}.2.layernorm_after", "layer_norm"),
        ATEN.native_layer_norm,
        5,
        one_element_wrong,
    ),
    defects.faulty_kernel(
        "gelu_backward",
        inside(f"{LAYER}.1.mlp.fc1", "linear", "backward") + inside(f"{LAYER}.1.mlp.activation_fn", "gelu", "backward"),
        ATEN.gelu_backward,
        1,
        scaled(1.002),
    ),
    defects.two(
        "channels_and_rate", defects.other_data("", PATCHES, _other_channels), defects.optimizer("", "add_", lr=0.04)
    ),
)


MODEL = Model(build, DEFECTS)
