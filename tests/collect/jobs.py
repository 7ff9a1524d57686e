"""Jobs of several ranks on gloo: runs a program once for each rank; the program has one training watched, or not."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import lakeprobe

STEPS = 2
_SAME = "name, role, type, dtype, shape, max, min, mean, norm, value, requires_grad, extra"
"""The columns of tensors in which a run of ours and a dump of msprobe are the same."""


def start(program: str, ranks: int, *words: str, optimizes: bool = False) -> list[tuple[int, str]]:
    """Run `program` RANK PORT WORDS… for each rank. Returns the exit codes, and what was said on stderr.

    `optimizes`: it has an optimizer, the first of which makes torch import what takes a second.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with TemporaryDirectory() as said:
        command = [sys.executable, __file__, "torch._dynamo" if optimizes else "torch", said, str(ranks), program, port]
        done = subprocess.run(
            [*command, *words], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, timeout=240, check=True
        )
        texts = [(Path(said) / str(rank)).read_text() for rank in range(ranks)]
    return list(zip(json.loads(done.stdout), texts, strict=True))


def _fork(imported: str, said: str, ranks: str, program: str, *words: str) -> None:
    """Run each rank in a fork of this process, which imports once for all what takes long. Prints their exit codes."""
    importlib.import_module(imported)
    importlib.import_module("lakeprobe.collect.pytorch.watcher")

    processes = []
    for rank in range(int(ranks)):
        if not (process := os.fork()):
            os.dup2(os.open(Path(said) / str(rank), os.O_WRONLY | os.O_CREAT), 2)
            os.dup2(2, 1)
            sys.argv = [program, str(rank), *words]
            runpy.run_path(program, run_name="__main__")
            os._exit(0)
        processes.append(process)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]))


def join(rank: str, port: str, ranks: int) -> None:
    """Make this process a rank of a group. A rank that waits for one that is gone gives up after half a minute."""
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=int(rank),
        world_size=ranks,
        timeout=timedelta(seconds=30),
    )


# ---- what a rank does ---------------------------------------------------------------------------------------


class _Nobody:
    """Watches nothing."""

    def start(self, model: Any) -> None: ...

    def stop(self) -> None: ...

    def step(self) -> None: ...

    def close(self) -> None: ...


class _Msprobe(_Nobody):
    """msprobe's debugger. What it puts into torch stays there."""

    def __init__(self, folder: Path) -> None:
        from msprobe.pytorch import PrecisionDebugger

        config = folder / f"config.{os.getpid()}.json"
        section = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
        keys = {"task": "statistics", "level": "mix", "dump_path": str(folder / "theirs"), "rank": [], "step": []}
        config.write_text(json.dumps(keys | {"statistics": section}))
        debugger = PrecisionDebugger(config_path=str(config))
        self.start, self.stop, self.step = debugger.start, debugger.stop, debugger.step  # type: ignore[method-assign]


def watcher(who: str, folder: Path) -> Any:
    """What has start, stop, step and close: "nobody", "lakeprobe" or "msprobe"."""
    if who == "lakeprobe":
        return lakeprobe.collect(None, run="ours", lake=folder / "lake", level="mix")
    return _Msprobe(folder) if who == "msprobe" else _Nobody()


def _state(model: Any) -> dict[Any, Any]:
    """The functions of torch and the hooks of a model, as they are now."""
    import torch
    from torch import distributed

    owners = (
        torch, torch.Tensor, torch.nn.functional, torch._VF, torch.nn.utils, torch.linalg, distributed,
        distributed.distributed_c10d, distributed.Work,
    )  # fmt: skip
    found: dict[Any, Any] = {
        (repr(owner), name): value for owner in owners for name, value in vars(owner).items() if callable(value)
    }
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    for name, module in model.named_modules():
        found |= {(name, kind): list(getattr(module, kind).values()) for kind in kinds}
    for name, parameter in model.named_parameters():
        found[name] = list((parameter._post_accumulate_grad_hooks or {}).values())
    return found


def run(who: str, folder: str, rank: str, made: Callable[[], tuple[Any, Callable[[], float]]]) -> None:
    """Train what `made` gives, a model and the function that trains it a step and gives the loss, watched by `who`.

    Nobody watches the first step, in which torch sets up what it does once.
    """
    model, train = made()
    train()
    before = _state(model)
    watch = watcher(who, Path(folder))
    losses = []
    for _ in range(STEPS):
        watch.start(model)
        losses.append(train())
        watch.stop()
        watch.step()
    watch.close()
    if who == "lakeprobe":
        after = _state(model)
        assert [key for key in before | after if before.get(key) != after.get(key)] == []
    parameters = [_local(parameter).detach().double().sum().item() for parameter in model.parameters()]
    (Path(folder) / f"{who}.{rank}.json").write_text(json.dumps([losses, parameters]))


def _local(parameter: Any) -> Any:
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter


def main(made: Callable[[], tuple[Any, Callable[[], float]]], ranks: int) -> None:
    """A program of `start`: RANK PORT WHO FOLDER."""
    rank, port, who, folder = sys.argv[1:]
    join(rank, port, ranks)
    run(who, folder, rank, made)
    from torch import distributed

    distributed.barrier()
    os._exit(0)


# ---- what tests ask of it -----------------------------------------------------------------------------------


def trained(program: str, ranks: int, who: str, folder: Path) -> list[Any]:
    """Run a job. Returns the losses and the parameters at the end, of each rank."""
    ended = start(program, ranks, who, str(folder), optimizes=True)
    assert [code for code, _ in ended] == [0] * ranks, "\n".join(text for _, text in ended)
    return [json.loads((folder / f"{who}.{rank}.json").read_text()) for rank in range(ranks)]


def assert_equal_to_msprobe(program: str, ranks: int, folder: Path, *, but: str) -> None:
    """Every row of the run of ours in the folder's lake is as msprobe has it, but ops whose name begins with `but`."""
    pytest.importorskip("msprobe")
    trained(program, ranks, "msprobe", folder)
    with lakeprobe.open(folder / "lake", create=True) as lake:
        lake.ingest(folder / "theirs", run="theirs")
        ours, theirs = ([run, but] for run in ("ours", "theirs"))
        of_run = "run = ? AND NOT starts_with(op, ?)"
        names = f"SELECT step, rank, list(op ORDER BY seq) FROM ops WHERE {of_run} GROUP BY ALL ORDER BY ALL"
        assert lake.sql(names, ours).fetchall() == lake.sql(names, theirs).fetchall()
        place = "row_number() OVER (PARTITION BY step, rank ORDER BY row)"
        rows = f"SELECT step, rank, {place}, {_SAME} FROM tensors WHERE {of_run}"
        assert lake.sql(f"{rows} EXCEPT {rows}", ours + theirs).fetchall() == []
        assert lake.sql(f"{rows} EXCEPT {rows}", theirs + ours).fetchall() == []
        parents = f"SELECT step, rank, op, parent FROM ops WHERE {of_run} AND op NOT LIKE '%parameters_grad%'"
        assert lake.sql(f"{parents} EXCEPT {parents}", ours + theirs).fetchall() == []


def watched_as_unwatched(program: str, ranks: int, folder: Path) -> Path:
    """The folder, with the lake of the run `ours`, whose training was the same as that which nobody watched."""
    alone = trained(program, ranks, "nobody", folder)
    assert trained(program, ranks, "lakeprobe", folder) == alone
    return folder


if __name__ == "__main__":
    _fork(*sys.argv[1:])
