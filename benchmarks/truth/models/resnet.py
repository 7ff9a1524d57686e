"""ResNet-18 of torchvision; classes of images; SGD with momentum."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.models.torchvision_python import models
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training, WithLoss

BATCH, CLASSES = 4, 10


def build() -> Training:
    network = WithLoss(models.resnet18(num_classes=CLASSES), nn.CrossEntropyLoss(label_smoothing=0.1))
    generator = torch.Generator().manual_seed(38)
    batches = [
        {
            "inputs": torch.randn(BATCH, 3, 40, 40, generator=generator),
            "labels": torch.randint(0, CLASSES, (BATCH,), generator=generator),
        }
        for _ in range(2)
    ]
    settings = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4, "foreach": False}
    return Training(network, batches, torch.optim.SGD, settings, clip=None)


def _brighter(batch: Batch) -> None:
    batch["inputs"] = (batch["inputs"] - 0.01) / 0.99


def _other_channels(batch: Batch) -> None:
    batch["inputs"] = batch["inputs"].flip(1).contiguous()


def _no_residual(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The sum is not made, as where a port forgets the way around a block."""

    def rewired(x: torch.Tensor) -> torch.Tensor:
        return module.relu(module.bn2(module.conv2(module.relu(module.bn1(module.conv1(x))))))

    return rewired


def _relu_first(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The activation comes before the sum."""

    def rewired(x: torch.Tensor) -> torch.Tensor:
        return module.relu(module.bn2(module.conv2(module.relu(module.bn1(module.conv1(x)))))) + x

    return rewired


DEFECTS = (
    defects.setting("norm_momentum", "network.layer2.0.bn1", "momentum", 0.01, "batch_norm"),
    defects.setting("norm_eps", "network.layer3.1.bn2", "eps", 1e-3, "batch_norm"),
    defects.setting("ceil_mode", "network.maxpool", "ceil_mode", True, "max_pool2d"),
    defects.setting("label_smoothing", "criterion", "label_smoothing", 0.05, "cross_entropy"),
    defects.setting("padding_mode", "network.layer1.1.conv2", "padding_mode", "circular", "conv2d|pad"),
    defects.changed_forward(
        "no_residual", "wiring", "network.layer2.1", _no_residual, within("network.layer2.1", "__i?add__")
    ),
    defects.changed_forward(
        "relu_first",
        "wiring",
        "network.layer1.0",
        _relu_first,
        (*within("network.layer1.0", "__i?add__|relu"), *inside("network.layer1.0.relu", "relu")),
    ),
    defects.changed_weight("flipped", "network.layer1.1.conv1", "conv2d", defects.flipped),
    defects.changed_weight("one_element", "network.layer3.0.conv1", "conv2d", defects.one_element),
    defects.changed_weight("other_start", "network.layer2.0.downsample.0", "conv2d", defects.reinitialised),
    defects.changed_weight("norm_bias", "network.layer4.0.bn1", "batch_norm", lambda bias: bias + 0.01, "bias"),
    defects.lower_precision("conv_bf16", "network.layer2.1.conv1", "conv2d"),
    defects.other_data("brighter", inside("network.conv1", "conv2d"), _brighter),
    defects.other_data("channels", inside("network.conv1", "conv2d"), _other_channels, batch=1),
    Defect(
        "momentum",
        "loop",
        (Cause(r"\.(mul_|add_)\.\d+\.forward"),),
        lambda training: training.settings.update(momentum=0.8),
        1,
    ),
    defects.optimizer("decay", "add|add_", weight_decay=5e-4),
    defects.optimizer("rate", "add_", lr=0.04),
    defects.faulty_kernel(
        "conv_one_element", inside("network.layer2.0.conv2", "conv2d"), ATEN.convolution, 6, one_element_wrong
    ),
    defects.faulty_kernel(
        "norm_kernel", inside("network.layer1.1.bn1", "batch_norm"), ATEN.native_batch_norm, 3, scaled(1.001)
    ),
    defects.faulty_kernel(
        "norm_backward",
        inside("network.layer4.1.bn1", "batch_norm", "backward"),
        ATEN.native_batch_norm_backward,
        1,
        scaled(1.002),
    ),
    defects.two(
        "eps_and_decay",
        defects.setting("", "network.layer1.0.bn1", "eps", 1e-2, "batch_norm"),
        defects.optimizer("", "add|add_", weight_decay=1e-2),
    ),
)


MODEL = Model(build, DEFECTS)
