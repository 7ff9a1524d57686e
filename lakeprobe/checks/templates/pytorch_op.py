"""Runs one op as it was called in a training, and says whether its results are right.

Each result is compared with the op in higher precision on the CPU. Its error is counted in units of what rounding
explains: the result's own last place, and how far the reference moves when everything that it computes is moved by a
rounding. Needs torch and numpy. The arguments are in the .npz file beside this script.

    python SCRIPT [--device cpu|cuda:0|npu:0]         exit code 0: right, 1: wrong
"""

import argparse
import contextlib
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.overrides
from torch.utils._python_dispatch import TorchDispatchMode

CALL: dict[str, Any] = {}
"""The call: the function, its arguments with {"tensor": NAME} for arrays of the .npz file, and limits of its errors."""

WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
MANTISSA_BITS = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}
LEAST_EXPONENT = {torch.float16: -14, torch.bfloat16: -126, torch.float32: -126, torch.float64: -1022}
CHANCES = ("p", "dropout_p", "dropout")
SIGNATURES = {
    "dropout": ("input", "p", "train"),
    "dropout_": ("input", "p", "train"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p"),
    **dict.fromkeys(
        ("lstm", "gru", "rnn_tanh", "rnn_relu"), ("input", "hx", "params", "has_biases", "num_layers", "dropout")
    ),
}


class Rounding(TorchDispatchMode):  # type: ignore[misc]
    """A mode in which the result of every kernel has a relative error of `unit` times a standard normal number."""

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self.unit, self.random = unit, torch.Generator().manual_seed(seed)

    def moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` with an error in each element."""
        noise = torch.randn(tensor.shape, generator=self.random, dtype=torch.float64).to(tensor.dtype)
        return tensor * (1 + self.unit * noise)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        results = result if isinstance(result, (tuple, list)) else (result,)
        for tensor, returned in zip(results, function._schema.returns, strict=False):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and returned.alias_info is None:
                tensor.copy_(self.moved(tensor))
        return result


def function_of(call: dict[str, Any]) -> Any:
    """The function that the call names: torch.nn.functional.gelu and the like."""
    module, _, name = call["function"].rpartition(".")
    holder: Any = torch
    for part in module.split(".")[1:]:
        holder = getattr(holder, part)
    if holder is torch and not hasattr(torch, name):
        holder = torch.linalg  # msprobe drops the name of the module
    overridable = torch.overrides.get_overridable_functions().get(holder, ())
    is_aten = isinstance(getattr(holder, name, None), (torch._ops.OpOverloadPacket, torch._ops.OpOverload))
    is_op = module == "torch.nn.functional" or is_aten or hasattr(torch._C.TensorBase, name)
    is_op = is_op or hasattr(torch._C._VariableFunctions, name) or getattr(holder, name, None) in overridable
    if not is_op or not hasattr(holder, name):
        sys.exit(f"torch {torch.__version__} has no op {call['function']}")
    return getattr(holder, name)


class Run:
    """One run of the call: on a device, or in higher precision on the CPU, there perhaps moved by a rounding."""

    def __init__(
        self, call: dict[str, Any], arrays: dict[str, Any], device: str, raised: bool = False, draw: int | None = None
    ) -> None:
        self.call, self.arrays = call, arrays
        self.device = "cpu" if raised else device
        self.raised = raised and not call["keeps_dtype"]
        self.mode = None if draw is None else Rounding(call["unit"], call["seed"] + draw)
        self.autocast = getattr(torch, call["autocast"]) if call["autocast"] else None
        self.leaves: dict[str, torch.Tensor] = {}
        self.is_random = False

    def results(self) -> dict[str, torch.Tensor]:
        """The results by name, those of the backward as "gradient of NAME"; nothing if the op draws random numbers."""
        with torch.enable_grad(), self.mode or contextlib.nullcontext():
            positional = self.value_of(self.call["positional"])
            named = {key: self.value_of(member) for key, member in self.call["named"].items()}
            torch.manual_seed(self.call["seed"])
            before = random_state(self.device)
            with self.casting():
                output = called(function_of(self.call), self.call["without"], positional, named)
            self.is_random = not torch.equal(before, random_state(self.device))
            if self.is_random:
                return {}
            if output is None and positional:
                output = positional[0]
            outputs = list(tensors_of(output))
            results = {f"output.{place}" if place else "output.0": tensor.detach().cpu() for place, tensor in outputs}
            return results | self.gradients([tensor for _, tensor in outputs])

    def casting(self) -> Any:
        """The autocast in which the op ran, if any."""
        if self.autocast is None or self.raised:
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.device).type, dtype=self.autocast)

    def gradients(self, outputs: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """The gradients of the inputs, from those that came in."""
        waiting = [self.load(name) for name in self.call["gradients"]]
        roots, seeds = [], []
        for tensor in outputs:
            fitting = next((gradient for gradient in waiting if gradient.shape == tensor.shape), None)
            if tensor.requires_grad and fitting is not None:
                waiting = [gradient for gradient in waiting if gradient is not fitting]
                roots.append(tensor)
                seeds.append(self.prepared(fitting).to(tensor.dtype))
        if not roots or not self.leaves:
            return {}
        found = torch.autograd.grad(roots, list(self.leaves.values()), seeds, allow_unused=True)
        pairs = zip(self.leaves, found, strict=True)
        return {f"gradient of {name}": gradient.detach().cpu() for name, gradient in pairs if gradient is not None}

    def load(self, name: str) -> torch.Tensor:
        """An array of the .npz file; those of 16 bits that numpy lacks are there as whole numbers."""
        stored, dtype = self.arrays[name], self.call["dtypes"][name]
        tensor = torch.from_numpy(stored.copy())
        return tensor.view(getattr(torch, dtype)).reshape(stored.shape) if dtype else tensor

    def prepared(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor as this run takes it."""
        if not self.raised:
            return tensor.to(self.device)
        tensor = tensor.to(WIDER.get(tensor.dtype, tensor.dtype))
        return self.mode.moved(tensor) if self.mode is not None and tensor.is_floating_point() else tensor

    def value_of(self, value: Any) -> Any:
        """An argument as the op takes it."""
        if isinstance(value, list):
            return [self.value_of(member) for member in value]
        if not isinstance(value, dict):
            return float(np.float32(value)) if self.raised and type(value) is float else value
        if "tensor" in value:
            return self.tensor(value["tensor"], value["requires_grad"])
        if "slice" in value:
            return slice(*value["slice"])
        if "device" in value:
            return self.device
        if "dtype" in value:
            dtype = getattr(torch, value["dtype"])
            return WIDER.get(dtype, dtype) if self.raised else dtype
        return {key: self.value_of(member) for key, member in value.items()}

    def tensor(self, name: str, requires_grad: bool) -> torch.Tensor:
        """A tensor argument, of its own: an op in place may not change a leaf."""
        tensor = self.load(name)
        if self.autocast is not None and tensor.dtype == torch.float32:
            tensor = tensor.to(self.autocast) if self.raised else tensor.to(self.autocast).to(torch.float32)
        tensor = self.prepared(tensor)
        if requires_grad and (tensor.is_floating_point() or tensor.is_complex()):
            self.leaves[name] = tensor.requires_grad_()
            return tensor.clone()
        return tensor


def random_state(device: str) -> Any:
    """The state of the random numbers of a device."""
    module: Any = getattr(torch, torch.device(device).type, None)
    return module.get_rng_state().clone() if hasattr(module, "get_rng_state") else torch.get_rng_state()


def called(function: Any, without: list[str], positional: list[Any], named: dict[str, Any]) -> Any:
    """Call the function; parameters in `without` are 0, and tuples take the place of lists if it refuses these."""
    order = parameters(function)
    for name in without:
        if name in named or name not in order[: len(positional)]:
            named[name] = 0.0
        else:
            positional[order.index(name)] = 0.0
    try:
        return function(*positional, **named)
    except TypeError:
        return function(*map(tuples, positional), **{key: tuples(value) for key, value in named.items()})


def parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's parameters."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return tuple(SIGNATURES.get(getattr(function, "__name__", ""), ()))


def tuples(value: Any) -> Any:
    """`value` with tuples for lists."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def tensors_of(value: Any, place: str = "") -> Any:
    """The tensors in a result, each with its place."""
    if isinstance(value, torch.Tensor):
        yield place, value
    elif isinstance(value, (list, tuple)):
        for number, member in enumerate(value):
            yield from tensors_of(member, f"{place}.{number}".lstrip("."))
    elif isinstance(value, (bool, int, float)):
        yield place, torch.tensor(value)


def judged(
    name: str, result: torch.Tensor, exact: torch.Tensor, moved: list[torch.Tensor], limits: dict[str, float]
) -> dict[str, Any]:
    """The errors of a result, and its verdict."""
    row: dict[str, Any] = {
        "result": name,
        "dtype": str(result.dtype).removeprefix("torch."),
        "shape": list(result.shape),
    }
    if result.numel() == 0 or not result.is_floating_point():
        return row | {"verdict": "right" if torch.equal(result, exact.to(result.dtype)) else "WRONG"}
    device, wide = result.double(), exact.double()
    narrow = exact.to(result.dtype).double()
    same = (
        (device.isfinite() & narrow.isfinite())
        | (device.isnan() & narrow.isnan())
        | (device.isinf() & (device == narrow))
    )
    finite = device.isfinite() & wide.isfinite()
    zeros = int(((device == 0) & (wide == 0) & (device.signbit() != wide.signbit())).sum())
    row |= {"not finite": int((~same).sum()), "signed zeros": zeros}
    if not finite.any():
        return row | {"verdict": "WRONG" if row["not finite"] else "right"}
    error = (device - wide).abs()[finite]
    size = wide.abs()[finite]
    least = LEAST_EXPONENT.get(result.dtype, -1022)
    exponent = torch.where(size > 0, size, 2.0**least).log2().floor().clamp(min=least)
    place = torch.exp2(exponent - MANTISSA_BITS.get(result.dtype, 52))
    spread = torch.stack([(other.double() - wide)[finite].square() for other in moved]).mean(0).sqrt()
    unit = place + spread.nan_to_num(0, 0, 0)
    scale = float(unit.square().mean().sqrt())
    row |= {
        "largest error": float(error.max()),
        "ULP": float((error / place).max()),
        "typical / rounding": float(error.square().mean().sqrt()) / scale if scale else 0.0,
        "largest / rounding": float((error / (unit + scale)).max()),
    }
    bounds = (
        ("not finite", 0), ("signed zeros", limits["most_signed_zeros"]), ("ULP", limits["most_ulp"]),
        ("typical / rounding", limits["most_typical"]), ("largest / rounding", limits["most_largest"]),
    )  # fmt: skip
    return row | {"verdict": "WRONG" if any(row[what] > most for what, most in bounds) else "right"}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as aligned columns."""
    columns = [*dict.fromkeys(column for row in rows for column in row if column != "verdict"), "verdict"]
    cells = [columns] + [
        [f"{value:.4g}" if isinstance(value := row.get(column, ""), float) else str(value) for column in columns]
        for row in rows
    ]
    widths = [max(len(line[number]) for line in cells) for number in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def main() -> int:
    """Run, compare and print. Returns the exit code."""
    parser = argparse.ArgumentParser(description=f"{CALL['op']}, run again")
    parser.add_argument("--device", default="cpu", help="where to run the op: cpu, cuda:0, npu:0")
    device = parser.parse_args().device
    if device.startswith("npu"):
        importlib.import_module("torch_npu")
    torch.set_num_threads(1)
    with np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False) as file:
        arrays = dict(file)
    first = Run(CALL, arrays, device)
    results = first.results()
    if first.is_random:
        CALL["without"] = [name for name in CHANCES if name in parameters(function_of(CALL))][:1]
        print(f"it draws random numbers; run with {CALL['without'] or 'no change'} = 0")
        first = Run(CALL, arrays, device)
        results = first.results()
        if first.is_random:
            print("it cannot be compared")
            return 0
    again = Run(CALL, arrays, device).results()
    exact = Run(CALL, arrays, device, raised=True).results()
    draws = 8 if any(tensor.numel() < 64 for tensor in exact.values()) else 2
    moved = [Run(CALL, arrays, device, raised=True, draw=draw).results() for draw in range(draws)]
    rows = [
        judged(name, result, exact[name], [other[name] for other in moved], CALL["limits"][name.startswith("gradient")])
        for name, result in results.items()
    ]
    for row in rows:
        one, other = results[row["result"]], again[row["result"]]
        if not torch.equal(one.nan_to_num(), other.nan_to_num()):
            row["verdict"] += ", not the same twice"
    print(f"{CALL['op']} on {device}, torch {torch.__version__}")
    print(table(rows))
    return int(any(row["verdict"].startswith("WRONG") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
