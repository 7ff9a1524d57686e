"""Runs each function of the training again with changed inputs, and reports how far its results are apart.

A trial works on copies of the arguments, outside of the graph of the training, and draws the same random numbers. A
backward is tried when watching stops, because MindSpore differentiates one function at a time. With the handler "fix"
the training goes on with the result of the trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops
from mindspore.common.api import _no_grad, _pynative_executor
from msgspec import Struct, field
from msgspec.structs import replace

from lakeprobe.changes import LIMITS, NOISY, SMALL
from lakeprobe.collect.mindspore.arrays import to_array, to_tensor
from lakeprobe.collect.mindspore.passages import can_have_gradient
from lakeprobe.collect.watching.places import Function
from lakeprobe.collect.watching.recorder import Recorder, guarded
from lakeprobe.collect.watching.trials import DRAWS, FAILURES, UNCHANGED, CannotTryError, Reports
from lakeprobe.collect.watching.values import Array
from lakeprobe.tensors.changes import changed, compared, relative_difference

Results = dict[str, Array]


class Call(Struct, frozen=True):
    """A call with copies of its tensors by slot, and all that its result depends on."""

    op: str
    api: str
    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrays: dict[str, Array]
    random: Any
    """The state of the random number generator before the call."""
    draws: bool = False
    """Whether the call has drawn random numbers."""
    differentiated: list[str] = field(default_factory=list)
    """The slots of the tensors that can have a gradient."""


class Trials:
    """Tries the calls of a training, as the settings ask for."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._reports = Reports(recorder)
        self._waiting: list[tuple[Call, Array]] = []
        self.next_step = self._reports.next_step

    def copy(self, name: str, number: int, function: Function, args: Any, kwargs: Any) -> Call | None:
        """Return the call with copies of its tensors. Returns None if it is not to be tried."""
        return self._copy(name, number, function, args, kwargs) if self._reports.wants(name) else None

    @guarded
    def _copy(self, name: str, number: int, function: Function, args: Any, kwargs: Any) -> Call | None:
        tensors = dict(_named((args, kwargs)))
        if not tensors:
            return None
        with _no_grad():
            arrays = {slot: to_array(tensor) for slot, tensor in tensors.items()}
        can = [slot for slot, tensor in tensors.items() if can_have_gradient(tensor)]
        return Call(
            f"{name}.{number}", name, function, args, kwargs, arrays, mindspore.get_rng_state(), differentiated=can
        )

    @guarded
    def tried(self, call: Call, output: Any) -> Any:
        """Try a call that gave `output`. Returns what replaces the output, or None, and what waits for a gradient."""
        draws = not np.array_equal(call.random.asnumpy(), mindspore.get_rng_state().asnumpy())
        call = replace(call, draws=draws)
        with _no_grad():
            if "forward" in self._reports.stages:
                self._report(call, "forward", _arrays(output), _results)
        return self._fixed(call, output) if self._reports.fixes else None

    def wants_gradient(self, call: Call) -> bool:
        """Return whether to watch the results of a call for their gradients."""
        return "backward" in self._reports.stages and bool(call.differentiated) and _pynative_executor.requires_grad()

    @guarded
    def came(self, call: Call, gradient: Any) -> None:
        """Take the gradient of the first result of a call, to try its backward when watching stops."""
        with _no_grad():
            self._waiting.append((call, to_array(gradient)))

    @guarded
    def flush(self) -> None:
        """Try the backward of the calls whose gradients came."""
        waiting, self._waiting = self._waiting, []
        for call, gradient in waiting:

            def run(call: Call, arrays: Results, gradient: Array = gradient) -> Results:
                return _gradients(call, arrays, gradient)

            self._report(call, "backward", run(call, call.arrays), run)

    def _report(
        self, call: Call, direction: str, plain: Results, run: Callable[[Call, Results], Results]
    ) -> None:  # fmt: skip
        """Report what each change of the inputs does to each of the `plain` results."""

        def trial(mode: str) -> tuple[Results, Results, float]:
            arrays, size = _changed(call, mode)
            on_cpu = run(call, _changed(call, "to_cpu")[0]) if self._reports.samples(mode) else {}
            return run(call, arrays), on_cpu, size

        for mode, (results, on_cpu, size) in self._reports.trials(call.op, direction, trial):
            for slot, result in plain.items():
                other = results.get(slot)
                if result.dtype.name in LIMITS and result.size and other is not None and other.shape == result.shape:
                    self._compare(call, mode, direction, slot, result, other, size, on_cpu.get(slot))

    def _compare(
        self, call: Call, mode: str, direction: str, slot: str, plain: Array, other: Array, size: float,
        on_cpu: Array | None,
    ) -> None:  # fmt: skip
        backward, dtype = direction == "backward", plain.dtype.name
        with np.errstate(all="ignore"):
            other = other.astype(plain.dtype)
        found = compared(mode, plain, other, backward=backward, limit=self._reports.limit(call.api, dtype))
        if on_cpu is not None:
            is_right = compared("to_cpu", plain, on_cpu.astype(plain.dtype), backward=backward).is_consistent
            self._reports.take(call.api, dtype, found, is_right)
        condition = relative_difference(other, plain) / size if size and mode in NOISY else None
        self._reports.put(call.op, mode, direction, slot, dtype, list(plain.shape), found, condition)

    def _fixed(self, call: Call, output: Any) -> Any:
        """Return the result of the trial with the dtypes of `output`, for the training to go on with.

        It leads to the arguments themselves, so that backward goes through it. Returns None where the op writes into
        an argument.
        """
        given = list(_named((call.args, call.kwargs)))
        if not isinstance(output, Tensor) or any(output is tensor for _, tensor in given):
            return None
        try:
            wide = {slot: array.dtype for slot, array in _changed(call, self._reports.modes[0])[0].items()}
            tensors = {
                slot: tensor.astype(getattr(mindspore, wide[slot].name)) if wide[slot].name in LIMITS else tensor
                for slot, tensor in given
            }
            return _called(call, tensors).astype(output.dtype)
        except FAILURES:
            return None


def _changed(call: Call, mode: str) -> tuple[Results, float]:
    """Return the tensors of a call changed, and how large the change is if it is noise. Raises CannotTryError."""
    if mode in ("to_cpu", "improve_precision") and call.draws:
        raise CannotTryError(DRAWS)
    if mode == "no_change":
        return call.arrays, 0.0
    if mode == "to_cpu":
        small = all(array.dtype.name in SMALL for array in call.arrays.values() if array.dtype.name in LIMITS)
        return {
            slot: array.astype(np.float32 if small else np.float64) if array.dtype.name in LIMITS else array
            for slot, array in call.arrays.items()
        }, 0.0
    arrays, moved = changed(call.arrays, mode)
    if not moved:
        raise CannotTryError(UNCHANGED)
    noisy = mode in NOISY
    return arrays, relative_difference(arrays[moved[0]], call.arrays[moved[0]]) if noisy else 0.0


def _results(call: Call, arrays: Results) -> Results:
    return _arrays(_called(call, {slot: to_tensor(array) for slot, array in arrays.items()}))


def _gradients(call: Call, arrays: Results, gradient: Array) -> Results:
    """Return the gradients of the inputs by slot, from the gradient of the first result."""
    tensors = {slot: to_tensor(array) for slot, array in arrays.items()}
    first = next(iter(_named(_called(call, tensors), "output")))[0]

    def of_inputs(*given: Any) -> Any:
        return dict(_named(_called(call, tensors | dict(zip(call.differentiated, given, strict=True))), "output"))[
            first
        ]

    seed = to_tensor(gradient).astype(of_inputs(*(tensors[slot] for slot in call.differentiated)).dtype)
    gradient_of = ops.GradOperation(get_all=True, sens_param=True)(of_inputs)
    found = gradient_of(*(tensors[slot] for slot in call.differentiated), seed)
    return {slot: to_array(item) for slot, item in zip(call.differentiated, found, strict=True)}


def _called(call: Call, tensors: dict[str, Any]) -> Any:
    """Run a call with other tensors and the random numbers of the training's call. Returns its result."""
    args, kwargs = _placed((call.args, call.kwargs), tensors, "")
    after = mindspore.get_rng_state()
    try:
        mindspore.set_rng_state(call.random)
        output = call.function(*args, **kwargs)
    finally:
        mindspore.set_rng_state(after)
    return args[0] if output is None and args else output


def _placed(value: Any, tensors: dict[str, Any], slot: str) -> Any:
    """Return a value with the tensors in their places."""
    if isinstance(value, Tensor):
        return tensors[_slot(slot)]
    if isinstance(value, dict):
        return {key: _placed(item, tensors, f"{slot}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_placed(item, tensors, f"{slot}.{number}") for number, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _named(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a call or of a result with their slots. A lone tensor is output.0."""
    members = value.items() if isinstance(value, dict) else enumerate(value if _is_list(value) else (value,))
    for key, item in members:
        if isinstance(item, Tensor):
            yield _slot(f"{name}.{key}"), item
        elif _is_list(item) or isinstance(item, dict):
            yield from _named(item, f"{name}.{key}")


def _slot(path: str) -> str:
    """Return the slot of a path: input.2 for the path .0.2, which is the third positional argument."""
    head, _, rest = path.lstrip(".").partition(".")
    return f"input.{rest}" if head in ("0", "1") and rest else path.lstrip(".")


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _arrays(output: Any) -> Results:
    return {slot: to_array(tensor) for slot, tensor in _named(output, "output")}
