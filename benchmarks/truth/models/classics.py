"""Small networks of torch.nn as textbooks and example folders have them: planted at places that are drawn by chance.

Each returns the loss of a batch. Their convolutions, recurrences, losses and normalisations are those of torch.nn.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from benchmarks.truth.models import batches, strangers
from benchmarks.truth.models.batches import CLASSES
from benchmarks.truth.models.strangers import VOCABULARY, Build
from benchmarks.truth.planted import Model

ROWS = 6


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return strangers.planted_by_chance(MEMBERS[name], name)


class Mixer(nn.Module):
    """Patches of an image, mixed over places and over channels in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, stride=4)
        self.blocks = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(32), _mlp(64, 48), nn.LayerNorm(32), _mlp(32, 64)]) for _ in range(3)
        )
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.patches(inputs).flatten(2).transpose(1, 2)
        for first, places, second, channels in self.blocks:
            hidden = hidden + places(first(hidden).transpose(1, 2)).transpose(1, 2)
            hidden = hidden + channels(second(hidden))
        return functional.cross_entropy(self.head(self.norm(hidden).mean(1)), labels, label_smoothing=0.1)


def _mlp(width: int, inner: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Dropout(0.1), nn.Linear(inner, width))


class Sharper(nn.Module):
    """Makes an image four times as large, by channels that become pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 24, 5, padding=2), nn.Tanh(), nn.Conv2d(24, 16, 3, padding=1), nn.Tanh(),
            nn.Conv2d(16, 3 * 16, 3, padding=1), nn.PixelShuffle(4),
        )  # fmt: skip

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(self.layers(inputs), labels)


class Painter(nn.Module):
    """An image in the style of another: instance normalisations, residuals, and what convolutions make of both."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.ReflectionPad2d(4), nn.Conv2d(3, 8, 9), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
            nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.ReLU(),
        )  # fmt: skip
        self.middle = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True)) for _ in range(3)
        )
        self.up = nn.Sequential(
            nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
            nn.Conv2d(8, 3, 9, padding=4),
        )  # fmt: skip
        self.judge = nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.down(inputs)
        for layer in self.middle:
            hidden = hidden + torch.relu(layer(hidden))
        painted = torch.sigmoid(self.up(hidden))
        seen, wanted = self.judge(painted), self.judge(labels)
        style = functional.mse_loss(_correlations(seen), _correlations(wanted))
        return functional.l1_loss(painted, inputs) + 10 * style


def _correlations(maps: torch.Tensor) -> torch.Tensor:
    flat = maps.flatten(2)
    return torch.bmm(flat, flat.transpose(1, 2)) / flat.shape[-1]


class Twins(nn.Module):
    """Whether two images show the same: one network sees both."""

    def __init__(self) -> None:
        super().__init__()
        self.sees = nn.Sequential(
            nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.LeakyReLU(0.1), nn.AvgPool2d(2), nn.Conv2d(12, 24, 3),
            nn.BatchNorm2d(24), nn.LeakyReLU(0.1), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(96, 32), nn.ELU(), nn.Linear(32, 1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        first, second = self.sees(inputs), self.sees(inputs.flip(0))
        return functional.binary_cross_entropy_with_logits(self.head((first - second).abs()).squeeze(1), labels)


class Paths(nn.Module):
    """Attention over the edges of a graph, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.mixes = nn.ModuleList([nn.Linear(10, 24, bias=False), nn.Linear(24, 24, bias=False)])
        self.sources = nn.ParameterList(torch.randn(24) * 0.2 for _ in self.mixes)
        self.targets = nn.ParameterList(torch.randn(24) * 0.2 for _ in self.mixes)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(24, CLASSES)
        edges = torch.rand(20, 20, generator=torch.Generator().manual_seed(5)) < 0.25
        self.register_buffer("edges", edges | torch.eye(20, dtype=torch.bool))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = inputs
        for mix, source, target in zip(self.mixes, self.sources, self.targets, strict=True):
            mixed = mix(self.dropout(hidden))
            scores = functional.leaky_relu((mixed @ source).unsqueeze(2) + (mixed @ target).unsqueeze(1), 0.2)
            weights = scores.masked_fill(~self.edges, float("-inf")).softmax(-1)
            hidden = functional.elu(self.dropout(weights) @ mixed)
        return functional.nll_loss(self.head(hidden).log_softmax(-1).flatten(0, 1), labels.flatten())


class Echo(nn.Module):
    """Dilated convolutions over time, whose weights are a direction and a length."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            parametrizations.weight_norm(nn.Conv1d(width, 16, 3, dilation=2**nth))
            for nth, width in enumerate((2, 16, 16))
        )
        self.narrow = nn.Conv1d(2, 16, 1)
        self.head = nn.Linear(16, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden, kept = inputs, self.narrow(inputs)
        for nth, layer in enumerate(self.layers):
            hidden = functional.relu(layer(functional.pad(hidden, (2 * 2**nth, 0))))
            kept = kept + hidden
        return functional.huber_loss(self.head(kept[..., -1]).squeeze(1), labels, delta=0.5)


class Blurred(nn.Module):
    """An autoencoder that takes noise away, with transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, 12, 4, 2, 1),
            nn.GroupNorm(3, 12),
            nn.SiLU(),
            nn.Conv2d(12, 24, 4, 2, 1),
            nn.GroupNorm(6, 24),
            nn.SiLU(),
        )
        self.up = nn.Sequential(
            nn.ConvTranspose2d(24, 12, 4, 2, 1),
            nn.GroupNorm(3, 12),
            nn.SiLU(),
            nn.ConvTranspose2d(12, 3, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy(self.up(self.down(inputs)), labels.sigmoid())


class Cloud(nn.Module):
    """The class of a set of points: the largest of each feature over all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            nn.Conv1d(3, 24, 1), nn.BatchNorm1d(24), nn.ReLU(), nn.Conv1d(24, 48, 1), nn.BatchNorm1d(48)
        )
        self.turn = nn.Linear(48, 9)
        self.head = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, CLASSES))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        turn = self.turn(self.points(inputs).amax(-1)).view(-1, 3, 3) * 0.1 + torch.eye(3, dtype=inputs.dtype)
        features = self.points(torch.bmm(turn, inputs)).amax(-1)
        apart = torch.bmm(turn, turn.transpose(1, 2)) - torch.eye(3, dtype=inputs.dtype)
        return functional.cross_entropy(self.head(features), labels) + 1e-2 * apart.norm(dim=(1, 2)).mean()


class Letters(nn.Module):
    """Words read by their letters: convolutions of several widths, the largest over time, a gate, and a recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(VOCABULARY, 12, padding_idx=0)
        self.widths = nn.ModuleList(nn.Conv1d(12, 8, width, padding=width // 2) for width in (1, 3, 5))
        self.gate, self.other = nn.Linear(24, 24), nn.Linear(24, 24)
        self.words = nn.LSTM(24, 32, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        rows, words, letters = inputs.shape
        embedded = self.letters(inputs.view(-1, letters)).transpose(1, 2)
        seen = torch.cat([torch.tanh(layer(embedded)).max(-1).values for layer in self.widths], -1)
        gate = torch.sigmoid(self.gate(seen))
        seen = gate * torch.relu(self.other(seen)) + (1 - gate) * seen
        states, _ = self.words(seen.view(rows, words, -1))
        return functional.cross_entropy(self.head(states).flatten(0, 1), labels.flatten())


class Asking(nn.Module):
    """One sequence from another: a decoder that asks at each time which states of the encoder matter."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 16)
        self.encoder = nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(16 + 48, 48)
        self.query, self.key, self.score = nn.Linear(48, 24), nn.Linear(48, 24), nn.Linear(24, 1, bias=False)
        self.head = nn.Linear(96, VOCABULARY)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        states, last = self.encoder(self.tokens(inputs))
        hidden, keys, logits = torch.cat([last[0], last[1]], -1), self.key(states), []
        for time in range(labels.shape[1]):
            weights = self.score(torch.tanh(self.query(hidden).unsqueeze(1) + keys)).softmax(1)
            context = (weights * states).sum(1)
            given = self.tokens(labels[:, time - 1] if time else torch.zeros_like(labels[:, 0]))
            hidden = self.cell(torch.cat([given, context], -1), hidden)
            logits.append(self.head(torch.cat([hidden, context], -1)))
        return functional.cross_entropy(torch.stack(logits, 1).flatten(0, 1), labels.flatten(), ignore_index=1)


class Critic(nn.Module):
    """Tells images from noise by a hinge; its weights have a norm of one."""

    def __init__(self) -> None:
        super().__init__()
        bound = parametrizations.spectral_norm
        self.layers = nn.Sequential(
            bound(nn.Conv2d(3, 16, 4, 2, 1)), nn.LeakyReLU(0.2), bound(nn.Conv2d(16, 32, 4, 2, 1)), nn.LeakyReLU(0.2),
            nn.Flatten(), bound(nn.Linear(32 * 16, 1)),
        )  # fmt: skip

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.relu(1 - self.layers(inputs)).mean() + functional.relu(1 + self.layers(labels)).mean()


class Pairs(nn.Module):
    """Clicks, by features alone, all pairs of them, and a deep network."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = nn.EmbeddingBag(VOCABULARY, 1, mode="sum")
        self.features = nn.Embedding(VOCABULARY, 8)
        self.deep = nn.Sequential(
            nn.Linear(48, 32),
            nn.BatchNorm1d(32),
            nn.PReLU(),
            nn.Linear(32, 16),
            nn.BatchNorm1d(16),
            nn.PReLU(),
            nn.Linear(16, 1),
        )

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        features = self.features(inputs)
        pairs = 0.5 * (features.sum(1).pow(2) - features.pow(2).sum(1)).sum(1, keepdim=True)
        logits = (self.alone(inputs) + pairs + self.deep(features.flatten(1))).squeeze(1)
        return functional.binary_cross_entropy_with_logits(
            logits, labels, pos_weight=torch.tensor(2.0, dtype=logits.dtype)
        )


class Capsules(nn.Module):
    """Parts vote for wholes, and agree on them in three rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Conv2d(3, 32, 5, stride=4)
        self.votes = nn.Parameter(torch.randn(CLASSES, 196, 8, 12) * 0.1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        parts = _squashed(self.parts(inputs).view(inputs.shape[0], 8, -1).transpose(1, 2))
        votes = torch.einsum("bpi,cpio->bcpo", parts, self.votes)
        agreed = torch.zeros(votes.shape[:3], dtype=votes.dtype)
        for _ in range(3):
            wholes = _squashed((agreed.softmax(1).unsqueeze(-1) * votes).sum(2))
            agreed = agreed + (votes * wholes.unsqueeze(2)).sum(-1)
        lengths = wholes.norm(dim=-1)
        wanted = functional.one_hot(labels, CLASSES).to(lengths.dtype)
        margin = wanted * functional.relu(0.9 - lengths) ** 2 + 0.5 * (1 - wanted) * functional.relu(lengths - 0.1) ** 2
        return margin.sum(1).mean()


def _squashed(vectors: torch.Tensor) -> torch.Tensor:
    square = (vectors**2).sum(-1, keepdim=True)
    return square / (1 + square) * vectors / (square + 1e-8).sqrt()


class Faces(nn.Module):
    """Whose face it is: the angle to a direction for each person, with a margin."""

    def __init__(self) -> None:
        super().__init__()
        self.sees = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2),
            nn.BatchNorm2d(16),
            nn.PReLU(16),
            nn.Conv2d(16, 32, 3, 2),
            nn.BatchNorm2d(32),
            nn.PReLU(32),
        )
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(32 * 49, 32), nn.BatchNorm1d(32))
        self.people = nn.Parameter(torch.randn(CLASSES, 32))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        cosines = functional.linear(
            functional.normalize(self.embed(self.sees(inputs))), functional.normalize(self.people)
        )
        angles = torch.acos(cosines.clamp(-1 + 1e-6, 1 - 1e-6))
        wanted = functional.one_hot(labels, CLASSES).to(cosines.dtype)
        return functional.cross_entropy(16 * torch.cos(angles + 0.3 * wanted), labels)


class Pupil(nn.Module):
    """Learns what a teacher who does not learn thinks, and what is true."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Sequential(
            nn.Linear(20, 64), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(64, CLASSES)
        ).requires_grad_(False)
        self.pupil = nn.Sequential(
            nn.Linear(20, 24), nn.Hardswish(), nn.RMSNorm(24), nn.Linear(24, 24), nn.Hardswish(), nn.Linear(24, CLASSES)
        )

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.pupil(inputs)
        with torch.no_grad():
            wanted = (self.teacher(inputs) / 4).log_softmax(-1)
        soft = functional.kl_div((logits / 4).log_softmax(-1), wanted, reduction="batchmean", log_target=True)
        return 16 * soft + functional.multi_margin_loss(logits, labels)


class Flowing(nn.Module):
    """A state that changes by what a network says, in steps of Runge and Kutta."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Sequential(nn.Linear(9, 32), nn.Softplus(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        state, step = inputs, 0.25
        for nth in range(4):
            first = self._rate(state, nth * step)
            second = self._rate(state + step / 2 * first, nth * step + step / 2)
            third = self._rate(state + step / 2 * second, nth * step + step / 2)
            fourth = self._rate(state + step * third, nth * step + step)
            state = state + step / 6 * (first + 2 * second + 2 * third + fourth)
        quantiles = torch.tensor([0.1, 0.5, 0.9], dtype=inputs.dtype)
        missed = labels.unsqueeze(1) - self.head(state)
        return torch.maximum(quantiles * missed, (quantiles - 1) * missed).mean()

    def _rate(self, state: torch.Tensor, time: float) -> torch.Tensor:
        return self.rate(torch.cat([state, torch.full_like(state[:, :1], time)], -1))


class Kernels(nn.Module):
    """Distances to centres, and a triplet of them that should be near and far."""

    def __init__(self) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(16, 20))
        self.widths = nn.Parameter(torch.zeros(16))
        self.embed = nn.Sequential(nn.Linear(16, 24), nn.LayerNorm(24), nn.Mish(), nn.Linear(24, 12))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        near = torch.exp(-torch.cdist(inputs, self.centres).square() * (self.widths - 3.5).exp())
        anchor, same, other = self.embed(near).view(3, -1, 12)
        alike = functional.cosine_embedding_loss(anchor, same, labels[: len(anchor)].sign(), margin=0.1)
        return functional.triplet_margin_loss(anchor, same, other, margin=0.5) + alike


class Blocks(nn.Module):
    """The encoder and the decoder that torch.nn has, with a fed-forward layer of experts chosen one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 32)
        self.places = nn.Parameter(torch.randn(12, 32) * 0.1)
        self.whole = nn.Transformer(32, 4, 2, 2, 48, 0.1, batch_first=True, norm_first=True)
        self.router = nn.Linear(32, 4, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)) for _ in range(4))
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        source, target = (self.tokens(tokens) + self.places[: tokens.shape[1]] for tokens in (inputs, labels[:, :-1]))
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=target.dtype)
        hidden = self.whole(source, target, tgt_mask=mask)
        shares, chosen = self.router(hidden).softmax(-1).max(-1)
        routed = torch.zeros_like(hidden)
        for nth, expert in enumerate(self.experts):
            places = chosen == nth
            routed[places] = expert(hidden[places]) * shares[places].unsqueeze(-1)
        return functional.cross_entropy(self.head(hidden + routed).flatten(0, 1), labels[:, 1:].flatten())


_training = partial(batches.training, seed=3)


MEMBERS: dict[str, Build] = {
    "mixer": _training(Mixer, batches.numbers(ROWS, 3, 32, 32), batches.classes(ROWS)),
    "sharper": _training(Sharper, batches.numbers(ROWS, 3, 8, 8), batches.numbers(ROWS, 3, 32, 32)),
    "painter": _training(Painter, batches.numbers(2, 3, 32, 32), batches.numbers(2, 3, 32, 32)),
    "twins": _training(Twins, batches.numbers(ROWS, 3, 20, 20), batches.flags(ROWS)),
    "paths": _training(Paths, batches.numbers(3, 20, 10), batches.classes(3, 20)),
    "echo": _training(Echo, batches.numbers(ROWS, 2, 40), batches.numbers(ROWS)),
    "blurred": _training(Blurred, batches.numbers(ROWS, 3, 16, 16), batches.numbers(ROWS, 3, 16, 16)),
    "cloud": _training(Cloud, batches.numbers(ROWS, 3, 50), batches.classes(ROWS)),
    "letters": _training(Letters, batches.tokens(4, 7, 9), batches.classes(4, 7)),
    "asking": _training(Asking, batches.tokens(4, 8), batches.tokens(4, 6)),
    "critic": _training(Critic, batches.numbers(ROWS, 3, 16, 16), batches.numbers(ROWS, 3, 16, 16)),
    "pairs": _training(Pairs, batches.tokens(24, 6), batches.flags(24)),
    "capsules": _training(Capsules, batches.numbers(3, 3, 29, 29), batches.classes(3)),
    "faces": _training(Faces, batches.numbers(ROWS, 3, 32, 32), batches.classes(ROWS)),
    "pupil": _training(Pupil, batches.numbers(24, 20), batches.classes(24)),
    "flowing": _training(Flowing, batches.numbers(24, 8), batches.numbers(24)),
    "kernels": _training(Kernels, batches.numbers(24, 20), batches.numbers(24)),
    "blocks": _training(Blocks, batches.tokens(3, 12), batches.tokens(3, 12)),
}
