"""Trains a tiny transformer for two steps and collects them: python demo/train.py RUN [--lake LAKE] [--defect].

With --defect the second norm of one block is computed with an epsilon of 1e-3. `make demo` collects both, and compares.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

import lakeprobe

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH, STEPS = 64, 4, 4, 97, 32, 2


class Block(nn.Module):
    """Attention and an MLP, each behind a norm and beside what it adds to."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, WIDTH) to the same."""
        parts = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Says which token comes next."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (batch, length) to the logits of the next ones (batch, length, VOCABULARY)."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main() -> None:
    """Train, and collect."""
    parser = argparse.ArgumentParser(description="Train a tiny transformer, and collect what it does.")
    parser.add_argument("run", help="what the run is called in the lake")
    parser.add_argument("--lake", default="lake", help="the folder of the lake")
    parser.add_argument("--defect", action="store_true", help="one LayerNorm has an epsilon of 1e-3")
    asked = parser.parse_args()

    torch.manual_seed(0)
    model = Transformer()
    if asked.defect:
        model.blocks[2].norm2.eps = 1e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with lakeprobe.collect(model, run=asked.run, lake=asked.lake, level="mix") as collector:
        for _ in range(STEPS):
            tokens = torch.randint(VOCABULARY, (4, LENGTH + 1))
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            collector.step()
            print(f"{asked.run}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
