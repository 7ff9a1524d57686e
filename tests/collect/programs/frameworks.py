"""Programs that call a model as accelerate, DeepSpeed and Megatron-LM do, where these are not installed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from kinds import Made, batch, mlp, program
from torch import Tensor, nn
from torch.autograd import Variable


@program("as accelerate: mixed precision, accumulation")
def _() -> Made:
    model, accumulated = mlp(), 2
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    forward = model.forward

    @functools.wraps(forward)
    def as_prepared(*args: Any) -> Tensor:  # `prepare` puts such a function into the model
        with torch.autocast("cpu", torch.bfloat16):
            return forward(*args).float()

    model.forward = as_prepared

    def step(number: int) -> float:
        lost = 0.0
        for part in range(accumulated):
            loss = model(batch(10 * number + part)).square().mean()
            (loss / accumulated).backward()
            lost += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return lost

    return model, step


class Engine(nn.Module):
    """As DeepSpeed's with ZeRO: parameters are views of one bfloat16 tensor, gradients are taken away as they come.

    The optimizer has a float32 copy of the parameters.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.bfloat16()
        parameters = list(module.parameters())
        self.flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.gradients = torch.zeros(self.flat.numel())
        self.master = self.flat.float()
        self.optimizer = torch.optim.Adam([self.master], lr=0.01)
        self._nodes = []  # held, since hooks go with them
        begin = 0
        for parameter in parameters:
            view = self.flat.narrow(0, begin, parameter.numel())
            parameter.data = view.view_as(parameter)
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(self._taker(parameter, begin))
            self._nodes.append(node)
            begin += parameter.numel()

    def _taker(self, parameter: Any, begin: int) -> Callable[..., None]:
        def take(*_: Any) -> None:
            self.gradients.narrow(0, begin, parameter.numel()).add_(parameter.grad.reshape(-1))
            parameter.grad = None

        return take

    def forward(self, x: Tensor) -> Any:
        return self.module(x.bfloat16())

    def backward(self, loss: Tensor) -> None:
        (loss.float() * 16).backward()

    def step(self) -> None:
        self.master.grad = self.gradients / 16
        self.optimizer.step()
        self.flat.data.copy_(self.master)
        self.gradients.zero_()


@program("as DeepSpeed: an engine, flat parameters")
def _() -> Made:
    engine = Engine(mlp())

    def step(number: int) -> tuple[float, Tensor]:
        loss = engine(batch(number)).square().mean()
        engine.backward(loss)
        engine.step()
        return loss.item(), engine.master.detach().clone()

    return engine, step


class Accumulating(torch.autograd.Function):
    """As Megatron's linear: the gradient of the weight is added to its `main_grad` here."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        weight.main_grad.addmm_(gradient.t(), x)
        return gradient @ weight, torch.zeros_like(weight)


class ColumnLinear(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return Accumulating.apply(x, self.weight), None  # beside the result a bias that was not added


class Chunk(nn.Module):
    """A model of one stage of a pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = ColumnLinear(8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.linear(self.norm(x))
        return x + torch.tanh(y)


@program("as Megatron: chunks, main_grad, a pipeline's backward")
def _() -> Made:
    chunks = [Chunk(), Chunk()]
    parameters = [parameter for chunk in chunks for parameter in chunk.parameters()]
    flat = torch.zeros(sum(parameter.numel() for parameter in parameters))
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    nodes = []  # held, since hooks go with them
    begin = 0
    for parameter in parameters:
        parameter.main_grad = flat.narrow(0, begin, parameter.numel()).view_as(parameter)
        begin += parameter.numel()

        def add(*_: Any, parameter: Any = parameter) -> None:
            parameter.main_grad.add_(parameter.grad)
            parameter.grad = None

        nodes.append(parameter.expand_as(parameter).grad_fn.next_functions[0][0])
        nodes[-1].register_hook(add)

    def micro_batch(x: Tensor) -> float:
        sent = chunks[0](x)
        received = sent.detach().requires_grad_()
        sent.data = torch.empty(1)  # as deallocate_output_tensor: of what was sent only the graph is needed
        loss = chunks[1](received).square().mean()
        loss.backward()
        # as custom_backward: the shape of what is there now is not that of its gradient
        Variable._execution_engine.run_backward(
            (sent,), (received.grad,), keep_graph=False, create_graph=False, inputs=(), allow_unreachable=True,
            accumulate_grad=True,
        )  # fmt: skip
        return loss.item()

    def step(number: int) -> tuple[float, Tensor]:
        lost = sum(micro_batch(batch(10 * number + part)) for part in range(2))
        for parameter in parameters:
            parameter.grad = parameter.main_grad.clone()
        optimizer.step()
        optimizer.zero_grad()
        flat.zero_()
        return lost, flat.clone()

    return chunks, step
