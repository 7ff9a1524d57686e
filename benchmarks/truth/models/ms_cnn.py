"""A small convolutional network of MindSpore cells with batch normalisation; classes of images; Adam."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mindspore import Tensor, nn, ops

from benchmarks.truth import cells
from benchmarks.truth.cells import Training, inside, within
from benchmarks.truth.planted import Cause, Model

CLASSES, BATCH = 7, 4


class Block(nn.Cell):
    """Two convolutions around a residual."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, pad_mode="pad", padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, pad_mode="pad", padding=1)
        self.norm2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        hidden = self.relu(self.norm1(self.conv1(x)))
        return self.relu(x + self.norm2(self.conv2(hidden)))


class Cnn(nn.Cell):
    """Images and labels to a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 12, 3, pad_mode="pad", padding=1, has_bias=True)
        self.block1, self.block2 = Block(12), Block(12)
        self.pool = nn.MaxPool2d(2, 2)
        self.head = nn.Dense(12, CLASSES)

    def construct(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.pool(self.block1(self.first(images)))
        x = self.block2(x).mean((2, 3))
        return ops.cross_entropy(self.head(x), labels)


def build() -> Training:
    """Two blocks on images of 12 by 12."""
    generator = np.random.default_rng(51)
    batches = [
        (
            Tensor(generator.standard_normal((BATCH, 3, 12, 12)).astype(np.float32)),
            Tensor(generator.integers(0, CLASSES, BATCH).astype(np.int32)),
        )
        for _ in range(2)
    ]
    return Training(Cnn(), batches)


def _relu_first(cell: Block) -> Callable[[Tensor], Tensor]:
    """The activation comes before the sum."""
    return lambda x: x + cell.relu(cell.norm2(cell.conv2(cell.relu(cell.norm1(cell.conv1(x))))))


def _other_channels(arrays: list[np.ndarray]) -> None:
    arrays[0] = np.ascontiguousarray(arrays[0][:, ::-1])


def _brighter(arrays: list[np.ndarray]) -> None:
    arrays[0] = arrays[0] + np.float32(0.02)


def _other_label(arrays: list[np.ndarray]) -> None:
    arrays[1][0] = (arrays[1][0] + 1) % CLASSES


IMAGES = inside("first", "Conv2D")
DEFECTS = (
    cells.replaced("norm_eps", "argument", "block1.norm2", lambda old: nn.BatchNorm2d(12, eps=1e-3), "BatchNorm"),
    cells.replaced(
        "norm_momentum", "argument", "block2.norm1", lambda old: nn.BatchNorm2d(12, momentum=0.99), "BatchNorm"
    ),
    cells.replaced("no_norm", "op", "block2.norm2", lambda old: nn.Identity()),
    cells.replaced("average_pool", "op", "pool", lambda old: nn.AvgPool2d(2, 2)),
    cells.rewired(
        "relu_first",
        "wiring",
        "block1",
        _relu_first,
        (*within("block1", "__add__|ReLU"), *inside("block1.relu", "ReLU")),
    ),
    cells.changed_weight("flipped", "block1.conv2", "Conv2D", lambda values: values[..., ::-1]),
    cells.changed_weight("one_element", "block2.conv1", "Conv2D", cells.one_element),
    cells.changed_weight("norm_weight", "block1.norm1", "BatchNorm", lambda values: values * 1.02, "gamma"),
    cells.other_data("channels", IMAGES, _other_channels),
    cells.other_data("brighter", IMAGES, _brighter, batch=1),
    cells.other_data("label", (Cause(r"cross_entropy\.\d+\.forward"),), _other_label),
    cells.loop("rate", learning_rate=2e-3),
)


MODEL = Model(build, DEFECTS)
