"""Swin of transformers: windows that are shifted, relative positions, patches that are merged; SGD with Nesterov."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

BATCH, CLASSES = 3, 7


def build() -> Training:
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=CLASSES,
        drop_path_rate=0.0,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(61)
    batches = [
        {
            "pixel_values": torch.randn(BATCH, 3, 32, 32, generator=generator),
            "labels": torch.randint(0, CLASSES, (BATCH,), generator=generator),
        }
        for _ in range(2)
    ]
    settings = {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4, "foreach": False}
    return Training(transformers.SwinForImageClassification(config), batches, torch.optim.SGD, settings)


FIRST, SECOND = "swin.encoder.layers.0.blocks", "swin.encoder.layers.1.blocks"


def _shift(training: Training) -> None:
    training.module(f"{FIRST}.1").shift_size = 1


def _no_shift(training: Training) -> None:
    training.module(f"{FIRST}.1").shift_size = 0


def _bias_table(training: Training) -> None:
    with torch.no_grad():
        table = next(p for n, p in training.module(f"{SECOND}.0").named_parameters() if "relative_position_bias" in n)
        table[3] += 0.05


def _other_label(batch: Batch) -> None:
    batch["labels"] = (batch["labels"] + 1) % CLASSES


def _darker(batch: Batch) -> None:
    batch["pixel_values"] = batch["pixel_values"] - 0.01


def _rotated(batch: Batch) -> None:
    batch["pixel_values"] = batch["pixel_values"].transpose(2, 3).contiguous()


def _one_pixel(batch: Batch) -> None:
    batch["pixel_values"] = batch["pixel_values"].clone()
    batch["pixel_values"][1, 2, 5, 9] += 0.5


def _other_order(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The four neighbours of a patch are put together in another order."""

    def merged(input_feature: torch.Tensor, size: Any, *inputs: Any, **options: Any) -> Any:
        height, width = size
        image = input_feature.view(input_feature.shape[0], height, width, -1)
        return forward(image.transpose(1, 2).reshape(input_feature.shape), size, *inputs, **options)

    return merged


DEFECTS = (
    Defect("shift", "argument", within(f"{FIRST}.1", r"roll|masked_fill|__getitem__|__setitem__|__add__|add"), _shift),
    Defect("no_shift", "argument", within(f"{FIRST}.1", r"\w+"), _no_shift),
    defects.setting("norm_eps", f"{SECOND}.1.layernorm_after", "eps", 1e-2, "layer_norm"),
    defects.lower_precision("bf16", f"{FIRST}.0.mlp.fc2", "linear"),
    defects.replaced("no_norm", f"{SECOND}.0.layernorm_before", lambda old: nn.Identity()),
    defects.replaced("relu", f"{FIRST}.1.mlp.activation_fn", lambda old: nn.ReLU()),
    defects.setting("no_bias", f"{FIRST}.1.mlp.fc1", "bias", None, "linear"),
    defects.changed_forward("other_order", "wiring", "swin.encoder.layers.0.downsample", _other_order,
                            within("swin.encoder.layers.0.downsample", r"\w+")),
    Defect("bias_table", "weights", inside(f"{SECOND}.0.attention.relative_position_bias", r"\w+"), _bias_table),
    defects.changed_weight("transposed", f"{SECOND}.1.attention.o_proj", "linear", defects.transposed),
    defects.changed_weight("one_element", "classifier", "linear", defects.one_element),
    defects.changed_weight("reinitialised", "swin.encoder.layers.0.downsample.reduction", "linear",
                           defects.reinitialised),
    defects.frozen("frozen", f"{FIRST}.1.mlp.fc2", "linear"),
    defects.other_data("label", (Cause(r"\.cross_entropy\.\d+\.forward"),), _other_label),
    defects.other_data("darker", within("swin.embeddings", "conv2d"), _darker, batch=1),
    defects.other_data("rotated", within("swin.embeddings", r"conv2d"), _rotated),
    defects.other_data("one_pixel", within("swin.embeddings", "conv2d"), _one_pixel),
    defects.optimizer("momentum", r"mul_|add_|add", momentum=0.8),
    defects.optimizer("nesterov", r"add_|add", nesterov=False),
    defects.optimizer("decay", r"add_|add|mul_", weight_decay=1e-3),
    defects.no_clipping(),
    defects.faulty_kernel("gelu_kernel", inside(f"{SECOND}.0.mlp.activation_fn", "gelu"), ATEN.gelu, 2, scaled(1.002)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
