"""One small transformer, whole or cut: the same weights and batches, over gloo.

`Place` says which part a process has. The whole model is the place of a job of one. Every cut is written by hand, as in
Megatron-LM: column and row parallel products (TP), stages with micro-batches (PP), keys and values gathered along the
sequence (CP), experts held by different ranks (EP).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from benchmarks.group_sums import SumBackward, SumForward

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH, LAYERS, EXPERTS = 48, 16, 4, 8, 4, 2, 4
HIDDEN = 4 * WIDTH
AXES = ("pp", "dp", "cp", "ep", "tp")
"""The axes of the mesh, the slowest first."""


@dataclass(frozen=True)
class Cut:
    """How many parts each axis has. `experts`: a mixture of experts instead of an MLP. `micro`: micro-batches."""

    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    tp: int = 1
    micro: int = 1
    chunks: int = 1
    experts: bool = False
    sequence_parallel: bool = False

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return self.pp * self.dp * self.cp * self.ep * self.tp


CUTS = {
    "single": Cut(),
    "tp2": Cut(tp=2),
    "sp2": Cut(tp=2, sequence_parallel=True),
    "pp2": Cut(pp=2, micro=2),
    "vpp2": Cut(pp=2, micro=2, chunks=2),
    "tp2_pp2": Cut(tp=2, pp=2, micro=2),
    "dp2": Cut(dp=2),
    "dp2_tp2": Cut(dp=2, tp=2),
    "dp2_sp2": Cut(dp=2, tp=2, sequence_parallel=True),
    "cp2": Cut(cp=2),
    "cp2_tp2": Cut(cp=2, tp=2),
    "moe": Cut(experts=True),
    "ep2": Cut(ep=2, experts=True),
    "dp2_ep2": Cut(dp=2, ep=2, experts=True),
}
"""The cuts of the benchmark. `single` and `moe` are the golden runs."""


@dataclass
class Place:
    """Where a process stands: its cut, its coordinate and its group along each axis, and the defect it has."""

    cut: Cut
    coordinates: dict[str, int] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)
    neighbours: dict[str, list[int]] = field(default_factory=dict)
    defect: str = ""

    def at(self, axis: str) -> int:
        """The coordinate along an axis."""
        return self.coordinates.get(axis, 0)

    def part(self, whole: torch.Tensor, axis: str, dim: int) -> torch.Tensor:
        """The part of a tensor that is split along `axis`."""
        return whole.chunk(getattr(self.cut, axis), dim)[self.at(axis)]


def place_of(cut: Cut, rank: int, defect: str = "") -> Place:
    """Where the process `rank` of a job stands. All processes make all groups, in one order."""
    sizes = [getattr(cut, axis) for axis in AXES]
    mesh = torch.arange(cut.ranks).reshape(sizes)
    place = Place(cut, defect=defect)
    for number, axis in enumerate(AXES):
        place.coordinates[axis] = int((mesh == rank).nonzero()[0][number])
        for ranks in mesh.movedim(number, -1).reshape(-1, sizes[number]).tolist():
            group = dist.new_group(ranks) if len(ranks) > 1 else None
            if rank in ranks:
                place.groups[axis], place.neighbours[axis] = group, ranks
    return place


class Gather(torch.autograd.Function):
    """Concatenates what a group has along the sequence; the gradients are added up and cut."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, place: Place, axis: str) -> torch.Tensor:
        context.place, context.axis = place, axis
        return _gathered(x, place, axis)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _scattered(gradient, context.place, context.axis), None, None


class GatherCopies(Gather):
    """Concatenates what a group has along the sequence; of the gradients, which are copies, each takes its part."""

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return context.place.part(gradient, context.axis, -2).contiguous(), None, None


class Slice(torch.autograd.Function):
    """Takes this process's part of the sequence; the gradient is gathered."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, place: Place, axis: str) -> torch.Tensor:
        context.place, context.axis = place, axis
        return place.part(x, axis, -2).contiguous()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _gathered(gradient, context.place, context.axis), None, None


class Scatter(Slice):
    """Adds up what a group has, and cuts it along the sequence; the gradient is gathered."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, place: Place, axis: str) -> torch.Tensor:
        context.place, context.axis = place, axis
        return _scattered(x, place, axis)


def _gathered(x: torch.Tensor, place: Place, axis: str) -> torch.Tensor:
    parts = [torch.empty_like(x) for _ in range(getattr(place.cut, axis))]
    dist.all_gather(parts, x.contiguous(), group=place.groups[axis])
    return torch.cat(parts, -2)


def _scattered(x: torch.Tensor, place: Place, axis: str) -> torch.Tensor:
    """The sum over a group, of which each process keeps its part (gloo has no reduce_scatter)."""
    total = x.clone()
    dist.all_reduce(total, group=place.groups[axis])
    return place.part(total, axis, -2).contiguous()


class ColumnLinear(nn.Linear):
    """A product whose outputs are split: this process has a part of the rows of the weight."""

    def __init__(self, inputs: int, outputs: int, place: Place, bias: bool = True) -> None:
        super().__init__(inputs, outputs // place.cut.tp, bias)
        self.place, self.skips = place, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = self.place
        if place.cut.tp > 1 and place.cut.sequence_parallel:
            x = Gather.apply(x, place, "tp")
        elif place.cut.tp > 1 and not self.skips:
            x = SumBackward.apply(x, place.groups["tp"])
        return self.product(x)

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """This process's part of the outputs."""
        return functional.linear(x, self.weight, self.bias)


class RowLinear(nn.Linear):
    """A product whose inputs are split: what the processes have adds up."""

    def __init__(self, inputs: int, outputs: int, place: Place) -> None:
        super().__init__(inputs // place.cut.tp, outputs)
        self.place, self.skips, self.twice = place, False, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = self.place
        x = self.product(x)
        if place.cut.tp > 1 and place.cut.sequence_parallel:
            x = Scatter.apply(x, place, "tp")
        elif place.cut.tp > 1 and not self.skips:
            if self.twice:
                x = x + self.bias
            x = SumForward.apply(x, place.groups["tp"])
        return x if self.twice else x + self.bias

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """What this process's inputs make of the outputs."""
        return functional.linear(x, self.weight)


class Attention(nn.Module):
    """Causal attention; this process has some of the heads, or some of the queries."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.offset, self.dropout = place, place.at("cp") * LENGTH // place.cut.cp, 0.0
        self.qkv = ColumnLinear(
            WIDTH, 3 * WIDTH, place, bias=False
        )  # a key's bias has a gradient of rounding noise only
        self.proj = RowLinear(WIDTH, WIDTH, place)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        if self.place.cut.cp > 1:
            key = Gather.apply(key, self.place, "cp")
            value = Gather.apply(value, self.place, "cp")
        heads = HEADS // self.place.cut.tp
        query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (query, key, value))
        scores = query @ key.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
        rows = torch.arange(query.shape[2]) + self.offset
        mask = torch.arange(key.shape[2])[None, :] > rows[:, None]
        weights = torch.softmax(scores.masked_fill(mask, -1e9), -1)
        return self.proj((weights @ value).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Wide and narrow again."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.up = ColumnLinear(WIDTH, HIDDEN, place)
        self.down = RowLinear(HIDDEN, WIDTH, place)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.gelu(self.up(x)))


class Expert(nn.Module):
    """One expert."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.gelu(self.up(x)))


class Mixture(nn.Module):
    """Experts of which this process has some; a router weighs them."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.skips = place, False
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS // place.cut.ep))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = self.place
        given = torch.softmax(self.router(x), -1)
        if place.cut.ep > 1:
            group = place.groups["ep"]
            x = x if self.skips else SumBackward.apply(x, group)
            given = SumBackward.apply(given, group)
            given = place.part(given, "ep", -1)
        outputs = torch.stack([expert(x) for expert in self.experts], -1)
        mixed = (outputs * given.unsqueeze(-2)).sum(-1)
        return SumForward.apply(mixed, place.groups["ep"]) if place.cut.ep > 1 else mixed


class Layer(nn.Module):
    """Attention and MLP, each around a residual."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.norm_before, self.norm_between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(place)
        self.mlp = Mixture(place) if place.cut.experts else MLP(place)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_before(x))
        return x + self.mlp(self.norm_between(x))


class Embedding(nn.Module):
    """Tokens and positions; this process has some of the sequence."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.offset = place, place.at("cp") * LENGTH // place.cut.cp
        self.word, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1]) + self.offset
        x = self.word(tokens) + self.position(places)
        return Slice.apply(x, self.place, "tp") if self.place.cut.sequence_parallel else x


class Transformer(nn.Module):
    """The part of the transformer that this process has: all of it, or one stage with its own layer numbers."""

    def __init__(self, place: Place, layers: int = LAYERS, first: bool = True, last: bool = True) -> None:
        super().__init__()
        self.place = place
        if first:
            self.embedding = Embedding(place)
        self.layers = nn.ModuleList(Layer(place) for _ in range(layers))
        if last:
            self.norm = nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "embedding"):
            x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        if not hasattr(self, "head"):
            return x
        x = self.norm(x)
        if self.place.cut.sequence_parallel:
            x = GatherCopies.apply(x, self.place, "tp")
        return self.head(x)


Weights = dict[str, torch.Tensor]


def whole_weights(experts: bool) -> Weights:
    """The weights of the whole model, drawn from one seed."""
    generator = torch.Generator().manual_seed(7)
    cut = Cut(experts=experts)
    shapes = {name: value.shape for name, value in Transformer(Place(cut), LAYERS).state_dict().items()}
    weights = {}
    for name, shape in shapes.items():
        drawn = torch.randn(shape, generator=generator) * 0.2
        weights[name] = drawn + 1 if "norm" in name and name.endswith("weight") else drawn
    weights["head.weight"] = weights["embedding.word.weight"].clone()
    return weights


def load(network: nn.Module, place: Place, first_layer: int, weights: Weights) -> None:
    """Give each parameter its part of the whole model's."""
    cut = place.cut
    order = _fused_in_order if place.defect != "qkv_order" else _naive
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            whole = weights[_whole_name(name, first_layer, place)]
            if "qkv." in name:
                whole = order(whole, cut.tp, place.at("tp"))
            elif ".mlp.up." in name and not cut.experts:
                whole = place.part(whole, "tp", 0)
            elif (name.endswith(("proj.weight", "down.weight")) and not cut.experts) or name.endswith("proj.weight"):
                whole = place.part(whole, "tp", 1)
            parameter.copy_(whole)


def _fused_in_order(whole: torch.Tensor, parts: int, nth: int) -> torch.Tensor:
    """This process's heads of query, key and value, each."""
    return torch.cat([one.chunk(parts)[nth] for one in whole.chunk(3)])


def _naive(whole: torch.Tensor, parts: int, nth: int) -> torch.Tensor:
    """A part of the rows, whatever they are."""
    return whole.chunk(parts)[nth]


def _whole_name(name: str, first_layer: int, place: Place) -> str:
    parts = name.split(".")
    if parts[0] == "layers":
        parts[1] = str(int(parts[1]) + first_layer)
    if "experts" in parts:
        where = parts.index("experts") + 1
        parts[where] = str(int(parts[where]) + place.at("ep") * EXPERTS // place.cut.ep)
    return ".".join(parts)


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels of a step, of the whole job."""
    generator = torch.Generator().manual_seed(100 + step)
    drawn = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()
