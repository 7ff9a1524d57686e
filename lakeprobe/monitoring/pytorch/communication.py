"""Measures what a rank sends and receives through torch.distributed: bytes, metrics, and the line of code."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch import distributed

from lakeprobe.collect.pytorch.apis import DISTRIBUTED
from lakeprobe.collect.pytorch.collectives import ONLY_WRITTEN, known_transfers, transfer_function
from lakeprobe.collect.watching.places import Place
from lakeprobe.monitoring.meter import Guard, Meter
from lakeprobe.monitoring.writing import Key

_NOT_THE_USERS = (f"{torch.__path__[0]}/", __file__.rpartition("/")[0])


class Communication:
    """Functions that measure, in the places of torch.distributed's own."""

    def __init__(self, meter: Meter, guard: Guard) -> None:
        """Put the functions in place."""
        self._meter = meter
        self._originals: list[tuple[Any, str, Any]] = []
        self._pending: dict[int, tuple[Any, Callable[[], None]]] = {}
        self._transfers: Place | None = None
        self._received = guard(self._measure_received)
        self._sent = guard(self._measure_sent)
        if not distributed.is_available():
            return
        made: dict[int, Any] = {}
        replaced: list[tuple[Any, Any]] = []
        for owner in (distributed, distributed.distributed_c10d):
            for name in sorted(DISTRIBUTED):
                function = getattr(owner, name, None)
                if function is not None:
                    measuring = made.setdefault(id(function), self._measuring(name, function))
                    replaced.append((function, measuring))
                    self._put(owner, name, measuring)
        self._transfers = transfer_function()
        self._transfers.put(known_transfers(replaced))
        self._put(distributed.Work, "wait", self._waiting(distributed.Work.wait))

    def remove(self) -> None:
        """Put torch.distributed's own functions back."""
        for owner, name, function in reversed(self._originals):
            setattr(owner, name, function)
        if self._transfers is not None:
            self._transfers.restore()
            self._transfers = None
        self._originals.clear()
        self._pending.clear()

    def _put(self, owner: Any, name: str, function: Any) -> None:
        self._originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, function)

    def _measuring(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            if not self._meter.on or not self._is_wanted(sys._getframe(1)):
                return function(*arguments, **keywords)
            number = self._meter.count(name, "communication")
            self._sent(name, number, arguments, keywords, sys._getframe(1))
            result = function(*arguments, **keywords)
            works = [one for one in (result if isinstance(result, list) else [result]) if hasattr(one, "wait")]
            measure = functools.partial(self._received, name, number, (*arguments, *keywords.values()))
            if works:
                self._pending[id(works[-1])] = (works[-1], measure)
            else:
                measure()
            return result

        return call

    def _waiting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(wait)
        def call(work: Any, *arguments: Any, **keywords: Any) -> Any:
            done = wait(work, *arguments, **keywords)
            _, measure = self._pending.pop(id(work), (None, None))
            if measure is not None:
                measure()
            return done

        return call

    def _measure_sent(
        self, name: str, number: int, arguments: tuple[Any, ...], keywords: dict[str, Any], frame: FrameType
    ) -> None:
        only_written = ONLY_WRITTEN.get(name, ())
        kept = [item for index, item in enumerate(arguments) if index not in only_written]
        kept += [item for key, item in keywords.items() if key not in only_written]
        tensors = list(_tensors(kept))
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        self._meter.numbers(name, "communication", {"bytes": float(size)}, number)
        self._meter.text(Key(name, "communication", "line"), _line(frame), number)
        self._measure(name, "sent", tensors, number)

    def _measure_received(self, name: str, number: int, values: tuple[Any, ...]) -> None:
        self._measure(name, "received", list(_tensors(values)), number)

    def _measure(self, name: str, point: str, tensors: list[torch.Tensor], number: int) -> None:
        for place, tensor in enumerate(tensors):
            slot = "" if len(tensors) == 1 else f"[{place}]"
            self._meter.measure(name + slot, point, tensor, number)

    def _is_wanted(self, frame: FrameType) -> bool:
        patterns = self._meter.settings.lines
        return not patterns or any(re.search(pattern, line) for line in _lines(frame) for pattern in patterns)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among the arguments of a collective. Those of a list count as one."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)) and value:
            parts = [part for item in value if isinstance(part := getattr(item, "tensor", item), torch.Tensor)]
            if len(parts) == len(value):
                yield torch.cat([part.detach().reshape(-1) for part in parts])


def _line(frame: FrameType) -> str:
    """Return the line of the training's code that communicates."""
    return next(_lines(frame), "")


def _lines(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_NOT_THE_USERS):
            yield f"{file}:{frame.f_lineno}"
        frame = frame.f_back
