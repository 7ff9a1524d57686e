"""Boxes in images: convolutions, queries that attend to places, matching, focal loss and overlap; AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

BATCH, SIZE, WIDTH, QUERIES, CLASSES, THINGS = 2, 24, 32, 6, 5, 3


class Block(nn.Module):
    """Convolutions whose channels are weighed by what the whole image shows (squeeze and excitation)."""

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.act = nn.Hardswish()
        self.squeeze = nn.AdaptiveAvgPool2d(1)
        self.excite = nn.Sequential(nn.Conv2d(width, width // 4, 1), nn.ReLU(), nn.Conv2d(width // 4, width, 1))
        self.gate = nn.Hardsigmoid()
        self.point = nn.Conv2d(width, width, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = self.act(self.norm(self.depth(image)))
        return self.point(image * self.gate(self.excite(self.squeeze(image))))


class Decoder(nn.Module):
    """Queries attend to each other, then to places."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.cross = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, queries: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        queries = self.norms[0](queries + self.own(queries, queries, queries, need_weights=False)[0])
        queries = self.norms[1](queries + self.cross(queries, places, places, need_weights=False)[0])
        return self.norms[2](queries + self.feed(queries))


class Detector(nn.Module):
    """Images with their boxes to a loss."""

    alpha = 0.25
    gamma = 2.0
    weight_of_overlap = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 3, 2, 1)
        self.blocks = nn.Sequential(Block(WIDTH, 1), Block(WIDTH, 2), Block(WIDTH, 1))
        self.position = nn.Parameter(0.1 * torch.randn(1, 36, WIDTH))
        self.queries = nn.Parameter(torch.randn(1, QUERIES, WIDTH))
        self.decoders = nn.ModuleList(Decoder() for _ in range(2))
        self.classes = nn.Linear(WIDTH, CLASSES)
        self.boxes = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))

    def overlap(self, guess: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
        """The overlap of boxes, as centre and size, over what both cover."""
        low = torch.maximum(guess[..., :2] - guess[..., 2:] / 2, box[..., :2] - box[..., 2:] / 2)
        high = torch.minimum(guess[..., :2] + guess[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2)
        common = (high - low).clamp(min=0).prod(-1)
        return common / (guess[..., 2:].prod(-1) + box[..., 2:].prod(-1) - common)

    def matched(self, guess: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        """The query for each box: the nearest that no box before it has."""
        with torch.no_grad():
            cost = torch.cdist(guess, boxes, p=1)
            taken = []
            for thing in range(THINGS):
                chosen = cost[:, :, thing].argmin(1)
                cost = cost.scatter(1, chosen.view(-1, 1, 1).expand(-1, 1, THINGS), 1e3)
                taken.append(chosen)
            return torch.stack(taken, 1)

    def focal(self, logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """The loss of classes, in which what is sure counts little."""
        entropy = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        sure = torch.sigmoid(logits) * wanted + (1 - torch.sigmoid(logits)) * (1 - wanted)
        weight = self.alpha * wanted + (1 - self.alpha) * (1 - wanted)
        return (weight * (1 - sure) ** self.gamma * entropy).sum() / wanted.sum()

    def forward(self, images: torch.Tensor, boxes: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        places = self.blocks(self.stem(images)).flatten(2).transpose(1, 2) + self.position
        queries = self.queries.expand(images.shape[0], -1, -1)
        for decoder in self.decoders:
            queries = decoder(queries, places)
        guess = torch.sigmoid(self.boxes(queries))
        chosen = self.matched(guess, boxes)
        near = torch.gather(guess, 1, chosen.unsqueeze(-1).expand(-1, -1, 4))
        wanted = torch.zeros(images.shape[0], QUERIES, CLASSES)
        wanted[torch.arange(images.shape[0]).unsqueeze(1), chosen, kinds] = 1
        away = functional.l1_loss(near, boxes) + self.weight_of_overlap * (1 - self.overlap(near, boxes)).mean()
        return self.focal(self.classes(queries), wanted) + away


def build() -> Training:
    generator = torch.Generator().manual_seed(83)
    batches = [
        {
            "images": torch.rand(BATCH, 3, SIZE, SIZE, generator=generator),
            "boxes": 0.2 + 0.5 * torch.rand(BATCH, THINGS, 4, generator=generator),
            "kinds": torch.randint(0, CLASSES, (BATCH, THINGS), generator=generator),
        }
        for _ in range(2)
    ]
    return Training(Detector(), batches, settings={"lr": 1e-3, "foreach": False}, clip=0.5)


def _set(name: str, value: float) -> Callable[[Training], None]:
    return lambda training: setattr(training.network, name, value)


def _corners(training: Training) -> None:
    """Boxes are taken for corners by the overlap of one box."""

    def overlap(guess: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
        common = (torch.minimum(guess[..., 2:], box[..., 2:]) - torch.maximum(guess[..., :2], box[..., :2])).clamp(0)
        both = guess[..., 2:].prod(-1) + box[..., 2:].prod(-1) - common.prod(-1)
        return common.prod(-1) / both

    training.network.overlap = overlap  # type: ignore[method-assign]


def _squared(training: Training) -> None:
    training.network.matched = (  # type: ignore[method-assign]
        lambda guess, boxes: torch.cdist(guess, boxes).argmin(1)
    )


def _norm_first(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def rewired(queries: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        normed = module.norms[0](queries)
        queries = queries + module.own(normed, normed, normed, need_weights=False)[0]
        normed = module.norms[1](queries)
        queries = queries + module.cross(normed, places, places, need_weights=False)[0]
        return queries + module.feed(module.norms[2](queries))

    return rewired


def _no_gate(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda image: module.point(module.act(module.norm(module.depth(image))))


def _box(batch: Batch) -> None:
    batch["boxes"] = batch["boxes"].clone()
    batch["boxes"][0, 1, 0] += 0.05


def _kind(batch: Batch) -> None:
    batch["kinds"] = batch["kinds"].clone()
    batch["kinds"][0, 0] = (batch["kinds"][0, 0] + 1) % CLASSES


def _blue_first(batch: Batch) -> None:
    batch["images"] = batch["images"].flip(1)


BLOCK = "blocks.1"
DECODER = "decoders.1"
DEFECTS = (
    Defect("alpha", "argument", call(r"__r?mul__|mul|__r?sub__|rsub"), _set("alpha", 0.3)),
    Defect("gamma", "argument", call(r"__r?pow__|pow"), _set("gamma", 1.5)),
    Defect("weight_of_overlap", "argument", call(r"__r?mul__|mul"), _set("weight_of_overlap", 1.8)),
    Defect("corners", "op", call(r"maximum|minimum|__getitem__|__r?(sub|truediv|add)__|clamp|prod"), _corners),
    Defect("matching", "argument", call("cdist|argmin|gather|scatter|__setitem__|expand|stack"), _squared),
    defects.changed_forward("norm_first", "wiring", DECODER, _norm_first,
                            (*inside(f"{DECODER}.norms.0", "layer_norm"),
                             *within(DECODER, r"multi_head_attention_forward|linear|__r?add__|add"))),
    defects.changed_forward("no_gate", "op", BLOCK, _no_gate,
                            (*within(BLOCK, r"__r?mul__|mul"), *inside(f"{BLOCK}.squeeze", r"\w+"))),
    defects.setting("norm_eps", f"{DECODER}.norms.1", "eps", 1e-3, "layer_norm"),
    defects.setting("batch_eps", f"{BLOCK}.norm", "eps", 1e-3, "batch_norm"),
    defects.setting("momentum", "blocks.0.norm", "momentum", 0.01, "batch_norm"),
    defects.replaced("swish", f"{BLOCK}.act", lambda old: nn.SiLU()),
    defects.replaced("sigmoid", "blocks.2.gate", lambda old: nn.Sigmoid()),
    defects.replaced("highest", f"{BLOCK}.squeeze", lambda old: nn.AdaptiveMaxPool2d(1)),
    defects.lower_precision("bf16", f"{DECODER}.feed.0", "linear"),
    defects.changed_weight("one_element", f"{BLOCK}.point", "conv2d", defects.one_element),
    defects.changed_weight("permuted", "decoders.0.cross", "multi_head_attention_forward", defects.permuted,
                           "in_proj_weight"),
    defects.changed_weight("queries", "", r"expand|multi_head_attention_forward", defects.reinitialised, "queries",
                           shows=call(r"expand|multi_head_attention_forward|transpose")),
    defects.changed_weight("position", "", r"__r?add__|add", lambda tensor: tensor.roll(1, 1), "position",
                           shows=call(r"__r?add__|add|multi_head_attention_forward")),
    defects.frozen("frozen", f"{BLOCK}.point", "conv2d"),
    defects.other_data("box", call(r"cdist|l1_loss|__getitem__|__r?truediv__"), _box),
    defects.other_data("kind", call(r"__setitem__|binary_cross_entropy_with_logits|__r?mul__|sum|__r?sub__"), _kind,
                       batch=1),
    defects.other_data("blue_first", inside("stem", "conv2d"), _blue_first),
    defects.optimizer("betas", r"lerp_|mul_|addcmul_", betas=(0.9, 0.95)),
    defects.loop("clip", defects.CLIPPING, clip=0.45),
    defects.faulty_kernel("sigmoid_kernel", call("sigmoid"), ATEN.sigmoid, 0, scaled(1.002)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
