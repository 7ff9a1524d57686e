"""Programs of still other kinds: in the deep, batches of gradients, compiled regions, and what looks at functions."""

from __future__ import annotations

import contextlib
import pickle
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from kinds import PROGRAMS, Made, Two, batch, mlp, plain, program, training
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Around(nn.Module):
    """Goes round a part."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x)


class Changing(nn.Module):
    """Replaces its forward when it is first called."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.forward = types.MethodType(lambda self, x: self.part(x) * 2, self)
        return self.part(x)


class Endless(nn.Module):
    """Calls itself for ever."""

    def forward(self, x: Tensor) -> Tensor:
        return self(x.sin())


class Interrupted(nn.Module):
    def forward(self, _: Tensor) -> Tensor:
        raise KeyboardInterrupt


@torch.library.custom_op("lakeprobe_tests::scaled", mutates_args=())
def scaled(x: Tensor, size: float) -> Tensor:
    """An operator of the program's."""
    return x * size


scaled.register_autograd(
    lambda ctx, gradient: (gradient * ctx.size, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "size", inputs[1]),
)


@program("two hundred modules in each other")
def deep() -> Made:
    model: nn.Module = nn.Linear(8, 4)
    for _ in range(200):
        model = Around(model)
    return plain(model)


@program("a pickle of the model and of functions")
def pickled() -> Made:
    model = mlp()
    trained = training(model)

    def step(number: int) -> list[Any]:
        functions = [torch.relu, functional.gelu, torch.linalg.norm, Tensor.exp]
        copies = [pickle.loads(pickle.dumps(function)) for function in functions]
        again = pickle.loads(pickle.dumps(model))
        return [trained(number), again(batch(number)), *(function(batch(number)) for function in copies)]

    return model, step


@program("is_grads_batched")
def batched() -> Made:
    model = mlp()

    def step(number: int) -> tuple[Tensor, ...]:
        y = model(batch(number))
        each = torch.eye(16).view(16, 4, 4)
        return torch.autograd.grad(y, list(model.parameters()), grad_outputs=each, is_grads_batched=True)

    return model, step


@program("an interrupt that is caught")
def interrupted() -> Made:
    model = nn.ModuleList([mlp(), Interrupted()])
    trained = training(model[0])

    def step(number: int) -> float:
        with contextlib.suppress(KeyboardInterrupt):
            model[1](model[0](batch(number)))
        return trained(number)

    return model, step


@program("checkpoints in each other, dropout in them")
def nested_checkpoints() -> Made:
    model = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])

    def inner(x: Tensor) -> Tensor:
        return model[2](functional.dropout(model[1](x), 0.3)).relu()

    def outer(x: Tensor) -> Tensor:
        return checkpoint(inner, model[0](x), use_reentrant=False).tanh()

    return plain(model, loss_of=lambda _, x: model[3](checkpoint(outer, x, use_reentrant=False)).square().mean())


@program("module.compile of each block")
def regions() -> Made:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(3)])
    for block in model:
        block.compile(backend="eager")
    return plain(model)


@program("a walk through the graph, hooks of its nodes")
def walked() -> Made:
    model = mlp()

    def step(number: int) -> list[Any]:
        seen: list[Any] = []
        y = model(batch(number))
        y.grad_fn.register_hook(lambda inputs, _: seen.append(len(inputs)))
        y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
        nodes = [y.grad_fn]
        while nodes:
            node = nodes.pop()
            seen.append(node.name())
            nodes += [following for following, _ in node.next_functions if following is not None]
        y.square().mean().backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        model.zero_grad()
        return [seen, gradients]

    return model, step


@program("a pool of threads, two models")
def pool() -> Made:
    models = [mlp(), mlp()]
    steps = [training(model) for model in models]

    def step(number: int) -> list[float]:
        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(lambda one: one(number), steps))

    return models, step


@program("GradScaler with a skipped step")
def skipping() -> Made:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024, growth_interval=1)

    def step(number: int) -> list[float]:
        with torch.autocast("cpu", torch.float16):
            loss = model(batch(number)).float().square().mean() * (float("inf") if number == 1 else 1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return [loss.item(), scaler.get_scale()]

    return model, step


def jagged(model: Any, x: Tensor) -> Tensor:
    return model(torch.nested.nested_tensor([x[:1], x[1:]], layout=torch.jagged)).values().square().mean()


PROGRAMS |= {
    "an endless recursion that is caught": lambda: recursing(),
    "a module that replaces its forward": lambda: plain(Changing()),
    "a custom operator": lambda: plain(Two(lambda x: scaled(x, 0.5) + torch.ops.lakeprobe_tests.scaled(x, 2.0))),
    "an argument of a thousand tensors": lambda: plain(
        Two(lambda x: torch.cat([x[:, [part % 8]] for part in range(1000)], 1)[:, :8])
    ),
    "jagged tensors": lambda: plain(nn.Linear(8, 4), loss_of=jagged),
}


def recursing() -> Made:
    model = nn.ModuleList([mlp(), Endless()])
    trained = training(model[0])

    def step(number: int) -> float:
        with contextlib.suppress(RecursionError):
            model[1](batch(number))
        return trained(number)

    return model, step
