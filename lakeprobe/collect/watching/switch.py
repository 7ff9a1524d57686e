"""Switches the collecting of a running training on and off from outside: by a file that exists, or a signal."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakeprobe.errors import UsageError


def of(name: str | None) -> Callable[[], bool]:
    """Whether the switch `name`, a file or a signal such as SIGUSR1, is on now. Without one it always is."""
    if name is None:
        return lambda: True
    number = number_of(name)
    if number is None:
        return Path(name).exists
    return _Toggled(number).is_on


def number_of(name: str) -> signal.Signals | None:
    """The signal of this name; None where it is the name of a file."""
    return signal.Signals[name] if name in signal.Signals.__members__ else None


class _Toggled:
    """Off at first; each signal turns it on or off.

    The handler stays when the collecting is over, since the next signal would end a training that handles none.
    """

    def __init__(self, number: signal.Signals) -> None:
        """Raises UsageError where signals cannot be handled."""
        if threading.current_thread() is not threading.main_thread():
            raise UsageError(f"collect: switch {number.name} needs the main thread, where Python handles signals")
        self._on = False
        try:
            self._before = signal.signal(number, self._toggle)
        except OSError as error:
            raise UsageError(f"collect: switch {number.name} cannot be handled: {error.strerror}") from error
        signal.siginterrupt(number, False)  # the training's own calls of the system go on

    def _toggle(self, number: int, frame: Any) -> None:
        self._on = not self._on
        if callable(self._before):
            self._before(number, frame)

    def is_on(self) -> bool:
        """Whether an odd number of signals has come."""
        return self._on
