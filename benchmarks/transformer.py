"""The transformer that the benchmark of collecting trains: 4 layers of 256, heads of 32, 512 tokens to choose from."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH = 256, 8, 4, 512, 128


class Layer(nn.Module):
    """Attention in single steps, so that each of them is recorded, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_before = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.mixed = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm_between = nn.LayerNorm(WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(batch, length, WIDTH) to the same; the mask is True where nothing is looked at."""
        entering = self.norm_before(x)
        query, key, value = (
            part(entering).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = (query @ key.transpose(-2, -1)) / (WIDTH // HEADS) ** 0.5
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.mixed((weights @ value).transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.norm_between(x))))


class Transformer(nn.Module):
    """Says which token comes next."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (batch, length) to logits (batch, length, VOCABULARY)."""
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places.weight[:length]
        mask = tokens.new_ones(length, length).triu(1).bool()
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))
