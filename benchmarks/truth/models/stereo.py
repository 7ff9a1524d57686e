"""Depth from two images: features of both, a volume of their correlations by shift, convolutions in three dimensions
over it, and the mean shift. One image is moved onto the other by it.

What a user changes: a shift in the other direction, the sign or the temperature of the mean shift, how groups
correlate, borders of a moved image, a mask of what is hidden, weights of losses, edges along the other axis.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

BATCH, HEIGHT, WIDTH, CHANNELS, GROUPS, SHIFTS = 2, 12, 20, 16, 4, 6


class Features(nn.Module):
    """Convolutions with a pyramid of pools, the same for both images."""

    mode, is_near_first = "bilinear", True

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.norm = nn.InstanceNorm2d(CHANNELS, affine=True)
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=2, dilation=2)
        self.pool = nn.AvgPool2d(4)
        self.wide = nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.last = nn.Conv2d(2 * CHANNELS, CHANNELS, 1, bias=False)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        near = functional.leaky_relu(self.norm(self.first(image)), 0.1)
        near = near + functional.leaky_relu(self.second(near), 0.1)
        far = functional.interpolate(self.wide(self.pool(near)), size=near.shape[-2:], mode=self.mode)
        return self.last(torch.cat([near, far] if self.is_near_first else [far, near], 1))


class Volume(nn.Module):
    """How well both images agree at each shift, by groups of channels."""

    is_left, is_mean = True, True

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        costs = []
        for shift in range(SHIFTS):
            moved = (
                functional.pad(right, (shift, 0))[..., :WIDTH]
                if self.is_left
                else functional.pad(right, (0, shift))[..., shift:]
            )
            both = (left * moved).view(BATCH, GROUPS, CHANNELS // GROUPS, HEIGHT, WIDTH)
            costs.append(both.mean(2) if self.is_mean else both.sum(2))
        return torch.stack(costs, 2)


class Stereo(nn.Module):
    """The shift of each pixel of the left image, and what it explains of the right one."""

    sign, temperature, padding, is_aligned, smoothness, bound, is_masked, is_smooth_across = (
        1.0, 1.0, "border", False, 0.1, 1.0, True, True,
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.features = Features()
        self.volume = Volume()
        self.before = nn.Conv3d(GROUPS, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.after = nn.Sequential(nn.Conv3d(8, 8, 3, padding=1), nn.SELU(), nn.Conv3d(8, 1, 3, padding=1))
        self.gate = nn.Parameter(torch.full((8, 1, 1, 1), 0.1))
        self.sharpness = 4.0
        self.refine = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.Softsign(), nn.Conv2d(8, 1, 3, padding=1))

    def shift(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """The mean of shifts, each as likely as images agree there."""
        cost = functional.relu6(self.norm(self.before(self.volume(self.features(left), self.features(right)))))
        cost = self.after(cost + self.gate * cost.flip(2)).squeeze(1)
        likely = functional.softmax(self.sign * self.sharpness * cost / self.temperature, dim=1)
        shifts = torch.arange(SHIFTS, dtype=cost.dtype).view(1, -1, 1, 1)
        return (likely * shifts).sum(1, keepdim=True)

    def warp(self, image: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """The image as seen from the other side."""
        rows = torch.linspace(-1, 1, HEIGHT, dtype=image.dtype)
        columns = torch.linspace(-1, 1, WIDTH, dtype=image.dtype)
        vertical, horizontal = torch.meshgrid(rows, columns, indexing="ij")
        moved = horizontal - 2 * shift.squeeze(1) / (WIDTH - 1)
        grid = torch.stack([moved, vertical.expand_as(moved)], -1)
        return functional.grid_sample(image, grid, padding_mode=self.padding, align_corners=self.is_aligned)

    def forward(
        self, left: torch.Tensor, right: torch.Tensor, truth: torch.Tensor, known: torch.Tensor
    ) -> torch.Tensor:
        coarse = self.shift(left, right)
        fine = coarse + self.refine(torch.cat([left, coarse], 1))
        losses = functional.smooth_l1_loss(fine, truth, beta=self.bound, reduction="none")
        loss = losses[known].mean() if self.is_masked else losses.mean()
        seen = (self.warp(right, fine) - left).abs().mean(1, keepdim=True)
        return loss + 0.5 * torch.log1p(seen).mean() + self.smoothness * self.rough(fine, left)

    def rough(self, shift: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """How much shifts change where the image does not."""
        across = (shift[..., 1:] - shift[..., :-1]).abs()
        edges = (image[..., 1:] - image[..., :-1]).abs().mean(1, keepdim=True)
        total = (across * torch.exp(-edges)).mean()
        if self.is_smooth_across:
            total = total + (shift[..., 1:, :] - shift[..., :-1, :]).abs().mean()
        return total


def build() -> Training:
    generator = torch.Generator().manual_seed(211)
    batches: list[Batch] = []
    for _ in range(2):
        left = torch.rand(BATCH, 3, HEIGHT, WIDTH, generator=generator)
        truth = torch.rand(BATCH, 1, HEIGHT, WIDTH, generator=generator) * (SHIFTS - 1)
        batches.append(
            {
                "left": left,
                "right": left.roll(-2, -1) + 0.05 * torch.randn(left.shape, generator=generator),
                "truth": truth,
                "known": torch.rand(truth.shape, generator=generator) < 0.7,
            }
        )
    return Training(
        Stereo(), batches, optimizer=torch.optim.NAdam, settings={"lr": 2e-3, "foreach": False}, clip=0.5, accumulate=2
    )


def _swapped(batch: Batch) -> None:
    batch["left"], batch["right"] = batch["right"], batch["left"]


def _turned_colours(batch: Batch) -> None:
    batch["right"] = batch["right"].flip(1)


def _one_known(batch: Batch) -> None:
    batch["known"] = batch["known"].clone()
    batch["known"].view(-1)[10] = ~batch["known"].view(-1)[10]


def _undilated(training: Training) -> None:
    training.module("features.second").dilation = training.module("features.second").padding = (1, 1)


def _nearest(training: Training) -> None:
    training.module("features").mode = "nearest"


def _other_order(training: Training) -> None:
    training.module("features").is_near_first = False


DEFECTS = (
    defects.setting("right", "volume", "is_left", False, r"pad|__getitem__|__mul__|mul"),
    defects.setting("summed", "volume", "is_mean", False, "sum|mean"),
    defects.of_network("sign", "argument", call("__r?mul__|mul"), sign=-1.0),
    defects.of_network("temperature", "argument", call("__truediv__|div"), temperature=1.05),
    defects.of_network("zeros", "argument", call("grid_sample"), padding="zeros"),
    defects.of_network("aligned", "argument", call("grid_sample"), is_aligned=True),
    defects.of_network("smoothness", "argument", call("__r?mul__|mul"), smoothness=0.05),
    defects.of_network("bound", "argument", call("smooth_l1_loss"), bound=0.9),
    defects.of_network("no_mask", "op", call("__getitem__|mean"), is_masked=False),
    defects.of_network("one_axis", "op", call("__getitem__|__sub__|sub|abs|mean|__add__|add"), is_smooth_across=False),
    defects.setting("instance_eps", "features.norm", "eps", 1e-3, "instance_norm"),
    defects.setting("groups", "norm", "num_groups", 4, "group_norm"),
    Defect("dilation", "argument", inside("features.second", "conv2d"), _undilated),
    defects.replaced("elu", "after.1", lambda old: nn.ELU()),
    defects.replaced("tanh", "refine.1", lambda old: nn.Tanh()),
    Defect("nearest", "argument", within("features", "interpolate"), _nearest),
    Defect("order", "wiring", within("features", "cat|conv2d"), _other_order),
    defects.lower_precision("low", "after.0", "conv3d"),
    defects.changed_weight("turned", "before", "conv3d", defects.flipped),
    defects.changed_weight("transposed", "features.second", "conv2d", defects.transposed),
    defects.changed_weight("one_weight", "after.2", "conv3d", defects.one_element),
    defects.changed_weight("gain", "features.norm", "instance_norm", lambda weight: weight + 0.01),
    Defect(
        "gate", "weights", call("__r?mul__|mul"),
        lambda training: training.network.gate.data.mul_(0.99),
    ),
    defects.frozen("frozen", "features.wide", "conv2d"),
    defects.other_data("swapped", within("features.first", "conv2d"), _swapped),
    defects.other_data("colours", within("features.first", "conv2d"), _turned_colours),
    defects.other_data("known", call("__getitem__|mean"), _one_known),
    defects.loop("divisor", call("__truediv__|div"), divides=False),
    defects.optimizer("betas", r"lerp_|mul_|add_", betas=(0.85, 0.999)),
    defects.loop("clip", defects.CLIPPING, clip=0.6),
    defects.faulty_kernel("volume_kernel", inside("before", "conv3d"), ATEN.convolution, 8, scaled(1.002)),
    defects.faulty_kernel("softmax", call("softmax"), ATEN._softmax, 0, scaled(1.002)),
    defects.faulty_kernel("sample", call("grid_sample"), ATEN.grid_sampler_2d, 0, one_element_wrong),
    defects.faulty_kernel(
        "backwards", within("norm", "group_norm", "backward"), ATEN.native_group_norm_backward, 0, scaled(1.003)
    ),
)  # fmt: skip

MODEL = Model(build, DEFECTS)
