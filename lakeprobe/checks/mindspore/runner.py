"""Runs calls of MindSpore again: of ops, mint and Tensor, on the device under test and in higher precision on the CPU.

What MindSpore's kernels do inside cannot be moved by a rounding, so the sensitivity is that of the inputs and of the
result alone.
"""

from __future__ import annotations

import inspect
import json
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import mindspore
import ml_dtypes
import numpy as np
from mindspore import Tensor, mint, ops
from mindspore.mint.nn import functional
from mindspore.ops.primitive import Primitive
from msgspec.structs import replace
from numpy.typing import NDArray

from lakeprobe.changes import LIMITS, NOISY
from lakeprobe.checks import values
from lakeprobe.checks.calls import (
    CASTS,
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
from lakeprobe.checks.mindspore import references
from lakeprobe.collect.mindspore.arrays import to_array, to_tensor
from lakeprobe.tensors import changes
from lakeprobe.tensors.measures import measure

Array = NDArray[Any]
Results = dict[tuple[str, str], Array]
"""Results by direction and slot."""

_HOLDERS: dict[str, Any] = {"Functional": ops, "Mint": mint, "MintFunctional": functional, "Tensor": Tensor}
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
_REFUSED = frozenset(
    ("asnumpy", "init_data", "set_dtype", "from_numpy", "register_hook", "deepcopy", "derivative", "jet")
)
_KEEPS_DTYPE = KEEPS_DTYPE | CASTS
_NO_REFERENCE = re.compile(r"For primitive\[\w+\], the input argument\[\w+\] must be a type of [^.]*Float64")
"""What MindSpore says where it has no kernel in float64."""
_WIDER = {"float16": np.float32, "bfloat16": np.float32, "float32": np.float64, "complex64": np.complex128}
_DRAWS = 4


class Runner:
    """Runs calls on one device."""

    def __init__(self, setup: Setup) -> None:
        for module in setup.imports:
            __import__(module)
        kind, _, number = setup.device.partition(":")
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        mindspore.set_device(kind.upper() if kind != "npu" else "Ascend", int(number or 0))
        references.install()
        self._seed, self._modes = setup.seed, setup.modes

    def perturb(self, call: Call) -> list[Perturbed]:
        """Run the call with its inputs changed in each way that was asked for. Raises CannotRunError."""
        function = _find(call)
        arrays, gradients = self._given(call)
        run = partial(_run, call, function, seed=self._seed)
        plain = run(arrays, gradients, is_raised=False)
        return [found for mode in self._modes for found in _perturbed(mode, run, arrays, gradients, plain)]

    def check(self, call: Call) -> list[Outcome]:
        """Run the call forward, and backward if that was recorded, and measure every result. Raises CannotRunError."""
        function = _find(call)
        arrays, gradients = self._given(call)

        def results(prepare: Callable[[Array], Array], is_raised: bool) -> Results:
            return _run(call, function, {slot: prepare(array) for slot, array in arrays.items()},
                        [prepare(gradient) for gradient in gradients], self._seed, is_raised)  # fmt: skip

        device, again = results(lambda array: array, False), results(lambda array: array, False)
        if not device:
            raise CannotRunError("it returned no tensor and no number")
        is_raised = call.api.rpartition(".")[2] not in _KEEPS_DTYPE
        try:
            exact = results(_raised if is_raised else _unchanged, is_raised)
            moved = [
                results(_moving(self._seed + draw) if is_raised else _unchanged, is_raised) for draw in range(_DRAWS)
            ]
        except TypeError as error:
            if not _NO_REFERENCE.match(str(error)):
                raise
            raise CannotRunError(
                "MindSpore has no reference in higher precision: it lacks the op in float64"
            ) from error
        is_same = all(device[key].tobytes() == again[key].tobytes() for key in device if key in exact)
        return list(_outcomes(call, device, is_same, exact, moved))

    def _given(self, call: Call) -> tuple[dict[str, Array], list[Array]]:
        """The tensors of a call by slot, and the gradients that came in."""
        seed = self._seed ^ zlib.crc32(call.key.encode())
        arrays = {leaf.slot: values.array_of(leaf, seed) for leaf in call.of("input") if leaf.kind == "tensor"}
        gradients = [values.array_of(leaf, seed + 1) for leaf in call.gradients("input") if leaf.kind == "tensor"]
        return arrays, gradients


def _perturbed(
    mode: str, run: Callable[..., Results], arrays: dict[str, Array], gradients: list[Array], plain: Results
) -> Iterator[Perturbed]:
    """What a change of the inputs does to each result."""
    inputs = arrays
    moved: list[str] = []
    if mode not in ("no_change", "to_cpu"):
        inputs, moved = changes.changed(arrays, mode)
        if not moved:
            yield Perturbed(mode, problem="it changes no input")
            return
    if mode == "to_cpu":
        raised = {slot: _raised(array) for slot, array in arrays.items()}
        results = run(raised, [_raised(gradient) for gradient in gradients], is_raised=True)
    else:
        results = run(inputs, gradients, is_raised=False)
    size = changes.relative_difference(inputs[moved[0]], arrays[moved[0]]) if mode in NOISY else 0.0
    for (direction, slot), result in plain.items():
        other = results.get((direction, slot))
        if other is not None and result.size and result.dtype.name in LIMITS:
            other = other.astype(result.dtype)
            found = changes.compared(mode, result, other, backward=direction == "backward")
            condition = changes.relative_difference(other, result) / size if size else None
            yield Perturbed(mode, direction, slot, result.dtype.name, list(result.shape), *found, condition)


def _find(call: Call) -> Callable[..., Any]:
    if call.api_type == "Jit":
        raise CannotRunError("it is a program that jit compiled, not an op; without jit its ops are recorded")
    if call.api_type == "Primitive":
        return _primitive(call.api.rpartition(".")[2], call.attributes)
    holder = _HOLDERS.get(call.api_type)
    if holder is None:
        raise CannotRunError(f"{call.api_type} is not a namespace of MindSpore's ops that can be run")
    if not _NAME.fullmatch(call.api) or call.api in _REFUSED:
        raise CannotRunError(f"{call.api_type}.{call.api} is not run")
    function = holder
    for part in call.api.split("."):
        function = getattr(function, part, None)
    if function is None:
        raise CannotRunError(f"MindSpore {mindspore.__version__} has no {call.api_type}.{call.api}")
    if not callable(function) or isinstance(function, type):
        raise CannotRunError(f"{call.api_type}.{call.api} is not an op")
    found: Callable[..., Any] = function
    return found


def _primitive(name: str, recorded: str | None) -> Callable[..., Any]:
    """Make a primitive with the attributes that were recorded, as JSON. Raises CannotRunError.

    A dump of msprobe has none, so that only primitives without attributes can be made of it.
    """
    kind: Any = getattr(ops, name, None)
    if not isinstance(kind, type) or not issubclass(kind, Primitive):
        raise CannotRunError(f"MindSpore {mindspore.__version__} has no primitive {name[:80]}")
    attributes = json.loads(recorded or "{}")
    wanted = [attribute for attribute in inspect.signature(kind.__init__).parameters if attribute != "self"]  # type: ignore[misc]
    missing = [attribute for attribute in wanted if attribute not in attributes]
    if missing:
        raise CannotRunError(f"the dump does not have the attributes of the primitive: {', '.join(missing)}")
    made: Callable[..., Any] = kind(**{attribute: _attribute(attributes[attribute]) for attribute in wanted})
    return made


def _attribute(value: Any) -> Any:
    return getattr(mindspore, str(value["dtype"])) if isinstance(value, dict) else _tuples(value)


def _unchanged(array: Array) -> Array:
    return array


def _raised(array: Array) -> Array:
    wide = _WIDER.get(array.dtype.name)
    return array if wide is None else array.astype(wide)


def _moving(seed: int) -> Callable[[Array], Array]:
    """Inputs in higher precision, moved by a rounding of their own dtype."""
    random = np.random.default_rng(seed)

    def moved(array: Array) -> Array:
        if array.dtype.name not in _WIDER or array.dtype.kind == "c":
            return _raised(array)
        eps = float(ml_dtypes.finfo(array.dtype).eps)
        raised: Array = _raised(array) * (1 + eps / 2 * random.standard_normal(array.shape)).astype(
            _raised(array).dtype
        )
        return raised

    return moved


def _run(
    call: Call,
    function: Callable[..., Any],
    arrays: dict[str, Array],
    gradients: list[Array],
    seed: int,
    is_raised: bool,
) -> Results:
    """The results by direction and slot."""
    mindspore.set_seed(seed)
    tensors = {slot: to_tensor(array) for slot, array in arrays.items()}
    output = _called(call, function, tensors, is_raised)
    outputs = dict(_tensors(output))
    found = {("forward", f"output.{slot or 0}"): to_array(tensor) for slot, tensor in outputs.items()}
    if not outputs:  # the shape of a tensor, for one
        numbers = output if isinstance(output, (tuple, list)) else (output,)
        found = {
            ("forward", f"output.{place}"): np.asarray(number)
            for place, number in enumerate(numbers) if isinstance(number, (bool, int, float))
        }  # fmt: skip
    floats = [slot for slot, array in arrays.items() if array.dtype.name in (*_WIDER, "float64")]
    first = next(iter(outputs), None)
    fitting = [
        gradient for gradient in gradients if first is not None and list(gradient.shape) == list(outputs[first].shape)
    ]
    if not floats or not fitting or first is None:
        return found

    def of_floats(*given: Tensor) -> Tensor:
        changed = tensors | dict(zip(floats, given, strict=True))
        return dict(_tensors(_called(call, function, changed, is_raised)))[first]

    gradient_of = ops.GradOperation(get_all=True, sens_param=True)(of_floats)
    seeded = to_tensor(fitting[0]).astype(outputs[first].dtype)
    for slot, gradient in zip(floats, gradient_of(*(tensors[slot] for slot in floats), seeded), strict=True):
        found["backward", slot] = to_array(gradient)
    return found


def _called(call: Call, function: Callable[..., Any], tensors: dict[str, Tensor], is_raised: bool) -> Any:
    sections = [
        nested(
            {
                path: tensors[leaf.slot] if leaf.kind == "tensor" else _value(leaf, is_raised)
                for path, leaf in paths(call.of("input"), section)
            },
            call.empties, section,
        )
        for section in ("input_args", "input_kwargs")
    ]  # fmt: skip
    positional, named = list(sections[0] or []), dict(sections[1] or {})
    try:
        return function(*positional, **named)
    except TypeError:
        return function(*map(_tuples, positional), **{key: _tuples(value) for key, value in named.items()})


def _value(leaf: Leaf, is_raised: bool) -> Any:
    if leaf.type in ("mindspore.dtype", "Number") and leaf.value is not None:
        name = leaf.value.rpartition(".")[2].lower()
        wide = _WIDER.get(name)
        return getattr(mindspore, np.dtype(wide).name if wide is not None and is_raised else name)
    return values_of(leaf)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _tensors(value: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for number, member in enumerate(value):
            yield from _tensors(member, f"{path}.{number}".lstrip("."))


def _outcomes(
    call: Call, device: Results, is_same: bool, exact: Results,
    moved: list[Results],
) -> Iterator[Outcome]:  # fmt: skip
    recorded = {
        ("forward", leaf.slot): values.array_of(leaf, 0) if leaf.kind == "tensor" else np.asarray(values_of(leaf))
        for leaf in call.of("output") if leaf.reference is not None or leaf.kind == "scalar"
    }  # fmt: skip
    for key, result in device.items():
        wide = exact.get(key)
        if wide is None or wide.shape != result.shape or not result.size:
            yield Outcome(
                *key, problem="the reference has no such result" if result.size else "the result has no elements"
            )
            continue
        with np.errstate(all="ignore"):
            spread = (
                np.sqrt(np.mean([np.square(np.abs(other[key] - wide)) for other in moved], axis=0))
                if wide.dtype.kind in "fc"
                else None
            )
        own = Outcome(*key, "device", result.dtype.name, wide.dtype.name, list(result.shape), is_same)
        yield replace(own, measures=measure(wide, result, spread))
        known = recorded.get(key)
        if known is not None and known.shape == result.shape and known.dtype == result.dtype:
            yield replace(own, origin="recorded", is_deterministic=None, measures=measure(wide, known, spread))
    has_floats = any(leaf.plain_dtype in (*_WIDER, "float64") for leaf in call.of("input"))
    if call.backward and has_floats and not any(direction == "backward" for direction, _ in device):
        yield Outcome("backward", problem="the recorded gradient fits none of the results")
