"""Records calls of torch.distributed.

All arguments are recorded as results. For asynchronous and coalesced calls that happens when they have arrived: when
the program has waited for them, or has seen that they are there. Until then their memory may be half written.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from sys import _getframe
from typing import Any

import torch
from torch import distributed

from lakeprobe.collect.pytorch.apis import DISTRIBUTED
from lakeprobe.collect.watching.entries import Op
from lakeprobe.collect.watching.places import Function, Place, Replacements, place_in, place_of
from lakeprobe.collect.watching.recorder import Recorder, guarded

_Call = tuple[Op, tuple[Any, ...]]
"""The op of a call, and the arguments that it writes its results to."""

ONLY_WRITTEN: dict[str, tuple[int | str, ...]] = {
    "recv": (0, "tensor"),
    "irecv": (0, "tensor"),
    "all_gather": (0, "tensor_list"),
    "all_gather_coalesced": (0, "output_tensor_lists"),
    "gather": (1, "gather_list"),
    "scatter": (0, "tensor"),
    "reduce_scatter": (0, "output"),
    "_reduce_scatter_base": (0, "output"),
    "_all_gather_base": (0, "output_tensor"),
    "all_to_all_single": (0, "output"),
    "all_to_all": (0, "output_tensor_list"),
    "all_gather_into_tensor": (0, "output_tensor"),
    "all_gather_single": (0, "output_tensor"),
    "reduce_scatter_tensor": (0, "output"),
    "reduce_scatter_single": (0, "output"),
}
"""Arguments that are only written to. They hold nothing before the call and are recorded as null.

So do the tensors that batch_isend_irecv receives into. They are recorded without numbers.
"""

_RECEIVED = (0, "tensor")
"""The argument that a broadcast writes to on all ranks but one."""

_OF_FSDP = "torch.distributed.fsdp._fully_shard._fsdp"
_OF_PIPELINES = "torch.distributed.pipelining.stage"
_SILENT = (
    (f"{_OF_FSDP}_param_group", "foreach_all_gather"),
    (f"{_OF_FSDP}_param_group", "foreach_all_gather_copy_out"),
    (f"{_OF_FSDP}_collectives", "DefaultReduceScatter.__call__"),
    (f"{_OF_FSDP}_collectives", "ProcessGroupAllocReduceScatter.__call__"),
    (f"{_OF_FSDP}_collectives", "SymmMemReduceScatter.__call__"),
    (_OF_PIPELINES, "PipelineStage._shape_inference"),
    (_OF_PIPELINES, "PipelineStage._forward_metadata_inference"),
    (_OF_PIPELINES, "PipelineStage._backward_metadata_inference"),
)
"""Where FSDP2 gathers parameters and spreads gradients, and where a stage of a pipeline runs its module to learn the
shapes of what it will get. Calls inside are not recorded: they work on memory that holds something else in every run.

Not `foreach_reduce`, which also runs the program's hooks.
"""

_NO_RESULT = {"isend": (0,)}
"""Arguments that are not recorded as results, because they may already be in use again."""

_COALESCED = (
    "allreduce_coalesced",
    "all_gather_single_coalesced",
    "allgather_into_tensor_coalesced",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
)
"""The methods of a process group that run the calls in a `_coalescing_manager` as one, when it ends."""


class Collectives:
    """Records every call of a torch.distributed function as an op while started."""

    def __init__(self, recorder: Recorder, in_place: Replacements) -> None:
        self.recorder = recorder
        self._in_place = in_place
        self._is_completed: Function = lambda work: False
        self._pending: dict[int, tuple[Any, Any, _Awaited]] = {}
        """By id the works and futures that say when results arrive, with the work each stands for, and the calls."""
        self._coalesced: dict[Any, list[_Call]] = {}
        """The calls in a `_coalescing_manager` that runs, by group."""
        self._of_backend: set[Any] = set()
        """The groups whose backend coalesces, until `_end_coalescing`."""

    def start(self) -> None:
        """Install the recording functions."""
        if not distributed.is_available():
            return
        owners = (distributed, distributed.distributed_c10d)
        found = [place_of("Distributed", owner, name) for owner in owners for name in sorted(DISTRIBUTED)]
        replacements: dict[int, Function] = {}
        for place in filter(None, found):
            function = place.function
            if id(function) not in replacements:
                replacements[id(function)] = functools.update_wrapper(self._recording(place), function)
            self._in_place.put(place, replacements[id(function)])
        replaced = [(place.function, replacements[id(place.function)]) for place in found if place is not None]
        self._in_place.put(transfer_function(), known_transfers(replaced))
        for place in _silent_places():
            self._in_place.put(place, functools.update_wrapper(self._silent(place.function), place.function))
        self._is_completed = distributed.Work.is_completed
        work, future, group = distributed.Work, torch._C.Future, distributed.ProcessGroup
        self._put_around(self._telling(self._arrived), (work, "wait"), (work, "synchronize"), (future, "wait"))
        self._put_around(self._telling(self._looked), (work, "is_completed"), (future, "done"), (future, "value"))
        self._put_around(self._calling_back, (future, "then"), (future, "add_done_callback"))
        self._put_around(self._giving_future, (work, "get_future"))
        self._put_around(self._coalescing, *((group, name) for name in _COALESCED))
        self._put_around(self._starting_coalescing, (group, "_start_coalescing"))
        self._put_around(self._ending_coalescing, (group, "_end_coalescing"))

    def _put_around(self, around: Callable[[Function], Function], *methods: tuple[type, str]) -> None:
        for owner, name in methods:
            place = place_of("Distributed", owner, name)
            if place is not None:
                self._in_place.put(place, around(place.function))

    def stop(self) -> None:
        """Forget calls that were not waited for. They stay without results: their memory may hold something else."""
        for _, _, awaited in list(self._pending.values()):
            awaited.works = []
        self._pending, self._coalesced, self._of_backend = {}, {}, set()

    def _recording(self, place: Place) -> Function:
        recorder = self.recorder
        function = place.function

        def call(*args: Any, **kwargs: Any) -> Any:
            if recorder.idle:
                return function(*args, **kwargs)
            number = recorder.count(place.name)
            name = f"{place.name}.{number}.forward"
            read_args, read_kwargs = self._read(place, args, kwargs) or (args, kwargs)
            op = recorder.starts(name, read_args, read_kwargs, _getframe(1))
            work = recorder.run(op, function, args, kwargs)
            if op is not None:
                self._called(place, op, args, kwargs, work)
            return work

        return call

    def _silent(self, function: Function) -> Function:
        """Return a function in which nothing is recorded."""
        recorder = self.recorder

        def call(*args: Any, **kwargs: Any) -> Any:
            if recorder.idle:
                return function(*args, **kwargs)
            return recorder.run(None, function, args, kwargs)

        return call

    @guarded
    def _read(self, place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the arguments without those that a call only writes to."""
        if place.attribute == "batch_isend_irecv":
            return _unreceived(args), {key: _unreceived(value) for key, value in kwargs.items()}
        empty = ONLY_WRITTEN.get(place.attribute, ())
        if place.attribute == "broadcast":
            empty = _RECEIVED if _receives(place.function, args, kwargs) else ()
        return _without(args, empty), _without_keys(kwargs, empty)

    @guarded
    def _called(self, place: Place, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any) -> None:
        recorder = self.recorder
        recorder.leaves.forget_all()  # torch's version counter does not see what a collective writes
        op.parent = recorder.parent_of_function(op.stack)
        # A collective writes its results to its arguments.
        results = _without((*args, *kwargs.values()), _NO_RESULT.get(place.attribute, ()))
        group = _coalescing_group(place.function, args, kwargs)
        handles = returned if isinstance(returned, list) else [returned]
        works = [one for one in handles if isinstance(one, (distributed.Work, torch._C.Future))]
        if group is None and not works:
            recorder.ends(op, results)
            return
        recorder.waits(op, _unread(results))
        if group is None:
            self._wait_for([(op, results)], works)
        else:
            self._coalesced.setdefault(group, []).append((op, results))

    def _wait_for(self, calls: list[_Call], works: list[Any]) -> None:
        """Record the results of calls when all works have ended."""
        awaited = _Awaited(calls, works)
        for work in works:
            self._follow(work, work, awaited)
        if not works:
            self._end(awaited)

    def _follow(self, handle: Any, work: Any, awaited: "_Awaited") -> None:
        """Learn from a work, or from its future, when it has ended."""
        # Keep the object, so that its id is not reused for another one.
        self._pending[id(handle)] = handle, work, awaited
        awaited.handles.append(id(handle))

    def _telling(self, learn: Callable[[Any, "_Awaited"], None]) -> Callable[[Function], Function]:
        """Return what wraps a method of a work or future after which `learn` finds out whether it has ended."""

        def around(method: Function) -> Function:
            def call(handle: Any, /, *args: Any, **kwargs: Any) -> Any:
                result = method(handle, *args, **kwargs)
                if pending := self._pending.get(id(handle)):
                    learn(*pending[1:])
                return result

            return call

        return around

    def _calling_back(self, register: Function) -> Function:
        """Return a function that registers a callback of a future. It may write into the results, or give them on."""

        def call(future: Any, callback: Function) -> Any:
            pending = self._pending.get(id(future))
            if pending is None:
                return register(future, callback)

            def call_back(*args: Any) -> Any:
                self._arrived(*pending[1:])
                return callback(*args)

            return register(future, call_back)

        return call

    def _giving_future(self, get_future: Function) -> Function:
        def call(work: Any) -> Any:
            future = get_future(work)
            if pending := self._pending.get(id(work)):
                self._follow(future, *pending[1:])
            return future

        return call

    def _coalescing(self, run: Function) -> Function:
        def call(group: Any, /, *args: Any, **kwargs: Any) -> Any:
            work = run(group, *args, **kwargs)
            if group in self._coalesced and group not in self._of_backend:
                self._coalesced_run(group, work)
            return work

        return call

    def _starting_coalescing(self, start: Function) -> Function:
        def call(group: Any, /, *args: Any, **kwargs: Any) -> Any:
            self._of_backend.add(group)
            return start(group, *args, **kwargs)

        return call

    def _ending_coalescing(self, end: Function) -> Function:
        def call(group: Any, /, *args: Any, **kwargs: Any) -> Any:
            self._of_backend.discard(group)
            return self._coalescing(end)(group, *args, **kwargs)

        return call

    @guarded
    def _coalesced_run(self, group: Any, work: Any) -> None:
        self._wait_for(self._coalesced.pop(group), [] if work is None else [work])

    @guarded
    def _arrived(self, work: Any, awaited: "_Awaited") -> None:
        missing = [one for one in awaited.works if one is not work]
        if len(missing) == len(awaited.works):  # it has arrived before, or in an earlier step
            return
        awaited.works = missing
        if not missing:
            self._end(awaited)

    @guarded
    def _looked(self, work: Any, awaited: "_Awaited") -> None:
        # A future alone does not say on a GPU whether the results are there.
        if isinstance(work, distributed.Work) and self._is_completed(work):
            self._arrived(work, awaited)

    def _end(self, awaited: "_Awaited") -> None:
        for handle in awaited.handles:
            self._pending.pop(handle, None)
        self.recorder.leaves.forget_all()
        for op, results in awaited.calls:
            self.recorder.ends(op, results, None, True)


class _Awaited:
    """Calls that end together, and the works that they still wait for."""

    def __init__(self, calls: list[_Call], works: list[Any]) -> None:
        self.calls = calls
        self.works = works
        self.handles: list[int] = []


def transfer_function() -> Place:
    """Return the place of the function of a P2POp, by which torch tells what it sends from what it receives."""
    return place_in(distributed.P2POp, "op")


def known_transfers(replaced: Sequence[tuple[Function, Function]]) -> Any:
    """Return a property by which a P2POp holds torch's function, and shows what now is in its place.

    So one that was made before functions were replaced works afterwards, and one that was made meanwhile works later.
    `replaced` has torch's functions, each with ours.
    """
    ours = {id(function): own for function, own in replaced}
    torchs = {id(own): function for function, own in replaced}
    around = vars(distributed.P2POp).get("op")  # that of a monitor

    def shown(transfer: Any) -> Any:
        held = around.fget(transfer) if around else vars(transfer)["op"]
        return ours.get(id(held), held)

    def hold(transfer: Any, op: Any) -> None:
        known = torchs.get(id(op), op)
        if around:
            around.fset(transfer, known)
        else:
            vars(transfer)["op"] = known

    return property(shown, hold)


def _silent_places() -> list[Place]:
    """Return where nothing is recorded, in what the program has imported."""
    found = [place_of("Distributed", sys.modules.get(module), name) for module, name in _SILENT]
    return [place for place in found if place is not None]


def _receives(broadcast: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether this rank receives the broadcast with these arguments."""
    given = inspect.signature(broadcast).bind(*args, **kwargs).arguments
    if given.get("group_src") is None:
        return bool(given.get("src") != distributed.get_rank())
    return bool(given["group_src"] != distributed.get_rank(given.get("group")))


def _coalescing_group(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the group of a call whose `_coalescing_manager` runs, so that the call only joins it. Otherwise None."""
    state = getattr(distributed.distributed_c10d._world, "pg_coalesce_state", None)
    if not state:
        return None
    group = inspect.signature(function).bind(*args, **kwargs).arguments.get("group") or distributed.group.WORLD
    return group if group in state else None


def _unread(value: Any) -> Any:
    """Return a value with other tensors, of the same dtype and shape but without numbers, in place of its own."""
    if isinstance(value, torch.Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device="meta", requires_grad=value.requires_grad)
    if isinstance(value, distributed.P2POp):
        transfer = object.__new__(distributed.P2POp)  # without the checks of its own constructor
        vars(transfer).update(vars(value), tensor=_unread(value.tensor))
        return transfer
    return tuple(map(_unread, value)) if isinstance(value, (list, tuple)) else value


def _unreceived(value: Any) -> Any:
    """Return a value with unread tensors in the place of those that batch_isend_irecv receives into."""
    if isinstance(value, distributed.P2POp):
        return _unread(value) if value.op.__name__ == "irecv" else value
    return tuple(map(_unreceived, value)) if isinstance(value, (list, tuple)) else value


def _without(values: tuple[Any, ...], places: tuple[int | str, ...]) -> tuple[Any, ...]:
    return tuple(None if index in places else value for index, value in enumerate(values))


def _without_keys(values: dict[str, Any], keys: tuple[int | str, ...]) -> dict[str, Any]:
    return {key: None if key in keys else value for key, value in values.items()}
