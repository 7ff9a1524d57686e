"""Networks of torchvision that nobody wrote defects for: they are planted at places that are drawn by chance.

Most are small, with few channels; images have 16 to 128 pixels on a side.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.truth.models import strangers
from benchmarks.truth.models.strangers import BATCH, CLASSES, Build
from benchmarks.truth.models.torchvision_python import models
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Training


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return strangers.planted_by_chance(MEMBERS[name], name)


LossOf = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]
"""The mean loss of a network on inputs with these labels."""


class _WithLoss(nn.Module):
    """A network with its loss."""

    def __init__(self, network: nn.Module, loss_of: LossOf) -> None:
        super().__init__()
        self.network = network
        self.loss_of = loss_of

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean loss of a batch."""
        return self.loss_of(self.network, inputs, labels)


def _of_classes(network: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Of an image, or of each of its pixels."""
    given = network(inputs)
    return nn.functional.cross_entropy(given["out"] if isinstance(given, dict) else given, labels)


def _of_motion(network: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Of the motion between two images, which is estimated better step by step."""
    estimates = network(inputs[:, 0], inputs[:, 1], num_flow_updates=2)
    return torch.stack([(estimate - labels).abs().mean() for estimate in estimates]).mean()


def _of_boxes(network: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Of a detector on images with one box each."""
    boxes = torch.tensor([[4.0, 6.0, 40.0, 50.0]])
    targets = [{"boxes": boxes, "labels": label.view(1)} for label in labels]
    return sum(network(list(inputs), targets).values())  # type: ignore[return-value]


def _training(
    make: Callable[[], nn.Module],
    loss_of: LossOf,
    shape: tuple[int, ...],
    labels: Callable[[torch.Generator], torch.Tensor],
) -> Build:
    generator = torch.Generator().manual_seed(3)
    batches = [
        {"inputs": torch.randn(BATCH, *shape, generator=generator), "labels": labels(generator)} for _ in range(2)
    ]
    return lambda: Training(_WithLoss(make(), loss_of), [dict(batch) for batch in batches])


def _classes(least: int, *shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda generator: torch.randint(least, CLASSES, (BATCH, *shape), generator=generator)


def _images(make: Callable[[], nn.Module], size: int = 64, frames: tuple[int, ...] = ()) -> Build:
    return _training(make, _of_classes, (3, *frames, size, size), _classes(0))


def _pixels(make: Callable[[], nn.Module]) -> Build:
    return _training(make, _of_classes, (3, 64, 64), _classes(0, 64, 64))


def _boxes(make: Callable[[], nn.Module]) -> Build:
    return _training(make, _of_boxes, (3, 64, 64), _classes(1))  # class 0 is the background


def _motion(make: Callable[[], nn.Module]) -> Build:
    return _training(
        make, _of_motion, (2, 3, 128, 128), lambda generator: torch.randn(BATCH, 2, 128, 128, generator=generator)
    )


C = {"num_classes": CLASSES}
NONE = {"weights": None, "weights_backbone": None}
BLOCKS = [models.convnext.CNBlockConfig(16, 32, 1), models.convnext.CNBlockConfig(32, None, 1)]
SMALL = {"min_size": 64, "max_size": 64}

MEMBERS: dict[str, Build] = {
    "densenet": _images(lambda: models.DenseNet(growth_rate=8, block_config=(2, 2, 2), num_init_features=16, **C)),
    "googlenet": _images(lambda: models.googlenet(aux_logits=False, init_weights=True, **C)),
    "shufflenet": _images(lambda: models.shufflenet_v2_x0_5(**C)),
    "mnasnet": _images(lambda: models.mnasnet0_5(**C)),
    "squeezenet": _images(lambda: models.squeezenet1_1(**C)),
    "mobilenet3": _images(lambda: models.mobilenet_v3_small(**C)),
    "wide": _images(lambda: models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], width_per_group=16, **C)),
    "next": _images(lambda: models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], groups=4, width_per_group=8, **C)),
    "maxvit": _images(lambda: models.MaxVit((64, 64), 16, 2, [16, 32], [1, 1], 8, 0.1, **C)),
    "swintv": _images(lambda: models.SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4], **C), 32),
    "vittv": _images(lambda: models.VisionTransformer(32, 8, 3, 4, 48, 96, **C), 32),
    "convnexttv": _images(lambda: models.ConvNeXt(BLOCKS, 0.1, **C)),
    "regnetv": _images(lambda: models.regnet_y_400mf(**C)),
    "deeplab": _pixels(lambda: models.segmentation.deeplabv3_mobilenet_v3_large(**NONE, **C)),
    "lraspp": _pixels(lambda: models.segmentation.lraspp_mobilenet_v3_large(**NONE, **C)),
    "r3d": _images(lambda: models.video.r3d_18(**C), 16, (4,)),
    "r2plus1d": _images(lambda: models.video.r2plus1d_18(**C), 16, (4,)),
    "swin3d": _images(lambda: models.video.SwinTransformer3d([2, 4, 4], 16, [2, 2], [2, 4], [2, 4, 4], **C), 32, (4,)),
    "raft": _motion(models.optical_flow.raft_small),
    "retinanet": _boxes(lambda: models.detection.retinanet_resnet50_fpn(**NONE, **SMALL, **C)),
    "fcos": _boxes(lambda: models.detection.fcos_resnet50_fpn(**NONE, **SMALL, **C)),
    "ssdlite": _boxes(lambda: models.detection.ssdlite320_mobilenet_v3_large(**NONE, **C)),
}
