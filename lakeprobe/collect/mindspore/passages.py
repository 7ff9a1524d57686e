"""Runs code when backward passes a call, through nodes that MindSpore inserts in the graph at arguments and results."""

from collections.abc import Callable
from typing import Any

from mindspore import Parameter, Tensor
from mindspore import dtype as types
from mindspore._c_expression import CreationType, HookType
from mindspore.common.api import _pynative_executor
from mindspore.ops.operations._inner_ops import CellBackwardHook

Gradients = tuple[Any, ...]
Ends = Callable[[Gradients, Gradients], None]

_DISCRETE = (
    types.bool_, types.int8, types.int16, types.int32, types.int64, types.uint8, types.uint16, types.uint32,
    types.uint64,
)  # fmt: skip


class Passage:
    """The backward of one call.

    Only the call itself needs this object. Afterwards the nodes in the graph do the work. What comes out of a node is
    another tensor. So a parameter that is a result is not passed through: the program updates it as the object that it
    is.
    """

    def __init__(self, name: str, begins: Callable[[], None], ends: Ends) -> None:
        """Call `begins`, then `ends` with the gradients of the results and of the arguments.

        If no argument can have a gradient, both are called at once, without gradients of arguments.
        """
        self._name = name
        self._begins = begins
        self._ends = ends
        self._around: Any = None
        self._stay: list[int] = []
        """The places of the results that are parameters."""

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, with their tensors passed through a node."""
        if not any(map(can_have_gradient, args)):
            return args
        self._around = self._node(_around(self._name, self._ends, self._stay), HookType.BackwardHook)
        return tuple(_through(self._around, args, []))

    def results(self, output: Any) -> Any:
        """Return the results, with their tensors passed through nodes.

        Tensors inside lists and dicts are not handled.
        """
        stay = self._stay
        results = output if isinstance(output, tuple) else (output,)
        stay += [place for place, result in enumerate(results) if isinstance(result, Parameter)]
        if self._around is not None:
            output = _through(self._around, output, stay)
        before = _before(self._begins, self._ends if self._around is None else None, stay)
        return _through(self._node(before, HookType.BackwardPreHook), output, stay)

    def _node(self, hook: Callable[[Gradients], Any], kind: Any) -> Any:
        """Return a node that passes gradients to the hook.

        CellBackwardHook is not asked to register the hook, because then it would keep every hook in memory for ever.
        """
        node = CellBackwardHook(self._name, None, self)
        node.set_hook_fn(hook, kind)
        return node


def can_have_gradient(value: Any) -> bool:
    """Return whether `value` is a tensor of a dtype other than integer or bool."""
    return isinstance(value, Tensor) and value.dtype not in _DISCRETE


def _around(name: str, ends: Ends, stay: list[int]) -> Callable[[Gradients], Any]:
    """Return a hook for a node around a call, which passes its arguments and some of its results.

    It is called for the results, where it must return the node's name, and then for the arguments.
    """
    waiting: list[Gradients] = []

    def hook(gradients: Gradients) -> Any:
        if not waiting:
            waiting.append(gradients)
            return name
        ends(_placed(waiting.pop(), stay), gradients)
        return gradients

    return hook


def _before(begins: Callable[[], None], ends: Ends | None, stay: list[int]) -> Callable[[Gradients], Any]:
    def hook(gradients: Gradients) -> Any:
        begins()
        if ends is not None:
            ends(_placed(gradients, stay), ())
        return gradients

    return hook


def _placed(gradients: Gradients, stay: list[int]) -> Gradients:
    """Return the gradients, and None in the places of the results that `stay` as they are."""
    placed = list(gradients)
    for place in stay:
        placed.insert(place, None)
    return tuple(placed)


def _through(node: Any, values: Any, stay: list[int]) -> Any:
    """Return what comes out of a node. It is marked so that training code may still write into it.

    The values in the places `stay` are not passed.
    """
    if not isinstance(values, tuple):
        return values if stay else _writable(node(values))
    if len(stay) == len(values):
        return values
    passed = list(_writable(node(tuple(value for place, value in enumerate(values) if place not in stay))))
    for place in stay:
        passed.insert(place, values[place])
    return type(values)(*passed) if hasattr(values, "_fields") else tuple(passed)


def _writable(passed: Any) -> Any:
    for item in passed if isinstance(passed, tuple) else (passed,):
        if isinstance(item, Tensor):
            _pynative_executor.set_creation_type(item, CreationType.DEFAULT)
    return passed
