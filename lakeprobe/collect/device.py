"""Writes configuration files for the device's own dumper, for what only it can record: level L2 and exception_dump.

The files are the same as msprobe 26.2.0 writes for the same config.json. Nothing here talks to a device.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from lakeprobe.errors import UsageError
from lakeprobe.system.files import read_json

_DEVICES = list(range(8))
"""The devices that MindSpore's dumper watches if no rank is named."""
_STATISTICS = ("max", "min", "avg", "l2norm")
_SPELLINGS = {"mean": "avg", "md5": "hash:md5"}
"""MindSpore's names after 2.7.0, where they differ from those of config.json."""


class Kernels(Struct, frozen=True):
    """What a config.json asks of the device. The values are plain, and the caller has checked them."""

    framework: str
    """pytorch or mindspore."""
    dump_path: str
    """The folder that the device writes to."""
    task: Literal["statistics", "tensor", "exception_dump"]
    list: Sequence[str] = ()
    """PyTorch: the one op to dump. MindSpore: names of kernels, or name-regex(…). Empty means all."""
    data_mode: Literal["all", "input", "output"] = "all"
    summary_mode: str | Sequence[str] = ()
    """MindSpore: "statistics", "md5", or names of statistics. Empty leaves the choice to the dumper."""
    device: Literal["host", "device"] = "host"
    """MindSpore: where statistics are computed."""
    precision: Literal["high", "low"] = "high"
    rank: Sequence[int] = ()
    step: Sequence[int] = ()
    asynchronous: bool = False
    acl_config: str | None = None
    """PyTorch: an existing configuration file for the device."""


def prepare(kernels: Kernels, where: str) -> str:
    """Write the device's configuration file into dump_path. Return one line that explains how to use it.

    Raises UsageError, with a message that begins with `where`, if the file cannot be written or acl_config is not
    valid.
    """
    folder = Path(kernels.dump_path).expanduser().absolute()
    if kernels.acl_config is not None:
        file = Path(kernels.acl_config).expanduser().absolute()
        _check_acl(file, where)
        return _use(kernels, file, f"use {file}", "the dump_path in it")
    name, content = _content(kernels, str(folder))
    _write(folder / name, content, where)
    return _use(kernels, folder / name, f"{folder / name} is written", str(folder))


def _content(kernels: Kernels, folder: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of the device's configuration file."""
    if kernels.framework == "pytorch":
        return "kernel_config.json", _acl(folder)
    if kernels.task == "exception_dump":
        return "kernel_graph_exception_check.json", _exceptions(kernels, folder)
    return "kernel_kbyk_dump.json", _kernel_by_kernel(kernels, folder)


def _acl(folder: str) -> dict[str, Any]:
    """Return the content for torch_npu.npu.set_dump: dump every kernel that runs until finalize_dump."""
    return {"dump": {"dump_list": [], "dump_path": folder, "dump_mode": "all", "dump_op_switch": "on"}}


def _kernel_by_kernel(kernels: Kernels, folder: str) -> dict[str, Any]:
    """Return the content for MINDSPORE_DUMP_CONFIG that dumps statistics or tensors of each kernel."""
    common = _common(kernels, folder) | {
        "dump_mode": 1 if kernels.list else 0,
        "iteration": "|".join(map(str, kernels.step)) or "all",
        "saved_data": "tensor" if kernels.task == "tensor" else "statistic",
        "input_output": ("all", "input", "output").index(kernels.data_mode),
        "kernels": list(kernels.list),
        "statistic_category": _statistics(kernels.summary_mode),
    }
    ends: dict[str, Any] = {"enable": not kernels.asynchronous, "trans_flag": True}
    if kernels.task == "statistics":
        ends |= {"stat_calc_mode": kernels.device, "device_stat_precision_mode": kernels.precision}
    return {"common_dump_settings": common, "e2e_dump_settings": ends}


def _exceptions(kernels: Kernels, folder: str) -> dict[str, Any]:
    """Return the content for MINDSPORE_DUMP_CONFIG that dumps the tensors of the kernel that fails, in any step."""
    common = _common(kernels, folder) | {"saved_data": "tensor", "op_debug_mode": 4, "file_format": "npy"}
    return {
        "common_dump_settings": common,
        "e2e_dump_settings": {"enable": not kernels.asynchronous, "trans_flag": True},
    }


def _common(kernels: Kernels, folder: str) -> dict[str, Any]:
    return {
        "dump_mode": 0,
        "path": folder,
        "net_name": "Net",
        "iteration": "all",
        "input_output": 0,
        "kernels": [],
        "support_device": list(kernels.rank) or _DEVICES,
    }


def _statistics(summary_mode: str | Sequence[str]) -> list[str]:
    if summary_mode == "statistics":
        return list(_STATISTICS)
    names = [summary_mode] if isinstance(summary_mode, str) else summary_mode
    return list(dict.fromkeys(_SPELLINGS.get(name, name) for name in names))


def _use(kernels: Kernels, file: Path, ready: str, result: str) -> str:
    """Return what to do on the device with its configuration `file`, and how to ingest the `result`."""
    what = "task exception_dump" if kernels.task == "exception_dump" else "level L2"
    if kernels.framework == "mindspore":
        how = (
            f"run the training without lakeprobe, in an environment with MINDSPORE_DUMP_CONFIG={file} and without "
            "MS_ACL_DUMP_CFG_PATH"
        )
    else:
        op, _, direction = kernels.list[0].rpartition(".")
        where = f"the {direction} of {op}" + "".join(
            f", {name} {', '.join(map(str, numbers))}"
            for name, numbers in (("step", kernels.step), ("rank", kernels.rank))
            if numbers
        )
        how = (
            f'call torch_npu.npu.init_dump() and torch_npu.npu.set_dump("{file}") before {where}, '
            "and torch_npu.npu.finalize_dump() after it"
        )
    return f"{what} is dumped by the device itself: {ready}; there {how}, then: lakeprobe ingest {result}"


def _check_acl(file: Path, where: str) -> None:
    content = read_json(file, f"{where}: acl_config ")
    dump = content.get("dump") if isinstance(content, dict) else None
    if not isinstance(dump, dict) or not isinstance(dump.get("dump_path"), str):
        raise UsageError(f"{where}: acl_config {file} has no dump with a dump_path in it")


def _write(file: Path, content: dict[str, Any], where: str) -> None:
    """Write `file` atomically. Several ranks may write it at once, and none may read half of it."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(content, indent=4), encoding="utf-8")
        unfinished.replace(file)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise UsageError(f"{where}: {error.filename or file} cannot be written: {error.strerror}") from error
