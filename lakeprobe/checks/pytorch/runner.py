"""Runs calls of PyTorch again: on the device under test, and in higher precision on the CPU as the reference.

A call is run from fresh copies of its arguments each time, so that ops in place are no exception. What moves when the
inputs move by a rounding (the sensitivity) is measured with the reference, so that it knows nothing of the device.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from lakeprobe.checks import values
from lakeprobe.checks.calls import (
    KEEPS_DTYPE,
    Call,
    CannotRunError,
    Leaf,
    Outcome,
    Perturbed,
    Setup,
    nested,
    paths,
    values_of,
)
from lakeprobe.checks.pytorch import functions
from lakeprobe.checks.pytorch.rounding import Rounding
from lakeprobe.checks.pytorch.tensors import WIDER, dtype_of, to_numpy, to_torch
from lakeprobe.tensors.measures import measure

Array = NDArray[Any]

_DRAWS, _DRAWS_OF_FEW, _FEW = 2, 8, 64
"""Draws of rounded inputs whose root mean square is the sensitivity; more where a result has few elements, because the
mean over elements does not make up for a draw that is small by chance."""
_NOT_BACKWARD = frozenset(("repeat_interleave", "masked_select"))
_CHANCES = ("p", "dropout_p", "dropout")
"""Parameters that say how much of an op is random."""
_FIRST_OUTPUT_ONLY = frozenset(("topk", "npu_fusion_attention"))


class Runner:
    """Runs calls on one device."""

    def __init__(self, setup: Setup) -> None:
        if setup.device.startswith("npu"):
            importlib.import_module("torch_npu")
        for module in setup.imports:
            importlib.import_module(module)
        torch.set_num_threads(1)
        self._device = torch.device(setup.device)
        torch.empty(0, device=self._device)
        self._seed, self._modes = setup.seed, setup.modes
        self._save = Path(setup.save) if setup.save else None

    def check(self, call: Call) -> list[Outcome]:
        """Run the call forward, and backward if that was recorded, and measure every result. Raises CannotRunError."""
        function = functions.find(call.api_type, call.api)
        arguments = Arguments(call, self._seed)
        plan = self._plan(function, arguments)
        device, reference = plan.on(self._device), plan.raised()
        results = self._results(device)
        if results.is_random:
            plan = plan.without_chance()
            device, reference = plan.on(self._device), plan.raised()
            results = self._results(device)
        outcomes = list(self._measured(call, plan, results, reference))
        if plan.remark:
            outcomes = [replace(outcome, remark=plan.remark) for outcome in outcomes]
        if self._save is not None:
            _keep(self._save, call, arguments, results)
        return outcomes

    def perturb(self, call: Call) -> list[Perturbed]:
        """Run the call with its inputs changed in each way that was asked for. Raises CannotRunError."""
        from lakeprobe.checks.pytorch.perturbing import perturb  # which runs plans of this module

        plan = self._plan(functions.find(call.api_type, call.api), Arguments(call, self._seed))
        return list(perturb(plan, self._device, self._modes))

    def _plan(self, function: Callable[..., Any], arguments: Arguments) -> Plan:
        return Plan(function, arguments, self._seed)

    def _results(self, run: Callable[[], Results]) -> Results:
        """The results of a run, which also says whether a second one gave the same bits."""
        first = run()
        return first if first.is_random else replace(first, is_deterministic=_same(first, run()))

    def _measured(
        self, call: Call, plan: Plan, results: Results, reference: Callable[..., Results]
    ) -> Iterator[Outcome]:
        exact = reference()
        has_few = any(array.size < _FEW for array in (*exact.forward.values(), *exact.backward.values()))
        moved = [reference(draw=draw) for draw in range(_DRAWS_OF_FEW if has_few else _DRAWS)]
        recorded = {} if plan.remark else _recorded(call, results.gradient_slots)
        for direction in ("forward", "backward"):
            for slot, result in results.of(direction).items():
                wide = exact.of(direction).get(slot)
                if wide is None:
                    yield Outcome(direction, slot, problem="the reference has no such result")
                    continue
                spread = _spread(wide, [other.of(direction).get(slot) for other in moved])
                yield _outcome(call, direction, slot, "device", result, wide, spread, results.is_deterministic)
                own = recorded.get((direction, slot))
                if own is not None and own.shape == result.shape and own.dtype == result.dtype:
                    yield _outcome(call, direction, slot, "recorded", own, wide, spread, None)
        if results.problem and call.backward:
            yield Outcome("backward", problem=results.problem)
        if not results.forward:
            raise CannotRunError("it returned no tensor")


def _outcome(
    call: Call, direction: str, slot: str, origin: str, result: Array, wide: Array, spread: Array | None,
    is_deterministic: bool | None,
) -> Outcome:  # fmt: skip
    outcome = Outcome(
        direction, slot, origin, result.dtype.name, wide.dtype.name, list(result.shape), is_deterministic,
        any("float8" in leaf.plain_dtype for leaf in call.of("input")),
    )  # fmt: skip
    if wide.shape != result.shape:
        return replace(outcome, problem=f"the reference has the shape {list(wide.shape)}")
    if not result.size:
        return replace(outcome, problem="the result has no elements")
    return replace(outcome, measures=measure(wide, result, spread))


# ---- arguments --------------------------------------------------------------------------------------------


class Arguments:
    """The arguments of a call, as arrays and plain values, from which tensors are made anew for each run."""

    def __init__(self, call: Call, seed: int) -> None:
        self.call = call
        self.inputs = call.of("input")
        self._seed = seed ^ zlib.crc32(call.key.encode())
        self.arrays = {leaf.slot: values.array_of(leaf, self._seed) for leaf in self.inputs if leaf.kind == "tensor"}
        self.gradients = {
            leaf.slot: values.array_of(leaf, self._seed + 1)
            for leaf in call.gradients("input") if leaf.kind == "tensor"
        }  # fmt: skip
        self.autocast = self._autocast()

    def _autocast(self) -> torch.dtype | None:
        """The dtype in which autocast let the op run: its inputs are wider than its result, which is of 16 bits."""
        given = {
            array.dtype.name
            for array in self.arrays.values()
            if np.issubdtype(array.dtype, np.floating) or _is_small(array)
        }
        made = {leaf.plain_dtype for leaf in self.call.of("output") if leaf.kind == "tensor"}
        small = made & {"float16", "bfloat16"}
        if "float32" in given and len(small) == 1 and self.call.api not in KEEPS_DTYPE:
            return dtype_of(small.pop())
        return None

    def made(self, make: Callable[[Leaf, Array], Any], plain: Callable[[Any], Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments, with tensors by `make` and other values by `plain`. Raises CannotRunError."""
        sections = []
        for section in ("input_args", "input_kwargs"):
            members = {
                path: make(leaf, self.arrays[leaf.slot]) if leaf.kind == "tensor" else plain(_value(leaf))
                for path, leaf in paths(self.inputs, section)
            }
            sections.append(nested(members, self.call.empties, section))
        positional, named = sections
        return list(positional or []), dict(named or {})


def _is_small(array: Array) -> bool:
    return array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _value(leaf: Leaf) -> Any:
    """The value of a leaf that is not a tensor, with dtypes and devices as torch has them."""
    if leaf.type == "torch.dtype":
        dtype = dtype_of(str(leaf.value))
        if dtype is None:
            raise CannotRunError(f"{leaf.slot} is the dtype {leaf.value}, which torch {torch.__version__} lacks")
        return dtype
    if leaf.type == "torch.device":
        return _DEVICE
    if leaf.type == "torch.memory_format":
        return torch.preserve_format
    if leaf.type == "complex" and leaf.value is not None:
        return complex(leaf.value.strip("()"))
    return values_of(leaf)


_DEVICE = object()
"""Stands for the device that a run is on."""


# ---- runs -------------------------------------------------------------------------------------------------


class Results(Struct, frozen=True):
    """The results of one run as arrays by slot, of the forward and the backward."""

    forward: dict[str, Array]
    backward: dict[str, Array]
    problem: str | None = None
    is_random: bool = False
    is_deterministic: bool | None = None
    gradient_slots: tuple[str | None, ...] = ()
    """The inputs whose gradients the autograd node of the first output gives, in its order. That is what
    a dump records of a backward. None where another node lies between."""

    def of(self, direction: str) -> dict[str, Array]:
        """Those of the forward or the backward."""
        return self.forward if direction == "forward" else self.backward


class Plan(Struct, frozen=True):
    """How a call is run: its function, its arguments, and a remark on what is changed."""

    function: Callable[..., Any]
    arguments: Arguments
    seed: int
    remark: str | None = None

    def on(self, device: torch.device) -> Callable[[], Results]:
        """A run in the recorded dtypes on `device`."""
        return partial(self._run, device, False, None)

    def raised(self) -> Callable[..., Results]:
        """A run in higher precision on the CPU; with `draw` its inputs are moved by a rounding."""
        return lambda draw=None: self._run(torch.device("cpu"), self.arguments.call.api not in KEEPS_DTYPE, draw)

    def with_arrays(self, arrays: dict[str, Array]) -> Plan:
        """The same call with other tensors."""
        changed = copy.copy(self.arguments)
        changed.arrays = arrays
        return replace(self, arguments=changed)

    def without_chance(self) -> Plan:
        """The same call that draws no random numbers. Raises CannotRunError if that cannot be asked for."""
        if self.remark:
            raise CannotRunError("it draws random numbers")
        names = [name for name in _CHANCES if name in _parameters(self.function)]
        if not names:
            raise CannotRunError("it draws random numbers")
        return replace(self, function=_bound(self.function, names), remark=f"run with {names[0]}=0: it is random")

    def _run(self, device: torch.device, is_raised: bool, draw: int | None) -> Results:
        noise = None if draw is None else Rounding(self._unit, self.seed + draw)
        with torch.enable_grad(), noise or nullcontext():
            leaves: dict[str, torch.Tensor] = {}
            make = partial(self._tensor, device=device, is_raised=is_raised, noise=noise, leaves=leaves)
            plain = partial(_plain_value, device=device, is_raised=is_raised)
            positional, named = self.arguments.made(make, plain)
            torch.manual_seed(self.seed)
            before = _random_state(device)
            with self._autocast(device, is_raised):
                output = self._called(positional, named)
            if output is None and positional:
                output = positional[0]  # of __setitem__: what it has changed
            if not torch.equal(before, _random_state(device)):
                return Results({}, {}, is_random=True)
            outputs = dict(_tensors(output))
            forward = {f"output.{slot}" if slot else "output.0": to_numpy(tensor) for slot, tensor in outputs.items()}
            slots = _gradient_slots(outputs, leaves)
            gradients, problem = self._backward(list(outputs.values()), leaves, device, is_raised, noise)
        return Results(forward, gradients, problem, gradient_slots=slots)

    def _called(self, positional: list[Any], named: dict[str, Any]) -> Any:
        """Call the op. A dump does not tell lists from tuples: what takes no list is given tuples."""
        if {} in (*map(_or_none, positional), *map(_or_none, named.values())):
            raise CannotRunError("an argument is a dtype, a device or another object that the dump does not name")
        try:
            return self.function(*positional, **named)
        except TypeError:
            if not any(isinstance(value, list) for value in (*positional, *named.values())):
                raise
            return self.function(*map(_tuples, positional), **{key: _tuples(value) for key, value in named.items()})

    def _autocast(self, device: torch.device, is_raised: bool) -> AbstractContextManager[Any]:
        dtype = self.arguments.autocast
        return nullcontext() if dtype is None or is_raised else torch.autocast(device.type, dtype=dtype)

    def _tensor(
        self, leaf: Leaf, array: Array, device: torch.device, is_raised: bool, noise: Rounding | None,
        leaves: dict[str, torch.Tensor],
    ) -> torch.Tensor:  # fmt: skip
        tensor = to_torch(array)
        if self.arguments.autocast is not None and tensor.dtype == torch.float32:
            rounded = tensor.to(self.arguments.autocast)  # both sides begin with what autocast makes of it
            tensor = rounded if is_raised else rounded.to(tensor.dtype)
        tensor = _prepared(tensor, device, is_raised, noise)
        if leaf.requires_grad and (tensor.is_floating_point() or tensor.is_complex()) and self._is_differentiated:
            leaves[leaf.slot] = tensor.requires_grad_()
            return tensor.clone()  # an op in place may not change a leaf
        return tensor

    @property
    def _unit(self) -> float:
        """The unit roundoff of the narrowest dtype that takes part: half of its eps."""
        leaves = (*self.arguments.call.of("input"), *self.arguments.call.of("output"))
        dtypes = (dtype_of(leaf.plain_dtype) for leaf in leaves if leaf.kind == "tensor")
        floats = [torch.finfo(dtype).eps for dtype in dtypes if dtype is not None and dtype.is_floating_point]
        return float(max(floats, default=torch.finfo(torch.float32).eps)) / 2

    @property
    def _is_differentiated(self) -> bool:
        call = self.arguments.call
        return bool(self.arguments.gradients) and call.api not in _NOT_BACKWARD

    def _backward(
        self, outputs: list[torch.Tensor], leaves: dict[str, torch.Tensor], device: torch.device, is_raised: bool,
        noise: Rounding | None,
    ) -> tuple[dict[str, Array], str | None]:  # fmt: skip
        """The gradients of the inputs by slot, from the gradient that came in; or why there are none."""
        if not self.arguments.call.backward:
            return {}, None
        if not self._is_differentiated:
            return {}, "its backward is not run" if self.arguments.gradients else "no incoming gradient was recorded"
        if not leaves:
            return {}, "no recorded input requires a gradient"
        roots, seeds = [], []
        waiting = list(self.arguments.gradients.values())
        for output in outputs[:1] if self.arguments.call.api in _FIRST_OUTPUT_ONLY else outputs:
            fitting = next((gradient for gradient in waiting if list(gradient.shape) == list(output.shape)), None)
            if output.requires_grad and fitting is not None:
                waiting = [gradient for gradient in waiting if gradient is not fitting]
                seed = _prepared(to_torch(fitting), device, is_raised, noise)
                roots.append(output)
                seeds.append(seed.to(output.dtype))
        if not roots:
            return {}, "the recorded gradient fits none of the results"
        found = torch.autograd.grad(roots, list(leaves.values()), seeds, allow_unused=True)
        return {
            slot: to_numpy(gradient) for slot, gradient in zip(leaves, found, strict=True) if gradient is not None
        }, None


def _prepared(tensor: torch.Tensor, device: torch.device, is_raised: bool, noise: Rounding | None) -> torch.Tensor:
    if not is_raised:
        return tensor.to(device)
    wide = WIDER.get(tensor.dtype)
    if wide is None:
        return tensor
    raised = tensor.to(wide)
    return raised if noise is None or not raised.is_floating_point() else noise.moved(raised)


def _plain_value(value: Any, device: torch.device, is_raised: bool) -> Any:
    if value is _DEVICE:
        return device
    if is_raised and isinstance(value, torch.dtype):
        return WIDER.get(value, value)
    if is_raised and type(value) is float:
        return float(np.float32(value))  # kernels of 16 and 32 bits take numbers as float32
    return value


def _or_none(value: Any) -> Any:
    return value if isinstance(value, dict) else None


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _random_state(device: torch.device) -> torch.Tensor:
    if device.type == "cpu":
        return torch.get_rng_state()
    module: Any = getattr(torch, device.type, None)
    state: torch.Tensor = (
        module.get_rng_state(device).clone() if hasattr(module, "get_rng_state") else torch.get_rng_state()
    )
    return state


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return tuple(_SIGNATURES.get(getattr(function, "__name__", ""), ()))


_SIGNATURES = {
    "dropout": ("input", "p", "train"),
    "dropout_": ("input", "p", "train"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p"),
    "lstm": ("input", "hx", "params", "has_biases", "num_layers", "dropout"),
    "gru": ("input", "hx", "params", "has_biases", "num_layers", "dropout"),
    "rnn_tanh": ("input", "hx", "params", "has_biases", "num_layers", "dropout"),
    "rnn_relu": ("input", "hx", "params", "has_biases", "num_layers", "dropout"),
}
"""Parameters of builtin functions, which have no signature that Python could read."""


def _bound(function: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    """`function` with 0 for the parameters `names`, given by place or by name."""
    order = _parameters(function)
    if "multi_head_attention" in getattr(function, "__name__", ""):
        names = ["dropout_p"]

    def call(*positional: Any, **named: Any) -> Any:
        given = list(positional)
        for name in names:
            if name in named or order.index(name) >= len(given):
                named[name] = 0.0
            else:
                given[order.index(name)] = 0.0
        return function(*given, **named)

    return call


def _tensors(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in a result, each with its place; a lone tensor has none."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for number, member in enumerate(value):
            yield from _tensors(member, f"{path}.{number}".lstrip("."))
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _tensors(member, f"{path}.{key}".lstrip("."))
    elif isinstance(value, (bool, int, float)):
        yield path, torch.tensor(value)


def _gradient_slots(outputs: dict[str, torch.Tensor], leaves: dict[str, torch.Tensor]) -> tuple[str | None, ...]:
    """The input that each recorded gradient belongs to; None for one that is not an input's whole gradient.

    What is recorded are the gradients of the last node. An op of several nodes, such as softsign, may use an input in
    an earlier node too, and then the last one gives a part of its gradient.
    """
    slot_of = {id(leaf): slot for slot, leaf in leaves.items()}
    node = next((tensor.grad_fn for tensor in outputs.values()), None)
    edges = [] if node is None else [function for function, _ in node.next_functions]
    direct = [_leaf_of(function) for function in edges]
    inner = [function for function, leaf in zip(edges, direct, strict=True) if leaf is None]
    parts = {id(leaf) for leaf in _leaves_above(inner)}
    return tuple(None if leaf is None or id(leaf) in parts else slot_of.get(id(leaf)) for leaf in direct)


def _leaf_of(function: Any) -> torch.Tensor | None:
    """The argument whose copy a node is; None for any other node."""
    if function is None or function.name() != "CloneBackward0":
        return None
    holders = [holder for holder, _ in function.next_functions]
    return getattr(holders[0], "variable", None) if holders else None


def _leaves_above(functions: list[Any]) -> Iterator[torch.Tensor]:
    """The arguments that lead to some nodes of a graph."""
    seen: set[Any] = set()
    waiting = [function for function in functions if function is not None]
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        leaf = getattr(function, "variable", None)
        if leaf is not None:
            yield leaf
        waiting += [above for above, _ in function.next_functions if above is not None]


def _same(first: Results, second: Results) -> bool:
    """Whether two runs gave the same bits."""
    return all(
        one.keys() == other.keys() and all(one[slot].tobytes() == other[slot].tobytes() for slot in one)
        for one, other in ((first.forward, second.forward), (first.backward, second.backward))
    )


def _spread(wide: Array, moved: list[Array | None]) -> Array | None:
    """The root mean square of how far the reference moved; None for what is not a number."""
    others = [other for other in moved if other is not None and other.shape == wide.shape]
    if wide.dtype.kind not in "fc" or not others:
        return None
    with np.errstate(all="ignore"):
        spread: Array = np.sqrt(np.mean([np.square(np.abs(other - wide)) for other in others], axis=0))
    return spread


def _recorded(call: Call, gradient_slots: tuple[str | None, ...]) -> dict[tuple[str, str], Array]:
    """The results that the dump has with content: outputs by slot, gradients by the input that they belong to."""
    found: dict[tuple[str, str], Array] = {}
    for leaf in call.of("output"):
        if leaf.kind == "tensor" and leaf.reference is not None:
            found["forward", leaf.slot] = values.array_of(leaf, 0)
    for gradient in call.gradients("output"):
        place = gradient.slot.removeprefix("output.")
        slot = gradient_slots[int(place)] if place.isdecimal() and int(place) < len(gradient_slots) else None
        if slot is not None and gradient.kind == "tensor" and gradient.reference is not None:
            found["backward", slot] = values.array_of(gradient, 0)
    return found


def _keep(folder: Path, call: Call, arguments: Arguments, results: Results) -> None:
    """Write the inputs and results of a call as .npy files into the worker's folder for them."""
    place = folder / call.key
    place.mkdir(parents=True, exist_ok=True)
    groups = {"": arguments.arrays, "gradient.": arguments.gradients, "result.": results.forward,
              "result_gradient.": results.backward}  # fmt: skip
    for prefix, arrays in groups.items():
        for slot, array in arrays.items():
            plain = array.astype(np.float32) if _is_small(array) else array
            name = re.sub(r"[^\w.-]", "_", f"{prefix}{slot}")[:200]  # a slot has keys of the dump, which may be paths
            np.save(place / f"{name}.npy", plain, allow_pickle=False)
