"""Switches collecting on and off from outside while training runs, through a file that exists or a signal."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakeprobe.errors import UsageError


def of(name: str | None) -> Callable[[], bool]:
    """Return a function that tells whether the switch `name`, a file or a signal such as SIGUSR1, is on.

    Without a name it is always on.
    """
    if name is None:
        return lambda: True
    number = number_of(name)
    if number is None:
        return Path(name).exists
    return _Toggled(number).is_on


def number_of(name: str) -> signal.Signals | None:
    """Return the signal of this name. None if it names a file."""
    return signal.Signals[name] if name in signal.Signals.__members__ else None


class _Toggled:
    """A switch that is off at first. Each signal toggles it.

    The handler stays installed after collecting, because the next signal would otherwise end a training that handles
    none.
    """

    def __init__(self, number: signal.Signals) -> None:
        """Install the handler. Raises UsageError if signals cannot be handled."""
        if threading.current_thread() is not threading.main_thread():
            raise UsageError(f"collect: switch {number.name} needs the main thread, where Python handles signals")
        self._on = False
        try:
            self._before = signal.signal(number, self._toggle)
        except OSError as error:
            raise UsageError(f"collect: switch {number.name} cannot be handled: {error.strerror}") from error
        signal.siginterrupt(number, False)  # system calls of the training are restarted

    def _toggle(self, number: int, frame: Any) -> None:
        self._on = not self._on
        if callable(self._before):
            self._before(number, frame)

    def is_on(self) -> bool:
        """Return whether an odd number of signals has arrived."""
        return self._on
