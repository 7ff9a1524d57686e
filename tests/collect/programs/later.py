"""More programs: what compiles its own functions, what looks into the graph, and how people train beyond one loop."""

from __future__ import annotations

import asyncio
import copy
import io
from functools import partial
from typing import Any

import torch
from kinds import PROGRAMS, Made, Two, batch, lbfgs, mlp, plain, program
from torch import Tensor, nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.map import map as map_over
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint


def looped(x: Tensor) -> Tensor:
    """Three turns, through which no gradient goes."""
    _, y = while_loop(lambda turn, _: turn < 3, lambda turn, y: (turn + 1, y.sin()), (torch.tensor(0), x.detach()))
    return x + y


def summed(x: Tensor) -> Tensor:
    return x + associative_scan(lambda one, other: one + other, x.detach(), 0, combine_mode="generic")


PROGRAMS |= {
    "cond": lambda: plain(Two(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))),
    "while_loop": lambda: plain(Two(looped)),
    "scan": lambda: plain(Two(lambda x: scan(lambda carry, y: (carry + y, (carry * y).sin()), torch.zeros(8), x)[1])),
    "associative_scan": lambda: plain(Two(summed)),
    "map": lambda: plain(Two(lambda x: map_over(lambda row: row.sin(), x))),
    "AdamW, foreach": lambda: with_adamw(foreach=True),
    "AdamW, fused": lambda: with_adamw(fused=True),
    "AdamW, amsgrad, maximize": lambda: with_adamw(amsgrad=True, maximize=True),
}


def with_adamw(**options: Any) -> Made:
    model = mlp()
    return plain(model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.1, **options))


@program("LBFGS, strong_wolfe")
def line_search() -> Made:
    return lbfgs(mlp(), max_iter=4, line_search="strong_wolfe")


@program("optimizers in the backward")
def optimizers_in_the_backward() -> Made:
    model = mlp()
    optimizers = {parameter: torch.optim.Adam([parameter], lr=0.1) for parameter in model.parameters()}

    def update(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    def step(number: int) -> float:
        loss = model(batch(number)).square().mean()
        loss.backward()
        return loss.item()

    return model, step


@program("selective checkpoint")
def selective_checkpoint() -> Made:
    contexts = partial(checkpoint.create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])

    def loss(model: Any, x: Tensor) -> Tensor:
        return checkpoint.checkpoint(model, x, use_reentrant=False, context_fn=contexts).square().mean()

    return plain(mlp(), loss_of=loss)


@program("gradients of each sample, with noise")
def gradients_of_samples() -> Made:
    model = mlp()

    def loss_of(parameters: Any, x: Tensor) -> Tensor:
        return torch.func.functional_call(model, parameters, (x[None],)).square().mean()

    def step(number: int) -> float:
        parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
        gradients = torch.vmap(torch.func.grad(loss_of), in_dims=(None, 0))(parameters, batch(number))
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[name].clamp(-1, 1).mean(0) + 0.01 * torch.randn_like(parameter)
            parameter.data.add_(parameter.grad, alpha=-0.1)
        return model(batch(number)).sum().item()

    return model, step


@program("asyncio, two models in turns")
def asynchronous() -> Made:
    models = [mlp(), mlp()]

    async def trained(model: Any, number: int) -> float:
        await asyncio.sleep(0)
        loss = model(batch(number)).square().mean()
        await asyncio.sleep(0)
        loss.backward()
        return loss.item()

    async def both(number: int) -> list[float]:
        return await asyncio.gather(*(trained(model, number) for model in models))

    return models, lambda number: asyncio.run(both(number))


@program("diffusion, EMA by lerp")
def diffusion() -> Made:
    model = nn.Sequential(nn.Linear(9, 16), nn.SiLU(), nn.Linear(16, 8))
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(number: int) -> float:
        x, time = batch(number), torch.rand(4, 1)
        noise = torch.randn_like(x)
        noisy = torch.cat([(1 - time).sqrt() * x + time.sqrt() * noise, time], 1)
        loss = functional.mse_loss(model(noisy), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.1)
        return loss.item()

    return model, step


@program("saved tensors packed, on the CPU")
def saved_tensors() -> Made:
    model = mlp()

    def step(number: int) -> Any:
        packed: list[int] = []

        def pack(tensor: Tensor) -> Tensor:
            packed.append(tensor.numel())
            return tensor.detach().clone()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            first = model(batch(number)).square().mean()
        first.backward()
        with torch.autograd.graph.save_on_cpu():
            second = model(batch(number)).square().mean()
        second.backward()
        return first.item(), second.item(), packed

    return model, step


@program("detect_anomaly, NaN in backward caught")
def anomaly() -> Made:
    model = mlp()

    def step(number: int) -> Any:
        with torch.autograd.detect_anomaly(check_nan=True):
            try:
                (model(batch(number)).sum() * 0).sqrt().backward()
                said = ""
            except RuntimeError as error:
                said = str(error).splitlines()[0]
            loss = model(batch(number)).square().mean()
            loss.backward()
        return said, loss.item()

    return model, step


class Copying(nn.Module):
    """Copies and saves itself while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        twin, file = copy.deepcopy(self), io.BytesIO()
        torch.save(self, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        with torch.no_grad():
            y = twin.inner(x) + loaded.inner(x)
        return self.inner(x) + y + len(twin._forward_hooks) + len(loaded._forward_pre_hooks)


PROGRAMS["a module that copies and saves itself"] = lambda: plain(nn.Sequential(Copying(), nn.Linear(8, 4)))


class Looking(TorchFunctionMode):
    """Notes which functions it is asked about, and whether they are torch's own."""

    dropout = staticmethod(functional.dropout)

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append((getattr(function, "__name__", ""), function is self.dropout))
        return function(*args, **(kwargs or {}))


@program("a function mode of the user's")
def function_mode() -> Made:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 4))

    def step(number: int) -> Any:
        with Looking() as mode:
            loss = model(batch(number).mul(2)).square().mean()
        loss.backward()
        return loss.item(), mode.seen

    return model, step
