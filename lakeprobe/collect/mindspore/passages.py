"""Has code called when backward passes a call, by nodes that MindSpore puts in the graph at arguments and results."""

from collections.abc import Callable
from typing import Any

from mindspore import Tensor
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
    """The backward of one call. It is needed while the call runs; then its nodes in the graph do the work."""

    def __init__(self, name: str, begins: Callable[[], None], ends: Ends) -> None:
        """Have `begins` called, then `ends` with the gradients of results and of arguments.

        Both are called at once, without gradients of arguments, where no argument can have one.
        """
        self._name = name
        self._begins = begins
        self._ends = ends
        self._around: Any = None

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, their tensors passed through a node."""
        if not any(map(can_have_gradient, args)):
            return args
        self._around = self._node(_around(self._name, self._ends), HookType.BackwardHook)
        return tuple(_through(self._around, args))

    def results(self, output: Any) -> Any:
        """The results, their tensors passed through nodes. Tensors in lists and dicts are not seen."""
        if self._around is not None:
            output = _through(self._around, output)
        before = _before(self._begins, self._ends if self._around is None else None)
        return _through(self._node(before, HookType.BackwardPreHook), output)

    def _node(self, hook: Callable[[Gradients], Any], kind: Any) -> Any:
        """A node, which passes gradients to the hook.

        It is not left to CellBackwardHook to keep the hook, whose way leaves all of them in memory for ever.
        """
        node = CellBackwardHook(self._name, None, self)
        node.set_hook_fn(hook, kind)
        return node


def can_have_gradient(value: Any) -> bool:
    """Whether it is a tensor of other than whole numbers or truth values."""
    return isinstance(value, Tensor) and value.dtype not in _DISCRETE


def _around(name: str, ends: Ends) -> Callable[[Gradients], Any]:
    """Called for the results, where the node's name is the answer that is expected, then for the arguments."""
    waiting: list[Gradients] = []

    def hook(gradients: Gradients) -> Any:
        if not waiting:
            waiting.append(gradients)
            return name
        ends(waiting.pop(), gradients)
        return gradients

    return hook


def _before(begins: Callable[[], None], ends: Ends | None) -> Callable[[Gradients], Any]:
    def hook(gradients: Gradients) -> Any:
        begins()
        if ends is not None:
            ends(gradients, ())
        return gradients

    return hook


def _through(node: Any, values: Any) -> Any:
    """What comes out of a node. Training code may write into it, as it could before."""
    passed = node(values)
    for item in passed if isinstance(passed, tuple) else (passed,):
        if isinstance(item, Tensor):
            _pynative_executor.set_creation_type(item, CreationType.DEFAULT)
    return type(values)(*passed) if hasattr(values, "_fields") else passed
