"""Programs with what few have: modules that pretend, results of odd types, hooks that raise, tensors without memory."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import warnings
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import torch
from kinds import PROGRAMS, Made, Two, batch, mlp, plain, program, training
from torch import Tensor, nn
from torch.ao import quantization
from torch.masked import masked_tensor
from torch.nn.modules import module as every_module
from torch.utils.checkpoint import checkpoint


class Passing(nn.Module):
    """Has the attributes of its part."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.part, name)

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x)


class Evasive(nn.Linear):
    """Is empty, equal to nothing, and of another class than it says."""

    __hash__ = nn.Module.__hash__

    def __len__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        raise ArithmeticError

    def __repr__(self) -> str:
        raise ArithmeticError

    @property
    def __class__(self) -> Any:
        return nn.Tanh


class Found(NamedTuple):
    y: Any
    rest: Any


@dataclasses.dataclass(frozen=True)
class Kept:
    y: Any
    by_number: dict[Any, Any]


class Returning(nn.Module):
    """Returns what a function makes of its result."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.layer, self.made = nn.Linear(8, 4), made

    def forward(self, x: Tensor) -> Any:
        return self.made(self.layer(x))


def returning(made: Any, result_of: Any) -> Made:
    model = nn.Sequential(Returning(made))
    return plain(model, loss_of=lambda model, x: result_of(model[0](x)).square().mean())


def entangled(y: Tensor) -> Any:
    values: list[Any] = [y]
    values.append(values)
    return values, {"values": values}


def without_memory(x: Tensor) -> Tensor:
    """Frees the memory of a tensor that was used, and adds zeros that have none."""
    ones = torch.ones(8)
    y = x * ones.clone()
    ones.untyped_storage().resize_(0)
    return y + torch._efficientzerotensor((4, 8)) + torch.empty(0, 8).sum()


def masked(x: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x + masked_tensor(x.detach(), x > 0).sum(1).get_data()[:, None].nan_to_num()


PROGRAMS |= {
    "modules that pretend": lambda: plain(nn.Sequential(Passing(Passing(nn.Linear(8, 8))), Evasive(8, 4))),
    "a result of odd types": lambda: returning(
        lambda y: Found(y, (None, "text", 10**40, {1, 2}, range(3), b"\xff", 1j, y.device, y.dtype, np.float32(2))),
        lambda found: found.y,
    ),
    "a result by keys that are not text": lambda: returning(
        lambda y: Kept(y, {1: y * 2, (2, 3): y * 3, None: [y]}), lambda kept: kept.y + kept.by_number[1]
    ),
    "a result that contains itself": lambda: returning(entangled, lambda found: found[0][0]),
    "tensors without memory": lambda: plain(Two(without_memory)),
    "a masked tensor": lambda: plain(Two(masked)),
}


@program("checkpoints of both kinds in each other")
def both_checkpoints() -> Made:
    model = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def inner(x: Tensor) -> Tensor:
        return nn.functional.dropout(model[1](x), 0.2).relu()

    def outer(x: Tensor, reentrant: bool) -> Tensor:
        return model[2](checkpoint(inner, model[0](x), use_reentrant=reentrant))

    def loss(_: Any, x: Tensor) -> Tensor:
        x.requires_grad_()
        parts = [checkpoint(outer, x, one, use_reentrant=not one) for one in (True, False)]
        return sum(parts, torch.zeros(())).square().mean()

    return plain(model, loss_of=loss)


@program("hooks that raise, forward and backward")
def raising() -> Made:
    model = mlp()
    armed: list[bool] = []

    def hook(*_: Any) -> None:
        if armed:
            raise ArithmeticError

    model[1].register_forward_hook(hook)
    model[2].weight.register_hook(hook)
    trained = training(model)

    def step(number: int) -> float:
        y = model(batch(number)).sum()
        armed.append(True)
        for run in (lambda: model(batch(number)), y.backward):
            with contextlib.suppress(ArithmeticError):
                run()
        armed.clear()
        model.zero_grad()
        return trained(number)

    return model, step


@program("hooks of every module")
def everywhere() -> Made:
    model = mlp()
    trained = training(model)

    def step(number: int) -> tuple[float, list[str]]:
        seen: list[str] = []
        handles = [
            every_module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__)),
            every_module.register_module_full_backward_hook(lambda *_: seen.append("backward")),
        ]
        loss = trained(number)
        for handle in handles:
            handle.remove()
        return loss, seen

    return model, step


@program("stages in threads, with queues between them")
def stages() -> Made:
    model = mlp()

    def step(number: int) -> float:
        between: SimpleQueue[Tensor] = SimpleQueue()
        first = Thread(target=lambda: [between.put(model[0](batch(number + part))) for part in range(3)])
        first.start()
        first.join()
        loss = sum((model[2](model[1](between.get())).square().mean() for _ in range(3)), torch.zeros(()))
        loss.backward()
        return loss.item()

    return model, step


@program("quantisation-aware, prepared and converted")
def quantised() -> Made:
    model = nn.Sequential(
        quantization.QuantStub(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), quantization.DeQuantStub()
    )
    torch.backends.quantized.engine = "fbgemm"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
        quantization.prepare_qat(model.train(), inplace=True)
    trained = training(model)

    def step(number: int) -> tuple[float, Tensor]:
        loss = trained(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return loss, quantization.convert(copy.deepcopy(model).eval())(batch(number))

    return model, step


@program("warnings are errors, and numpy raises")
def strict() -> Made:
    model = mlp()
    trained = training(model)

    def step(number: int) -> tuple[float, Tensor]:
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            large = batch(number) * 1e38 * 1e38
            return trained(number), (large.half(), large * 1e-45, batch(number).double() * 1e300 * 1e300)

    return model, step
