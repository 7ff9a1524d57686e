"""Records calls of primitives, the operators that cells of a model hold as attributes."""

import contextlib
import math
from collections.abc import Callable, Iterator
from sys import _getframe
from typing import Any

from mindspore import Tensor, ops
from mindspore._c_expression.typing import Number as Type
from mindspore.ops.primitive import Primitive

from lakeprobe.collect.mindspore.cells import parts
from lakeprobe.collect.mindspore.passages import Gradients, can_have_gradient
from lakeprobe.collect.watching.entries import Op
from lakeprobe.collect.watching.recorder import Recorder, guarded


class Primitives:
    """Records every call of a model's primitive as an op while started."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._kinds: list[tuple[Any, type, type]] = []

    def start(self, models: Any) -> None:
        """Record the primitives of one model or a list of models."""
        for name, primitive in _named(models):
            original = type(primitive)
            call = self._recording(f"Primitive.{name}.{original.__name__}", original)
            recording = type(original.__name__, (original,), {"__call__": call})
            self._kinds.append((primitive, original, recording))
        self.show()

    def stop(self) -> None:
        """Restore the primitives."""
        self.hide()
        self._kinds = []

    def hide(self) -> None:
        """Restore the primitives temporarily."""
        for primitive, original, _ in self._kinds:
            primitive.__class__ = original

    def show(self) -> None:
        """Record the primitives again after `hide`."""
        for primitive, _, recording in self._kinds:
            primitive.__class__ = recording

    def _recording(self, name: str, original: Any) -> Callable[..., Any]:
        recorder = self.recorder
        run = original.__call__

        def call(primitive: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder.running:
                return run(primitive, *args, **kwargs)
            number = recorder.count(name)
            backward = _Backward(recorder, f"{name}.{number}.backward")
            args = backward.arguments(args) or args
            op = recorder.starts(f"{name}.{number}.forward", args, kwargs, _getframe(1))
            if op is not None and op.body and (attributes := _attributes(primitive)):
                op.body["attributes"] = attributes
            try:
                output = run(primitive, *args, **kwargs)
            except BaseException:
                if op is not None:
                    recorder.breaks_off(op)
                raise
            if op is not None:
                op.parent = recorder.parent_of_function()
                recorder.ends(op, output)
            watched = backward.results(output)
            return output if watched is None else watched

        return call


def _attributes(primitive: Any) -> dict[str, Any]:
    """What the primitive was made with, by parameter: numbers and texts, lists of them, and dtypes as {"dtype": name}.

    Anything else is left out: it is not known.
    """
    found = {}
    for name, value in getattr(primitive, "init_attrs", {}).items():
        with contextlib.suppress(TypeError):
            found[name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    """A value as JSON has it. Raises TypeError for one that it cannot hold."""
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    if isinstance(value, Type):
        return {"dtype": str(value).lower()}
    raise TypeError


class _Backward:
    """The backward of one call. Each tensor's gradient arrives separately, and the op grows with it.

    The op is finished when the gradients of all arguments have arrived. If some arguments get none, it stays open until
    recording ends, and later ops of the step wait for it. That happens in the first cells of a model, the last in
    backward.
    """

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder = recorder
        self._name = name
        self._step = recorder.steps
        self._gradients: dict[str, list[Any]] = {"input": [], "output": []}
        self._expected = 0

    @guarded
    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, with their tensors passed through nodes. Returns None if that fails."""
        self._expected = sum(can_have_gradient(item) for item in args)
        return self._through(args, "output")

    @guarded
    def results(self, output: Any) -> Any:
        """Return the results, with their tensors passed through nodes. Returns None if that fails."""
        watched = self._through(output if isinstance(output, tuple) else (output,), "input")
        return watched if isinstance(output, tuple) else watched[0]

    def _through(self, values: tuple[Any, ...], section: str) -> tuple[Any, ...]:
        if not self.recorder.scope.backward:
            return values

        def hook(gradients: Gradients) -> None:
            if self.recorder.running and self.recorder.steps == self._step:
                self._came(section, gradients)

        return tuple(ops.HookBackward(hook)(item) if isinstance(item, Tensor) else item for item in values)

    @guarded
    def _came(self, section: str, gradients: Gradients) -> None:
        recorder = self.recorder
        found = self._gradients[section]
        found.extend(gradients)
        complete = len(self._gradients["output"]) == self._expected
        if recorder.births is not None:  # a birth is judged by all gradients of the op together
            if complete:
                incoming, outgoing = (tuple(came) for came in self._gradients.values())
                recorder.backward(self._name, incoming, outgoing, recorder.parent_of_function())
            return
        if not recorder.scope.wants(self._name):
            return
        op = recorder.entries.find(self._name)
        if op is None:
            op = Op(self._name, {}, None, began=recorder.began(self._name))
            recorder.entries.put(op)
        op.parent = recorder.parent_of_function()
        if recorder.settings.task != "structure" and self._asked(section):
            op.body[section] = recorder.leaves.of(tuple(found), self._name, section)
        if complete:
            recorder.entries.finish(op)

    def _asked(self, section: str) -> bool:
        scope = self.recorder.scope
        return scope.inputs if section == "input" else scope.outputs


def _named(models: Any) -> Iterator[tuple[str, Any]]:
    """Yield each primitive of the models once, with the name of the attribute that holds it."""
    seen: set[int] = set()
    for model in models if isinstance(models, (list, tuple)) else [models]:
        for _, cell in parts(model):
            for attribute, value in vars(cell).items():
                if isinstance(value, Primitive) and id(value) not in seen:
                    seen.add(id(value))
                    yield attribute, value
