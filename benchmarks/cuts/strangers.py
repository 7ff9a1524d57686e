"""Cuts of the model of `llama.py` that the program was not made for, written by hand as other frameworks do it.

    python -m benchmarks.cuts.strangers FOLDER METHOD [CASE ...]

METHOD is statistics or tensor. A case is a cut of CUTS, or CUT+DEFECT. Runs are collected into FOLDER/lake. Prints a
line per case.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import lakeprobe
import lakeprobe.collect.pytorch.watcher
from benchmarks.cuts import asking, llama
from benchmarks.cuts.llama import HEAD, HEADS, HIDDEN, LENGTH, VOCABULARY, WIDTH
from benchmarks.group_sums import SumBackward, SumForward
from benchmarks.truth import runs


@dataclass(frozen=True)
class Cut:
    """How a job is cut. `keys`: heads of keys in the whole model. `vocabulary`: whether it is cut, too.

    `data`: how many samples each rank has. `optimizer`: whether its state is cut over the ranks.
    `sums`: whether the loss is a sum that is divided by all tokens, as uneven data needs it.
    `fused`: whether query, key and value have one weight.
    """

    tp: int = 1
    cp: int = 1
    keys: int = 2
    vocabulary: bool = False
    data: tuple[int, ...] = ()
    optimizer: bool = False
    sums: bool = False
    fused: bool = False

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return self.tp * self.cp * max(1, len(self.data))


CUTS = {
    "one": Cut(), "one_key": Cut(keys=1), "one_sum": Cut(sums=True),
    "one_fused": Cut(fused=True), "fused_tp2": Cut(tp=2, fused=True),
    "gqa_tp2": Cut(tp=2), "mqa_tp2": Cut(tp=2, keys=1), "gqa_tp4": Cut(tp=4),
    "vocabulary_tp2": Cut(tp=2, vocabulary=True), "vocabulary_tp4": Cut(tp=4, vocabulary=True),
    "zigzag_cp2": Cut(cp=2), "ddp2": Cut(data=(2, 2)), "zero2": Cut(data=(2, 2), optimizer=True),
    "uneven_dp2": Cut(data=(3, 1), sums=True), "uneven_dp2_tp2": Cut(tp=2, data=(3, 1), sums=True),
}  # fmt: skip


def golden_of(case: str) -> str:
    """The whole run of a case."""
    cut = CUTS[case.partition("+")[0]]
    return "one_fused" if cut.fused else "one_key" if cut.keys == 1 else "one_sum" if cut.sums else "one"


@dataclass
class Place:
    """Where a process stands: coordinates and groups."""

    cut: Cut
    tp: int
    cp: int
    dp: int
    groups: dict[str, Any]
    defect: str


def place_of(cut: Cut, rank: int, defect: str) -> Place:
    """Where the process `rank` stands: tensor parallel ranks are neighbours, then come parts of the sequence."""
    tp, cp, dp = rank % cut.tp, rank // cut.tp % cut.cp, rank // (cut.tp * cut.cp)
    groups: dict[str, Any] = {}
    mesh = torch.arange(cut.ranks).reshape(-1, cut.cp, cut.tp)
    same_keys = max(1, cut.tp // cut.keys)
    lines = [("dp", mesh.movedim(0, -1).reshape(-1, mesh.shape[0])), ("cp", mesh.movedim(1, -1).reshape(-1, cut.cp)),
             ("tp", mesh.reshape(-1, cut.tp)), ("keys", mesh.reshape(-1, same_keys))]  # fmt: skip
    for name, found in lines:
        for ranks in found.tolist():
            group = dist.new_group(ranks) if len(ranks) > 1 else None
            if rank in ranks:
                groups[name] = group
    return Place(cut, tp, cp, dp, groups, defect)


class Columns(nn.Module):
    """A product whose outputs are cut."""

    def __init__(self, inputs: int, outputs: int, place: Place) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.place, self.skips = place, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.place.cut.tp > 1 and not self.skips:
            x = SumBackward.apply(x, self.place.groups["tp"])
        return functional.linear(x, self.weight)


class Rows(nn.Module):
    """A product whose inputs are cut."""

    def __init__(self, inputs: int, outputs: int, place: Place) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.place, self.skips = place, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.linear(x, self.weight)
        return SumForward.apply(x, self.place.groups["tp"]) if self.place.cut.tp > 1 and not self.skips else x


class Words(nn.Module):
    """An embedding of which each process has some of the words, as in Megatron-LM."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.count = VOCABULARY // place.cut.tp if place.cut.vocabulary else VOCABULARY
        self.weight = nn.Parameter(torch.empty(self.count, WIDTH))
        self.first = place.tp * self.count
        self.shift = 0

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if not self.place.cut.vocabulary:
            return functional.embedding(tokens, self.weight)
        first = self.first + self.shift
        mask = (tokens < first) | (tokens >= first + self.count)
        masked = tokens.clone() - first
        masked[mask] = 0
        x = functional.embedding(masked, self.weight)
        x = x.masked_fill(mask.unsqueeze(-1), 0.0)
        return SumForward.apply(x, self.place.groups["tp"])


class Norm(nn.Module):
    """RMSNorm, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.empty(WIDTH)), 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class GatherSequence(torch.autograd.Function):
    """Puts what the ranks have of a sequence together: halves of rank 0, 1, then back (zig-zag)."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, place: Place) -> torch.Tensor:
        context.place = place
        parts = [torch.empty_like(x) for _ in range(place.cut.cp)]
        dist.all_gather(parts, x.contiguous(), group=place.groups["cp"])
        halves = [part.chunk(2, 2) for part in parts]
        return torch.cat([half[0] for half in halves] + [half[1] for half in reversed(halves)], 2)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = gradient.clone()
        dist.all_reduce(total, group=context.place.groups["cp"])
        return torch.cat([total.chunk(2 * context.place.cut.cp, 2)[n] for n in halves_of(context.place)], 2), None


def halves_of(place: Place) -> tuple[int, int]:
    """Which of the pieces of the sequence a rank has."""
    return place.cp, 2 * place.cut.cp - 1 - place.cp


def positions(place: Place) -> torch.Tensor:
    """The positions in the whole sequence of what this process has."""
    whole = torch.arange(LENGTH)
    if place.cut.cp == 1 or (place.defect == "wrong_positions" and place.cp == 1):
        return whole[: LENGTH // place.cut.cp]
    return torch.cat([whole.chunk(2 * place.cut.cp)[n] for n in halves_of(place)])


def turned(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Queries or keys, turned by their positions."""
    angles = places[:, None] * 100.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Attention(nn.Module):
    """Some of the heads; a head of keys that several processes need is on each of them."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        cut = place.cut
        self.place, self.keys = place, max(1, cut.keys // cut.tp)
        self.sizes = [HEADS * HEAD // cut.tp, self.keys * HEAD, self.keys * HEAD]
        if cut.fused:
            self.qkv_proj = Columns(WIDTH, sum(self.sizes), place)
        else:
            self.q_proj, self.k_proj, self.v_proj = (Columns(WIDTH, size, place) for size in self.sizes)
        self.o_proj = Rows(HEADS * HEAD // cut.tp, WIDTH, place)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length = x.shape[:2]
        if self.place.cut.fused:
            projected = self.qkv_proj(x).split(self.sizes, -1)
        else:
            projected = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        query, key, value = (made.reshape(batch, length, -1, HEAD).transpose(1, 2) for made in projected)
        places = positions(self.place)
        query, key = turned(query, places), turned(key, places)
        every = torch.arange(LENGTH)
        if self.place.cut.cp > 1:
            key, value = GatherSequence.apply(key, self.place), GatherSequence.apply(value, self.place)
        each = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(each, 1), value.repeat_interleave(each, 1)
        scores = query @ key.transpose(-2, -1) / HEAD**0.5
        scores = scores.masked_fill(every[None, :] > places[:, None], float("-inf"))
        mixed = torch.softmax(scores, -1) @ value
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    """SwiGLU, gate and up in one weight."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.gate_up_proj = Columns(WIDTH, 2 * HIDDEN // place.cut.tp, place)
        self.down_proj = Rows(HIDDEN // place.cut.tp, WIDTH, place)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        return self.down_proj(functional.silu(gate) * up)


class Layer(nn.Module):
    """Attention and MLP, each around a residual."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
        self.self_attn, self.mlp = Attention(place), MLP(place)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class GatherLast(torch.autograd.Function):
    """Puts parts of the last axis together; of the gradient each takes its part."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, place: Place) -> torch.Tensor:
        context.place = place
        parts = [torch.empty_like(x) for _ in range(place.cut.tp)]
        dist.all_gather(parts, x.contiguous(), group=place.groups["tp"])
        return torch.cat(parts, -1)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient.chunk(context.place.cut.tp, -1)[context.place.tp].contiguous(), None


class Head(nn.Module):
    """What each token becomes: a number per word."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.weight = nn.Parameter(torch.empty(VOCABULARY // (place.cut.tp if place.cut.vocabulary else 1), WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.place.cut.vocabulary:
            return functional.linear(x, self.weight)
        x = functional.linear(SumBackward.apply(x, self.place.groups["tp"]), self.weight)
        return GatherLast.apply(x, self.place)


class Llama(nn.Module):
    """The part of the model that this process has."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.embed_tokens = Words(place)
        self.layers = nn.ModuleList(Layer(place) for _ in range(2))
        self.norm, self.lm_head = Norm(), Head(place)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def load(model: Llama, place: Place) -> None:
    """Give each parameter its part of the whole model's, which are drawn from one seed."""
    cut = place.cut
    alone = Place(Cut(keys=cut.keys, fused=cut.fused), 0, 0, 0, {}, "")
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for (name, whole), parameter in zip(Llama(alone).named_parameters(), model.parameters(), strict=True):
            drawn = torch.randn(whole.shape, generator=generator) * 0.2 + ("norm" in name)
            parameter.copy_(_part(name, drawn, place))


def _part(name: str, whole: torch.Tensor, place: Place) -> torch.Tensor:
    cut = place.cut
    if "gate_up" in name:
        if place.defect == "gate_order" and "layers.1" in name:
            return whole.chunk(cut.tp)[place.tp]
        return torch.cat([half.chunk(cut.tp)[place.tp] for half in whole.chunk(2)])
    if "qkv_proj" in name:
        if place.defect == "fused_order" and "layers.1" in name:
            return whole.chunk(cut.tp)[place.tp]
        return torch.cat([part.chunk(cut.tp)[place.tp] for part in whole.split([24, 12, 12])])
    if "q_proj" in name:
        return whole.chunk(cut.tp)[place.tp]
    if "k_proj" in name or "v_proj" in name:
        parts = min(cut.tp, cut.keys)
        nth = place.tp * parts // cut.tp
        if place.defect == "wrong_keys" and "layers.1" in name and "v_proj" in name:
            nth = place.tp % parts
        return whole.chunk(parts)[nth]
    if "o_proj" in name or "down_proj" in name:
        return whole.chunk(cut.tp, 1)[place.tp]
    if cut.vocabulary and ("embed" in name or "head" in name):
        return whole.chunk(cut.tp)[place.tp]
    return whole


def _set(path: str, attribute: str, value: object, at: Callable[[Place], bool] = lambda place: True) -> Any:
    def change(model: Llama, place: Place) -> None:
        if at(place):
            setattr(model.get_submodule(path), attribute, value)

    return change


DEFECTS: dict[str, Any] = {
    "no_sum": _set("layers.1.mlp.down_proj", "skips", True),
    "no_backward_sum": _set("layers.1.self_attn.q_proj", "skips", True),
    "norm_eps": _set("layers.1.input_layernorm", "eps", 1e-2, lambda place: place.tp == 1 or place.dp == 1),
    "wrong_words": _set("embed_tokens", "shift", 1, lambda place: place.tp == 1),
    "gate_order": None, "wrong_keys": None, "wrong_positions": None, "keys_not_reduced": None, "fused_order": None,
}  # fmt: skip
"""What `place.defect` does is None here."""

CAUSES = {
    "no_sum": r"layers\.1\.mlp|^Tensor\.__add__\.\d+\.forward\nModule\.layers\.1\.Layer",
    "no_backward_sum": r"layers\.1\.self_attn", "norm_eps": r"layers\.1\.input_layernorm",
    "wrong_words": "embed_tokens", "gate_order": r"layers\.1\.mlp", "wrong_keys": r"layers\.1\.self_attn",
    "wrong_positions": r"layers\.0\.self_attn", "fused_order": r"layers\.1\.self_attn",
    "keys_not_reduced": "self_attn|optimizer",
}  # fmt: skip
"""The module that has each defect, or what takes a sum that is missing: the residual, and the optimizer."""

CASES = (
    *(name for name in CUTS if not name.startswith("one")),
    "fused_tp2+fused_order", "gqa_tp2+no_sum", "gqa_tp2+gate_order", "gqa_tp2+no_backward_sum", "gqa_tp4+gate_order",
    "gqa_tp4+wrong_keys", "gqa_tp4+keys_not_reduced", "gqa_tp4+norm_eps", "mqa_tp2+keys_not_reduced",
    "vocabulary_tp2+wrong_words", "zigzag_cp2+wrong_positions", "uneven_dp2+norm_eps", "ddp2+norm_eps",
)  # fmt: skip


def train(case: str, rank: int, lake: Path, method: str) -> None:
    """Train one case in this process, as one of its ranks."""
    name, _, defect = case.partition("+")
    cut = CUTS[name]
    place = place_of(cut, rank, defect)
    model = Llama(place)
    load(model, place)
    if DEFECTS.get(defect):
        DEFECTS[defect](model, place)
    tokens, labels = llama.batch()
    if cut.data:
        tokens, labels = (one.split(cut.data)[place.dp] for one in (tokens, labels))
    if cut.cp > 1:
        own = torch.cat([torch.arange(LENGTH).chunk(2 * cut.cp)[n] for n in halves_of(place)])
        tokens, labels = tokens[:, own].contiguous(), labels[:, own].contiguous()
    is_even = len(set(cut.data)) == 1
    network: nn.Module = DistributedDataParallel(model) if is_even else model
    optimizer: torch.optim.Optimizer
    if cut.optimizer:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3, foreach=False)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with lakeprobe.collect(network, run=case, lake=lake, level="mix", task=method, replace=True) as collector:
        logits = network(tokens).flatten(0, 1)
        if cut.sums:
            loss = functional.cross_entropy(logits, labels.flatten(), reduction="sum") / (llama.BATCH * LENGTH)
        else:
            loss = functional.cross_entropy(logits, labels.flatten())
        loss.backward()
        _reduce(model, place, is_even)
        optimizer.step()
        collector.step()


def _reduce(model: Llama, place: Place, is_even: bool) -> None:
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None
        is_key = "k_proj" in name or "v_proj" in name
        if is_key and place.groups.get("keys") is not None and place.defect != "keys_not_reduced":
            dist.all_reduce(gradient, group=place.groups["keys"])
        if place.cut.cp > 1:
            dist.all_reduce(gradient, group=place.groups["cp"])
            gradient /= place.cut.cp
        if place.cut.data and not is_even:
            dist.all_reduce(gradient, group=place.groups["dp"])


def make(folder: Path, method: str, cases: Sequence[str]) -> bool:
    """Train each case in as many processes as its cut has; whether all went well."""
    folder.mkdir(parents=True, exist_ok=True)
    made = True
    for size in sorted({CUTS[case.partition("+")[0]].ranks for case in cases}):
        own = [case for case in cases if CUTS[case.partition("+")[0]].ranks == size]
        meeting = folder / f"strangers{size}.meeting"
        meeting.unlink(missing_ok=True)
        work = partial(_work, folder, method, own, size, meeting)
        processes = [runs.fork(folder / f"strangers{size}.{rank}.log", partial(work, rank)) for rank in range(size)]
        made = max([os.waitpid(process, 0)[1] for process in processes]) == 0 and made
    return made


def _work(folder: Path, method: str, cases: Sequence[str], size: int, meeting: Path, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(meeting), size), rank=rank, world_size=size)
    for case in cases:
        train(case, rank, folder / "lake", method)
    dist.barrier()
    dist.destroy_process_group()


def main(arguments: Sequence[str]) -> int:
    """Make the runs, and say what was found; 1 if a run failed."""
    folder, method, *wanted = arguments
    asked = wanted or CASES
    absent = asking.missing(Path(folder), [*map(golden_of, asked), *asked])
    if absent and not make(Path(folder), method, absent):
        return 1
    asking.ask(Path(folder), asked, golden_of, lambda _: CAUSES)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
