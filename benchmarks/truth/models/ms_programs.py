"""Small programs of MindSpore cells, one of each kind: planted at places that are drawn by chance.

Each network takes inputs and labels and returns the loss of a batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from benchmarks.truth import cells
from benchmarks.truth.cells import Training, inside, within
from benchmarks.truth.planted import Cause, Defect, Model

VOCABULARY, CLASSES, WIDTH = 40, 5, 16

Draw = Callable[[np.random.Generator], np.ndarray]
"""Makes the inputs or the labels of a batch."""


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    build = MEMBERS[name]
    return Model(build, tuple(_defects(build(), random.Random(name))))


class Recurrent(nn.Cell):
    """A tagger: GRU cells over words, in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.gru = nn.GRU(WIDTH, 20, 1, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm((40,))
        self.head = nn.Dense(40, CLASSES)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        states, _ = self.gru(self.tokens(inputs))
        return ops.cross_entropy(self.head(self.norm(states)).reshape(-1, CLASSES), labels.reshape(-1))


class Mixing(nn.Cell):
    """An MLP over places, then one over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((WIDTH,)), nn.LayerNorm((WIDTH,))
        self.places = nn.SequentialCell(nn.Dense(12, 24), nn.GELU(), nn.Dense(24, 12))
        self.channels = nn.SequentialCell(nn.Dense(WIDTH, 32), nn.GELU(), nn.Dense(32, WIDTH))

    def construct(self, x: Tensor) -> Tensor:
        x = x + self.places(self.norm1(x).swapaxes(1, 2)).swapaxes(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Cell):
    """Patches of images through three blocks that mix them."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Dense(10, WIDTH)
        self.blocks = nn.SequentialCell(*(Mixing() for _ in range(3)))
        self.head = nn.Dense(WIDTH, CLASSES)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        return ops.cross_entropy(self.head(self.blocks(self.patches(inputs)).mean(1)), labels)


class Unet(nn.Cell):
    """Down, up, and what was there before beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 8, 3, pad_mode="same")
        self.norm1, self.norm2 = nn.GroupNorm(4, 8), nn.GroupNorm(4, 16)
        self.down = nn.Conv2d(8, 16, 3, stride=2, pad_mode="same")
        self.middle = nn.Conv2d(16, 16, 3, pad_mode="same")
        self.up = nn.Conv2dTranspose(16, 8, 2, stride=2, pad_mode="same")
        self.act = nn.SiLU()
        self.last = nn.Conv2d(16, 2, 1)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        fine = self.act(self.norm1(self.first(inputs)))
        coarse = self.act(self.norm2(self.middle(self.act(self.down(fine)))))
        return ops.mse_loss(self.last(ops.cat((self.up(coarse), fine), axis=1)), labels)


class Variational(nn.Cell):
    """An autoencoder with a code that is random, from numbers that come with the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards = nn.SequentialCell(nn.Dense(20, 32), nn.Tanh(), nn.Dense(32, 16))
        self.outwards = nn.SequentialCell(nn.Dense(8, 32), nn.Tanh(), nn.Dense(32, 20))

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        mean, spread = ops.split(self.inwards(inputs), 8, axis=1)
        code = mean + ops.exp(0.5 * spread) * labels
        distance = -0.5 * (1 + spread - mean * mean - ops.exp(spread)).sum(-1).mean()
        return ops.mse_loss(self.outwards(code), inputs) + 0.1 * distance


class Recommender(nn.Cell):
    """Users and things, and what each takes of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.things = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.deep = nn.SequentialCell(nn.Dense(2 * WIDTH, 24), nn.ReLU(), nn.Dense(24, 1))

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        user, thing = self.users(inputs[:, 0]), self.things(inputs[:, 1])
        scores = (user * thing).sum(-1) + self.deep(ops.cat((user, thing), axis=-1)).squeeze(-1)
        ones = ops.ones_like(labels)
        return ops.binary_cross_entropy_with_logits(scores, labels, ones, ones)


class Vision(nn.Cell):
    """A vision transformer of the library's own layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4, pad_mode="valid", has_bias=True)
        self.first = Parameter(Tensor(np.full((1, 1, WIDTH), 0.02, np.float32)), name="first")
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Dense(WIDTH, CLASSES)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        x = self.patches(inputs).reshape(inputs.shape[0], WIDTH, -1).swapaxes(1, 2)
        x = ops.cat((self.first.broadcast_to((inputs.shape[0], 1, WIDTH)), x), axis=1)
        return ops.cross_entropy(self.head(self.encoder(x)[:, 0]), labels)


class Contrast(nn.Cell):
    """Two towers whose results of one row belong together."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.SequentialCell(nn.Dense(20, 32), nn.ReLU(), nn.Dense(32, WIDTH))
        self.right = nn.SequentialCell(nn.Dense(20, 32), nn.ReLU(), nn.Dense(32, WIDTH))
        self.temperature = Parameter(Tensor(np.array([2.0], np.float32)), name="temperature")

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        one, other = self.left(inputs), self.right(labels)
        one, other = (x / ops.sqrt((x * x).sum(-1, keepdims=True) + 1e-8) for x in (one, other))
        scores = ops.exp(self.temperature) * ops.matmul(one, other.T)
        right = Tensor(np.arange(inputs.shape[0]).astype(np.int32))
        return (ops.cross_entropy(scores, right) + ops.cross_entropy(scores.T, right)) / 2


class Experts(nn.Cell):
    """The two experts of each row that a router likes best."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards, self.router = nn.Dense(20, WIDTH), nn.Dense(WIDTH, 4)
        self.experts = nn.CellList(
            [nn.SequentialCell(nn.Dense(WIDTH, 24), nn.SiLU(), nn.Dense(24, WIDTH)) for _ in range(4)]
        )
        self.norm, self.head = nn.LayerNorm((WIDTH,)), nn.Dense(WIDTH, CLASSES)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        x = self.inwards(inputs)
        weights, chosen = ops.topk(ops.softmax(self.router(x), axis=-1), 2)
        weights = weights / weights.sum(-1, keepdims=True)
        mixed = ops.zeros_like(x)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number).astype(mindspore.float32)).sum(-1, keepdims=True)
            mixed = mixed + share * expert(x)
        return ops.cross_entropy(self.head(self.norm(x + mixed)), labels)


class Scaled(nn.Cell):
    """A norm by the root of the mean square."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(WIDTH, np.float32)))

    def construct(self, x: Tensor) -> Tensor:
        return x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + 1e-6) * self.weight


class Turned(nn.Cell):
    """Attention over what came before, whose places turn queries and keys, and a gated feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = Scaled(), Scaled()
        self.query, self.key, self.value, self.out = (nn.Dense(WIDTH, WIDTH, has_bias=False) for _ in range(4))
        self.gate, self.up = nn.Dense(WIDTH, 32, has_bias=False), nn.Dense(WIDTH, 32, has_bias=False)
        self.down, self.act = nn.Dense(32, WIDTH, has_bias=False), nn.SiLU()
        places = np.outer(np.arange(9), 10000.0 ** -(np.arange(4) / 4)).astype(np.float32)
        self.cos, self.sin = Tensor(np.cos(places)), Tensor(np.sin(places))
        self.future = Tensor(np.triu(np.full((9, 9), -1e9, np.float32), 1))

    def _turned(self, x: Tensor) -> Tensor:
        x = x.reshape(*x.shape[:2], 2, 8).swapaxes(1, 2)
        first, second = ops.split(x, 4, axis=-1)
        return ops.cat((first * self.cos - second * self.sin, second * self.cos + first * self.sin), axis=-1)

    def construct(self, x: Tensor) -> Tensor:
        normed = self.norm1(x)
        scores = ops.matmul(self._turned(self.query(normed)), self._turned(self.key(normed)).swapaxes(-1, -2)) * 8**-0.5
        value = self.value(normed).reshape(*x.shape[:2], 2, 8).swapaxes(1, 2)
        mixed = ops.matmul(ops.softmax(scores + self.future, -1), value).swapaxes(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        normed = self.norm2(x)
        return x + self.down(self.act(self.gate(normed)) * self.up(normed))


class Decoder(nn.Cell):
    """A decoder as Llama's."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.SequentialCell(*(Turned() for _ in range(3)))
        self.norm, self.head = Scaled(), nn.Dense(WIDTH, VOCABULARY, has_bias=False)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        logits = self.head(self.norm(self.layers(self.tokens(inputs))))
        return ops.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))


class Inverted(nn.Cell):
    """Wider, over each channel by itself, narrower again."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 2 * channels
        self.widen, self.norm1 = nn.Conv2d(channels, wide, 1), nn.BatchNorm2d(wide)
        self.apart, self.norm2 = nn.Conv2d(wide, wide, 3, pad_mode="same", group=wide), nn.BatchNorm2d(wide)
        self.narrow, self.norm3 = nn.Conv2d(wide, channels, 1), nn.BatchNorm2d(channels)
        self.act = nn.ReLU6()

    def construct(self, x: Tensor) -> Tensor:
        wide = self.act(self.norm2(self.apart(self.act(self.norm1(self.widen(x))))))
        return x + self.norm3(self.narrow(wide))


class Mobile(nn.Cell):
    """Images, by convolutions over each channel by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2, pad_mode="same"), nn.BatchNorm2d(8)
        self.act = nn.HSwish()
        self.blocks = nn.SequentialCell(Inverted(8), Inverted(8))
        self.head = nn.Dense(8, CLASSES)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        x = self.blocks(self.act(self.norm(self.first(inputs))))
        return ops.cross_entropy(self.head(x.mean((2, 3))), labels)


class Graph(nn.Cell):
    """Nodes that take what their neighbours say; an edge is a pair of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards = nn.Dense(8, WIDTH)
        self.say = nn.CellList([nn.Dense(2 * WIDTH, WIDTH) for _ in range(2)])
        self.head = nn.Dense(WIDTH, CLASSES)
        self.act = nn.ELU()
        edges = np.random.default_rng(3).integers(0, 24, (2, 80)).astype(np.int32)
        self.from_node, self.to_node = Tensor(edges[0]), Tensor(edges[1])

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        nodes = self.act(self.inwards(inputs))
        for say in self.say:
            both = ops.cat((ops.gather(nodes, self.from_node, 0), ops.gather(nodes, self.to_node, 0)), axis=-1)
            nodes = nodes + ops.unsorted_segment_sum(self.act(say(both)), self.to_node, 24)
        return ops.cross_entropy(self.head(nodes), labels)


class Wave(nn.Cell):
    """Sound, by convolutions that look further back in each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 8, 3, pad_mode="same")
        self.layers = nn.CellList(
            [nn.Conv1d(8, 16, 3, dilation=2**n, pad_mode="same", has_bias=True) for n in range(3)]
        )
        self.last = nn.Conv1d(8, 1, 1)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        x = self.first(inputs)
        for layer in self.layers:
            said, gate = ops.split(layer(x), 8, axis=1)
            x = x + ops.tanh(said) * ops.sigmoid(gate)
        return ops.smooth_l1_loss(self.last(x), labels, reduction="mean")


class Translation(nn.Cell):
    """An encoder and a decoder of the library's own layers."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Dense(WIDTH, VOCABULARY)

    def construct(self, inputs: Tensor, labels: Tensor) -> Tensor:
        x = self.decoder(self.tokens(labels), self.encoder(self.tokens(inputs)))
        return ops.cross_entropy(self.head(x).reshape(-1, VOCABULARY), labels.reshape(-1))


def _training(make: Callable[[], nn.Cell], inputs: Draw, labels: Draw, **settings: Any) -> Callable[[], Training]:
    def build() -> Training:
        generator = np.random.default_rng(11)
        batches = [(Tensor(inputs(generator)), Tensor(labels(generator))) for _ in range(2)]
        return Training(make(), batches, **settings)

    return build


def _whole(most: int, *shape: int) -> Draw:
    return lambda generator: generator.integers(0, most, shape).astype(np.int32)


def _numbers(*shape: int) -> Draw:
    return lambda generator: generator.standard_normal(shape).astype(np.float32)


def _flags(*shape: int) -> Draw:
    return lambda generator: generator.integers(0, 2, shape).astype(np.float32)


MEMBERS: dict[str, Callable[[], Training]] = {
    "recurrent": _training(Recurrent, _whole(VOCABULARY, 3, 7), _whole(CLASSES, 3, 7)),
    "mixer": _training(Mixer, _numbers(4, 12, 10), _whole(CLASSES, 4)),
    "unet": _training(Unet, _numbers(2, 2, 8, 8), _numbers(2, 2, 8, 8)),
    "variational": _training(Variational, _numbers(12, 20), _numbers(12, 8)),
    "recommender": _training(
        Recommender, _whole(VOCABULARY, 16, 2), _flags(16), clip=None,
        optimizer=partial(nn.SGD, momentum=0.9), settings={"learning_rate": 0.05},
    ),
    "vision": _training(Vision, _numbers(3, 3, 16, 16), _whole(CLASSES, 3)),
    "contrast": _training(Contrast, _numbers(10, 20), _numbers(10, 20)),
    "experts": _training(Experts, _numbers(12, 20), _whole(CLASSES, 12)),
    "decoder": _training(
        Decoder, _whole(VOCABULARY, 2, 9), _whole(VOCABULARY, 2, 9),
        optimizer=partial(nn.AdamWeightDecay, weight_decay=0.1),
    ),
    "mobile": _training(
        Mobile, _numbers(4, 3, 12, 12), _whole(CLASSES, 4), clip=None,
        optimizer=partial(nn.Momentum, momentum=0.9), settings={"learning_rate": 0.02},
    ),
    "graph": _training(Graph, _numbers(24, 8), _whole(CLASSES, 24)),
    "wave": _training(Wave, _numbers(2, 1, 40), _numbers(2, 1, 40), optimizer=nn.RMSProp),
    "translation": _training(Translation, _whole(VOCABULARY, 2, 8), _whole(VOCABULARY, 2, 8)),
}  # fmt: skip


TAKES_INPUTS = (
    Cause(r"\.(Gather|MatMul|Conv2D|[Ss]hape|[Rr]eshape|matmul|__getitem__|mse_loss|ExpandDims)\.\d+\.forward"),
    Cause(r"^Cell\.\w+\.\w+\.forward\.0"),
)
TAKES_LABELS = (
    Cause(r"(loss|cross_entropy\w*|logits|__r?mul__|MatMul|Gather|Shape|[Rr]eshape|ones_like)\.\d+\.forward"),
)


def _defects(training: Training, chance: random.Random) -> Iterator[Defect]:
    found = dict(training.network.cells_and_names())
    weighted = [path for path, cell in found.items() if isinstance(cell, nn.Dense | nn.Conv2d | nn.Conv1d)]
    norms = [path for path, cell in found.items() if isinstance(cell, nn.LayerNorm | nn.BatchNorm2d | nn.GroupNorm)]
    activations = [
        path for path, cell in found.items() if isinstance(cell, nn.GELU | nn.ReLU | nn.SiLU | nn.Tanh | nn.ELU)
    ]
    for name, change in CHANGES.items():
        path = chance.choice(weighted)
        # attention of the library takes the weights of its projections itself
        causes = inside(path, r"\w+") + within(path.rpartition(".")[0] or path, r"\w+")
        yield replace(cells.changed_weight(name, path, r"\w+", change), causes=causes)
    if norms:
        yield cells.replaced("norm_eps", "argument", chance.choice(norms), _coarser)
    if activations:
        yield cells.replaced("activation", "op", chance.choice(activations), lambda old: nn.Mish())
    yield cells.other_data("input", TAKES_INPUTS, partial(_other, place=0))
    yield cells.other_data("label", TAKES_LABELS, partial(_other, place=1))
    yield cells.loop("rate", learning_rate=training.settings["learning_rate"] * 1.1)


CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one_element": cells.one_element,
    "other_numbers": lambda values: values.reshape(-1)[::-1].reshape(values.shape),
    "larger": lambda values: values * np.float32(1.01),
}


def _coarser(old: nn.Cell) -> nn.Cell:
    """The norm with a larger epsilon."""
    if isinstance(old, nn.LayerNorm):
        return nn.LayerNorm(old.normalized_shape, epsilon=1e-2)
    if isinstance(old, nn.GroupNorm):
        return nn.GroupNorm(old.num_groups, old.num_channels, eps=1e-2)
    return nn.BatchNorm2d(old.num_features, eps=1e-2)


def _other(arrays: list[np.ndarray], place: int) -> None:
    """Another number in the middle of a batch's inputs or labels."""
    numbers = arrays[place].reshape(-1)
    middle = numbers.size // 2
    if numbers.dtype == np.int32:
        numbers[middle] = (numbers[middle] + 1) % CLASSES
    else:
        numbers[middle] += np.float32(0.5)
