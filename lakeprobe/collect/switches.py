"""ptdbg_ascend's functions on top of our collector. A script that uses them changes one import:

    from lakeprobe.collect.switches import set_dump_path, register_hook, acc_cmp_dump, set_dump_switch, seed_all

The code between set_dump_switch("ON", …) and set_dump_switch("OFF") is a step of the run. All tensors and scalars are
recorded, including the bool and int ones that ptdbg's filter_switch leaves out. SQL can filter them afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from lakeprobe.collect import config, frameworks
from lakeprobe.collect.session import Collector, lake_and_run_of
from lakeprobe.collect.settings import Settings
from lakeprobe.errors import UsageError
from lakeprobe.readers import names, ptdbg_names

acc_cmp_dump = "acc_cmp_dump"
"""For `register_hook`: record ops."""
overflow_check = "overflow_check"
"""For `register_hook`: keep only the ops in which NaN or inf is born."""

_DEFAULT_TAG = "ptdbg_dump"
_TASKS = {"all": ("tensor", "statistics"), "summary": ("statistics", "statistics"), "md5": ("statistics", "md5")}
"""Our task and summary_mode for each summary_mode of ptdbg."""
_MODES = ("all", "list", "range", "stack", "api_list", "api_stack")
_ON_THE_DEVICE = (
    "the device's own dumper does this; run ptdbg_ascend there, and read what it writes with: lakeprobe ingest FOLDER"
)


class _Script(Struct):
    """What the script has configured so far."""

    dump_path: str | None = None
    tag: str = _DEFAULT_TAG
    model: Any = None
    rank: int | None = None
    hook: str = acc_cmp_dump
    overflow_nums: int = 1
    settings: Settings | None = None
    collector: Collector | None = None


_script = _Script()


def set_dump_path(fpath: str | os.PathLike[str], dump_tag: str = _DEFAULT_TAG) -> None:
    """Set the path that ptdbg would write to. `fpath`, a folder or file.pkl, names the run.

    A `dump_tag` is appended to the name.
    """
    close()
    _script.dump_path = os.fspath(fpath).removesuffix(".pkl")
    _script.tag = dump_tag


def register_hook(model: Any, hook: Any, *, overflow_nums: int = 1, dump_mode: str = "api", rank: int | None = None,
                  dump_config: Any = None) -> None:  # fmt: skip
    """Set the model to record, and how to record it.

    With acc_cmp_dump as `hook`, `set_dump_switch` turns recording on and off. With overflow_check,
    `set_overflow_check_switch` does, and training ends at the `overflow_nums`-th op in which NaN or inf is born (-1
    means no limit). Raises UsageError for other hooks, and for ACL dumps.
    """
    if hook not in (acc_cmp_dump, overflow_check):
        raise UsageError(f"register_hook: hook should be acc_cmp_dump or overflow_check, not {hook!r}")
    if overflow_nums != 1 and hook != overflow_check:
        raise UsageError("register_hook: overflow_nums goes with overflow_check, not with acc_cmp_dump")
    if dump_mode != "api" or dump_config is not None:
        raise UsageError(f"register_hook: dump_mode {dump_mode} is not supported: {_ON_THE_DEVICE}")
    _script.model, _script.rank, _script.hook, _script.overflow_nums = model, rank, hook, overflow_nums


def set_dump_switch(
    switch: str,
    mode: str = "all",
    scope: Sequence[str] = (),
    api_list: Sequence[str] = (),
    filter_switch: str = "ON",
    dump_mode: Sequence[str] = ("all",),
    summary_only: bool = False,
    summary_mode: str = "all",
) -> None:
    """Start recording (ON), or stop and end the step (OFF).

    `mode` selects what to record: all, list, range, stack, api_list or api_stack. Mode stack records call stacks and no
    values. `scope` has names of ops in msprobe's or ptdbg's form: the ops to record for list and stack, the first and
    the last for range. `api_list` has parts of names. `summary_mode` is all (contents), summary (only statistics) or
    md5 (statistics and digests). Raises UsageError and LakeError.
    """
    if not _turned_on("set_dump_switch", acc_cmp_dump, switch, filter_switch):
        return
    summary_mode = "summary" if summary_only else summary_mode
    _collector(_settings(mode, scope, api_list, list(dump_mode) or ["all"], summary_mode)).start(rank=_script.rank)


def set_overflow_check_switch(switch: str, filter_switch: str = "ON") -> None:
    """Start looking for ops in which NaN or inf is born (ON), or stop and end the step (OFF).

    Such ops are kept with the contents of their inputs and outputs. The last one that `register_hook` asked for raises
    OverflowFoundError. Raises UsageError and LakeError.
    """
    if _turned_on("set_overflow_check_switch", overflow_check, switch, filter_switch):
        asked = {"level": "L1", "task": overflow_check, "risk_level": "ALL",
                 overflow_check: {"overflow_nums": _script.overflow_nums}}  # fmt: skip
        _collector(config.parse(asked, "register_hook").settings).start(rank=_script.rank)


def _turned_on(function: str, hook: str, switch: str, filter_switch: str) -> bool:
    """Return whether a switch that goes with `hook` was turned on. If it was turned off, end the step."""
    _check("switch", switch, ("ON", "OFF"), function)
    _check("filter_switch", filter_switch, ("ON", "OFF"), function)
    if _script.hook != hook:
        raise UsageError(f"{function} goes with register_hook(model, {hook}), not with {_script.hook}")
    if switch == "OFF" and _script.collector is not None:
        _script.collector.stop()
        _script.collector.step()
    return switch == "ON"


def _settings(
    mode: str, scope: Sequence[str], api_list: Sequence[str], data_mode: Sequence[str], summary_mode: str
) -> Settings:
    if mode == "acl":
        raise UsageError(f"set_dump_switch: mode acl is not supported: {_ON_THE_DEVICE}")
    _check("mode", mode, _MODES)
    _check("summary_mode", summary_mode, tuple(_TASKS))
    task, digest = _TASKS[summary_mode]
    options: dict[str, Any] = {"data_mode": data_mode, "summary_mode": digest}
    if mode == "api_list":
        if not api_list:
            raise UsageError('set_dump_switch: mode api_list needs an api_list, such as ["relu"]')
        options["list"] = list(api_list)
    if mode in ("list", "range") and not scope:
        raise UsageError(f"set_dump_switch: mode {mode} needs a scope with names of ops")
    if scope and mode in ("list", "range", "stack"):
        options["scope" if mode == "range" else "list"] = [_today(name) for name in scope]
    settings = config.parse(
        {"level": "L1", "task": task, "risk_level": "ALL", task: options}, "set_dump_switch"
    ).settings
    return replace(settings, task="structure") if mode == "stack" else settings


def _today(name: str) -> str:
    today = ptdbg_names.today(name)
    if names.parse(today).kind != "api":
        raise UsageError(f"set_dump_switch: {name} in scope is not the name of an op, such as Tensor.permute.1.forward")
    return today


def _check(what: str, value: str, choices: Sequence[str], function: str = "set_dump_switch") -> None:
    if value not in choices:
        raise UsageError(f"{function}: {what} should be one of {', '.join(choices)}, not {value!r}")


def _collector(settings: Settings) -> Collector:
    """Return the collector with these settings.

    If they changed, it is a new one that continues with the next step number.
    """
    if _script.collector is not None and _script.settings == settings:
        return _script.collector
    if _script.dump_path is None:
        raise UsageError("set_dump_switch: call set_dump_path first")
    step = 0 if _script.collector is None else _script.collector.current_step
    close()
    lake, run = lake_and_run_of(_script.dump_path)
    run = run if _script.tag == _DEFAULT_TAG else f"{run}.{_script.tag}"
    # a script that runs again overwrites what it wrote before, as with ptdbg_ascend
    _script.collector = Collector(_script.model, settings, run=run, lake=lake, replace=True)
    _script.collector.current_step = step
    _script.settings = settings
    return _script.collector


def close() -> None:
    """End the recording, and wait until it is in the lake. This also happens when the program exits."""
    collector, _script.collector = _script.collector, None
    if collector is not None:
        collector.close()


def set_backward_input(*_: Any, **__: Any) -> NoReturn:
    """Raises UsageError: this goes with mode acl, which only the device's own dumper has."""
    raise UsageError(f"set_backward_input is not supported: it goes with mode acl; {_ON_THE_DEVICE}")


def seed_all(seed: int = config.USUAL_SEED, mode: bool = False, rm_dropout: bool = False) -> None:
    """Seed random, numpy and the framework. `mode` turns deterministic algorithms on or off.

    Raises UsageError for `rm_dropout`, which would change the training.
    """
    if rm_dropout:
        raise UsageError("seed_all: rm_dropout is not supported: it changes the training; set p=0 in the model")
    frameworks.seed(seed, deterministic=mode)
