"""Still more programs: recurrent and sparse parts, processes, closures, and ways to keep or move weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from kinds import PROGRAMS, Made, Two, batch, mlp, plain, program
from torch import Tensor, multiprocessing, nn
from torch.nn import functional
from torch.nn.utils import parametrize, rnn
from torch.utils import data


class Steps(torch.autograd.Function):
    """Its forward gives a tensor, a number and a text; its backward gives None for what is not a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float, name: str) -> tuple[Tensor, float, str]:
        ctx.scale = scale
        return x * scale, scale, name

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor, None, None]:
        return gradient * ctx.scale, None, None


class Straight(torch.autograd.Function):
    """A step function with a straight-through gradient, by setup_context, which functional transforms can take."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < 1)


class Skew(nn.Module):
    """A parametrization that keeps a matrix antisymmetric."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu(1) - weight.triu(1).mT


class Packed(nn.Module):
    """A GRU over sequences of different lengths, of which it returns the last state of each."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, sparse=True, padding_idx=0)
        self.recurrent = nn.GRU(8, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        packed = rnn.pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.recurrent(packed)
        padded, _ = rnn.pad_packed_sequence(output, batch_first=True)
        return self.head(padded.sum(1))


@program("packed GRU, sparse embedding")
def packed() -> Made:
    model = Packed()
    sparse = torch.optim.SparseAdam(list(model.embedding.parameters()), lr=0.1)
    dense = torch.optim.Adam([*model.recurrent.parameters(), *model.head.parameters()], lr=0.1)

    def step(number: int) -> float:
        generator = torch.Generator().manual_seed(number)
        tokens = torch.randint(1, 20, (4, 6), generator=generator)
        loss = model(tokens, torch.tensor([6, 2, 5, 3])).square().mean()
        loss.backward()
        for parameter in model.embedding.parameters():
            parameter.grad = parameter.grad.coalesce()
        sparse.step()
        dense.step()
        result = loss.item()
        sparse.zero_grad()
        dense.zero_grad()
        return result

    return model, step


PROGRAMS |= {
    "a function whose results are not all tensors": lambda: plain(Two(lambda x: Steps.apply(x, 0.5, "half")[0])),
    "a function by setup_context": lambda: plain(Two(Straight.apply)),
}


@program("an ensemble by stack_module_state")
def ensemble() -> Made:
    members = [mlp() for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(members)
    skeleton = mlp().to("meta")
    optimizer = torch.optim.Adam(parameters.values(), lr=0.1)

    def of_one(parameters: Any, buffers: Any, x: Tensor) -> Tensor:
        return torch.func.functional_call(skeleton, (parameters, buffers), (x,))

    def step(number: int) -> list[Any]:
        outputs = torch.vmap(of_one, in_dims=(0, 0, None), randomness="different")(parameters, buffers, batch(number))
        loss = outputs.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return [loss.item(), *parameters.values()]

    return members, step


class Numbers(data.Dataset[Any]):
    """Batches that workers make."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        return torch.randn(8, generator=torch.Generator().manual_seed(index)) * torch.sigmoid(torch.tensor(1.0))


@program("DataLoader, two workers")
def workers() -> Made:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(_: int) -> float:
        total = 0.0
        for x in data.DataLoader(Numbers(), batch_size=4, num_workers=2):
            loss = model(x).square().mean()
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        return total

    return model, step


def descend(model: Any, number: int) -> None:
    loss = model(batch(number)).square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad


@program("Hogwild, forked processes one after the other")
def hogwild() -> Made:
    model = mlp().share_memory()

    def step(number: int) -> float:
        for turn in range(2):
            process = multiprocessing.get_context("fork").Process(target=descend, args=(model, number + turn))
            process.start()
            process.join()
            assert process.exitcode == 0
        return model(batch(number)).square().mean().item()

    return model, step


@program("parametrize: a parametrized square, cached")
def parametrized() -> Made:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    parametrize.register_parametrization(model[0], "weight", Skew())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(number: int) -> float:
        with parametrize.cached():
            loss = model(batch(number)).square().mean() + model[0].weight.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return model, step


@program("SWA with BatchNorm updated")
def averaged() -> Made:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = torch.optim.swa_utils.AveragedModel(model)

    def step(number: int) -> list[Any]:
        loss = model(batch(number)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        torch.optim.swa_utils.update_bn([batch(number)], average)
        return [loss.item(), *average.state_dict().values()]

    return model, step


@program("an LBFGS closure that raises once")
def stumbling() -> Made:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def step(number: int) -> float:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = model(batch(number)).square().mean()
            if loss.requires_grad and number == 1:
                raise ArithmeticError("a bad batch")
            loss.backward()
            return loss

        with contextlib.suppress(ArithmeticError):
            return optimizer.step(closure).item()
        return -1.0

    return model, step


@program("a generator that yields in mid-forward")
def generating() -> Made:
    model = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)])

    def parts(x: Tensor) -> Iterator[Tensor]:
        for part in model:
            x = functional.gelu(part(x))
            yield x

    def step(number: int) -> float:
        running = [parts(batch(number)), parts(batch(number + 1))]
        last = [y for pair in zip(*running, strict=True) for y in pair][-2:]
        loss = sum((y.square().mean() for y in last), torch.zeros(()))
        loss.backward()
        next(parts(batch(number)))  # left in the middle
        return loss.item()

    return model, step


@program("an early return, and a step without backward")
def early() -> Made:
    model = mlp()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)

    def step(number: int) -> float:
        loss = model(batch(number)).square().mean()
        if number == 1:
            with torch.inference_mode():
                return model(batch(5)).sum().item()
        loss.backward()
        optimizer.step()
        return loss.item()

    return model, step


@program("views written in place, complex and real")
def views() -> Made:
    def turned(x: Tensor) -> Tensor:
        y = x.clone()
        y[:, ::2].mul_(2)
        y.narrow(1, 1, 2).add_(1)
        pairs = torch.view_as_complex(y.reshape(y.shape[0], -1, 2))
        angled = pairs * torch.polar(torch.ones(()), torch.tensor(0.5))
        first, second = torch.view_as_real(angled).reshape(y.shape).chunk(2, dim=1)
        return torch.cat([first.clone().squeeze_(), second.conj().real], dim=1)

    return plain(Two(turned))


@program("gradient hooks that replace gradients, retain_grad")
def replacing() -> Made:
    model = mlp()
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))

    def loss(model: Any, x: Tensor) -> Tensor:
        y = model(x)
        y.retain_grad()
        y.register_hook(lambda gradient: gradient * 2)
        return y.square().mean()

    return plain(model, loss_of=loss)
