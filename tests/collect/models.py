"""Small models and one training run of each, the same whoever watches. Run as a program, msprobe watches.

python models.py RUNS.json, where each run is [FOLDER, NAME, LEVEL, TASK, SUMMARY_MODE, KEY=JSON …]
"""

import sys
from collections.abc import Callable
from typing import Any

import msprobe_runs
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

        scores = split(self.query(x)) @ split(self.key(x)).transpose(-2, -1)
        weights = functional.softmax((scores / 2.0).masked_fill(mask, float("-inf")), dim=-1)
        return self.out((weights @ split(self.value(x))).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.0))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Two blocks, each run again in backward where `reentrant` says how."""

    def __init__(self, reentrant: bool | None = None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.embed = nn.Embedding(32, 16)
        self.blocks = nn.ModuleList(Block(16, 2) for _ in range(2))
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 32, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        mask = torch.triu(torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool), 1)
        for block in self.blocks:
            again = self.reentrant is not None
            x = checkpoint(block, x, mask, use_reentrant=self.reentrant) if again else block(x, mask)
        return self.head(self.norm(x))


class Pieces(nn.Module):
    """Takes and gives nested containers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, pair: tuple[Tensor, list[Tensor]], *, scale: float, extra: dict[str, Any]) -> dict[str, Any]:
        first, rest = pair
        y = self.linear(first) * scale + rest[0] + extra["shift"]
        return {"y": y, "parts": [y[0], (y.detach().sum(), None)], "kind": extra["kind"]}


class Odd(nn.Module):
    """What plain models do not do: writing in place, a part called twice, tied weights, a part without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.twice = nn.Linear(16, 16)
        self.norm = nn.BatchNorm1d(16)
        self.act = nn.ReLU()
        self.pieces = Pieces()
        self.frozen = nn.Linear(16, 16).requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(16, 32, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.twice(self.twice(self.embed(tokens)))
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        y = 1 - self.act(x * 2)
        y = y + torch.arange(16, dtype=torch.float32, device="cpu") / 7 + 2**-3
        y[..., 0] = 0.5
        made = self.pieces((y, [x]), scale=0.5, extra={"shift": y.half(), "kind": slice(1, None)})
        with torch.no_grad():
            self.frozen(made["y"])
        values, order = torch.sort(made["y"], dim=-1)
        return self.head(values.exp_().log1p() + order.sum() * 0 + self.frozen(values))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "transformer": Transformer,
    "reentrant": lambda: Transformer(reentrant=True),
    "not_reentrant": lambda: Transformer(reentrant=False),
    "bfloat16": lambda: Transformer().to(torch.bfloat16),
    "odd": Odd,
}


def train(name: str, watch: Callable[[nn.Module], Any], steps: int = 2, batches: int = 1) -> list[float]:
    """Trains a model; `watch` gives what has start, stop and step, as a capture has. Gives the losses."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = MODELS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watcher = watch(model)
    losses = []
    for _ in range(steps):
        tokens = [torch.randint(0, 32, (2, 9)) for _ in range(batches)]
        watcher.start(model)
        for batch in tokens:
            logits = model(batch[:, :-1])
            # What hands on its argument has no node of its own: the order of its backward is not msprobe's.
            logits = logits if logits.dtype is torch.float32 else logits.float()
            loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        watcher.stop()
        watcher.step()
    return losses


def main(file: str) -> None:
    """Makes the runs with msprobe watching."""
    from msprobe.pytorch import PrecisionDebugger

    msprobe_runs.make(file, PrecisionDebugger, train)


if __name__ == "__main__":
    main(sys.argv[1])
