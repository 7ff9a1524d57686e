"""A student of a teacher: its root module owns parameters, and its attention adds to memory of any content.

What a user changes: a temperature, a position, the first token, the scale of the scores, the weight of the teacher, how
the divergence is summed, an eps, gradients into the teacher.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, within
from benchmarks.truth.noise import ATEN, scaled
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Batch, Training

WIDTH, HEADS, LENGTH, BATCH, CLASSES = 32, 4, 10, 8, 10


class Attention(nn.Module):
    """Scores by baddbmm with beta=0, as Megatron and GPT-2 compute them: what they are added to was never written."""

    scale = (WIDTH // HEADS) ** -0.5

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part(x).view(batch, length, HEADS, -1).transpose(1, 2).reshape(batch * HEADS, length, -1)
            for part in (self.queries, self.keys, self.values)
        )
        memory = q.new_empty(batch * HEADS, length, length)
        scores = torch.baddbmm(memory, q, k.transpose(1, 2), beta=0, alpha=self.scale)
        mixed = torch.bmm(functional.softmax(scores, dim=-1), v)
        return self.out(mixed.view(batch, HEADS, length, -1).transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    """Attention and two products, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Distilled(nn.Module):
    """The loss of the student: what is true, and what the teacher says, which it nearly says itself."""

    share, reduction, stops = 0.5, "batchmean", True

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.5)
        self.positions = nn.Parameter(torch.randn(1, LENGTH + 1, WIDTH) * 0.1)
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, CLASSES)
        self.teacher = nn.Linear(WIDTH, CLASSES)
        with torch.no_grad():
            self.teacher.weight.copy_(self.head.weight + 0.02 * torch.randn(CLASSES, WIDTH))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        first = self.blocks(x)[:, 0]
        said = self.head(first) / self.temperature.exp()
        with torch.set_grad_enabled(not self.stops):
            told = functional.softmax(self.teacher(first.detach() if self.stops else first), dim=-1)
        apart = functional.kl_div(functional.log_softmax(said, dim=-1), told, reduction=self.reduction)
        return functional.cross_entropy(said, labels) + self.share * apart


def build() -> Training:
    generator = torch.Generator().manual_seed(71)
    batches: list[Batch] = [
        {
            "x": torch.randn(BATCH, LENGTH, WIDTH, generator=generator),
            "labels": torch.randint(0, CLASSES, (BATCH,), generator=generator),
        }
        for _ in range(2)
    ]
    return Training(Distilled(), batches)


DEFECTS = (
    defects.changed_weight("temperature", "", "", lambda _: torch.tensor(0.6), "temperature", shows=call("exp")),
    defects.changed_weight("position", "", "", defects.one_element, "positions", shows=call("__add__|add")),
    defects.changed_weight("token", "", "", lambda token: token * 1.01, "token", shows=call("__add__|add|cat|expand")),
    defects.setting("scale", "blocks.1.attention", "scale", 0.4, "baddbmm"),
    defects.of_network("share", "argument", call("__r?mul__|mul"), share=0.25),
    defects.of_network("reduction", "argument", call("kl_div"), reduction="sum"),
    defects.of_network(
        "into_teacher", "wiring", (*call("linear|softmax|kl_div"), *within("teacher", r"\w+")), stops=False
    ),
    defects.setting("eps", "blocks.1.norm2", "eps", 1e-3, "layer_norm"),
    defects.faulty_kernel("scores", call("baddbmm"), ATEN.baddbmm, 1, scaled(1.002)),
)

MODEL = Model(build, DEFECTS)
