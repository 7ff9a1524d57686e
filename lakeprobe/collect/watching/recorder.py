"""Turns events into ops. Functions, modules and gradients report to this part of a capture.

No failure in here may stop the training step: see `guarded`.
"""

import functools
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import CodeType, FrameType, MappingProxyType
from typing import Any, Protocol, TypeVar

from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching.births import Births
from lakeprobe.collect.watching.entries import Entries, Op
from lakeprobe.collect.watching.scope import MODULES, Scope
from lakeprobe.collect.watching.stacks import Around, Stack, Stacks
from lakeprobe.collect.watching.tree import Tree
from lakeprobe.errors import OverflowFoundError

Method = TypeVar("Method", bound=Callable[..., Any])


class Leaves(Protocol):
    """Turns a framework's values into the leaves of dump.json."""

    def of(self, value: Any, op: str, category: str) -> Any:
        """Return the leaves of a value, in the value's own structure.

        `op` and `category` name the files of stored tensors.
        """

    def of_file(self, value: Any, op: str, file: str) -> Any:
        """Return the leaves of a value. Its tensors are stored as `file` plus their path inside the value."""

    def forget_all(self) -> None:
        """Forget all tensors, because what is remembered of them is out of date."""


_RECORDED, _OURS = 1, 2
"""What runs in a thread: a recorded function, or our own code."""


class Thread(threading.local):
    """The state of one thread."""

    inside = 0
    """0, _RECORDED or _OURS. Calls of functions inside of either are not recorded."""
    around: Around | None = None
    """The innermost module that runs."""
    step: int | None = None
    """The step that has counted the last call."""
    updates: tuple[Any, ...] = ()
    """The steps of optimizers that run, the innermost last. They learn of each op that begins: `saw(name, args)`."""


def guarded(method: Method) -> Method:
    """Decorate methods that training code calls unknowingly. Their class has a `recorder`.

    Calls inside them are not recorded, and the framework's modes do not see them. An exception in them is noted and
    swallowed: they return None, and the training step goes on undisturbed. Only OverflowFoundError reaches the
    training.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any) -> Any:
        recorder = self.recorder
        thread = recorder.thread
        before = thread.inside
        try:
            if before == _OURS:  # one of these in another, which has hidden it
                return method(self, *args)
            thread.inside = _OURS
            hidden = recorder.hidden()
            if hidden is None:
                return method(self, *args)
            with hidden:
                return method(self, *args)
        except OverflowFoundError:
            raise
        except Exception as error:  # noqa: BLE001  see above: the training must not notice
            recorder.failures.append(f"{type(error).__name__}: {error}")
            return None
        finally:
            if before != _OURS:
                thread.inside = before

    return call  # type: ignore[return-value]


class Recorder:
    """Records the ops of the running step, and keeps the counters that name them."""

    def __init__(
        self,
        settings: Settings,
        sink: Sink,
        leaves: Callable[[Settings, list[str]], Leaves],
        hidden: Callable[[], AbstractContextManager[Any] | None],
        traced: Callable[[], bool],
        phases: Mapping[CodeType, str] = MappingProxyType({}),
    ) -> None:
        """Record for `sink`, with leaves that `leaves` makes.

        `leaves` also gets the list to which it appends what cannot be measured. `hidden` returns a context that hides
        our work from the framework's modes, or None if none is active. `traced` returns whether the framework only
        traces the running code, so that there are no numbers to record. `phases` maps the code of optimizers and the
        like to the name of the phase that owns what the code calls, in place of a module.
        """
        self.recorder = self
        self.hidden = hidden
        self._traced = traced
        self.settings = settings
        self.running = False
        self.steps = 0
        """The number of steps so far. A hook of an earlier step recognizes by it that it is late."""
        self.failures: list[str] = []
        self.thread = Thread()
        self._counting = threading.RLock()
        self.leaves = leaves(settings, self.failures)
        self.entries = Entries(sink)
        self._stacks = Stacks(phases)
        self._structure = settings.task in ("structure", "perturb")
        self.births = Births(settings.overflow_nums) if settings.task == "overflow_check" else None
        """Decides which ops are kept. None keeps all."""
        self.when_enough: Callable[[], None] = lambda: None
        """Called when the limit of births is reached, before training ends."""
        self._has_tree = settings.extra_info and settings.level in ("L0", "mix")
        self._has_places = self._has_tree or self.births is not None
        self.next_step()

    def next_step(self) -> None:
        """Reset the counters, the module tree and what is remembered of tensors."""
        with self._counting:  # so that no call gets the number of one step and belongs to another
            self.steps += 1
            self.counts: dict[str, int] = {}
        self.tree = Tree()
        self.scope = Scope(self.settings)
        self.modules_with_backward: set[str] = set()
        self.repeated: list[str] = []
        """Ops through which backward went again in the step. The last time is recorded."""
        self._went_back: set[str] = set()
        self.leaves.forget_all()
        if self.births is not None:
            self.births.next_step()

    @property
    def idle(self) -> bool:
        """Whether a call that begins now is not recorded."""
        return bool(self.thread.inside) or not self.running or self._traced()

    def count(self, key: str) -> int:
        """Return 0 for the first call under this key in the step, 1 for the second, …"""
        with self._counting:  # two threads with one number would have one op
            number = self.counts.get(key, -1) + 1
            self.counts[key] = number
            self.thread.step = self.steps
        return number

    def parent_of_function(self, stack: Stack | None = None) -> str | None:
        """Return the parent in construct.json of an API that runs now. `stack` is the one of its forward."""
        if self.settings.level != "mix" or not self.settings.extra_info:
            return None
        return self._stacks.phase_of(stack) or self.tree.top

    def began(self, name: str) -> int | None:
        """Return the op's position in the order of calls, or None if no tree is recorded.

        Call once, when the op is recorded.
        """
        return self.tree.place(name) if self._has_places else None

    def run(self, op: Op | None, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run the `function` of an op, or of a call that is not an op, and return its result.

        Calls inside are not recorded.
        """
        thread = self.thread
        thread.inside = _RECORDED
        try:
            return function(*args, **kwargs)
        except BaseException:
            if op is not None:
                self.breaks_off(op)
            raise
        finally:
            thread.inside = 0

    @guarded
    def starts(
        self, name: str, args: Any, kwargs: Any, frame: FrameType, module_parent: str | None = None
    ) -> Op | None:
        """Record the start and the inputs of a forward that was just counted. Returns None if the op is not wanted."""
        if not self.scope.wants(name):
            return None
        for update in self.thread.updates:
            update.saw(name, args)
        stack = self._stack_at(frame, is_module=name.startswith(MODULES)) if self.settings.extra_info else None
        op = Op(name, {}, module_parent, stack, self.began(name), self.thread.step)
        op.moves = name.startswith(MODULES) and self.scope.outputs and not self.settings.scope
        if self.scope.forward and self.scope.inputs and not self._structure:
            op.body["input_args"] = self.leaves.of(args, name, "input")
            op.body["input_kwargs"] = self.leaves.of(kwargs, name, "kwargs")
        if (op.body or self._structure) and self.births is None:
            self.entries.put(op)
        return op

    def _stack_at(self, frame: FrameType, *, is_module: bool) -> Stack:
        thread = self.thread
        if not is_module:
            return self._stacks.of(frame, thread.around)
        stack, thread.around = self._stacks.within(frame, thread.around)
        return stack

    @guarded
    def ends(self, op: Op, output: Any, parameters: Any = None, waited_for: bool = False) -> None:
        """Record the end and the results of a forward. For a module also its parameters.

        `waited_for`: the call returned before its results had arrived.
        """
        if not self.entries.takes(op):
            return
        if self.scope.forward and self.scope.outputs and not self._structure:
            results = output if isinstance(output, tuple) else (output,)
            self.entries.fill(op, "output", self.leaves.of(results, op.name, "output"))
            if waited_for:
                self.entries.fill(op, "waited_for", True)
            if parameters is not None:
                self.entries.fill(op, "parameters", self.leaves.of(parameters, op.name, "parameters"))
        self._finish(op, moves=op.name.startswith(MODULES) and self.scope.outputs)

    def waits(self, op: Op, output: tuple[Any, ...]) -> None:
        """Record that a forward has returned, and that its results have not arrived.

        `output` is what stays if it never ends: the results without numbers.
        """
        if self.scope.forward and self.scope.outputs and not self._structure:
            self.entries.fill(op, "output", self.leaves.of(output, op.name, "output"))
            self.entries.fill(op, "waited_for", False)
            if self.entries.find(op.name) is None and self.births is None:
                self.entries.put(op)

    @guarded
    def breaks_off(self, op: Op) -> None:
        """End a forward without results, because of an exception or because it left the recorded range."""
        if self.births is None:
            self._finish(op, moves=False)

    def _finish(self, op: Op, *, moves: bool) -> bool:
        """Complete the op, and return whether it is recorded.

        It keeps its place, unless it has none or `moves` to the end.
        """
        if not self.entries.takes(op) or (self.births is not None and not self.births.is_birth(op)):
            return False
        in_place = not moves and self.entries.find(op.name) is not None
        if not in_place and not ((op.body or self._structure) and self.entries.put(op)):
            return False
        self.entries.finish(op)
        if self.births is not None and self.births.enough:
            self.when_enough()
            raise OverflowFoundError(
                f"{op.name} made NaN or inf of finite numbers, the birth that training was to end with "
                f"(overflow_nums: {self.births.number}); what was found is in the lake, with inputs and outputs"
            )
        return True

    @guarded
    def gradients(self, name: str, outgoing: Any) -> Any:
        """Return the leaves of the gradients that a backward gives, for `backward` to record when it has finished.

        Returns None if they are not recorded, or if only the end says whether they are.
        """
        recorded = self.scope.backward and self.scope.outputs and not self._structure
        return self.leaves.of(outgoing, name, "output") if recorded and self.scope.surely_wants(name) else None

    @guarded
    def backward(self, name: str, incoming: Any, outgoing: Any, parent: str | None, measured: Any = None) -> None:
        """Record a finished backward with the gradients of its outputs and of its inputs.

        `measured` is what `gradients` gave for the latter.
        """
        step = self.steps
        if not self.scope.wants(name):
            return
        op = Op(name, {}, parent, began=self.began(name), step=step)
        if self.scope.backward and not self._structure:
            if self.scope.inputs:
                op.body["input"] = self.leaves.of(incoming, name, "input")
            if self.scope.outputs:
                op.body["output"] = measured or self.leaves.of(outgoing, name, "output")
        if op.body and name.startswith(MODULES):
            self.modules_with_backward.add(name.rsplit(".", 2)[0])
        if name in self._went_back:
            self.repeated.append(name)
            earlier = self.entries.find(name)
            op.again = earlier is None or earlier.again
        went_back = self._went_back
        if self._finish(op, moves=True):
            went_back.add(name)
