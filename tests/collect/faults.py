"""A training of three steps, of which the second meets a fault. Run as a program; the losses are its output.

python faults.py FAULT LAKE, where FAULT is "unwatched", "none", or one of FAULTS.
"""

import json
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import lakeprobe
from lakeprobe.collect.writing import unit_sink
from lakeprobe.journals.journal import Journal

STEPS = 3
RUN = "npu"


def kill(collector: Any, _: Path) -> NoReturn:
    """The process is killed in the middle of a step, when the thread that writes has had its turn."""
    collector._sink._writer.wait()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def terminate(_: Any, __: Path) -> None:
    """The process is asked to end, and does so in good order in the middle of a step, as when a job is preempted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.kill(os.getpid(), signal.SIGTERM)


def fill(collector: Any, _: Path) -> None:
    """The disk is full from here on."""
    collector._sink._writer.wait()

    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    Journal.write = full  # type: ignore[method-assign]


def remove(_: Any, lake: Path) -> None:
    """Somebody removes the lake, and the process beside is at work on nothing in it."""
    while is_beside() and list(lake.glob(".collecting/*step=0*")):
        time.sleep(0.05)
    shutil.rmtree(lake)


def kill_builder(collector: Any, _: Path) -> None:
    """The process beside is killed, for want of memory say."""
    builder = collector._sink._builder
    builder.kill()
    builder.wait()


def odd_values(_: Any, __: Path) -> None:
    """Ops are given what nobody expects."""

    class Nameless:
        __slots__ = ()

        def __str__(self) -> str:
            raise ValueError("no text")

    warnings.simplefilter("ignore")
    x = torch.ones(2)
    for value in (np.bytes_(b"a\xff"), np.complex64(1j), np.longdouble(2), np.datetime64("2026-01-01"), b"a", 1j):
        with suppress(TypeError):
            torch.add(x, value)
    functional.dropout(x, p=np.float64(0.0), training=False)
    with suppress(TypeError):
        torch.add(x, {Nameless(): 2**200})


FAULTS: dict[str, Callable[[Any, Path], None]] = {
    fault.__name__: fault for fault in (kill, terminate, fill, remove, kill_builder, odd_values)
}


def is_beside() -> bool:
    """Whether a process beside builds the units, as it does of a long run."""
    return unit_sink._MOST_UNBUILT == 0


def main(fault: str, lake: str, builder: str = "") -> None:
    if builder == "beside":
        unit_sink._MOST_UNBUILT = 0
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = fault != "unwatched"
    collector = lakeprobe.collect(model, run=RUN, lake=lake, level="mix") if watched else None
    for step in range(STEPS):
        if collector is not None:
            collector.start()
        loss = model(torch.randn(4, 8)).square().mean()
        if step == 1 and fault in FAULTS:
            FAULTS[fault](collector, Path(lake))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(json.dumps(loss.item()), flush=True)
        if collector is not None:
            collector.stop()
            collector.step()
    if collector is not None:
        collector.close()
    checksum = [parameter.double().sum().item() for parameter in model.parameters()]
    print(json.dumps([checksum, torch.get_rng_state().sum().item()]))


if __name__ == "__main__":
    main(*sys.argv[1:])
