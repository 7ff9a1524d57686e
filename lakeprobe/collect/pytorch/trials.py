"""Runs each call of the training again with changed inputs, and reports how far its results are apart.

A trial works on copies of the arguments and draws the same random numbers as the call, so the training does not notice
it. With the handler "fix" the training goes on with the result of the trial.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from sys import _getframe
from typing import Any

import torch
from msgspec import Struct
from msgspec.structs import replace

from lakeprobe.changes import LIMITS, NOISY, SMALL
from lakeprobe.collect.pytorch import changes
from lakeprobe.collect.pytorch.changes import compared, name_of
from lakeprobe.collect.pytorch.tracing import transformed
from lakeprobe.collect.watching.places import Function
from lakeprobe.collect.watching.recorder import Recorder, guarded
from lakeprobe.collect.watching.trials import DRAWS, FAILURES, UNCHANGED, CannotTryError, Reports

_KINDS = (torch.Tensor, torch.nn.Parameter)
State = tuple[Callable[[torch.Tensor], None], torch.Tensor]
"""How to set the state of a random number generator, and a state."""


class Call(Struct, frozen=True):
    """A call with copies of its arguments, and all that its result depends on."""

    name: str
    number: int
    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    devices: frozenset[torch.device]
    """The devices of its tensors."""
    random: list[State]
    """The random number generators before the call."""
    autocast: tuple[str, torch.dtype] | None
    """The device type and the dtype, if autocast was on."""
    draws: bool = False
    """Whether the call has drawn random numbers."""
    is_wide: bool = False
    """Whether the inputs were changed to a higher precision, which autocast may not take back."""

    @property
    def op(self) -> str:
        """The name that the ops of its forward and its backward begin with."""
        return f"{self.name}.{self.number}"


class Trials:
    """Tries the calls of a training, as the settings ask for."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._reports = Reports(recorder)
        self.next_step = self._reports.next_step

    def recording(self, name: str, function: Function) -> Function:
        """Return the function that replaces `function`."""
        recorder = self.recorder

        def call(*args: Any, **kwargs: Any) -> Any:
            if recorder.idle:
                return function(*args, **kwargs)
            number = recorder.count(name)
            op = recorder.starts(f"{name}.{number}.forward", args, kwargs, _getframe(1))
            wanted = op is not None and self._reports.wants(name)
            copy = self._copy(name, number, function, args, kwargs) if wanted else None
            output = recorder.run(op, function, args, kwargs)
            if op is not None:
                recorder.ends(op, output)
            if copy is None:
                return output
            fixed = self._try(copy, args, kwargs, output)
            return output if fixed is None else fixed

        return call

    @guarded
    def _copy(self, name: str, number: int, function: Function, args: Any, kwargs: Any) -> Call | None:
        """Return the call with copies of its arguments. Returns None if it has no tensors, or cannot be tried."""
        tensors = list(_tensors((args, kwargs)))
        if not tensors:
            return None
        reason = _why_not(tensors, (*args, *kwargs.values()))
        if reason:
            self._reports.skip(f"{name}.{number}", reason)
            return None
        devices = frozenset(tensor.device for tensor in tensors)
        copies = _mapped(args, _copied), _mapped(kwargs, _copied)
        return Call(name, number, function, *copies, devices, list(_random_states(devices)), _autocast(devices))

    @guarded
    def _try(self, call: Call, args: Any, kwargs: Any, output: Any) -> Any:
        """Try a call that gave `output`. Returns what replaces the output, or None."""
        states = _random_states(call.devices)
        call = replace(
            call, draws=any(not torch.equal(one[1], other[1]) for one, other in zip(call.random, states, strict=True))
        )
        result = args[0] if output is None and args else output  # of __setitem__: what it has changed
        if "forward" in self._reports.stages:
            plain = dict(_named(result))
            self._report(call, "forward", plain, _results)
        if "backward" in self._reports.stages and torch.is_grad_enabled():
            self._try_backward(call, result)
        return self._fixed(call, args, kwargs, output) if self._reports.fixes else None

    def _try_backward(self, call: Call, result: Any) -> None:
        """Try the backward of a call as soon as the gradient of its first result arrives."""
        slot, root = next(((slot, item) for slot, item in _named(result) if item.grad_fn is not None), ("", None))
        if root is None:
            return
        step, waiting = self.recorder.steps, [call]

        @guarded
        def arrived(self: Trials, gradient: torch.Tensor) -> None:
            if waiting and self.recorder.running and self.recorder.steps == step:
                call = waiting.pop()
                run = partial(_gradients, slot=slot, gradient=gradient)
                self._report(call, "backward", run(call, call), run)

        def hook(gradient: torch.Tensor) -> None:
            arrived(self, gradient.detach().clone())

        root.register_hook(hook)

    # ---- what is reported -----------------------------------------------------------------------------------

    def _report(self, call: Call, direction: str, plain: dict[str, torch.Tensor], run: Run) -> None:
        """Report what each change of the inputs does to each of the `plain` results."""

        def trial(mode: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], float]:
            changed, size = _changed(call, mode)
            on_cpu = run(call, _changed(call, "to_cpu")[0]) if self._reports.samples(mode) else {}
            return run(call, changed), on_cpu, size

        for mode, (results, on_cpu, size) in self._reports.trials(call.op, direction, trial):
            for slot, result in plain.items():
                other = results.get(slot)
                is_number = name_of(result.dtype) in LIMITS and result.numel()
                if is_number and other is not None and other.shape == result.shape:
                    self._compare(call, mode, direction, slot, result.detach(), other, size, on_cpu.get(slot))

    def _compare(
        self, call: Call, mode: str, direction: str, slot: str, plain: torch.Tensor, changed: torch.Tensor,
        size: float, on_cpu: torch.Tensor | None,
    ) -> None:  # fmt: skip
        backward, dtype = direction == "backward", name_of(plain.dtype)
        changed = changed.detach().to(device=plain.device, dtype=plain.dtype)
        found = compared(mode, plain, changed, backward=backward, limit=self._reports.limit(call.name, dtype))
        if on_cpu is not None:
            reference = on_cpu.detach().to(device=plain.device, dtype=plain.dtype)
            is_right = compared("to_cpu", plain, reference, backward=backward).is_consistent
            self._reports.take(call.name, dtype, found, is_right)
        condition = _relative_difference(changed, plain) / size if size and mode in NOISY else None
        self._reports.put(call.op, mode, direction, slot, dtype, list(plain.shape), found, condition)

    # ---- the handler "fix" ----------------------------------------------------------------------------------

    def _fixed(self, call: Call, args: Any, kwargs: Any, output: Any) -> Any:
        """Return the result of the trial, with the dtypes and devices of `output`, for the training to go on with.

        It leads to the arguments themselves, so that backward goes through it. Returns None for an op that writes into
        its arguments, whose output must stay the argument.
        """
        given = list(_tensors((args, kwargs)))
        if output is None or any(item is tensor for item in _tensors(output) for tensor in given):
            return None
        originals = iter(given)

        def leading(copy: torch.Tensor) -> torch.Tensor:
            original = next(originals)
            return original if original.requires_grad else copy  # a buffer is not written twice

        try:
            joined = replace(call, args=_mapped(call.args, leading), kwargs=_mapped(call.kwargs, leading))
            return _like(_called(_changed(joined, self._reports.modes[0])[0]), output)
        except FAILURES:
            return None


# ---- running ------------------------------------------------------------------------------------------------------


Run = Callable[[Call, Call], dict[str, torch.Tensor]]
"""Runs a call, the second, whose inputs are those of the first or changed ones. Returns its results by slot."""


def _results(_: Call, call: Call) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        copies = replace(call, args=_mapped(call.args, _detached), kwargs=_mapped(call.kwargs, _detached))
        return dict(_named(_called(copies)))


def _gradients(original: Call, call: Call, slot: str, gradient: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the gradients of the inputs by slot, from the `gradient` of the result `slot`."""
    needed = iter([tensor.requires_grad for tensor in _tensors((original.args, original.kwargs))])
    leaves: list[torch.Tensor] = []

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        copy = _detached(tensor)
        if not next(needed):
            return copy
        leaves.append(copy.requires_grad_())
        return copy.clone()  # an op that writes may not write into a leaf

    with torch.enable_grad():
        copies = replace(call, args=_mapped(call.args, leaf), kwargs=_mapped(call.kwargs, leaf))
        root = dict(_named(_called(copies)))[slot]
        seed = gradient.to(device=root.device, dtype=root.dtype)
        found = torch.autograd.grad([root], leaves, [seed], allow_unused=True)
    slots = [name for name, tensor in _inputs(original) if tensor.requires_grad]
    return {name: gradient for name, gradient in zip(slots, found, strict=True) if gradient is not None}


def _called(call: Call) -> Any:
    """Run a call with the random numbers and the autocast of the training's call, and return its result."""
    with _drawing_the_same(call), _casting(call):
        output = call.function(*call.args, **call.kwargs)
    return call.args[0] if output is None and call.args else output


def _changed(call: Call, mode: str) -> tuple[Call, float]:
    """Return the call with its inputs changed, and how large the change is if it is noise.

    Raises CannotTryError if the mode changes nothing.
    """
    floats = [tensor for tensor in _tensors((call.args, call.kwargs)) if name_of(tensor.dtype) in LIMITS]
    first, size = (floats[0] if floats else None), 0.0
    is_wide = mode in ("improve_precision", "to_cpu")
    if is_wide and call.draws:
        raise CannotTryError(DRAWS)
    change: Callable[[torch.Tensor], torch.Tensor]
    if mode == "to_cpu":
        wide = torch.float32 if all(name_of(tensor.dtype) in SMALL for tensor in floats) else torch.float64
        change = partial(_on_cpu, wide=wide)
    elif mode == "improve_precision" and any(name_of(tensor.dtype) in SMALL for tensor in floats):
        change = _improved
    elif mode in changes.FIRST_ONLY and first is not None:
        new = changes.FIRST_ONLY[mode](first.detach())
        size = _relative_difference(new, first.detach())
        if not size and torch.equal(new.nan_to_num(), first.nan_to_num()):
            raise CannotTryError(UNCHANGED)
        change = partial(_exchanged, first=first, new=new)
    elif mode == "no_change":
        return call, size
    else:
        raise CannotTryError(UNCHANGED)
    return replace(call, args=_mapped(call.args, change), kwargs=_mapped(call.kwargs, change), is_wide=is_wide), size


def _on_cpu(tensor: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    return tensor.to("cpu", wide if name_of(tensor.dtype) in LIMITS else tensor.dtype)


def _improved(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if name_of(tensor.dtype) in SMALL else tensor


def _exchanged(tensor: torch.Tensor, first: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return new if tensor is first else tensor


def _relative_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the relative difference of two tensors, by the norms of their finite elements."""
    first, second = one.double(), other.double()
    finite = first.isfinite() & second.isfinite()
    size = float(second[finite].norm())
    return float((first[finite] - second[finite]).norm()) / size if size else 0.0


# ---- what a call depends on besides its arguments -----------------------------------------------------------------


@contextmanager
def _drawing_the_same(call: Call) -> Iterator[None]:
    """Draw the random numbers of the call, and leave the training's generators as they are."""
    after = list(_random_states(call.devices))
    try:
        for put, state in call.random:
            put(state)
        yield
    finally:
        for put, state in after:
            put(state)


def _random_states(devices: Collection[torch.device]) -> Iterator[State]:
    """Yield how to set the state of each random number generator, and its state now."""
    yield torch.set_rng_state, torch.get_rng_state()
    for device in sorted(set(devices) - {torch.device("cpu")}, key=str):
        module: Any = getattr(torch, device.type, None)
        if hasattr(module, "get_rng_state") and hasattr(module, "set_rng_state"):
            yield partial(module.set_rng_state, device=device), module.get_rng_state(device)


def _autocast(devices: Collection[torch.device]) -> tuple[str, torch.dtype] | None:
    for kind in sorted({device.type for device in devices}):
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            return kind, torch.get_autocast_dtype(kind)
    return None


def _casting(call: Call) -> AbstractContextManager[Any]:
    """Return autocast as it was in the call, which is another one in backward. It is off if precision is to be wide."""
    if call.autocast is None:
        return nullcontext()
    kind, dtype = call.autocast
    casting: AbstractContextManager[Any] = torch.autocast(kind, dtype=dtype, enabled=not call.is_wide)
    return casting


def _why_not(tensors: Sequence[torch.Tensor], arguments: Sequence[Any]) -> str | None:
    """Return why a call cannot be tried, or None."""
    if transformed():
        return "it runs in a transform of torch.func, or in forward AD"
    for tensor in tensors:
        if type(tensor) not in _KINDS:
            return f"an input is a {type(tensor).__name__}, which only some ops can copy"
        if tensor.layout != torch.strided or tensor.is_meta:
            return f"an input has the layout {tensor.layout} on {tensor.device.type}"
    if any(isinstance(argument, torch.Generator) for argument in arguments):
        return "it draws from a generator of its own"
    return None


# ---- values -------------------------------------------------------------------------------------------------------


def _mapped(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return a value with all its tensors replaced."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value, in the order in which `_mapped` meets them."""
    return (tensor for _, tensor in _named(value))


def _named(value: Any, name: str = "output") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in a value with their slots. A lone tensor is output.0."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(_as_list(value)):
        if isinstance(item, torch.Tensor):
            yield f"{name}.{key}", item
        elif isinstance(item, (list, tuple, dict)):
            yield from _named(item, f"{name}.{key}")


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _inputs(call: Call) -> Iterator[tuple[str, torch.Tensor]]:
    yield from _named(call.args, "input")
    yield from _named(call.kwargs, "input")


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


def _like(changed: Any, output: Any) -> Any:
    """Return a result with the dtypes and devices that the call gave. None if it has another form."""
    if isinstance(output, torch.Tensor):
        return changed.to(device=output.device, dtype=output.dtype)
    if isinstance(output, (list, tuple)) and not isinstance(output, torch.Size):
        items = [_like(one, other) for one, other in zip(changed, output, strict=True)]
        return type(output)(*items) if hasattr(output, "_fields") else type(output)(items)
    return output
