"""Programs as papers publish them: losses, solvers and optimizers that use autograd in ways of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from kinds import Made, mlp, program
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.flop_counter import FlopCounterMode


def trained(model: nn.Module, loss_of: Callable[[], Tensor], optimizer: torch.optim.Optimizer | None = None) -> Made:
    """A step of SGD, or of the optimizer, by a loss."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05)

    def step(_: int) -> float:
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return model, step


class Field(nn.Module):
    """A random field over a chain: the loss of labels by the forward algorithm."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.recurrent = nn.LSTM(8, 4, bidirectional=True, batch_first=True)
        self.scores = nn.Linear(8, 3)
        self.transitions = nn.Parameter(torch.randn(3, 3))

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        scores = self.scores(self.recurrent(self.embedding(tokens))[0])
        total = scores[:, 0]
        path = scores[:, 0].gather(1, labels[:, :1]).squeeze(1)
        for at in range(1, tokens.shape[1]):
            total = torch.logsumexp(total[:, :, None] + self.transitions + scores[:, at, None], 1)
            path = path + scores[:, at].gather(1, labels[:, at : at + 1]).squeeze(1)
            path = path + self.transitions[labels[:, at - 1], labels[:, at]]
        return (torch.logsumexp(total, 1) - path).mean()


@program("a conditional random field over an LSTM")
def field() -> Made:
    model = Field()

    def loss() -> Tensor:
        return model(torch.randint(0, 10, (2, 5)), torch.randint(0, 3, (2, 5)))

    return trained(model, loss, torch.optim.Adagrad(model.parameters()))


class Contrast(nn.Module):
    """Momentum contrast: a queue of keys, and an encoder that follows the other one."""

    def __init__(self) -> None:
        super().__init__()
        self.query = mlp()
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(4, 8), dim=0))
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        queries = functional.normalize(self.query(one), dim=1)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.key.parameters()), list(self.query.parameters()), 0.01)
            keys = functional.normalize(self.key(other), dim=1)
        alike = torch.einsum("nc,nc->n", queries, keys)[:, None]
        logits = torch.cat([alike, queries @ self.queue.clone()], 1) * self.scale.exp()
        self.queue[:, :4] = keys.T
        return functional.cross_entropy(logits, torch.zeros(4, dtype=torch.long))


@program("momentum contrast, with a queue")
def contrast() -> Made:
    model = Contrast()
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(learned, lr=0.1, momentum=0.9, nesterov=True)
    return trained(model, lambda: model(torch.randn(4, 8), torch.randn(4, 8)), optimizer)


class Quantised(nn.Module):
    """An autoencoder through the nearest of a book of codes, which follows what it stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)
        self.register_buffer("book", torch.randn(6, 4))

    def forward(self, x: Tensor) -> Tensor:
        code = self.encoder(x)
        nearest = torch.cdist(code, self.book).argmin(1)
        found = self.book[nearest]
        with torch.no_grad():
            share = functional.one_hot(nearest, 6).float()
            self.book.mul_(0.9).add_(share.T @ code, alpha=0.1)
        return functional.mse_loss(self.decoder(code + (found - code).detach()), x) + functional.mse_loss(code, found)


@program("a quantised autoencoder, straight through")
def quantised() -> Made:
    model = Quantised()
    return trained(model, lambda: model(torch.randn(8, 8)))


class Policy(nn.Module):
    """A normal distribution of actions, and the value of a state."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.value = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)
        self.deviation = nn.Parameter(torch.zeros(2))

    def forward(self, states: Tensor) -> tuple[Normal, Tensor]:
        hidden = torch.tanh(self.body(states))
        return Normal(self.mean(hidden), self.deviation.exp()), self.value(hidden).squeeze(-1)


@program("proximal policy optimisation")
def policy() -> Made:
    model = Policy()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(_: int) -> list[float]:
        states = torch.randn(8, 4)
        with torch.no_grad():
            before, values = model(states)
            actions = before.sample()
            chances = before.log_prob(actions).sum(-1)
            advantages = -actions.square().sum(-1) - values
        losses = []
        for batch in torch.randperm(8).split(4):
            now, value = model(states[batch])
            ratio = (now.log_prob(actions[batch]).sum(-1) - chances[batch]).exp()
            gain = torch.min(ratio * advantages[batch], ratio.clamp(0.8, 1.2) * advantages[batch]).mean()
            loss = functional.smooth_l1_loss(value, values[batch]) - gain - 0.01 * now.entropy().mean()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=True)
            optimizer.step()
            losses.append(loss.item())
        return losses

    return model, step


@program("learning to learn: steps inside a step")
def learning() -> Made:
    model = mlp()

    def loss() -> Tensor:
        fast = dict(model.named_parameters())
        for _ in range(2):
            inner = torch.func.functional_call(model, fast, (torch.randn(4, 8),)).square().mean()
            gradients = torch.autograd.grad(inner, tuple(fast.values()), create_graph=True)
            fast = {name: value - 0.1 * g for (name, value), g in zip(fast.items(), gradients, strict=True)}
        return torch.func.functional_call(model, fast, (torch.randn(4, 8),)).square().mean()

    return trained(model, loss)


@program("a network that solves an equation by its derivatives")
def equation() -> Made:
    model = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 1))

    def loss() -> Tensor:
        points = torch.rand(6, 2, requires_grad=True)
        found = model(points)
        (first,) = torch.autograd.grad(found, points, torch.ones_like(found), create_graph=True)
        (second,) = torch.autograd.grad(first[:, 0].sum(), points, create_graph=True)
        return (first[:, 1] - 0.1 * second[:, 0]).square().mean() + model(torch.zeros(1, 2)).square().mean()

    return trained(model, loss)


class Equilibrium(nn.Module):
    """The fixed point of a layer. A hook on it solves for its gradient, with autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 8)

    def once(self, state: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(state) * 0.3 + self.outer(x))

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        with torch.no_grad():
            for _ in range(8):
                state = self.once(state, x)
        state = self.once(state, x)
        start = state.detach().requires_grad_()
        again = self.once(start, x)

        def solve(gradient: Tensor) -> Tensor:
            solution = gradient
            for _ in range(6):
                solution = torch.autograd.grad(again, start, solution, retain_graph=True)[0] + gradient
            return solution

        state.register_hook(solve)
        return state


@program("a deep equilibrium, a hook that solves its backward")
def equilibrium() -> Made:
    model = nn.Sequential(Equilibrium(), nn.Linear(8, 1))
    return trained(model, lambda: model(torch.randn(4, 8)).square().mean())


class Adjoint(torch.autograd.Function):
    """Euler's steps. The backward runs them back, and has the gradients of each by autograd."""

    @staticmethod
    def forward(ctx: Any, slope: nn.Module, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.slope = slope
        for _ in range(4):
            x = x + 0.25 * slope(x)
        ctx.save_for_backward(x, *parameters)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, *parameters = ctx.saved_tensors
        sums = [torch.zeros_like(parameter) for parameter in parameters]
        for _ in range(4):
            with torch.enable_grad():
                at = x.detach().requires_grad_()
                slope = ctx.slope(at)
                found = torch.autograd.grad(slope, [at, *parameters], gradient)
            x = x - 0.25 * slope.detach()
            gradient = gradient + 0.25 * found[0]
            sums = [one + 0.25 * other for one, other in zip(sums, found[1:], strict=True)]
        return None, gradient, *sums


class Flow(nn.Module):
    """A differential equation whose slope is a network."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(Adjoint.apply(self.slope, x, *self.slope.parameters()))


@program("a neural differential equation, by its adjoint")
def flow() -> Made:
    model = Flow()
    return trained(model, lambda: model(torch.randn(3, 4)).square().mean())


class Adapted(nn.Module):
    """A frozen layer with a product of two thin matrices beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, base.in_features) * 0.1)
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + functional.linear(functional.linear(x, self.down), self.up) * 2


@program("low-rank adapters, put in within a step")
def adapted() -> Made:
    model = mlp()

    def step(number: int) -> float:
        if number == 1:
            for name, part in list(model.named_children()):
                if isinstance(part, nn.Linear):
                    setattr(model, name, Adapted(part))
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1).step()
        model.zero_grad()
        return loss.item()

    return model, step


@program("sharpness-aware: weights moved there and back")
def sharpness() -> Made:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(_: int) -> float:
        x = torch.randn(4, 8)
        loss = model(x).square().mean()
        loss.backward()
        parameters = list(model.parameters())
        with torch.no_grad():
            norm = torch.stack([parameter.grad.norm() for parameter in parameters]).norm()
            moves = [parameter.grad * (0.05 / (norm + 1e-12)) for parameter in parameters]
            torch._foreach_add_(parameters, moves)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        with torch.no_grad():
            torch._foreach_sub_(parameters, moves)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return model, step


class Orthogonal(torch.optim.Optimizer):
    """Muon: moves matrices by an orthogonal one near their gradient, found in bfloat16."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.02})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            move = parameter.grad
            if move.dim() == 2:
                move = move.bfloat16()
                move = move / (move.norm() + 1e-7)
                for _ in range(3):
                    square = move @ move.mT
                    move = 3.4445 * move + (-4.7750 * square + 2.0315 * square @ square) @ move
            parameter.add_(move.to(parameter.dtype), alpha=-0.02)


@program("an optimizer of one's own: Muon")
def orthogonal() -> Made:
    model = mlp()
    return trained(model, lambda: model(torch.randn(4, 8)).square().mean(), Orthogonal(model.parameters()))


@program("a critic with a gradient penalty, orthogonal weights")
def critic() -> Made:
    model = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), parametrizations.orthogonal(nn.Linear(8, 8)), nn.Linear(8, 1))

    def loss() -> Tensor:
        real, made, share = torch.randn(4, 8), torch.randn(4, 8), torch.rand(4, 1)
        between = (share * real + (1 - share) * made).requires_grad_()
        (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
        return model(made).mean() - model(real).mean() + 10 * (slope.norm(2, 1) - 1).square().mean()

    return trained(model, loss)


@torch.library.custom_op("lakeprobe_programs::scaled", mutates_args=())
def scaled(x: Tensor, by: float) -> Tensor:
    return x * by


@torch.library.custom_op("lakeprobe_programs::shift_", mutates_args=("x",))
def shift_(x: Tensor) -> None:
    x.numpy()[...] += 1


scaled.register_autograd(
    lambda ctx, gradient: (gradient * ctx.by, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)


@program("ops of torch.library, one that writes in place")
def library() -> Made:
    model = mlp()

    def loss() -> Tensor:
        x = torch.randn(4, 8)
        shift_(x)
        return scaled(model(x), 2.0).square().mean() + torch.ops.lakeprobe_programs.scaled(model(x), 0.5).mean()

    return trained(model, loss)


@program("FLOPs counted, and profiled")
def counted() -> Made:
    model = mlp()

    def step(_: int) -> tuple[float, int]:
        with FlopCounterMode(display=False) as counter, torch.profiler.profile(record_shapes=True):
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
        model.zero_grad()
        return loss.item(), counter.get_total_flops()

    return model, step


class Marking(torch.autograd.Function):
    """Writes into its argument, gives what has no gradient, and takes None in place of zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(x)
        highest = x.argmax(1)
        ctx.mark_non_differentiable(highest)
        return x.mul_(2), y.clone(), highest

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, other: Tensor | None, _: Any) -> tuple[Any, Any]:
        return None if gradient is None else gradient * 2, other


class Marked(nn.Module):
    """A layer through such a function."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return Marking.apply(self.layer(x) * 1, self.layer(x) + 1)


@program("a function that marks its tensors, one result unused")
def marked() -> Made:
    model = nn.Sequential(Marked())
    return trained(model, lambda: model(torch.randn(4, 8))[0].square().mean())
