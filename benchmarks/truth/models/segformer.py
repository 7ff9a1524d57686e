"""SegFormer of transformers: overlapping patches, attention to reduced sequences, depthwise convolutions; SGD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

SIZE, BATCH, CLASSES = 32, 2, 6


def build() -> Training:
    config = transformers.SegformerConfig(
        num_encoder_blocks=3, depths=[1, 2, 1], sr_ratios=[4, 2, 1], hidden_sizes=[16, 24, 32],
        patch_sizes=[7, 3, 3], strides=[4, 2, 2], num_attention_heads=[1, 2, 4], mlp_ratios=[2, 2, 2],
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout_prob=0.1, drop_path_rate=0.1,
        decoder_hidden_size=32, num_labels=CLASSES,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(64)
    batches = [
        {
            "pixel_values": torch.randn(BATCH, 3, SIZE, SIZE, generator=generator),
            "labels": torch.randint(0, CLASSES, (BATCH, SIZE, SIZE), generator=generator),
        }
        for _ in range(2)
    ]
    settings = {"lr": 0.05, "momentum": 0.9, "foreach": False}
    return Training(transformers.SegformerForSemanticSegmentation(config), batches, torch.optim.SGD, settings)


STAGE, HEAD = "segformer.stages", "decode_head"


def _scale(training: Training) -> None:
    training.module(f"{STAGE}.1.blocks.0.attention").scaling *= 1.05


def _ignored(batch: Batch) -> None:
    batch["labels"] = batch["labels"].clone()
    batch["labels"][0, :4] = 255


def _mirrored(batch: Batch) -> None:
    batch["pixel_values"] = batch["pixel_values"].flip(-1)


def _channels(batch: Batch) -> None:
    batch["pixel_values"] = batch["pixel_values"].flip(1)


def _brighter(batch: Batch) -> None:
    batch["pixel_values"] = batch["pixel_values"] + 0.01


def _order(training: Training) -> None:
    """The projections of the stages are put together in the other order."""
    training.module(HEAD).linear_fuse.weight = nn.Parameter(
        training.module(HEAD).linear_fuse.weight.detach().roll(32, 1).clone()
    )


def _no_drop(training: Training) -> None:
    training.module(f"{STAGE}.1.blocks.1.drop_path").drop_prob = 0.2


def _copied_first(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """What goes into the MLP is multiplied by one."""

    def rewired(hidden: torch.Tensor, height: int, width: int) -> torch.Tensor:
        return forward(hidden * 1.0, height, width)

    return rewired


def _transposed_places(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Rows and columns of the picture are taken for each other."""

    def rewired(hidden: torch.Tensor, height: int, width: int) -> torch.Tensor:
        batch, _, channels = hidden.shape
        picture = hidden.transpose(1, 2).reshape(batch, channels, width, height).transpose(2, 3)
        return module.dwconv(picture).flatten(2).transpose(1, 2)

    return rewired


DEFECTS = (
    defects.setting("norm_eps", f"{STAGE}.0.blocks.0.layernorm_before", "eps", 1e-2, "layer_norm"),
    Defect("scaled", "argument", within(f"{STAGE}.1.blocks.0.attention",
                                        r"scaled_dot_product_attention|__?r?mul__?|matmul"), _scale),
    defects.setting("reflected", f"{STAGE}.1.patch_embeddings.proj", "padding_mode", "reflect", "conv2d|pad"),
    defects.setting("momentum", f"{HEAD}.batch_norm", "momentum", 0.01, "batch_norm"),
    defects.setting("bn_eps", f"{HEAD}.batch_norm", "eps", 1e-3, "batch_norm"),
    Defect("drop_path", "argument", within(f"{STAGE}.1.blocks.1", r"\w+"), _no_drop),
    defects.lower_precision("bf16", f"{STAGE}.1.blocks.0.mlp.fc2", "linear"),
    defects.replaced("no_norm", f"{STAGE}.0.blocks.0.attention.sequence_reduction.layer_norm",
                     lambda old: nn.Identity()),
    defects.replaced("relu6", f"{HEAD}.activation", lambda old: nn.LeakyReLU(0.01)),
    defects.replaced("no_dropout", f"{HEAD}.dropout", lambda old: nn.Identity()),
    defects.changed_forward("copied", "op", f"{STAGE}.2.blocks.0.mlp", _copied_first,
                            within(f"{STAGE}.2.blocks.0", r"__r?mul__|mul")),
    defects.changed_forward("places", "wiring", f"{STAGE}.1.blocks.0.mlp.dwconv", _transposed_places,
                            within(f"{STAGE}.1.blocks.0.mlp.dwconv", r"\w+")),
    Defect("order", "weights", inside(f"{HEAD}.linear_fuse", "conv2d"), _order),
    defects.changed_weight("one_element", f"{STAGE}.2.blocks.0.attention.v_proj", "linear", defects.one_element),
    defects.changed_weight("transposed", f"{STAGE}.1.blocks.1.attention.o_proj", "linear", defects.transposed),
    defects.changed_weight("flipped", f"{STAGE}.0.patch_embeddings.proj", "conv2d", defects.flipped),
    defects.changed_weight("reinitialised", f"{STAGE}.1.blocks.1.mlp.dwconv.dwconv", "conv2d", defects.reinitialised),
    defects.swapped_weights("swapped", f"{STAGE}.2.blocks.0.attention.q_proj", f"{STAGE}.2.blocks.0.attention.k_proj"),
    defects.frozen("frozen", f"{STAGE}.1.blocks.0.mlp.fc1", "linear"),
    defects.other_data("ignored", call("cross_entropy"), _ignored),
    defects.other_data("mirrored", inside(f"{STAGE}.0.patch_embeddings.proj", "conv2d"), _mirrored),
    defects.other_data("channels", inside(f"{STAGE}.0.patch_embeddings.proj", "conv2d"), _channels, batch=1),
    defects.other_data("brighter", inside(f"{STAGE}.0.patch_embeddings.proj", "conv2d"), _brighter),
    Defect("sgd_momentum", "loop", call(r"mul_|add_"), lambda training: training.settings.update(momentum=0.8), 1),
    defects.optimizer("rate", r"add_", lr=0.051),
    defects.optimizer("nesterov", r"add|add_", nesterov=True),
    defects.no_clipping(),
    defects.faulty_kernel("norm_kernel", (*within(f"{STAGE}.1", "layer_norm"),
                                          Cause(rf"^Module\.{STAGE}\.1\..*[nN]orm")),
                          ATEN.native_layer_norm, 7, scaled(1.002)),
    defects.faulty_kernel("upsampling_kernel", call("interpolate"), ATEN.upsample_bilinear2d, 1, one_element_wrong),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
