"""Records calls of MindSpore functions, and their backward through graph nodes at their arguments and results."""

import functools
from sys import _getframe
from typing import Any

from mindspore.common.api import _pynative_executor

from lakeprobe.collect.mindspore.functions import MINT_DISTRIBUTED, places
from lakeprobe.collect.mindspore.passages import Gradients, Passage
from lakeprobe.collect.mindspore.trials import Call, Trials
from lakeprobe.collect.watching.pickling import let_pickle
from lakeprobe.collect.watching.places import Function, Place, Replacements
from lakeprobe.collect.watching.recorder import Recorder, guarded

_COLLECTIVE = (f"{MINT_DISTRIBUTED}.", "Distributed.")
_WRITING = (
    "Functional.assign",
    "Functional.index_add",
    "Functional.inplace_index_add",
    "Functional.scatter_",
    "Tensor.index_add",
)
"""Prefixes of functions that write into a parameter. A parameter that passes through a node is no longer a
parameter."""


class Calls:
    """Records every call of a listed function as an op while started."""

    def __init__(self, recorder: Recorder, trials: Trials | None = None) -> None:
        """Record for `recorder`. With `trials`, each call is tried, and its backward is not recorded."""
        self.recorder = recorder
        self._trials = trials
        self._replacements: dict[tuple[str, int], Function] = {}
        self._places: list[Place] = []
        self._in_place = Replacements()

    def start(self) -> None:
        """Install the recording functions."""
        if not self._places or not all(place.unchanged for place in self._places):
            self._places = places()
        for place in self._places:
            self._in_place.put(place, self._replacement(place))
        let_pickle(self._in_place, self._places)

    def stop(self) -> None:
        """Restore MindSpore's own functions."""
        self._in_place.remove()

    def hide(self) -> None:
        """Restore MindSpore's functions temporarily. Does nothing if not started."""
        self._in_place.hide()

    def show(self) -> None:
        """Install the recording functions again after `hide`."""
        self._in_place.show()

    def _replacement(self, place: Place) -> Function:
        key = (place.name, id(place.function))
        known = self._replacements.get(key)
        if known is None:
            if self._trials is None:
                new = self._recording(place.name, place.function)
            elif place.name.startswith(_COLLECTIVE):
                return place.function  # other ranks take part in it once
            else:
                new = self._trying(place.name, place.function, self._trials)
            known = functools.update_wrapper(new, place.function)
            self._replacements[key] = known
        return known

    def _recording(self, name: str, function: Function) -> Function:
        recorder = self.recorder
        run = _awaited(function) if name.startswith(_COLLECTIVE) else function
        leads_on = recorder.scope.backward and not name.startswith(_WRITING)

        def call(*args: Any, **kwargs: Any) -> Any:
            if recorder.thread.inside or not recorder.running:
                return function(*args, **kwargs)
            number = recorder.count(name)
            op = recorder.starts(f"{name}.{number}.forward", args, kwargs, _getframe(1))
            passage = self._passage(f"{name}.{number}.backward") if leads_on else None
            through = passage and self._lead(passage.arguments, args)
            output = recorder.run(op, run, through or args, kwargs)
            if op is not None:
                op.parent = recorder.parent_of_function()
                waited_for = name.startswith(_COLLECTIVE) and bool(_handles(output))
                recorder.ends(op, _results(name, args, kwargs, output), None, waited_for)
            watched = passage and self._lead(passage.results, output)
            return output if watched is None else watched

        return call

    def _trying(self, name: str, function: Function, trials: Trials) -> Function:
        recorder = self.recorder

        def call(*args: Any, **kwargs: Any) -> Any:
            if recorder.thread.inside or not recorder.running:
                return function(*args, **kwargs)
            number = recorder.count(name)
            op = recorder.starts(f"{name}.{number}.forward", args, kwargs, _getframe(1))
            copy = None if op is None else trials.copy(name, number, function, args, kwargs)
            output = recorder.run(op, function, args, kwargs)
            if op is not None:
                recorder.ends(op, output)
            if copy is None:
                return output
            fixed = trials.tried(copy, output)
            output = output if fixed is None else fixed
            if not trials.wants_gradient(copy) or name.startswith(_WRITING):
                return output
            watched = self._lead(self._awaiting(copy, trials).results, output)
            return output if watched is None else watched

        return call

    def _awaiting(self, copy: Call, trials: Trials) -> Passage:
        """Return a passage that brings the gradient of the first result of a call to the trials."""
        step = self.recorder.steps

        def ends(incoming: Gradients, _: Gradients) -> None:
            if self.recorder.running and self.recorder.steps == step:
                trials.came(copy, incoming[0])

        return Passage(copy.op, _nothing, ends)

    def _passage(self, name: str) -> Passage | None:
        recorder = self.recorder
        if not _pynative_executor.requires_grad():
            return None
        step = recorder.steps

        def ends(incoming: Gradients, outgoing: Gradients) -> None:
            if recorder.running and recorder.steps == step:
                recorder.backward(name, incoming, outgoing, recorder.parent_of_function())

        return Passage(name, _nothing, ends)

    @guarded
    def _lead(self, through: Function, value: Any) -> Any:
        """Pass a value through a graph node. Returns None if that fails."""
        return through(value)


def _nothing() -> None:
    """Do nothing, because the start of a function's backward is not recorded."""


def _results(name: str, args: Any, kwargs: Any, output: Any) -> Any:
    """Return what to record as results. A mint collective writes into its arguments, so these are recorded."""
    return (*args, *kwargs.values()) if name.startswith(MINT_DISTRIBUTED) else output


def _awaited(function: Function) -> Function:
    """Return a collective that waits until it has finished, as msprobe does.

    Asynchronous calls wait too, and their handles stay valid.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        output = function(*args, **kwargs)
        for handle in _handles(output):
            handle.wait()
        return output

    return call


def _handles(output: Any) -> list[Any]:
    """Return the handles of an asynchronous call."""
    return [item for item in (output if isinstance(output, (tuple, list)) else (output,)) if hasattr(item, "wait")]
