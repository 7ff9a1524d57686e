"""Turns msprobe's config.json, of any release, into settings. Each key is honoured, or refused by name with a reason.

No key is ignored. An unknown key, a value of the wrong type or a choice that contradicts another raises a one-line
UsageError before anything is collected. A refused key may appear with a value that asks for nothing, such as null,
false, "" or []. The files that msprobe ships contain such keys.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from lakeprobe.changes import MODES
from lakeprobe.collect import device, frameworks
from lakeprobe.collect.settings import Settings
from lakeprobe.errors import UsageError
from lakeprobe.readers import names
from lakeprobe.system.files import read_json

USUAL_SEED = 1234
"""The seed that msprobe sets when only deterministic algorithms are requested."""
LARGEST = 10**6
"""The largest step or rank number that is accepted."""


class GradProbe(Struct, frozen=True):
    """What msprobe's grad_probe measures of every gradient, ahead of each update.

    Level L0: md5, max, min, norm and shape. L1: signs instead of md5. L2: also the shares of elements between bounds.
    """

    grad_level: str = "L1"
    param_list: tuple[str, ...] = ()
    """The names of the parameters, all if there are none."""
    bounds: tuple[float, ...] = (-1, 0, 1)


class Configuration(Struct, frozen=True):
    """What a config.json asks for."""

    settings: Settings
    dump_path: str | None = None
    """The folder that msprobe would write to."""
    seed: int | None = None
    """The seed to set before anything runs. None leaves the random number generators alone."""
    deterministic: bool = False
    """Whether to request deterministic algorithms."""
    probe: GradProbe | None = None
    """What task grad_probe measures. Nothing is dumped then."""


def load(path: str | os.PathLike[str], **overrides: Any) -> Configuration:
    """Return the configuration in the file `path`. Each of `overrides` that is not None replaces a top-level key.

    Raises UsageError.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise UsageError(f"{path} should be an object with the keys task, level, dump_path and so on")
    return parse(content | {key: value for key, value in overrides.items() if value is not None}, str(path))


def parse(content: Mapping[str, Any], where: str) -> Configuration:
    """Return the configuration that the keys of a config.json describe.

    Raises UsageError with a message that begins with `where`. Level L2 always raises: this function first writes the
    device's configuration file, and the message explains how to use it.
    """
    if content.get("level") == "L2":
        raise UsageError(f"{where}: {device.prepare(_kernels(content, where), where)}")
    top = _read(content, _TOP, (*_SECTIONS, *_REFUSED_TASKS), where)
    sections = {
        task: _read_section(content.get(task), checks, (), f"{where}: {task}") for task, checks in _SECTIONS.items()
    }
    task = top.pop("task", "statistics")
    options = sections[task]
    if task == "free_benchmark":  # msprobe's name for it
        task = "perturb"
        options = {"pert_mode": ("improve_precision",)} | options
    _refuse(content, where)
    _refuse(content.get(task) or {}, f"{where}: {task}")
    _check_device(options, f"{where}: {task}")
    deterministic = top.pop("is_deterministic", False)
    seed = top.pop("seed", USUAL_SEED if deterministic else None)
    dump_path = top.pop("dump_path", None)
    top.pop("async_dump", None)  # it changes nothing here: another process always does the writing
    if task == "grad_probe":
        watched = {key: top[key] for key in ("rank", "step") if key in top}
        return Configuration(Settings(**watched), dump_path, seed, deterministic, GradProbe(**options))
    settings = Settings(task=task, **top, **options)
    _check_together(settings, where)
    return Configuration(settings, dump_path, seed, deterministic)


def _read_section(section: Any, checks: Mapping[str, Check], others: tuple[str, ...], where: str) -> dict[str, Any]:
    """Return the options of a task's section.

    Sections of other tasks are checked too, but their options are not used.
    """
    if not isinstance(section or {}, dict):
        raise UsageError(f"{where} should be an object, not {json.dumps(section)}")
    return _read(section or {}, checks, others, where)


def _read(
    content: Mapping[str, Any], checks: Mapping[str, Check], others: tuple[str, ...], where: str
) -> dict[str, Any]:
    """Return the checked values of those keys in `checks` that are set.

    Keys in `others` are accepted, refused keys are left to `_refuse`, and any other key raises UsageError.
    """
    values = {}
    for key, check in checks.items():
        if content.get(key) not in (None, ""):
            try:
                values[key] = check(content[key])
            except ValueError as error:
                raise UsageError(f"{where}: {key} {error}") from None
    for key in content:
        if key not in (*checks, *others, *_REFUSED):
            raise UsageError(f"{where}: there is no key {key}" + _hint(key, (*checks, *others)))
    return values


def _hint(key: str, known: Sequence[str]) -> str:
    """Return a hint at what the user may have meant by `key`, which is not in `known`. Empty if there is no guess."""
    if place := _place(key):
        return f"; it belongs to {place}"
    others = [option for checks in (_TOP, *_SECTIONS.values()) for option in checks]
    near = difflib.get_close_matches(key, known, 1) or difflib.get_close_matches(key, others, 1)
    if not near:
        return ""
    return f"; did you mean {near[0]}?" + ("" if near[0] in known else f" It belongs to {_place(near[0])}")


def _place(key: str) -> str:
    """Return the part of the file that `key` belongs to; empty if there is no such key."""
    if key in _TOP:
        return "the top"
    return " or ".join(task for task, checks in _SECTIONS.items() if key in checks)


def _refuse(content: Mapping[str, Any], where: str) -> None:
    for key, value in content.items():
        if key in _REFUSED:
            reason, *harmless = _REFUSED[key]
            if value not in (None, False, "", [], {}, [""], *harmless):
                raise UsageError(f"{where}: {key} is not supported: {reason}")


def _check_device(options: dict[str, Any], where: str) -> None:
    """Take fuzz_device and fuzz_level, which says nothing, out of the options of perturb.

    Raises UsageError if it contradicts pert_mode."""
    device = options.pop("fuzz_device", None)
    options.pop("fuzz_level", None)
    on_cpu = options.get("pert_mode") == ("to_cpu",)
    if device is not None and on_cpu != (device == "cpu"):
        raise UsageError(f"{where}: fuzz_device cpu and pert_mode to_cpu belong together")


def _kernels(content: Mapping[str, Any], where: str) -> device.Kernels:
    """Return what a config.json of level L2 asks of the device.

    Keys that say how lakeprobe records are checked, but not used.
    """
    framework = frameworks.name_of()
    keys, tasks = _KERNEL_KEYS[framework], _KERNEL_TASKS[framework]
    top = _read(content, {**_TOP, **keys}, (*_SECTIONS, *_REFUSED_TASKS), where)
    task = top.get("task", "statistics")
    if task not in tasks:
        raise UsageError(f"{where}: level L2 of {framework} needs task {' or '.join(tasks)}, not {task}")
    section = _with_list(content.get(task) or {}) if framework == "pytorch" else content.get(task) or {}
    options = _read_section(section, tasks[task], _NOT_OF_KERNELS, f"{where}: {task}")
    for name in _NOT_OF_KERNELS:
        if section.get(name):
            raise UsageError(f"{where}: {task}: {name} is not supported at level L2: name what is dumped in list")
    _refuse({key: value for key, value in content.items() if key not in keys}, where)
    _refuse({key: value for key, value in section.items() if key not in tasks[task]}, f"{where}: {task}")
    if framework == "pytorch" and "list" not in options:
        raise UsageError(f"{where}: level L2 needs a list with the one op to dump, such as {_API_EXAMPLE}")
    if "dump_path" not in top:
        raise UsageError(f"{where}: level L2 needs a dump_path, the folder that the device writes to")
    taken = {key: top[key] for key in ("dump_path", "rank", "step", "acl_config") if key in top}
    return device.Kernels(framework, task=task, asynchronous=top.get("async_dump", False), **taken, **options)


def _with_list(section: Any) -> Any:
    """Return a section of PyTorch's level L2 with its op in `list`.

    msprobe's guides name the op in `scope` alone. It moves to `list`.
    """
    scope = section.get("scope") if isinstance(section, Mapping) else None
    if not isinstance(scope, (list, tuple)) or section.get("list") or len({str(name) for name in scope}) != 1:
        return section
    return {**section, "list": list(scope[:1]), "scope": []}


def _check_together(settings: Settings, where: str) -> None:
    """Raise UsageError for choices that are valid alone but contradict each other."""
    if settings.scope and settings.list:
        raise UsageError(f"{where}: scope and list cannot both be given; leave one empty")
    if settings.scope and len(settings.scope) != 2:
        raise UsageError(f"{where}: scope takes two names, the first and the last op, not {len(settings.scope)}")
    for name in settings.scope:
        kinds = {"L0": ("module",), "L1": ("api",)}.get(settings.level, ("api", "module"))
        if names.parse(name).kind not in kinds:
            example = {"module": "Module.layer1.conv.Conv2d.forward.0", "api": _API_EXAMPLE}[kinds[0]]
            raise UsageError(
                f"{where}: {name} in scope is not a full name at level {settings.level}, such as {example}"
            )
    if settings.task == "structure" and settings.level not in ("L0", "mix"):
        raise UsageError(f"{where}: task structure needs level L0 or mix, not {settings.level}, which has no modules")
    if settings.task == "overflow_check" and settings.level == "debug":
        raise UsageError(f"{where}: task overflow_check needs level L0, L1 or mix, whose ops it judges, not debug")
    if settings.task == "perturb" and settings.level != "L1":
        raise UsageError(f"{where}: task perturb needs level L1, whose functions it runs again, not {settings.level}")
    if settings.handler_type == "fix" and (
        settings.fuzz_stage != ("forward",) or settings.pert_mode not in (("improve_precision",), ("to_cpu",))
    ):
        raise UsageError(
            f"{where}: handler_type fix needs fuzz_stage forward, and pert_mode improve_precision or to_cpu alone"
        )
    if settings.level == "debug" and (settings.scope or settings.list or settings.tensor_list):
        raise UsageError(f"{where}: level debug records what is saved by name; leave scope, list and tensor_list empty")


# ---- values: each check returns the value as Settings stores it, or raises ValueError with the problem ---------------

Check = Callable[[Any], Any]


def compiled(value: Any, where: str) -> Any:
    """Return the checked option `compiled`, which no config.json has. Raises UsageError."""
    try:
        return _one_of("eager", "boundary")(value)
    except ValueError as error:
        raise UsageError(f"{where}: compiled {error}") from None


def _should_be(what: str, value: Any) -> ValueError:
    return ValueError(f"should be {what}, not {json.dumps(value, default=str)}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _should_be("a text", value)
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _should_be("true or false", value)
    return value


def _seed(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
        raise _should_be("a whole number of at most 32 bits", value)
    return value


def _one_of(*choices: str) -> Check:
    def check(value: Any) -> str:
        if value not in choices:
            raise _should_be(f"one of {', '.join(choices)}", value)
        return str(value)

    return check


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise _should_be("a list of texts", value)
    return tuple(item for item in value if item)


def _data_mode(value: Any) -> tuple[str, ...]:
    choices = ("all", "forward", "backward", "input", "output")
    if not isinstance(value, (list, tuple)) or not all(item in choices for item in value):
        raise _should_be(f"a list of {', '.join(choices)}", value)
    if "all" in value and len(value) > 1:
        raise _should_be("all alone, or others", value)
    return tuple(value) or ("all",)


def _whole_ops(value: Any) -> tuple[str, ...]:
    if _data_mode(value) != ("all",):
        raise _should_be("all: what comes out of an op is judged by what goes in", value)
    return ("all",)


def _some_of(*choices: str) -> Check:
    def check(value: Any) -> tuple[str, ...]:
        items = (value,) if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)) or not items or not all(item in choices for item in items):
            raise _should_be(f"one or several of {', '.join(choices)}", value)
        return tuple(dict.fromkeys(items))

    return check


def _positive(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _should_be("a whole number from 1", value)
    return value


def _overflow_nums(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or (value < 1 and value != -1):
        raise _should_be("a whole number from 1, or -1 for no end", value)
    return value


def _bounds(value: Any) -> tuple[float, ...]:
    wrong = _should_be("a list of numbers that ascend", value)
    if not isinstance(value, (list, tuple)) or any(
        isinstance(n, bool) or not isinstance(n, (int, float)) for n in value
    ):
        raise wrong
    if list(value) != sorted(set(value)) or any(not -(2**63) <= number < 2**63 for number in value):
        raise wrong
    return tuple(value)


_RANGE = re.compile(r"(\d+)(?:-(\d+)(?:/(\d+))?)?")


def _numbers(value: Any) -> tuple[int, ...]:
    """Return the sorted steps or ranks of a list of integers and ranges: 3, "3", "4-6", "0-1000/100" (every 100th)."""
    wrong = _should_be(f'a list of whole numbers from 0 to {LARGEST}, where "4-6" means 4, 5 and 6', value)
    if not isinstance(value, (list, tuple)):
        raise wrong
    numbers: set[int] = set()
    for item in value:
        match = None if isinstance(item, bool) else _RANGE.fullmatch(str(item).replace(" ", ""))
        if match is None:
            raise wrong
        first, last, interval = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if not first <= last <= LARGEST or not interval:
            raise wrong
        numbers.update(range(first, last + 1, interval))
    return tuple(sorted(numbers))


def _task(value: Any) -> Any:
    if isinstance(value, str) and value in _REFUSED_TASKS:
        raise ValueError(f"{value} is not supported: {_REFUSED_TASKS[value]}")
    return _one_of(*_SECTIONS)(value)


def _one_op(value: Any) -> tuple[str, ...]:
    found = _texts(value)
    if len(found) != 1 or names.parse(found[0]).kind != "api":
        raise _should_be(f"a list of one full name, such as {_API_EXAMPLE}", value)
    return found


def _one_mode(*choices: str) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, (list, tuple)) or len(value) != 1 or value[0] not in choices:
            raise _should_be(f"a list of one of {', '.join(choices)} at level L2", value)
        return str(value[0])

    return check


def _kernel_summary(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_one_of(*_KERNEL_STATISTICS)(item) for item in value)
    return _one_of("statistics", "md5")(value)


# ---- keys ------------------------------------------------------------------------------------------------------------

_API_EXAMPLE = "Functional.conv2d.0.forward"
_ON_THE_DEVICE = "run msprobe there, and read what it writes with: lakeprobe ingest FOLDER"
_TO_VERIFY = "collect with task tensor, then: lakeprobe verify RUN"
_COMPARE = "collect both runs, then: lakeprobe compare TARGET GOLDEN"
_ONE_LAKE = "let both sides collect into one lake instead"

_TOP: Mapping[str, Check] = {
    "task": _task,
    "dump_path": _text,
    "rank": _numbers,
    "step": _numbers,
    "level": _one_of("L0", "L1", "L2", "mix", "debug"),
    "extra_info": _flag,
    "risk_level": _one_of("ALL", "CORE", "FOCUS"),
    "seed": _seed,
    "is_deterministic": _flag,
    "async_dump": _flag,
    "precision": _one_of("low", "high"),
}
_OPTIONS: Mapping[str, Check] = {"scope": _texts, "list": _texts, "data_mode": _data_mode}
_SUMMARY: Mapping[str, Check] = {"summary_mode": _one_of("statistics", "md5", "xor")}
_CHANGES: Mapping[str, Check] = {
    "scope": _texts,
    "list": _texts,
    "fuzz_device": _one_of("npu", "cpu"),
    "fuzz_level": _one_of("L1"),
    "pert_mode": _some_of(*MODES),
    "fuzz_stage": _some_of("forward", "backward"),
    "handler_type": _one_of("check", "fix"),
    "if_preheat": _flag,
    "preheat_step": _positive,
    "max_sample": _positive,
}
_SECTIONS: Mapping[str, Mapping[str, Check]] = {
    "statistics": {**_OPTIONS, **_SUMMARY, "tensor_list": _texts},
    "tensor": {**_OPTIONS, **_SUMMARY},
    "structure": _OPTIONS,
    "overflow_check": {**_OPTIONS, "data_mode": _whole_ops, "overflow_nums": _overflow_nums},
    "grad_probe": {"grad_level": _one_of("L0", "L1", "L2"), "param_list": _texts, "bounds": _bounds},
    "free_benchmark": _CHANGES,
    "perturb": _CHANGES,
}

_KERNEL_STATISTICS = (
    "max", "min", "mean", "l2norm", "count", "negative zero count", "positive zero count", "zero count", "nan count",
    "negative inf count", "positive inf count", "hash", "md5",
)  # fmt: skip
_KERNEL_OPTIONS: dict[str, Check] = {
    "list": _texts,
    "data_mode": _one_mode("all", "input", "output"),
    "summary_mode": _kernel_summary,
}
_KERNEL_KEYS: Mapping[str, Mapping[str, Check]] = {
    "pytorch": {"task": _text, "acl_config": _text},
    "mindspore": {"task": _text},
}
_KERNEL_TASKS: Mapping[str, Mapping[str, Mapping[str, Check]]] = {
    "pytorch": {"tensor": {"list": _one_op, "data_mode": _one_mode("all"), "summary_mode": _one_of("statistics")}},
    "mindspore": {
        "statistics": _KERNEL_OPTIONS | {"device": _one_of("host", "device"), "precision": _one_of("high", "low")},
        "tensor": _KERNEL_OPTIONS,
        "exception_dump": {},
    },
}
"""The tasks that level L2 supports, and the options of each."""
_NOT_OF_KERNELS = ("scope", "tensor_list")

_REFUSED_TASKS = {
    "acc_check": _TO_VERIFY,
    "run_ut": _TO_VERIFY,
    "diff_check": _COMPARE,
    "nan_check": f"msprobe's own extension reads the device's overflow flag, no file asks for it; {_ON_THE_DEVICE}",
    "exception_dump": "it needs level L2, and MindSpore",
}
"""Tasks that are not supported, with the reason. The file may have a section for such a task, which is not used."""

_REFUSED: Mapping[str, tuple[Any, ...]] = {
    "acl_config": ("it belongs to level L2 of PyTorch",),
    "backward_input": ("it belongs to level L2; give the gradient to backward() between init_dump and finalize_dump",),
    "device": ("it belongs to level L2 of MindSpore", "host"),
    "enable_dataloader": ("call start() before the step, and stop() and step() after it",),
    "dump_enable": ("settings hold for the whole run; call start() and stop() where they are to",),
    "check_mode": ("it chooses kernels of MindSpore's static graph, for which the device has its own check", "all"),
    "custom_op_namespaces": ("only the libraries that msprobe lists are recorded", ["_C_ascend"]),
    "load": ("lakeprobe does not change the inputs of modules",),
    "file_format": ("tensors are kept in the lake, which gives them as numpy arrays", "npy"),
    "bench_path": (_COMPARE,),
    "diff_nums": (_COMPARE, 1),
    "slice": ("tensors are kept whole",),
    "request_id": ("lakeprobe collects training, not requests to a server",),
    "online_run_ut": (_ONE_LAKE,),
    "nfs_path": (_ONE_LAKE,),
    "host": (_ONE_LAKE,),
    "port": (_ONE_LAKE, -1),
    "rank_list": (_ONE_LAKE,),
    "tls_path": (_ONE_LAKE, "./"),
    "online_run_ut_recompute": (_ONE_LAKE,),
}
"""Keys that are not supported: the reason, then values that ask for nothing, besides null, false and empty values."""
