"""A pipeline of two processes with two chunks each, one forward and one backward in turn; layers keep their numbers."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

HID, LEN, MB, MICROS, TOK = 16, 6, 2, 4, 36


class ResBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HID)
        self.mix, self.up, self.down = nn.Linear(LEN, LEN), nn.Linear(HID, 2 * HID), nn.Linear(2 * HID, HID)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.mix(y.mT).mT
        return x + self.down(torch.tanh(self.up(y)))


class Chunk(nn.Module):
    """Layers first to last of four, with the embedding before the first and the head behind the last."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOK, HID) if first == 0 else None
        self.blocks = nn.ModuleDict({str(n): ResBlock() for n in range(first, last)})
        self.head = nn.Linear(HID, TOK, bias=False) if last == 4 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None else self.head(x)


def load(model: nn.Module) -> None:
    with torch.no_grad():
        for name, p in model.named_parameters():
            generator = torch.Generator().manual_seed(sum(ord(c) * (n + 1) for n, c in enumerate(name)))
            p.copy_(torch.randn(p.shape, generator=generator) * 0.3)


class Schedule:
    def __init__(self, chunks: list[Chunk], ids: torch.Tensor, defect: str) -> None:
        self.rank, self.pp = dist.get_rank(), dist.get_world_size()
        self.chunks, self.micros, self.defect = chunks, ids.chunk(MICROS), defect
        self.stages = self.pp * len(chunks)
        self.inputs: dict[tuple[int, int], torch.Tensor] = {}
        self.outputs: dict[tuple[int, int], torch.Tensor] = {}
        self.works: list[Any] = []

    def _send(self, tensor: torch.Tensor, stage: int, micro: int, back: bool) -> None:
        tag = (stage * MICROS + micro) * 2 + back
        self.works.append((tensor, dist.isend(tensor, stage % self.pp, tag=tag)))

    def _recv(self, stage: int, source: int, micro: int, back: bool) -> torch.Tensor:
        buffer = torch.empty(MB, LEN, HID)
        dist.recv(buffer, source % self.pp, tag=(stage * MICROS + micro) * 2 + back)
        return buffer

    def forward(self, chunk: int, micro: int) -> None:
        stage = chunk * self.pp + self.rank
        x = self.micros[micro][:, :-1] if stage == 0 else self._recv(stage, stage - 1, micro, False).requires_grad_()
        y = self.chunks[chunk](x)
        if stage == self.stages - 1:
            y = F.cross_entropy(y.flatten(0, 1), self.micros[micro][:, 1:].flatten())
            y = y if self.defect == "not_divided" else y / MICROS
        else:
            self._send(y.detach(), stage + 1, micro, False)
        self.inputs[chunk, micro], self.outputs[chunk, micro] = x, y

    def backward(self, chunk: int, micro: int) -> None:
        stage = chunk * self.pp + self.rank
        x, y = self.inputs.pop((chunk, micro)), self.outputs.pop((chunk, micro))
        grad = None if stage == self.stages - 1 else self._recv(stage, stage + 1, micro, True)
        if self.defect == "stale" and stage == 1 and micro == 2 and grad is not None:
            grad = grad * 0.5
        y.backward(grad)
        if stage:
            self._send(x.grad.clone(), stage - 1, micro, True)

    def run(self) -> None:
        v = len(self.chunks)
        order = [
            (chunk, micro)
            for first in range(0, MICROS, self.pp)
            for chunk in range(v)
            for micro in range(first, first + self.pp)
        ]
        back = [(v - 1 - chunk, micro) for chunk, micro in order]
        warm = min(len(order), (self.pp - self.rank - 1) * 2 + (v - 1) * self.pp)
        for step in order[:warm]:
            self.forward(*step)
        for nth, step in enumerate(order[warm:]):
            self.forward(*step)
            self.backward(*back[nth])
        for step in back[len(order) - warm :]:
            self.backward(*step)
        for _, work in self.works:
            work.wait()


def train(watch: Any, defect: str) -> None:
    n, r = dist.get_world_size(), dist.get_rank()
    ids = torch.randint(0, TOK, (MB * MICROS, LEN + 1), generator=torch.Generator().manual_seed(4))
    chunks = [Chunk(0, 4)] if n == 1 else [Chunk(r, r + 1), Chunk(r + 2, r + 3)]
    for chunk in chunks:
        load(chunk)
    if defect == "wrong_layer" and r == 1:
        chunks[0].blocks["1"].load_state_dict(chunks[1].blocks["3"].state_dict())
    watched: nn.Module = chunks[0] if n == 1 else nn.ModuleList(chunks)
    optimizer = torch.optim.SGD(watched.parameters(), lr=1e-2, momentum=0.9, foreach=False)
    with watch(watched) as collector:
        if n == 1:
            logits = chunks[0](ids[:, :-1])
            F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        else:
            Schedule(chunks, ids, defect).run()
        optimizer.step()
        collector.step()


DEFECTS = {
    "not_divided": r"cross_entropy\.0\.backward", "wrong_layer": r"blocks\.1\b", "stale": r"blocks\.[12]\b.*backward",
}  # fmt: skip
