"""Small networks around one unusual part each: planted at places that are drawn by chance.

Steps that pass a gradient on, sorting, choosing the largest, sums over groups, matrices that are inverted, masks on
weights, places that are computed. Each returns the loss of a batch.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth.models import batches, strangers
from benchmarks.truth.models.batches import CLASSES
from benchmarks.truth.models.strangers import VOCABULARY, Build
from benchmarks.truth.planted import Model

ROWS = 12


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return strangers.planted_by_chance(MEMBERS[name], name)


class Sparse(nn.Module):
    """Codes of few numbers, by steps that shrink: each step has the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards, self.again = nn.Linear(20, 32, bias=False), nn.Linear(32, 32, bias=False)
        self.bound = nn.Parameter(torch.full((32,), 0.1))
        self.outwards = nn.Linear(32, 20)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        given = self.inwards(inputs)
        code = torch.zeros_like(given)
        for _ in range(4):
            code = given + self.again(code)
            code = code.sign() * functional.relu(code.abs() - self.bound)
        return functional.mse_loss(self.outwards(code), labels) + 0.01 * code.abs().mean()


class Ranking(nn.Module):
    """Lists in the right order: pairs of scores, weighted by what changing their places would cost."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = self.score(inputs)[..., 0]
        gains = 2.0**labels - 1
        places = scores.detach().argsort(1, descending=True).argsort(1)
        discounts = 1 / torch.log2(places.to(scores.dtype) + 2)
        cost = ((gains.unsqueeze(2) - gains.unsqueeze(1)) * (discounts.unsqueeze(2) - discounts.unsqueeze(1))).abs()
        wrong = functional.softplus(scores.unsqueeze(1) - scores.unsqueeze(2))
        better = (labels.unsqueeze(2) > labels.unsqueeze(1)).to(scores.dtype)
        return (better * cost * wrong).sum((1, 2)).mean()


class Signs(nn.Module):
    """Weights and activations of one bit, whose gradients pass as if they had more."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(20, 32), nn.BatchNorm1d(32)
        self.second, self.other = nn.Linear(32, 32), nn.BatchNorm1d(32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = _sign(self.norm(self.first(inputs)))
        weight = _sign(self.second.weight) * self.second.weight.detach().abs().mean(1, keepdim=True)
        hidden = _sign(self.other(functional.linear(hidden, weight, self.second.bias)))
        return functional.cross_entropy(self.head(hidden), labels)


def _sign(value: torch.Tensor) -> torch.Tensor:
    soft = value.clamp(-1, 1)
    return soft + (torch.where(value >= 0, 1.0, -1.0).to(value.dtype) - soft).detach()


class Rounded(nn.Module):
    """Training for eight bits: what goes in and the weights are rounded to steps, of which the largest number tells."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, out) for width, out in ((20, 40), (40, 24)))
        self.head = nn.Linear(24, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = inputs
        for layer in self.layers:
            hidden = functional.relu(functional.linear(_steps(hidden), _steps(layer.weight), layer.bias))
        return functional.cross_entropy(self.head(hidden), labels)


def _steps(value: torch.Tensor) -> torch.Tensor:
    step = value.detach().abs().max() / 127
    return value + ((value / step).round() * step - value).detach()


class Pruned(nn.Module):
    """Of the weights of each layer only the larger half counts."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, out) for width, out in ((20, 48), (48, 24)))
        self.head = nn.Linear(24, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = inputs
        for layer in self.layers:
            size = layer.weight.detach().abs()
            bound = size.flatten().kthvalue(size.numel() // 2).values
            hidden = functional.gelu(functional.linear(hidden, layer.weight * (size > bound), layer.bias))
        return functional.cross_entropy(self.head(hidden), labels)


class Depths(nn.Module):
    """A block that works on the tokens that a router likes best, and passes by the others."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 24)
        self.routers = nn.ModuleList(nn.Linear(24, 1) for _ in range(2))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 48), nn.SiLU(), nn.Linear(48, 24)) for _ in range(2)
        )
        self.head = nn.Linear(24, VOCABULARY)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.tokens(inputs)
        for router, block in zip(self.routers, self.blocks, strict=True):
            scores, chosen = router(hidden)[..., 0].topk(4, dim=1)
            places = chosen.unsqueeze(-1).expand(-1, -1, 24)
            worked = block(hidden.gather(1, places)) * torch.sigmoid(scores).unsqueeze(-1)
            hidden = hidden.scatter_add(1, places, worked)
        return functional.cross_entropy(self.head(hidden).flatten(0, 1), labels.flatten())


class Recall(nn.Module):
    """Patterns that a state falls into, by several steps of attention to all that are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(20, 24)
        self.stored = nn.Parameter(torch.randn(30, 24))
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        state = self.query(inputs)
        for _ in range(3):
            state = torch.softmax(0.5 * self.norm(state) @ self.stored.T, -1) @ self.stored
        return functional.nll_loss(self.head(state).log_softmax(-1), labels)


class Groups(nn.Module):
    """Several graphs as one, pooled by the mean and the largest of each, and by a share for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = nn.Sequential(nn.Linear(10, 24), nn.ReLU())
        self.share = nn.Linear(24, 1)
        self.head = nn.Sequential(nn.Linear(72, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, CLASSES))
        self.register_buffer("graph", torch.arange(40) // 7)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.nodes(inputs)
        places = self.graph.unsqueeze(1).expand(-1, 24)
        empty = hidden.new_zeros(6, 24)
        means = empty.scatter_reduce(0, places, hidden, "mean", include_self=False)
        largest = empty.scatter_reduce(0, places, hidden, "amax", include_self=False)
        weights = self.share(hidden).exp()
        totals = hidden.new_zeros(6, 1).index_add(0, self.graph, weights)
        shared = empty.index_add(0, self.graph, hidden * weights / totals[self.graph])
        return functional.cross_entropy(self.head(torch.cat([means, largest, shared], 1)), labels)


class Spreading(nn.Module):
    """What nodes say, spread along the edges of a graph ten times: products with a sparse matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = nn.Sequential(nn.Dropout(0.1), nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, CLASSES))
        edges = (torch.rand(30, 30, generator=torch.Generator().manual_seed(6)) < 0.15).float() + torch.eye(30)
        self.register_buffer("edges", edges / edges.sum(1, keepdim=True))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        start = self.nodes(inputs)
        state, edges = start, self.edges.float().to_sparse()
        for _ in range(10):
            state = 0.9 * torch.sparse.mm(edges, state.float()).to(start.dtype) + 0.1 * start
        return functional.cross_entropy(state, labels)


class Nearest(nn.Module):
    """Points that look at their nearest neighbours in space, and then in features."""

    def __init__(self) -> None:
        super().__init__()
        self.edges = nn.ModuleList(nn.Sequential(nn.Linear(2 * width, 24), nn.LeakyReLU(0.2)) for width in (3, 24))
        self.head = nn.Sequential(nn.Linear(48, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, CLASSES))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden, kept = inputs, []
        for edge in self.edges:
            square = hidden.square().sum(-1)
            apart = square.unsqueeze(2) + square.unsqueeze(1) - 2 * hidden @ hidden.transpose(1, 2)
            near = apart.topk(5, dim=-1, largest=False).indices
            rows = torch.arange(len(hidden)).view(-1, 1, 1)
            around = hidden[rows, near]
            own = hidden.unsqueeze(2).expand_as(around)
            hidden = edge(torch.cat([own, around - own], -1)).amax(2)
            kept.append(hidden.amax(1))
        return functional.cross_entropy(self.head(torch.cat(kept, -1)), labels)


class Filtered(nn.Module):
    """A filter that believes a model and measurements by how sure they are: a small matrix is inverted at each time."""

    def __init__(self) -> None:
        super().__init__()
        self.measures = nn.Linear(6, 3)
        self.moves = nn.Parameter(torch.eye(3) * 0.9 + torch.randn(3, 3) * 0.05)
        self.doubts = nn.Parameter(torch.zeros(2, 3))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        moves, doubts = self.moves.float(), self.doubts.float().exp()
        state = inputs.new_zeros(len(inputs), 3, dtype=torch.float32)
        spread, loss = torch.eye(3), torch.zeros(())
        for time in range(inputs.shape[1]):
            state, spread = state @ moves.T, moves @ spread @ moves.T + torch.diag(doubts[0])
            off = self.measures(inputs[:, time]).float() - state
            gain = spread @ torch.linalg.inv(spread + torch.diag(doubts[1]))
            state, spread = state + off @ gain.T, (torch.eye(3) - gain) @ spread
            loss = loss + functional.mse_loss(state, labels[:, time].float())
        return loss


class Apart(nn.Module):
    """Two views that should agree, whose features should vary and not go together."""

    def __init__(self) -> None:
        super().__init__()
        self.sees = nn.Sequential(nn.Linear(20, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        first, second = self.sees(inputs), self.sees(labels)
        loss = 25 * functional.mse_loss(first, second)
        for seen in (first, second):
            centred = seen - seen.mean(0)
            loss = loss + 25 * functional.relu(1 - (seen.var(0) + 1e-4).sqrt()).mean()
            together = centred.T @ centred / (len(seen) - 1)
            loss = loss + (together.square().sum() - together.diagonal().square().sum()) / 16
        return loss


class Survival(nn.Module):
    """Who fares worse earlier: at each end, against all who are still there."""

    def __init__(self) -> None:
        super().__init__()
        self.risk = nn.Sequential(nn.Linear(10, 24), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(24, 1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        order = labels.argsort(descending=True)
        risk = self.risk(inputs)[order, 0]
        ended = (torch.arange(len(risk)) % 3 > 0).to(risk.dtype)
        return -((risk - torch.logcumsumexp(risk, 0)) * ended).sum() / ended.sum()


class Turning(nn.Module):
    """An image that is turned and cut as a small network sees fit, before another looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 6))
        self.sees = nn.Sequential(
            nn.Conv2d(1, 12, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 49, CLASSES)
        )

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        turn = 0.1 * self.where(inputs).view(-1, 2, 3) + torch.eye(2, 3, dtype=inputs.dtype)
        grid = functional.affine_grid(turn, list(inputs.shape), align_corners=False)
        return functional.cross_entropy(self.sees(functional.grid_sample(inputs, grid, align_corners=False)), labels)


class Counts(nn.Module):
    """Numbers of events, of a Poisson distribution, and which of two causes they have."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 24), nn.Softsign(), nn.Linear(24, 24), nn.Softsign())
        self.rate, self.share = nn.Linear(24, 1), nn.Linear(24, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.body(inputs)
        rate = self.rate(hidden)[:, 0]
        none = functional.logsigmoid(self.share(hidden)[:, 0])
        some = functional.logsigmoid(-self.share(hidden)[:, 0])
        likely = labels * rate - rate.exp() - torch.lgamma(labels + 1)
        return -torch.where(labels == 0, torch.logaddexp(none, some + likely), some + likely).mean()


class Weighing(nn.Module):
    """Three tasks, weighed by how unsure each is; plain steps with momentum that look ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 40), nn.GroupNorm(4, 40), nn.CELU(), nn.Linear(40, 24), nn.CELU())
        self.heads = nn.ModuleList(nn.Linear(24, width) for width in (CLASSES, 1, 20))
        self.unsure = nn.Parameter(torch.zeros(3))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.body(inputs)
        classes, number, again = (head(hidden) for head in self.heads)
        parts = torch.stack([
            functional.cross_entropy(classes, labels),
            functional.smooth_l1_loss(number[:, 0], labels.to(inputs.dtype)),
            functional.mse_loss(again, inputs),
        ])  # fmt: skip
        return (torch.exp(-self.unsure) * parts + self.unsure).sum()


class Curved(nn.Module):
    """Words in a space that widens towards its edge, near or far."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 8)
        self.turn = nn.Linear(8, 8, bias=False)
        with torch.no_grad():
            self.words.weight.mul_(0.1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        places = self.turn(self.words(inputs))
        places = places / (1 + places.norm(dim=-1, keepdim=True))
        first, others = places[:, :1], places[:, 1:]
        apart = (first - others).square().sum(-1)
        room = (1 - first.square().sum(-1)) * (1 - others.square().sum(-1))
        return functional.cross_entropy(-torch.acosh(1 + 2 * apart / room + 1e-6), labels)


class Modulated(nn.Module):
    """An image by convolutions whose weights a style scales, each image its own."""

    def __init__(self) -> None:
        super().__init__()
        self.style = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 6))
        self.weight = nn.Parameter(torch.randn(8, 6, 3, 3) * 0.3)
        self.start = nn.Parameter(torch.randn(1, 6, 8, 8))
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scale = 1 + self.style(inputs)
        weight = self.weight.unsqueeze(0) * scale.view(-1, 1, 6, 1, 1)
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        images = self.start.expand(len(inputs), -1, -1, -1).reshape(1, -1, 8, 8)
        made = functional.conv2d(images, weight.reshape(-1, 6, 3, 3), padding=1, groups=len(inputs))
        made = functional.leaky_relu(made.view(len(inputs), 8, 8, 8), 0.2) * 1.414
        return functional.l1_loss(self.head(made), labels)


class Windows(nn.Module):
    """Attention of each pixel to the patch around it."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(3, 48, 1)
        self.norm = nn.GroupNorm(4, 16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mix(inputs).chunk(3, 1)
        keys, values = (functional.unfold(part, 3, padding=1).view(len(inputs), 16, 9, -1) for part in (key, value))
        weights = ((query.flatten(2).unsqueeze(2) * keys).sum(1, keepdim=True) * 0.25).softmax(2)
        seen = (weights * values).sum(2).view_as(query)
        return functional.cross_entropy(self.head(functional.silu(self.norm(seen)).mean((2, 3))), labels)


class Pixels(nn.Module):
    """Pixels one after the other: convolutions that do not see what comes later."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(width, 16, 5, padding=2) for width in (1, 16, 16))
        self.head = nn.Conv2d(16, CLASSES, 1)
        seen = torch.ones(5, 5)
        seen[2, 2:], seen[3:] = 0, 0
        self.register_buffer("seen", seen)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = inputs
        for layer in self.layers:
            hidden = functional.relu(functional.conv2d(hidden, layer.weight * self.seen, layer.bias, padding=2))
        return functional.cross_entropy(self.head(hidden), labels)


class Branching(nn.Module):
    """A tree of soft questions: each leaf says something, and counts by the chance to get there."""

    def __init__(self) -> None:
        super().__init__()
        self.questions = nn.Linear(20, 7)
        self.leaves = nn.Linear(8, CLASSES, bias=False)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        yes = torch.sigmoid(self.questions(inputs))
        chance = torch.ones_like(yes[:, :1])
        for depth in range(3):
            asked = yes[:, 2**depth - 1 : 2 ** (depth + 1) - 1]
            chance = torch.stack([chance * asked, chance * (1 - asked)], -1).flatten(1)
        told = (chance @ self.leaves.weight.T.softmax(1)).clamp(min=1e-6)
        return functional.nll_loss(told.log(), labels)


class Shapes(nn.Module):
    """Layers that add where others multiply, and take the largest where others add."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 24)
        self.hull = nn.Parameter(torch.randn(16, 24) * 0.5)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = (self.first(inputs).unsqueeze(1) + self.hull).amax(-1)
        return functional.cross_entropy(self.head(hidden), labels)


class Lifting(nn.Module):
    """A series taken apart into what is slow and what is fast, again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.tells = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=1) for _ in range(3))
        self.mends = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=1) for _ in range(3))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        slow, kept = inputs, []
        for tell, mend in zip(self.tells, self.mends, strict=True):
            even, odd = slow[..., ::2], slow[..., 1::2]
            fast = odd - torch.tanh(tell(even))
            slow = even + torch.tanh(mend(fast))
            kept.append(fast.abs().mean(-1))
        return functional.cross_entropy(self.head(torch.cat([*kept, slow.mean(-1)], -1)), labels)


class Gated(nn.Module):
    """A recurrence whose gates do not look at what was before, and that passes its input by."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 24)
        self.mix = nn.Linear(24, 72)
        self.head = nn.Linear(24, VOCABULARY)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        given = self.tokens(inputs)
        new, forget, reset = self.mix(given).chunk(3, -1)
        forget, reset = torch.sigmoid(forget), torch.sigmoid(reset)
        cell, told = torch.zeros_like(given[:, 0]), []
        for time in range(inputs.shape[1]):
            cell = forget[:, time] * cell + (1 - forget[:, time]) * new[:, time]
            told.append(reset[:, time] * torch.tanh(cell) + (1 - reset[:, time]) * given[:, time])
        return functional.cross_entropy(self.head(torch.stack(told, 1)).flatten(0, 1), labels.flatten())


_training = partial(batches.training, seed=9)


MEMBERS: dict[str, Build] = {
    "sparse": _training(Sparse, batches.numbers(ROWS, 20), batches.numbers(ROWS, 20)),
    "ranking": _training(Ranking, batches.numbers(4, 8, 10), batches.counts(4, 8)),
    "signs": _training(Signs, batches.numbers(ROWS, 20), batches.classes(ROWS)),
    "rounded": _training(Rounded, batches.numbers(ROWS, 20), batches.classes(ROWS)),
    "pruned": _training(Pruned, batches.numbers(ROWS, 20), batches.classes(ROWS)),
    "depths": _training(Depths, batches.tokens(3, 12), batches.tokens(3, 12)),
    "recall": _training(Recall, batches.numbers(ROWS, 20), batches.classes(ROWS)),
    "groups": _training(Groups, batches.numbers(40, 10), batches.classes(6)),
    "spreading": _training(Spreading, batches.numbers(30, 12), batches.classes(30)),
    "nearest": _training(Nearest, batches.numbers(4, 20, 3), batches.classes(4)),
    "filtered": _training(Filtered, batches.numbers(4, 6, 6), batches.numbers(4, 6, 3)),
    "apart": _training(Apart, batches.numbers(24, 20), batches.numbers(24, 20)),
    "survival": _training(Survival, batches.numbers(24, 10), batches.numbers(24)),
    "turning": _training(Turning, batches.numbers(4, 1, 16, 16), batches.classes(4)),
    "counts": _training(Counts, batches.numbers(24, 10), batches.counts(24)),
    "weighing": _training(
        Weighing, batches.numbers(ROWS, 20), batches.classes(ROWS), optimizer=torch.optim.SGD, accumulate=2,
        settings={"lr": 0.02, "momentum": 0.9, "nesterov": True, "foreach": False},
    ),
    "curved": _training(Curved, batches.tokens(6, 9), batches.classes(6)),
    "modulated": _training(Modulated, batches.numbers(4, 8), batches.numbers(4, 3, 8, 8)),
    "windows": _training(Windows, batches.numbers(4, 3, 10, 10), batches.classes(4)),
    "pixels": _training(Pixels, batches.numbers(3, 1, 12, 12), batches.classes(3, 12, 12)),
    "branching": _training(Branching, batches.numbers(24, 20), batches.classes(24)),
    "shapes": _training(Shapes, batches.numbers(ROWS, 20), batches.classes(ROWS)),
    "lifting": _training(Lifting, batches.numbers(6, 4, 32), batches.classes(6)),
    "gated": _training(Gated, batches.tokens(3, 8), batches.tokens(3, 8)),
}  # fmt: skip
