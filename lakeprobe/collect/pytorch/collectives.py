"""Records calls of torch.distributed.

All arguments are recorded as results. For asynchronous calls that happens when they have been waited for.
"""

import functools
import inspect
import sys
from sys import _getframe
from typing import Any

from torch import distributed

from lakeprobe.collect.pytorch.apis import DISTRIBUTED
from lakeprobe.collect.watching.entries import Op
from lakeprobe.collect.watching.places import Function, Place, Replacements, place_of
from lakeprobe.collect.watching.recorder import Recorder, guarded

ONLY_WRITTEN: dict[str, tuple[int | str, ...]] = {
    "recv": (0, "tensor"),
    "irecv": (0, "tensor"),
    "all_gather": (0, "tensor_list"),
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
"""Arguments that are only written to. They hold nothing before the call and are recorded as null."""

_RECEIVED = (0, "tensor")
"""The argument that a broadcast writes to on all ranks but one."""

_FSDP = (
    ("torch.distributed.fsdp._fully_shard._fsdp_param_group", "foreach_all_gather"),
    ("torch.distributed.fsdp._fully_shard._fsdp_param_group", "foreach_all_gather_copy_out"),
    ("torch.distributed.fsdp._fully_shard._fsdp_collectives", "DefaultReduceScatter.__call__"),
    ("torch.distributed.fsdp._fully_shard._fsdp_collectives", "ProcessGroupAllocReduceScatter.__call__"),
    ("torch.distributed.fsdp._fully_shard._fsdp_collectives", "SymmMemReduceScatter.__call__"),
)
"""Where FSDP2 gathers parameters and spreads gradients. Calls inside are not recorded: they work on new memory.

Not `foreach_reduce`, which also runs the program's hooks.
"""

_NO_RESULT = {"isend": (0,)}
"""Arguments that are not recorded as results, because they may already be in use again."""


class Collectives:
    """Records every call of a torch.distributed function as an op while started."""

    def __init__(self, recorder: Recorder, in_place: Replacements) -> None:
        self.recorder = recorder
        self._in_place = in_place
        self._pending: dict[int, tuple[Any, _Pending]] = {}

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
        for place in _places_of_fsdp():
            self._in_place.put(place, functools.update_wrapper(self._silent(place.function), place.function))
        wait = place_of("Distributed", distributed.Work, "wait")
        if wait is not None:
            self._in_place.put(wait, self._waiting(wait.function))

    def stop(self) -> None:
        """Forget calls that were not waited for. They keep the results that they had when they returned."""
        self._pending = {}

    def _recording(self, place: Place) -> Function:
        recorder = self.recorder
        function = place.function

        def call(*args: Any, **kwargs: Any) -> Any:
            if recorder.idle:
                return function(*args, **kwargs)
            number = recorder.count(place.name)
            name = f"{place.name}.{number}.forward"
            empty = self._only_written(place, args, kwargs) or ()
            op = recorder.starts(name, _without(args, empty), _without_keys(kwargs, empty), _getframe(1))
            work = recorder.run(op, function, args, kwargs)
            if op is not None:
                self._called(_Pending(op, place.attribute, args, kwargs), work)
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
    def _only_written(self, place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int | str, ...]:
        """Return the positions and names of the arguments that a call only writes to."""
        if place.attribute != "broadcast":
            return ONLY_WRITTEN.get(place.attribute, ())
        return _RECEIVED if _receives(place.function, args, kwargs) else ()

    @guarded
    def _called(self, call: "_Pending", work: Any) -> None:
        recorder = self.recorder
        recorder.leaves.forget_all()  # torch's version counter does not see what a collective writes
        call.op.parent = recorder.parent_of_function(call.op.stack)
        works = work if isinstance(work, list) else [work]
        call.works = [one for one in works if isinstance(one, distributed.Work)]
        if not call.works:
            recorder.ends(call.op, call.results())
            return
        recorder.results_so_far(call.op, call.results())
        for one in call.works:
            # Keep the work object, so that its id is not reused for another one.
            self._pending[id(one)] = (one, call)

    def _waiting(self, wait: Function) -> Function:
        collectives = self

        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            done = wait(self, *args, **kwargs)
            if collectives.recorder.running and id(self) in collectives._pending:
                collectives._waited(self)
            return done

        return call

    @guarded
    def _waited(self, work: Any) -> None:
        _, call = self._pending.pop(id(work))
        call.works = [one for one in call.works if one is not work]
        if not call.works:
            self.recorder.leaves.forget_all()
            self.recorder.ends(call.op, call.results(), None, True)


class _Pending:
    """A call and the works that it still waits for."""

    def __init__(self, op: Op, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.op = op
        self.works: list[Any] = []
        self._function = function
        self._args = args
        self._kwargs = kwargs

    def results(self) -> tuple[Any, ...]:
        """Return the arguments, which a collective writes its results to."""
        return _without((*self._args, *self._kwargs.values()), _NO_RESULT.get(self._function, ()))


def _places_of_fsdp() -> list[Place]:
    """Return where FSDP2 communicates, if the program has imported it."""
    found = [place_of("FSDP", sys.modules.get(module), name) for module, name in _FSDP]
    return [place for place in found if place is not None]


def _receives(broadcast: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether this rank receives the broadcast with these arguments."""
    given = inspect.signature(broadcast).bind(*args, **kwargs).arguments
    if given.get("group_src") is None:
        return bool(given.get("src") != distributed.get_rank())
    return bool(given["group_src"] != distributed.get_rank(given.get("group")))


def _without(values: tuple[Any, ...], places: tuple[int | str, ...]) -> tuple[Any, ...]:
    return tuple(None if index in places else value for index, value in enumerate(values))


def _without_keys(values: dict[str, Any], keys: tuple[int | str, ...]) -> dict[str, Any]:
    return {key: None if key in keys else value for key, value in values.items()}
