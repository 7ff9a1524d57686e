"""A worker process: runs one call after another and answers with what was measured.

A crash or an endless op costs this process only; the one that gives out the calls starts another. Messages are msgpack
with their length before them, on the streams that were stdin and stdout: what an op prints goes nowhere.
"""

from __future__ import annotations

import importlib
import os
import signal
import struct
import time
from typing import IO, Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from lakeprobe.checks.calls import Answer, Call, CannotRunError, Outcome, Perturbed, Setup

Message = TypeVar("Message")
_LENGTH = struct.Struct("<Q")
_RUNNERS = {"pytorch": "lakeprobe.checks.pytorch.runner", "mindspore": "lakeprobe.checks.mindspore.runner"}


class Runner(Protocol):
    """Runs calls in a framework."""

    def check(self, call: Call) -> list[Outcome]:
        """Run the call and measure every result. Raises CannotRunError."""

    def perturb(self, call: Call) -> list[Perturbed]:
        """Run the call with changed inputs, and compare. Raises CannotRunError."""


def send(stream: IO[bytes], message: Any) -> None:
    """Write one message."""
    data = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes], kind: type[Message]) -> Message | None:
    """Read one message of the given kind; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return msgspec.msgpack.decode(stream.read(_LENGTH.unpack(head)[0]), type=kind)


def runner_of(setup: Setup) -> Runner:
    """The runner that `setup` asks for; its framework is imported here and nowhere else."""
    runner: Runner = importlib.import_module(_RUNNERS[setup.framework]).Runner(setup)
    return runner


def answer(runner: Runner, setup: Setup, call: Call) -> Answer:
    """Return the answer to one call."""
    start = time.perf_counter()
    try:
        found = (
            Answer(call.key, perturbed=runner.perturb(call)) if setup.modes else Answer(call.key, runner.check(call))
        )
    except CannotRunError as reason:
        found = Answer(call.key, problem=str(reason))
    except Exception as error:  # noqa: BLE001 whatever an op raises belongs in its row
        found = Answer(call.key, problem=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    return replace(found, seconds=time.perf_counter() - start)


def main() -> None:
    """Answer calls until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives out the calls
    with os.fdopen(os.dup(0), "rb") as incoming, os.fdopen(os.dup(1), "wb") as outgoing:
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 0)
        os.dup2(silence, 1)
        setup = receive(incoming, Setup)
        if setup is None:
            return
        try:
            runner = runner_of(setup)
        except ModuleNotFoundError as error:
            send(outgoing, Answer("", problem=f"{error.name} is not installed; use the Python of the training"))
            return
        except (ImportError, CannotRunError, RuntimeError) as error:
            send(outgoing, Answer("", problem=f"{type(error).__name__}: {error}"))
            return
        send(outgoing, Answer(""))
        while (call := receive(incoming, Call)) is not None:
            send(outgoing, answer(runner, setup, call))


if __name__ == "__main__":
    main()
