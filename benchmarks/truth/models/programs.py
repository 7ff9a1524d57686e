"""Small programs that compute otherwise than networks do: planted at places that are drawn by chance.

Gradients inside the forward pass, loops until something holds, sums over indices that the data give, solvers, random
numbers of a distribution that is learned, two networks that train against each other. Each returns the loss of a batch.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchmarks.truth.models import batches, strangers
from benchmarks.truth.models.batches import CLASSES
from benchmarks.truth.models.strangers import Build
from benchmarks.truth.planted import Cause, Model

ROWS, NODES, EDGES = 12, 24, 80

TAKEN = {
    "clusters": {"label": "linear.3"},
    "wandering": {"label": "linear.0", "data": "linear.12"},
    "regression": {"label": "cholesky_solve.0"},
    "transport": {"label": "cdist.0"},
    "context": {"label": "linear.0"},
}
"""The call that takes a batch's labels or inputs first, where others take them otherwise."""


def model(name: str) -> Model:
    """The program of this name, and what is planted in it."""
    planted = strangers.planted_by_chance(MEMBERS[name], name)
    taken = TAKEN.get(name, {})
    defects = (
        replace(defect, causes=(Cause(rf"\.{re.escape(taken[defect.name])}\.forward"),))
        if defect.name in taken
        else defect
        for defect in planted.defects
    )
    return replace(planted, defects=tuple(defects))


def _layers(*widths: int, act: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    parts: list[nn.Module] = []
    for width, following in pairwise(widths):
        parts += [nn.Linear(width, following), act()]
    return nn.Sequential(*parts[:-1])


class Penalty(nn.Module):
    """A critic whose gradient should have a length of one, between what is real and what is made."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = _layers(8, 32, 32, 16, act=nn.ReLU)
        self.critic = _layers(16, 32, 32, 1, act=nn.Softplus)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        made = self.maker(inputs)
        share = torch.rand(len(made), 1, dtype=made.dtype)
        between = (share * labels + (1 - share) * made).detach().requires_grad_()
        slope = torch.autograd.grad(self.critic(between).sum(), between, create_graph=True)[0]
        penalty = 10 * (slope.norm(dim=1) - 1).square().mean()
        return self.critic(made).mean() - self.critic(labels).mean() + penalty


class Adapting(nn.Module):
    """Parameters from which one step of training, inside, goes far: gradients of gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.learner = _layers(6, 32, 32, 1, act=nn.Tanh)
        self.rate = nn.Parameter(torch.tensor(0.1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = torch.zeros((), dtype=inputs.dtype)
        for given, wanted in zip(inputs, labels, strict=True):
            weights = dict(self.learner.named_parameters())
            half = len(given) // 2
            shown = functional_call(self.learner, weights, (given[:half],))
            inner = functional.mse_loss(shown[:, 0], wanted[:half])
            slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            moved = {
                name: weight - self.rate * slope for (name, weight), slope in zip(weights.items(), slopes, strict=True)
            }
            later = functional_call(self.learner, moved, (given[half:],))
            loss = loss + functional.mse_loss(later[:, 0], wanted[half:])
        return loss / len(inputs)


class Neighbours(nn.Module):
    """Nodes of a graph that take the mean of their neighbours, by sums over indices."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.ModuleList(nn.Linear(width, 24) for width in (10, 24))
        self.theirs = nn.ModuleList(nn.Linear(width, 24, bias=False) for width in (10, 24))
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(2))
        self.head = nn.Linear(24, CLASSES)
        self.register_buffer("ends", _edges())

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        source, target = self.ends
        degree = torch.zeros(NODES, dtype=inputs.dtype).scatter_add(0, target, torch.ones(EDGES, dtype=inputs.dtype))
        hidden = inputs
        for own, theirs, norm in zip(self.own, self.theirs, self.norms, strict=True):
            sums = torch.zeros(NODES, hidden.shape[1], dtype=hidden.dtype).index_add(0, target, hidden[source])
            hidden = functional.relu(norm(own(hidden) + theirs(sums / degree.clamp(min=1).unsqueeze(1))))
        return functional.cross_entropy(self.head(hidden), labels)


def _edges() -> torch.Tensor:
    return torch.randint(0, NODES, (2, EDGES), generator=torch.Generator().manual_seed(8))


class Scattered(nn.Module):
    """Attention over the edges of a graph, whose softmax is over the edges that end at a node."""

    def __init__(self) -> None:
        super().__init__()
        self.mixes = nn.ModuleList(nn.Linear(width, 24) for width in (10, 24))
        self.scores = nn.ModuleList(nn.Linear(48, 1) for _ in range(2))
        self.head = _layers(24, 24, 1, act=nn.ELU)
        self.register_buffer("ends", _edges())

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        source, target = self.ends
        hidden = inputs
        for mix, score in zip(self.mixes, self.scores, strict=True):
            mixed = mix(hidden)
            raw = functional.leaky_relu(score(torch.cat([mixed[source], mixed[target]], 1)), 0.2)[:, 0]
            empty = torch.full((NODES,), -1e4, dtype=raw.dtype)
            highest = empty.scatter_reduce(0, target, raw.detach(), "amax")
            weights = (raw - highest[target]).exp()
            total = torch.zeros(NODES, dtype=raw.dtype).scatter_add(0, target, weights)
            shares = weights / total[target].clamp(min=1e-12)
            places = target.unsqueeze(1).expand(-1, 24)
            hidden = torch.zeros_like(mixed).scatter_add(0, places, shares.unsqueeze(1) * mixed[source])
            hidden = functional.elu(hidden + mixed)
        return functional.binary_cross_entropy_with_logits(self.head(hidden)[:, 0], labels)


class Playing(nn.Module):
    """What an action is worth, by a network that is asked twice and one that is behind; plays come from a store."""

    def __init__(self) -> None:
        super().__init__()
        self.worth, self.behind = _dueling(), _dueling().requires_grad_(False)
        self.behind.load_state_dict(self.worth.state_dict())
        generator = torch.Generator().manual_seed(4)
        self.register_buffer("actions", torch.randint(0, CLASSES, (ROWS,), generator=generator))
        self.register_buffer("order", torch.randint(0, ROWS, (ROWS,), generator=generator))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen, later = inputs[self.order], inputs.roll(-1, 0)[self.order]
        rewards, actions = labels[self.order], self.actions[self.order].unsqueeze(1)
        with torch.no_grad():
            best = self._values(self.worth, later).argmax(1, keepdim=True)
            wanted = rewards + 0.99 * self._values(self.behind, later).gather(1, best)[:, 0]
        taken = self._values(self.worth, seen).gather(1, actions)[:, 0]
        _follow(self.behind, self.worth, 0.05)
        return functional.smooth_l1_loss(taken, wanted)

    @staticmethod
    def _values(worth: nn.ModuleDict, seen: torch.Tensor) -> torch.Tensor:
        hidden = worth["body"](seen)
        gain = worth["gain"](hidden)
        values: torch.Tensor = worth["state"](hidden) + gain - gain.mean(1, keepdim=True)
        return values


def _follow(slow: nn.Module, fast: nn.Module, share: float) -> None:
    with torch.no_grad():
        for slowly, quickly in zip(slow.parameters(), fast.parameters(), strict=True):
            slowly.lerp_(quickly, share)


def _dueling() -> nn.ModuleDict:
    body = nn.Sequential(_layers(10, 32, 32, act=nn.ReLU), nn.ReLU())
    return nn.ModuleDict({"body": body, "gain": nn.Linear(32, CLASSES), "state": nn.Linear(32, 1)})


class Soft(nn.Module):
    """Actions of a squashed normal distribution, two critics, and a temperature that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = _layers(10, 32, 32, 6, act=nn.ReLU)
        self.critics = nn.ModuleList(_layers(13, 32, 32, 1, act=nn.ReLU) for _ in range(2))
        self.heat = nn.Parameter(torch.zeros(()))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        mean, log_spread = self.policy(inputs).chunk(2, -1)
        log_spread = log_spread.clamp(-5, 2)
        normal = torch.distributions.Normal(mean, log_spread.exp())
        drawn = normal.rsample()
        action = torch.tanh(drawn)
        likely = (normal.log_prob(drawn) - 2 * (0.6931472 - drawn - functional.softplus(-2 * drawn))).sum(-1)
        known = [critic(torch.cat([inputs, action.detach()], -1))[:, 0] for critic in self.critics]
        worth = torch.min(*(critic(torch.cat([inputs, action], -1))[:, 0] for critic in self.critics))
        heat = self.heat.exp()
        actor = (heat.detach() * likely - worth).mean()
        critic_loss = sum(functional.mse_loss(value, labels) for value in known)
        return actor + critic_loss - heat * (likely.detach() - 3.0).mean()


class Alone(nn.Module):
    """Two views of an input, without what they should differ from; the one that is foretold moves slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.sees, self.slow = _seeing(), _seeing().requires_grad_(False)
        self.slow.load_state_dict(self.sees.state_dict())
        self.foretells = nn.Sequential(nn.Linear(16, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 16))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = [self.slow(view) for view in (labels, inputs)]
        loss = torch.zeros((), dtype=inputs.dtype)
        for view, aim in zip((inputs, labels), wanted, strict=True):
            told = self.foretells(self.sees(view))
            loss = loss + (2 - 2 * functional.cosine_similarity(told, aim)).mean()
        _follow(self.slow, self.sees, 0.01)
        return loss


def _seeing() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 12, 3, 2), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 16),
    )  # fmt: skip


class Clusters(nn.Module):
    """Views that should fall into the same clusters, which share the inputs out evenly (Sinkhorn and Knopp)."""

    def __init__(self) -> None:
        super().__init__()
        self.sees = _layers(20, 48, 16, act=nn.GELU)
        self.centres = nn.Linear(16, 8, bias=False)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = [self.centres(functional.normalize(self.sees(view))) for view in (inputs, labels)]
        aims = [self._shared(score.detach()) for score in scores]
        parts = [
            -(aim * (score / 0.2).log_softmax(1)).sum(1).mean() for aim, score in zip(aims[::-1], scores, strict=True)
        ]
        return (parts[0] + parts[1]) / 2

    @staticmethod
    def _shared(scores: torch.Tensor) -> torch.Tensor:
        shares = (scores / 0.1).exp().T
        shares = shares / shares.sum()
        for _ in range(3):
            shares = shares / shares.sum(1, keepdim=True) / shares.shape[0]
            shares = shares / shares.sum(0, keepdim=True) / shares.shape[1]
        return (shares * shares.shape[1]).T


class Settled(nn.Module):
    """A layer that is called until its output does not change, and learns from the last call only."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards, self.again = nn.Linear(10, 24), nn.Linear(24, 24)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        given = self.inwards(inputs)
        state = torch.zeros_like(given)
        with torch.no_grad():
            for _ in range(20):
                following = self._next(state, given)
                if (following - state).norm() < 1e-2 * following.norm():
                    break
                state = following
        return functional.cross_entropy(self.head(self._next(state, given)), labels)

    def _next(self, state: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        following: torch.Tensor = self.norm(torch.tanh(0.5 * self.again(state) + given))
        return following


class Wandering(nn.Module):
    """An energy, lowered where data are and raised where a walk down its slope ends."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = _layers(12, 48, 48, 1, act=nn.Softplus)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        place = labels
        for _ in range(4):
            place = place.detach().requires_grad_()
            slope = torch.autograd.grad(self.energy(place).sum(), place)[0]
            place = place - 0.5 * slope + 0.05 * torch.randn_like(place)
        low, high = self.energy(inputs), self.energy(place.detach())
        return low.mean() - high.mean() + 0.1 * (low.square() + high.square()).mean()


class Slopes(nn.Module):
    """The slope of a logarithmic density, matched along directions of chance."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = _layers(8, 40, 40, 8, act=nn.Tanh)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        places = inputs.detach().requires_grad_()
        found = self.slope(places)
        along = (found * labels).sum()
        curved = torch.autograd.grad(along, places, create_graph=True)[0]
        return ((curved * labels).sum(-1) + 0.5 * (found * labels).sum(-1).square()).mean()


class Weights(nn.Module):
    """A network whose weights another one makes for each input."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = _layers(6, 32, 10 * 12 + 12, act=nn.GELU)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        given, told = inputs.split([10, 6], -1)
        weight, bias = self.maker(told).split([120, 12], -1)
        hidden = torch.baddbmm(bias.unsqueeze(1), given.unsqueeze(1), weight.view(-1, 10, 12) * 0.3)[:, 0]
        return functional.l1_loss(self.head(functional.gelu(self.norm(hidden)))[:, 0], labels)


class Branches(nn.Module):
    """A recurrence over trees: a cell of memory that forgets each child by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(strangers.VOCABULARY, 16)
        self.gates = nn.Linear(16, 72)
        self.again = nn.Linear(24, 72, bias=False)
        self.forget, self.forget_child = nn.Linear(16, 24), nn.Linear(24, 24, bias=False)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        roots = [self._node(tree, 0, self.tokens(tree))[0] for tree in inputs]
        return functional.cross_entropy(self.head(torch.stack(roots)), labels)

    def _node(self, tree: torch.Tensor, nth: int, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        children = [self._node(tree, child, words) for child in (2 * nth + 1, 2 * nth + 2) if child < len(tree)]
        below = torch.stack([hidden for hidden, _ in children]).sum(0) if children else words.new_zeros(24)
        enter, out, new = (self.gates(words[nth]) + self.again(below)).chunk(3)
        cell = torch.sigmoid(enter) * torch.tanh(new)
        for hidden, kept in children:
            cell = cell + torch.sigmoid(self.forget(words[nth]) + self.forget_child(hidden)) * kept
        return torch.sigmoid(out) * torch.tanh(cell), cell


class Pointing(nn.Module):
    """A tour over places: a recurrence that points at one after the other, none twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards = nn.Linear(2, 24)
        self.encoder, self.cell = nn.LSTM(24, 24, batch_first=True), nn.LSTMCell(24, 24)
        self.query, self.key, self.score = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        places = self.inwards(inputs)
        states, (hidden, memory) = self.encoder(places)
        hidden, memory, given = hidden[0], memory[0], states.mean(1)
        keys, loss = self.key(states), torch.zeros((), dtype=inputs.dtype)
        been = torch.zeros(inputs.shape[:2], dtype=torch.bool)
        rows = torch.arange(len(inputs))
        for time in range(labels.shape[1]):
            hidden, memory = self.cell(given, (hidden, memory))
            scores = self.score(torch.tanh(self.query(hidden).unsqueeze(1) + keys))[..., 0]
            scores = (10 * torch.tanh(scores)).masked_fill(been, float("-inf"))
            loss = loss + functional.nll_loss(scores.log_softmax(1), labels[:, time])
            been = been.scatter(1, labels[:, time : time + 1], True)
            given = places[rows, labels[:, time]]
        return loss / labels.shape[1]


class Memory(nn.Module):
    """A controller that reads and writes rows of a memory by how alike they are to a key."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6 + 8, 24)
        self.address, self.content = nn.Linear(24, 9), nn.Linear(24, 16)
        self.start = nn.Parameter(torch.randn(10, 8) * 0.3)
        self.head = nn.Linear(32, 6)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        memory = self.start.expand(len(inputs), -1, -1)
        hidden, read = inputs.new_zeros(len(inputs), 24), inputs.new_zeros(len(inputs), 8)
        told = []
        for time in range(inputs.shape[1]):
            hidden = self.cell(torch.cat([inputs[:, time], read], -1), hidden)
            key, sharp = self.address(hidden).split([8, 1], -1)
            alike = functional.cosine_similarity(memory, key.unsqueeze(1), dim=-1)
            weights = (functional.softplus(sharp) * alike).softmax(-1).unsqueeze(-1)
            erased, added = self.content(hidden).chunk(2, -1)
            memory = memory * (1 - weights * torch.sigmoid(erased).unsqueeze(1)) + weights * added.unsqueeze(1)
            read = (weights * memory).sum(1)
            told.append(self.head(torch.cat([hidden, read], -1)))
        return functional.binary_cross_entropy_with_logits(torch.stack(told, 1), labels)


class Choices(nn.Module):
    """An autoencoder whose code is a choice out of several, drawn by Gumbel's trick, the backward pass as if soft."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = _layers(20, 40, 6 * 5, act=nn.ReLU), _layers(30, 40, 20, act=nn.ReLU)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.encoder(inputs).view(-1, 6, 5)
        chosen = functional.gumbel_softmax(logits, tau=0.7, hard=True)
        shares = logits.softmax(-1)
        apart = (shares * (shares * 5 + 1e-10).log()).sum((1, 2)).mean()
        return functional.mse_loss(self.decoder(chosen.flatten(1)), labels) + 0.05 * apart


class Mixture(nn.Module):
    """A density of several normal distributions for each input."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_layers(10, 32, 32, act=nn.Tanh), nn.Tanh())
        self.shares, self.means, self.spreads = nn.Linear(32, 4), nn.Linear(32, 12), nn.Linear(32, 12)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.body(inputs)
        means, spreads = (layer(hidden).view(-1, 4, 3) for layer in (self.means, self.spreads))
        off = (labels.unsqueeze(1) - means) * torch.exp(-spreads)
        each = -0.5 * off.square().sum(-1) - spreads.sum(-1) - 2.7568156
        return -torch.logsumexp(self.shares(hidden).log_softmax(-1) + each, -1).mean()


class Regression(nn.Module):
    """A Gaussian process over learned features: the likelihood by a Cholesky factor."""

    def __init__(self) -> None:
        super().__init__()
        self.features = _layers(6, 24, 4, act=nn.Tanh)
        self.scales = nn.Parameter(torch.zeros(3))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        width, height, jitter = self.scales.float().exp()
        places = self.features(inputs).float()
        apart = (places.unsqueeze(1) - places.unsqueeze(0)).square().sum(-1)
        kernel = height * torch.exp(-0.5 * apart / width) + (0.1 * jitter + 1e-4) * torch.eye(len(places))
        factor = torch.linalg.cholesky(kernel)
        solved = torch.cholesky_solve(labels.float().unsqueeze(1), factor)[:, 0]
        return (0.5 * labels.float() @ solved + factor.diagonal().log().sum()) / len(places)


class Sines(nn.Module):
    """An image as a function of its places: sines of sines."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, 32) for width in (2, 32, 32))
        self.head = nn.Linear(32, 3)
        with torch.no_grad():
            for layer in self.layers[1:]:
                layer.weight.uniform_(-0.014, 0.014)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = inputs
        for layer in self.layers:
            hidden = torch.sin(30 * layer(hidden))
        return functional.mse_loss(self.head(hidden), labels)


class Hardest(nn.Module):
    """Of each row the farthest of its kind should be nearer than the nearest of another."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        places = functional.normalize(self.embed(inputs))
        alike = places @ places.T
        apart = (2 - 2 * alike).clamp(min=1e-9).sqrt()
        same = labels.unsqueeze(0) == labels.unsqueeze(1)
        far = (apart * same).max(1).values
        near = apart.masked_fill(same, 1e4).min(1).values
        return functional.relu(far - near + 0.3).mean()


class _Against(torch.autograd.Function):
    """Lets a value through, and turns its gradient round."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return -0.5 * gradients[0]


class Domains(nn.Module):
    """Classes that are told apart by features from which nobody can tell where an input comes from."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Dropout(0.2), nn.Linear(40, 24), nn.ReLU())
        self.classes, self.domain = _layers(24, 16, CLASSES, act=nn.ReLU), _layers(24, 16, 1, act=nn.ReLU)
        self.register_buffer("origin", (torch.arange(ROWS) % 2).float())

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        features = self.features(inputs)
        origin = self.domain(_Against.apply(features))[:, 0]
        told = functional.binary_cross_entropy_with_logits(origin, self.origin.to(origin.dtype))
        return functional.cross_entropy(self.classes(features), labels) + told


class Again(nn.Module):
    """Blocks that are computed again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 48), nn.GELU(), nn.Dropout(0.1), nn.Linear(48, 24))
            for _ in range(3)
        )
        self.head = nn.Linear(24, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = inputs
        for block in self.blocks:
            hidden = hidden + checkpoint(block, hidden, use_reentrant=False)
        return functional.cross_entropy(self.head(hidden), labels)


class Attacked(nn.Module):
    """A classifier that sees inputs moved by the sign of the gradient that would mislead it."""

    def __init__(self) -> None:
        super().__init__()
        self.sees = nn.Sequential(
            nn.Conv2d(3, 12, 3, 2), nn.GroupNorm(3, 12), nn.SiLU(), nn.Conv2d(12, 16, 3, 2), nn.GroupNorm(4, 16),
            nn.SiLU(), nn.Flatten(), nn.Linear(16 * 9, CLASSES),
        )  # fmt: skip

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        image = inputs.detach().requires_grad_()
        slope = torch.autograd.grad(functional.cross_entropy(self.sees(image), labels), image)[0]
        moved = (image + 0.03 * slope.sign()).clamp(-3, 3).detach()
        return functional.cross_entropy(self.sees(moved), labels)


class Transport(nn.Module):
    """How far one cloud of points must move to be another, with entropy, in logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = _layers(8, 32, 32, 3, act=nn.LeakyReLU)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        cost = torch.cdist(self.maker(inputs).float(), labels.float()).square()
        rows = columns = torch.zeros(len(cost), dtype=cost.dtype)
        for _ in range(5):
            rows = -torch.logsumexp(columns.unsqueeze(0) - 2 * cost, 1)
            columns = -torch.logsumexp(rows.unsqueeze(1) - 2 * cost, 0)
        plan = (rows.unsqueeze(1) + columns.unsqueeze(0) - 2 * cost).exp()
        return (plan * cost).sum()


class Warped(nn.Module):
    """How far apart two series are if time may stretch: a soft minimum at every pair of times."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.GRU(4, 24, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        told = self.head(self.body(inputs)[0])
        cost = (told.unsqueeze(2) - labels.unsqueeze(1)).square().mean(-1)
        never = torch.full((len(cost),), 1e4, dtype=cost.dtype)
        row = [torch.zeros_like(never)] + [never] * cost.shape[2]
        for time in range(cost.shape[1]):
            following = [never]
            for other in range(cost.shape[2]):
                before = torch.stack([row[other], row[other + 1], following[other]])
                following.append(cost[:, time, other] - 0.5 * torch.logsumexp(-before / 0.5, 0))
            row = following
        return row[-1].mean()


class Splats(nn.Module):
    """Soft spots on a canvas, in the order of their depth: each lets through what is left of the light."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.sizes = nn.Parameter(torch.rand(16, 2)), nn.Parameter(torch.full((16,), -1.5))
        self.depths, self.alphas = nn.Parameter(torch.randn(16)), nn.Parameter(torch.randn(16))
        self.colours = nn.Linear(3, 3)
        self.marks = nn.Parameter(torch.randn(16, 3))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        apart = (inputs.unsqueeze(1) - self.places.unsqueeze(0)).square().sum(-1)
        cover = torch.sigmoid(self.alphas) * torch.exp(-0.5 * apart / self.sizes.exp().square())
        order = self.depths.argsort()
        cover, colours = cover[:, order], torch.sigmoid(self.colours(self.marks))[order]
        left = torch.cumprod(1 - cover + 1e-6, 1)
        left = torch.cat([torch.ones_like(left[:, :1]), left[:, :-1]], 1)
        return functional.mse_loss((cover * left) @ colours, labels)


class Splines(nn.Module):
    """Layers whose edges are curves: sums of bumps at knots."""

    def __init__(self) -> None:
        super().__init__()
        self.curves = nn.ParameterList(torch.randn(out, width * 8) * 0.1 for width, out in ((6, 10), (10, 3)))
        self.straight = nn.ModuleList(nn.Linear(width, out) for width, out in ((6, 10), (10, 3)))
        self.register_buffer("knots", torch.linspace(-2, 2, 8))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = inputs
        for curves, straight in zip(self.curves, self.straight, strict=True):
            bumps = torch.exp(-((hidden.unsqueeze(-1) - self.knots) * 1.75).square()).flatten(1)
            hidden = functional.linear(bumps, curves) + straight(functional.silu(hidden))
        return functional.mse_loss(hidden, labels)


class Doubting(nn.Module):
    """Weights that are distributions: drawn in each pass, and held to what was believed before."""

    def __init__(self) -> None:
        super().__init__()
        self.means = nn.ModuleList(nn.Linear(width, out) for width, out in ((10, 24), (24, 24)))
        self.spreads = nn.ParameterList(torch.full((out, width), -4.0) for width, out in ((10, 24), (24, 24)))
        self.head = nn.Linear(24, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden, apart = inputs, torch.zeros((), dtype=inputs.dtype)
        for nth, (mean, spread) in enumerate(zip(self.means, self.spreads, strict=True)):
            width = functional.softplus(spread)
            weight = mean.weight + width * torch.randn_like(width)
            hidden = functional.linear(hidden if nth == 0 else torch.tanh(hidden), weight, mean.bias)
            apart = apart + (0.5 * (mean.weight.square() + width.square()) - width.log() - 0.5).sum()
        return functional.mse_loss(self.head(torch.tanh(hidden))[:, 0], labels) + 1e-3 * apart


class Context(nn.Module):
    """A function from a few of its points: their mean tells the rest, with how sure it is."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = _layers(3, 32, 32, 24, act=nn.ReLU), _layers(26, 32, 32, 2, act=nn.ReLU)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        shown = self.encoder(torch.cat([inputs[:, :5], labels[:, :5]], -1)).mean(1, keepdim=True)
        told = self.decoder(torch.cat([shown.expand(-1, inputs.shape[1], -1), inputs], -1))
        mean, spread = told.chunk(2, -1)
        return functional.gaussian_nll_loss(mean, labels, (0.1 + 0.9 * functional.softplus(spread)).square())


class Boxes(nn.Module):
    """One box for each cell of a grid: overlap, distance of centres and of shapes, and whether it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12, momentum=0.03), nn.SiLU(), nn.Conv2d(12, 24, 3, 2, 1),
            nn.BatchNorm2d(24, momentum=0.03), nn.SiLU(),
        )  # fmt: skip
        self.head = nn.Conv2d(24, 5, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        raw = self.head(self.body(inputs)).flatten(2).transpose(1, 2)
        there = labels[..., 4]
        centre, size = torch.sigmoid(raw[..., :2]), (2 * torch.sigmoid(raw[..., 2:4])).square()
        low, high = centre - size / 2, centre + size / 2
        true_low, true_high = labels[..., :2] - labels[..., 2:4] / 2, labels[..., :2] + labels[..., 2:4] / 2
        common = (torch.minimum(high, true_high) - torch.maximum(low, true_low)).clamp(min=0).prod(-1)
        overlap = common / (size.prod(-1) + labels[..., 2:4].prod(-1) - common + 1e-7)
        whole = (torch.maximum(high, true_high) - torch.minimum(low, true_low)).square().sum(-1)
        far = (centre - labels[..., :2]).square().sum(-1) / (whole + 1e-7)
        angles = torch.atan(size[..., 0] / (size[..., 1] + 1e-7)) - torch.atan(labels[..., 2] / labels[..., 3])
        shape = 0.4053 * angles.square()
        with torch.no_grad():
            share = shape / (shape - overlap + 1 + 1e-7)
        lost = ((1 - overlap + far + share * shape) * there).sum() / there.sum().clamp(min=1)
        sure = functional.binary_cross_entropy_with_logits(raw[..., 4], overlap.detach().clamp(0) * there)
        return 0.05 * lost + sure


class Volume(nn.Module):
    """Voxels that belong to an organ: how much two regions have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.InstanceNorm3d(8, affine=True), nn.LeakyReLU(0.01))
        self.below = nn.Sequential(
            nn.MaxPool3d(2), nn.Conv3d(8, 16, 3, padding=1), nn.InstanceNorm3d(16, affine=True), nn.LeakyReLU(0.01)
        )
        self.up = nn.ConvTranspose3d(16, 8, 2, 2)
        self.head = nn.Linear(16, 1)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen = self.down(inputs)
        both = torch.cat([seen, self.up(self.below(seen))], 1)
        chance = torch.sigmoid(self.head(both.movedim(1, -1))).movedim(-1, 1)
        common = (chance * labels).sum((1, 2, 3, 4))
        dice = (2 * common + 1) / (chance.sum((1, 2, 3, 4)) + labels.sum((1, 2, 3, 4)) + 1)
        return 1 - dice.mean()


class Likeness(nn.Module):
    """An image from a darker one, held to its structure: means and variances in windows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU6(), nn.Conv2d(16, 3, 3, padding=1))
        self.register_buffer("window", torch.full((3, 1, 5, 5), 1 / 25))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        made = torch.sigmoid(inputs + self.layers(inputs))
        one, other, one_square, other_square, product = (
            functional.conv2d(image, self.window, groups=3)
            for image in (made, labels, made * made, labels * labels, made * labels)
        )
        variance, other_variance = one_square - one.square(), other_square - other.square()
        common = product - one * other
        bright = (2 * one * other + 1e-4) / (one.square() + other.square() + 1e-4)
        return 1 - (bright * (2 * common + 9e-4) / (variance + other_variance + 9e-4)).mean()


class Returns(nn.Module):
    """The distribution of what an action is worth, over fixed returns, moved by a reward and shared out again."""

    def __init__(self) -> None:
        super().__init__()
        self.worth = _layers(10, 40, 40, 21, act=nn.ReLU)
        self.register_buffer("returns", torch.linspace(-5, 5, 21))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            later = self.worth(inputs.roll(-1, 0)).softmax(-1)
            places = ((labels.unsqueeze(1) + 0.9 * self.returns).clamp(-5, 5) + 5) / 0.5
            below, above = places.floor().long().clamp(0, 20), places.ceil().long().clamp(0, 20)
            wanted = torch.zeros_like(later)
            wanted.scatter_add_(1, below, later * (above.to(later.dtype) - places + (below == above).to(later.dtype)))
            wanted.scatter_add_(1, above, later * (places - below.to(later.dtype)))
        return -(wanted * self.worth(inputs).log_softmax(-1)).sum(-1).mean()


class Phases(nn.Module):
    """Signals by complex numbers: their spectra, turned and damped."""

    def __init__(self) -> None:
        super().__init__()
        self.turns, self.lengths = nn.Parameter(torch.randn(4, 17)), nn.Parameter(torch.randn(4, 17) * 0.2)
        self.mix = nn.Linear(4 * 32, 24)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(inputs.float(), norm="ortho")
        turned = spectrum * torch.polar(self.lengths.float().exp(), self.turns.float())
        signal = torch.fft.irfft(turned, norm="ortho").to(inputs.dtype)
        return functional.cross_entropy(self.head(torch.relu(self.mix(signal.flatten(1)))), labels)


class Trains(nn.Module):
    """A layer whose weight is a chain of small tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (
            nn.Parameter(torch.randn(*shape) * 0.4) for shape in ((3, 4, 5), (5, 4, 4, 5), (5, 2, 3))
        )
        self.norm = nn.LayerNorm(48)
        self.head = nn.Linear(48, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        given = inputs.view(-1, 3, 4, 2)
        hidden = torch.einsum("bijk,iar,rjcs,skd->bacd", given, self.first, self.second, self.third)
        return functional.cross_entropy(self.head(functional.gelu(self.norm(hidden.flatten(1)))), labels)


class Packed(nn.Module):
    """Sequences of different lengths, packed; the last state that is real is what counts."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(strangers.VOCABULARY, 16)
        self.body = nn.LSTM(16, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, CLASSES)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        lengths = torch.arange(len(inputs)) % 5 + 4
        packed = nn.utils.rnn.pack_padded_sequence(self.tokens(inputs), lengths, batch_first=True, enforce_sorted=False)
        states, (last, _) = self.body(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        return functional.cross_entropy(self.head(torch.cat([last[0], last[1]], -1) + padded.mean(1)), labels)


class Chances(nn.Module):
    """Actions that are drawn as the policy likes them, praised by what they brought less what was expected."""

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.expects = _layers(10, 32, CLASSES, act=nn.Tanh), _layers(10, 32, 1, act=nn.Tanh)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        choice = torch.distributions.Categorical(logits=self.policy(inputs).float())
        drawn = choice.sample()
        reward = labels[torch.arange(len(inputs)), drawn]
        expected = self.expects(inputs)[:, 0]
        praise = (reward - expected).detach()
        return (
            functional.mse_loss(expected, reward)
            - (choice.log_prob(drawn) * praise).mean()
            - 0.01 * choice.entropy().mean()
        )


class Directed(torch.optim.Optimizer):
    """Steps along what a kind of optimizer makes of gradients and their mean; parameters shrink by themselves."""

    def __init__(self, params: Any, lr: float, weight_decay: float = 0.01, eps: float = 1e-12) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(self.direction(parameter.grad, mean, group["eps"]), alpha=-group["lr"])

    def direction(self, gradient: torch.Tensor, mean: torch.Tensor, eps: float) -> torch.Tensor:
        raise NotImplementedError


class Lion(Directed):
    """Steps of one length for every element: the sign of a mean."""

    def direction(self, gradient: torch.Tensor, mean: torch.Tensor, eps: float) -> torch.Tensor:
        step = mean.lerp(gradient, 0.1)
        mean.lerp_(gradient, 0.01)
        return step / step.abs().add_(eps)


class Muon(Directed):
    """Steps of which all directions are equally long: a mean made orthogonal by five products."""

    def direction(self, gradient: torch.Tensor, mean: torch.Tensor, eps: float) -> torch.Tensor:
        mean.lerp_(gradient, 0.05)
        return _orthogonal(mean, eps) if mean.ndim == 2 else mean / (mean.norm() + eps)


def _orthogonal(matrix: torch.Tensor, eps: float) -> torch.Tensor:
    turned = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    turned = turned / (turned.norm() + eps)
    for _ in range(5):
        square = turned @ turned.T
        turned = 3.4445 * turned + (-4.775 * square + 2.0315 * square @ square) @ turned
    return turned.T if matrix.shape[0] > matrix.shape[1] else turned


class Plain(nn.Module):
    """A plain classifier, to be trained in an unusual way."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU(),
            nn.Linear(32, CLASSES),
        )  # fmt: skip

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.layers(inputs), labels)


_training = partial(batches.training, seed=7)


def _by(optimizer: type[torch.optim.Optimizer], **settings: Any) -> Build:
    return _training(
        Plain, batches.numbers(ROWS, 20), batches.classes(ROWS), optimizer=optimizer, settings={"lr": 1e-3} | settings
    )


def _tours(generator: torch.Generator) -> torch.Tensor:
    return torch.stack([torch.randperm(8, generator=generator) for _ in range(4)])


def _grid(generator: torch.Generator) -> torch.Tensor:
    boxes = torch.rand(4, 64, 4, generator=generator) * 0.8 + 0.1
    return torch.cat([boxes, (torch.rand(4, 64, 1, generator=generator) < 0.2).float()], -1)


MEMBERS: dict[str, Build] = {
    "penalty": _training(Penalty, batches.numbers(ROWS, 8), batches.numbers(ROWS, 16)),
    "adapting": _training(Adapting, batches.numbers(3, 10, 6), batches.numbers(3, 10)),
    "neighbours": _training(Neighbours, batches.numbers(NODES, 10), batches.classes(NODES)),
    "scattered": _training(Scattered, batches.numbers(NODES, 10), batches.flags(NODES)),
    "playing": _training(Playing, batches.numbers(ROWS, 10), batches.numbers(ROWS)),
    "soft": _training(Soft, batches.numbers(ROWS, 10), batches.numbers(ROWS)),
    "alone": _training(Alone, batches.numbers(6, 3, 16, 16), batches.numbers(6, 3, 16, 16)),
    "clusters": _training(Clusters, batches.numbers(ROWS, 20), batches.numbers(ROWS, 20)),
    "settled": _training(Settled, batches.numbers(ROWS, 10), batches.classes(ROWS)),
    "wandering": _training(Wandering, batches.numbers(ROWS, 12), batches.numbers(ROWS, 12)),
    "slopes": _training(Slopes, batches.numbers(ROWS, 8), batches.numbers(ROWS, 8)),
    "weights": _training(Weights, batches.numbers(ROWS, 16), batches.numbers(ROWS)),
    "branches": _training(Branches, batches.tokens(3, 7), batches.classes(3)),
    "pointing": _training(Pointing, batches.shares(4, 8, 2), _tours),
    "memory": _training(Memory, batches.flags(4, 5, 6), batches.flags(4, 5, 6)),
    "choices": _training(Choices, batches.numbers(ROWS, 20), batches.numbers(ROWS, 20)),
    "mixture": _training(Mixture, batches.numbers(ROWS, 10), batches.numbers(ROWS, 3)),
    "regression": _training(Regression, batches.numbers(ROWS, 6), batches.numbers(ROWS)),
    "sines": _training(Sines, batches.numbers(64, 2), batches.shares(64, 3)),
    "hardest": _training(Hardest, batches.numbers(24, 20), batches.classes(24)),
    "domains": _training(Domains, batches.numbers(ROWS, 20), batches.classes(ROWS)),
    "again": _training(Again, batches.numbers(ROWS, 24), batches.classes(ROWS)),
    "attacked": _training(Attacked, batches.numbers(6, 3, 16, 16), batches.classes(6)),
    "transport": _training(Transport, batches.numbers(16, 8), batches.numbers(16, 3)),
    "warped": _training(Warped, batches.numbers(3, 6, 4), batches.numbers(3, 6, 4)),
    "splats": _training(Splats, batches.shares(64, 2), batches.shares(64, 3)),
    "splines": _training(Splines, batches.numbers(ROWS, 6), batches.numbers(ROWS, 3)),
    "doubting": _training(Doubting, batches.numbers(ROWS, 10), batches.numbers(ROWS)),
    "context": _training(Context, batches.numbers(4, 12, 2), batches.numbers(4, 12, 1)),
    "boxes": _training(Boxes, batches.numbers(4, 3, 32, 32), _grid),
    "volume": _training(Volume, batches.numbers(2, 1, 8, 8, 8), batches.flags(2, 1, 8, 8, 8)),
    "likeness": _training(Likeness, batches.numbers(2, 3, 16, 16), batches.shares(2, 3, 16, 16)),
    "returns": _training(Returns, batches.numbers(ROWS, 10), batches.numbers(ROWS)),
    "phases": _training(Phases, batches.numbers(ROWS, 4, 32), batches.classes(ROWS)),
    "trains": _training(Trains, batches.numbers(ROWS, 24), batches.classes(ROWS)),
    "packed": _training(Packed, batches.tokens(6, 8), batches.classes(6)),
    "chances": _training(Chances, batches.numbers(ROWS, 10), batches.numbers(ROWS, CLASSES)),
    "lion": _by(Lion),
    "muon": _by(Muon),
    "nadam": _by(torch.optim.NAdam, foreach=False),
    "adamax": _by(torch.optim.Adamax, foreach=False),
    "adagrad": _by(torch.optim.Adagrad, foreach=False),
}
