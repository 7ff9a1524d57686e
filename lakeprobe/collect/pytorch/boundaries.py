"""Records the gradients that pass a module's boundary, through hooks on graph nodes that change nothing.

torch's own full backward hooks pass arguments and results through an extra node each. That changes the order in which
three or more gradients are summed, and gives zeros to a result that nobody uses. Here the existing nodes are watched:
those that made the results, and those in the module that took the arguments. The record and its order are the same as
with torch's hooks. A node of ours is added only where no existing node separates inside from outside: see `Boundary`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import get_ident
from typing import Any

import torch
from torch.nn.modules._functions import BackwardHookFunction

from lakeprobe.collect.watching.recorder import Recorder, guarded
from lakeprobe.collect.watching.values import Containers

Edge = tuple[Any, int]
"""A node and an output number, which together say where the gradient of a tensor goes."""
Places = list[tuple[int, int]]
"""Pairs of the index of a gradient at a node and the index of the tensor that it belongs to."""

_LEAF = 1 << 63
"""Sequence numbers from here on belong to nodes of leaves, which run as soon as they can."""
_OURS = "lakeprobe"
_running_node: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)


class Boundaries:
    """The module calls that backward is passing through at the moment."""

    def __init__(self) -> None:
        self.sums = Sums()
        self._ending: dict[int, list[Boundary]] = {}
        """Those that have all their gradients, by the thread that runs their nodes. Each thread numbers its own."""
        self._begun: dict[int, list[Boundary]] = {}

    def begins(self, boundary: Boundary) -> None:
        """Record that backward has reached a module."""
        task = torch._C._current_graph_task_id()
        begun = self._begun.get(task)
        if begun is None:
            begun = self._begun[task] = []
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self._is_over(task))
        begun.append(boundary)

    def will_end(self, boundary: Boundary) -> None:
        """Record that a module has all its gradients.

        It stays open for nodes that torch would run before its own hooks. They are still inside the module.
        """
        self._ending.setdefault(get_ident(), []).append(boundary)

    def reached(self, number: int) -> None:
        """End the modules that backward has left, given that it reached the node `number`.

        Backward goes from newer to older nodes, so it has left the modules whose nodes are all newer.
        """
        if self._ending.get(get_ident()):
            self._end(lambda boundary: boundary.since > number)

    def reached_forward(self) -> None:
        """Handle the start of a forward. If backward reruns it, backward has reached the node that needs it."""
        if self._ending.get(get_ident()):
            node = _running_node()
            self.reached(-1 if node is None else node._sequence_nr())

    def reached_parameter(self, prefix: str) -> None:
        """End the modules that a parameter is not part of, because it has its gradient and backward has left them."""
        if self._ending.get(get_ident()):
            self._end(lambda boundary: not prefix.startswith(boundary.within))

    def _is_over(self, task: int) -> None:
        """End all modules of a finished backward. It may not have asked for all gradients of a module."""
        begun = self._begun.pop(task, [])
        self._end(begun.__contains__)
        for boundary in begun:
            for ending in list(self._ending.values()):  # a device has a thread of its own
                with suppress(ValueError):
                    ending.remove(boundary)
            boundary.ends()
        self.sums.forget()

    def _end(self, is_over: Callable[[Boundary], bool]) -> None:
        """End those modules of this thread that `is_over`."""
        ending = self._ending.get(get_ident(), [])
        for boundary in [boundary for boundary in ending if is_over(boundary)]:
            with suppress(ValueError):  # the thread that called backward has removed it
                ending.remove(boundary)
            boundary.ends()


class Sums:
    """Adds gradients, and takes memory for that which an earlier sum no longer needs.

    Memory that is new to the process costs as much time as the addition.
    """

    def __init__(self) -> None:
        self._free: dict[Any, list[torch.Tensor]] = {}

    def of(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Return the sum of two gradients in a tensor that is nobody else's."""
        one, other = one.detach(), other.detach()
        kind = _kind(one)
        if kind is not None and kind == _kind(other):
            with suppress(LookupError):
                return torch.add(one, other, out=self._free[kind].pop())
        return one + other

    def give_back(self, total: torch.Tensor) -> None:
        """Take back a sum that is not needed any more."""
        kind = _kind(total)
        if kind is not None:
            self._free.setdefault(kind, []).append(total)

    def forget(self) -> None:
        """Free the memory."""
        self._free.clear()


def _kind(tensor: torch.Tensor) -> Any:
    """Return what tensors have in common that can take each other's memory. None if it takes more than that to know."""
    if type(tensor) is not torch.Tensor or not tensor.is_cpu or tensor.layout is not torch.strided:
        return None
    return (tensor.dtype, tensor.shape) if tensor.is_contiguous() else None


class Boundary:
    """The backward of one call of a module. Graph nodes refer to it, so it must not refer to the nodes behind them.

    A node of ours is added for a result that is an argument or older than the call, and for a result that the module
    itself goes on to use. Such a result is another tensor than the one that the module gave. So there is none for a
    leaf, nor for a tensor that retains its gradient: the program looks for a gradient in that very tensor. Tensors that
    a module stores and passes on in other ways than through its results are not followed.
    """

    def __init__(
        self,
        boundaries: Boundaries,
        recorder: Recorder,
        prefix: str,
        begins: Callable[[], None],
        measured: Callable[[Any], Any],
        ends: Callable[[Any, Any, Any], None],
    ) -> None:
        """Call `begins`, then `ends` with the gradients of the results and of the arguments, and what was measured.

        `measured` gets the gradients of the arguments when all have come: until the module ends, a hook of the
        program's may write into them. None was measured of a module that does not get all. `prefix` is the module's
        name up to its class.
        """
        self.recorder = recorder
        self.within = prefix.rpartition(".")[0] + "."
        """The prefix of the names of the module's submodules."""
        self.since = 0
        """The lowest sequence number that a node of this call can have."""
        self._boundaries = boundaries
        self._on_begin, self._measured_of, self._on_end = begins, measured, ends
        self._step = recorder.steps
        self._edges: dict[Edge, int] = {}
        self._results = self._arguments = 0
        self._giving = self._taking = 0
        self._open = False

    def arguments(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """Begin the call. If an argument is given twice, all its gradients belong to its first position."""
        self.since = torch.autograd._get_sequence_nr()
        self._arguments = len(tensors)
        for index, tensor in enumerate(tensors):
            self._edges.setdefault(_edge(tensor), index)

    def results(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """End the call and return its results, which are nearly always unchanged."""
        taking, used = self._followed([tensor.grad_fn for tensor in tensors])
        giving: dict[Any, Places] = {}
        passed = []
        for index, tensor in enumerate(tensors):
            edge = _edge(tensor)
            places = giving.get(edge[0], [])
            if not self._made(edge[0]) or edge in used or any(number == edge[1] for number, _ in places):
                if tensor.is_leaf or tensor.retains_grad:
                    passed.append(tensor)
                    continue
                (tensor,) = BackwardHookFunction.apply(tensor)
                if edge in self._edges:
                    taking[tensor.grad_fn] = [(0, self._edges[edge])]
            giving.setdefault(tensor.grad_fn, []).append((tensor.output_nr, index))
            passed.append(tensor)
        self._edges = {}
        self._results, self._giving, self._taking = len(tensors), len(giving), len(taking)
        for node, places in taking.items():
            node.register_hook(_after(self, places))
        for node, places in giving.items():
            _before(node, self, places)
        return tuple(passed)

    def _followed(self, nodes: list[Any]) -> tuple[dict[Any, Places], set[Edge]]:
        """Return the nodes of the call that took its arguments, and all edges inside the call.

        The search starts at the nodes that made the results.
        """
        taking: dict[Any, Places] = {}
        used: set[Edge] = set()
        waiting = [node for node in dict.fromkeys(nodes) if self._made(node)]
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            for place, edge in enumerate(node.next_functions):
                used.add(edge)
                argument = self._edges.get(edge)
                if argument is not None:
                    taking.setdefault(node, []).append((place, argument))
                elif edge[0] not in seen and self._made(edge[0]):
                    seen.add(edge[0])
                    waiting.append(edge[0])
        return taking, used

    def _made(self, node: Any) -> bool:
        """Return whether the call made the node."""
        return node is not None and self.since <= node._sequence_nr() < _LEAF

    @guarded
    def gives(self, places: Places, number: int, gradients: Any) -> None:
        """Take the gradients of results from the node with sequence number `number`."""
        recorder = self.recorder
        if not recorder.running or recorder.steps != self._step:
            return
        self._boundaries.reached(number)
        if not self._open:
            self._open = True
            self._incoming: list[Any] = [None] * self._results
            self._outgoing: list[Any] = [None] * self._arguments
            self._summed: set[int] = set()
            self._gave = self._took = 0
            self._measured: Any = None
            self._boundaries.begins(self)
            self._on_begin()
        for place, index in places:
            self._incoming[index] = gradients[place]
        self._gave += 1
        if not self._arguments and self._gave == self._giving:
            self.ends()

    @guarded
    def takes(self, places: Places, gradients: Any) -> None:
        """Take the gradients of arguments, or parts of them."""
        if not self._open:
            return
        for place, index in places:
            if gradients[place] is not None:
                self._add(index, gradients[place])
        self._took += 1
        if self._took == self._taking:
            self._measured = self._measured_of(tuple(self._outgoing))
            self._boundaries.will_end(self)

    def _add(self, index: int, part: Any) -> None:
        """Add a part to the gradient of an argument. The first sum is a tensor of ours, which takes the other parts."""
        so_far = self._outgoing[index]
        if so_far is None:
            self._outgoing[index] = part
        elif index in self._summed and so_far.dtype is part.dtype and so_far.shape == part.shape:
            so_far.add_(part.detach())
        else:
            self._outgoing[index] = self._boundaries.sums.of(so_far, part)
            if index in self._summed:
                self._boundaries.sums.give_back(so_far)
            self._summed.add(index)

    def ends(self) -> None:
        """End the module's backward, since no more gradients will come."""
        if self._open:
            self._open = False
            incoming, outgoing = tuple(self._incoming), tuple(self._outgoing)
            self._incoming = self._outgoing = []
            if self._took or not self._arguments:
                self._on_end(incoming, outgoing, self._measured)
            for index in self._summed:
                self._boundaries.sums.give_back(outgoing[index])


def _edge(tensor: torch.Tensor) -> Edge:
    node = tensor.grad_fn
    if node is None:  # a leaf
        node = tensor.view_as(tensor).grad_fn.next_functions[0][0]
        return node, 0
    return node, tensor.output_nr


def _after(boundary: Boundary, places: Places) -> Callable[[Any, Any], None]:
    return lambda gradients, _: boundary.takes(places, gradients)


def _before(node: Any, boundary: Boundary, places: Places) -> None:
    """Pass a node's gradients to boundaries. If nested modules return the same result, the outer one comes first."""
    listeners = node.metadata.setdefault(_OURS, [])
    listeners.append((boundary, places))
    if len(listeners) == 1:
        number = node._sequence_nr()

        def before(gradients: Any) -> None:
            for each, its_places in reversed(listeners):
                each.gives(its_places, number, gradients)

        node.register_prehook(before)


def watched(value: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors with gradients at any depth in a value. Leaves of the graph count only at its top level."""
    tensors: list[torch.Tensor] = []
    if torch.is_grad_enabled():
        _gather(value, tensors, Containers(), top=True)
    return tuple(tensors)


def through(boundary: Boundary, output: Any) -> Any:
    """Return the output, with its tensors passed through nodes of the boundary where needed.

    Lists and dicts are changed in place, because the module may still refer to them.
    """
    tensors = watched(output)
    passed = boundary.results(tensors)
    if all(one is other for one, other in zip(tensors, passed, strict=True)):
        return output
    return _replace(output, iter(passed), Containers(), top=True)


def _gather(value: Any, tensors: list[torch.Tensor], around: Containers, *, top: bool) -> None:
    """Append the tensors of a value."""
    if isinstance(value, torch.Tensor):
        if _goes_through(value, top=top):
            tensors.append(value)
    elif isinstance(value, (list, tuple, dict)) and around.enter(value):
        top = top and isinstance(value, tuple)
        for item in value.values() if isinstance(value, dict) else value:
            _gather(item, tensors, around, top=top)
        around.leave(value)


def _replace(value: Any, hooked: Iterator[torch.Tensor], around: Containers, *, top: bool) -> Any:
    """Return the value with the tensors that `_gather` finds replaced by those of `hooked`."""
    if isinstance(value, torch.Tensor):
        watched = next(hooked) if _goes_through(value, top=top) else value
        return value if watched is value else _allow_writing(_like(value, watched))
    if not isinstance(value, (list, tuple, dict)) or not around.enter(value):
        return value
    replaced = value
    if isinstance(value, list):
        value[:] = [_replace(item, hooked, around, top=False) for item in value]
    elif isinstance(value, dict):
        for key, item in value.items():
            value[key] = _replace(item, hooked, around, top=False)
    else:
        items = [_replace(item, hooked, around, top=top) for item in value]
        replaced = _rebuilt(value, items)
    around.leave(value)
    return replaced


def _rebuilt(value: Any, items: list[Any]) -> Any:
    """Return a tuple of the class of `value` with other items, past its constructor, which may make others of them."""
    kind = type(value)
    if hasattr(kind, "n_sequence_fields"):  # a result of torch's, such as that of torch.max
        return kind(items)
    made = tuple.__new__(kind, items)
    if hasattr(value, "__dict__"):
        vars(made).update(vars(value))
    return made


def _goes_through(tensor: torch.Tensor, *, top: bool) -> bool:
    return tensor.requires_grad and (top or tensor.grad_fn is not None)


def _like(tensor: torch.Tensor, watched: torch.Tensor) -> torch.Tensor:
    """Return `watched` as a tensor of the class of `tensor`, with its attributes.

    torch was not meant to see that class. A tensor that wraps others comes with attributes of its own.
    """
    if type(watched) is torch.Tensor:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            watched = watched.as_subclass(type(tensor))
        vars(watched).update(vars(tensor))
    return watched


def _allow_writing(tensor: torch.Tensor) -> torch.Tensor:
    """Let training code write into the tensor as before, though it is now a view made by a custom function."""
    unrestricted = torch._C._autograd.CreationMeta(0)
    if tensor._base is not None and torch._C._autograd._get_creation_meta(tensor) != unrestricted:
        torch._C._autograd._set_creation_meta(tensor, unrestricted)
    return tensor
