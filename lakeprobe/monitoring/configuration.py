"""Turns msprobe's monitor_config.json into settings. Each key is honoured, or refused by name with a reason."""

from __future__ import annotations

import difflib
import glob
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from lakeprobe.errors import UsageError
from lakeprobe.lake import store
from lakeprobe.monitoring.settings import LAYOUTS, METRICS, Settings
from lakeprobe.system.files import read_json

OUTPUT_VARIABLE, OUTPUT_DEFAULT = "MONITOR_OUTPUT_DIR", "monitor_output"
DYNAMIC_VARIABLE = "DYNAMIC_MONITOR"

_POINTS: Mapping[str, tuple[str, ...]] = {
    "xy_distribution": ("input", "output", "input_gradient", "output_gradient"),
    "wg_distribution": ("gradient_unreduced", "gradient"),
    "mv_distribution": ("moment1", "moment2"),
    "param_distribution": ("parameter", "parameter_updated"),
    "mg_direction": ("agreement",),
    "ur_distribution": ("update",),
}
_HOOKS = {
    "linear_hook": "linear",
    "attention_hook": "attention",
    "moe_router_weight_hook": "router_weight",
    "moe_router_logit_hook": "router_logit",
}
_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys((*_POINTS, "forward_only", "backward_only", "all_xy", "recording_l2_features", "monitor_mbs_grad",
                     "dynamic_on", "stack_info", "print_struct", "squash_name", "mg_distribution"), (bool,)),
    **dict.fromkeys(("targets", "l2_targets", "cc_distribution", "alert"), (dict,)),
    **dict.fromkeys(("ops", "module_ranks", "append_output"), (list,)),
    **dict.fromkeys(("start_step", "step_interval", "collect_times", "step_count_per_record", "ndigits"), (int,)),
    **dict.fromkeys(("format", "sa_order"), (str,)),
    "eps": (float, int),
}  # fmt: skip
_REFUSED = {
    "print_struct": "a run's modules are in its series: SELECT DISTINCT name FROM series",
    "squash_name": "series have the names of the model; give targets by these",
}
_NAMES: Mapping[type, str] = {bool: "true or false", dict: "an object", list: "a list", int: "a whole number",
                              str: "a text", float: "a number"}  # fmt: skip


def load(path: str | os.PathLike[str], seconds: float = 10.0) -> Settings:
    """Return the settings in the monitor_config.json at `path`.

    These keys change only files of msprobe's, and nothing here: format, ndigits, step_count_per_record, append_output,
    stack_info, alert (`lakeprobe watch` judges every series) and monitor_mbs_grad (every micro batch is measured).
    Raises UsageError for a key that is unknown or not supported, and for a value of the wrong type.
    """
    return _settings(_content(path), str(path), seconds)


def places() -> tuple[Path, str]:
    """Return the lake and the run in place of the folder that msprobe's monitor would write."""
    folder = Path(os.environ.get(OUTPUT_VARIABLE) or OUTPUT_DEFAULT).expanduser().absolute()
    return Path(os.environ.get(store.ENVIRONMENT_VARIABLE) or folder.parent / store.DEFAULT), folder.name


class Watched(Protocol):
    """What `Dynamic` needs to know of the running step."""

    step: int

    @property
    def is_used_up(self) -> bool:
        """Whether all steps that were asked for have been measured."""


class Dynamic(Struct):
    """A configuration that is read again when its file changes: $DYNAMIC_MONITOR is true.

    Nothing is measured until dynamic_on is true in the file. When collect_times steps have been measured, dynamic_on
    becomes false in the file, as with msprobe.
    """

    path: Path
    seconds: float
    settings: Settings
    _changed: float = 0.0

    @classmethod
    def of(cls, path: str | os.PathLike[str], seconds: float) -> Dynamic | None:
        """Return the configuration if it is to be dynamic."""
        if os.environ.get(DYNAMIC_VARIABLE, "").lower() != "true":
            return None
        return cls(Path(path), seconds, replace(load(path, seconds), points=(), features=None))

    def changed(self, watched: Watched) -> Settings | None:
        """Return new settings if there are any, for the steps from `watched.step` on."""
        if watched.is_used_up and self.settings.points:
            self.settings = replace(self.settings, points=(), features=None)
            content = _content(self.path) | {"dynamic_on": False}
            self.path.write_text(json.dumps(content, indent=2), encoding="utf-8")
            self._changed = self.path.stat().st_mtime
            return self.settings
        changed = self.path.stat().st_mtime
        if changed == self._changed:
            return None
        self._changed = changed
        content = _content(self.path)
        if not content.get("dynamic_on", False):
            return None
        self.settings = replace(_settings(content, str(self.path), self.seconds), start=watched.step)
        return self.settings


def _content(path: str | os.PathLike[str]) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise UsageError(f"{path} should be an object with the keys targets, ops, wg_distribution and so on")
    return content


def _settings(content: Mapping[str, Any], where: str, seconds: float) -> Settings:
    for key, value in content.items():
        kinds = _KINDS.get(key)
        if kinds is None:
            near = difflib.get_close_matches(key, _KINDS, 1)
            raise UsageError(f"{where}: there is no key {key}" + (f"; did you mean {near[0]}?" if near else ""))
        if not isinstance(value, kinds) or (bool not in kinds and isinstance(value, bool)):
            raise UsageError(f"{where}: {key} should be {_NAMES[kinds[0]]}, not {json.dumps(value)}")
        if key in _REFUSED and value:
            raise UsageError(f"{where}: {key} is not supported: {_REFUSED[key]}")
    communication = _communication(content, where)
    targets = tuple(content.get("targets", {}))
    layout = content.get("sa_order", LAYOUTS[0]).replace(" ", "")
    if layout not in LAYOUTS:
        raise UsageError(f"{where}: sa_order should be {' or '.join(LAYOUTS)}, not {json.dumps(layout)}")
    for key, least in (("start_step", 0), ("step_interval", 1), ("collect_times", 0)):
        if content.get(key, least) < least:
            raise UsageError(f"{where}: {key} should be a whole number from {least}, not {content[key]}")
    return Settings(
        points=(*_points(content), *communication),
        metrics=_metrics(content.get("ops", []), where),
        parameters=tuple(f"{name}*" for target in targets for name in _names(target)) or ("*",),
        modules=_modules(content, targets),
        features=_features(content, where),
        layout=layout,
        every=content.get("step_interval", 1),
        start=content.get("start_step", 0),
        times=content.get("collect_times"),
        ranks=tuple(content.get("module_ranks", [])),
        lines=tuple(content.get("cc_distribution", {}).get("cc_codeline", [])),
        eps=float(content.get("eps", 1e-8)),
        seconds=seconds,
    )


def _points(content: Mapping[str, Any]) -> tuple[str, ...]:
    points = [point for key, found in _POINTS.items() if content.get(key) for point in found]
    left_out = "_gradient" if content.get("forward_only") else None
    if content.get("backward_only") and not left_out:
        return tuple(point for point in points if point not in ("input", "output"))
    return tuple(point for point in points if not (left_out and point.endswith(left_out)))


def _modules(content: Mapping[str, Any], targets: Sequence[str]) -> tuple[str, ...]:
    if content.get("all_xy") or not targets:
        return ("*",)
    return tuple(name for target in targets for name in _names(target))


def _names(target: str) -> tuple[str, ...]:
    """Return the names that msprobe's target means: it may begin with the number of a model chunk."""
    name = glob.escape(target)
    stage, colon, rest = name.partition(":")
    return (name, rest) if colon and stage == "0" else (name, f"*:{name}")


def _metrics(asked: Sequence[Any], where: str) -> tuple[str, ...]:
    """Return the metrics. msprobe adds shape and dtype to all, and takes norm if there are none."""
    for metric in asked:
        if metric not in (*METRICS, "id"):
            raise UsageError(f"{where}: ops should be a list of some of {', '.join(METRICS)}, not {json.dumps(metric)}")
    known = [metric for metric in asked if metric != "id"] or ["norm"]
    return tuple(dict.fromkeys([*known, "shape", "dtype"]))


def _features(content: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    if not content.get("recording_l2_features"):
        return {}
    features = {}
    for hook, names in content.get("l2_targets", {}).items():
        if hook not in _HOOKS or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UsageError(f"{where}: l2_targets should have lists of names at {', '.join(_HOOKS)}, not at {hook}")
        patterns = tuple(pattern for name in names for pattern in _names(name))
        features[_HOOKS[hook]] = patterns or (("*",) if hook == "linear_hook" else ())
    return features


def _communication(content: Mapping[str, Any], where: str) -> tuple[str, ...]:
    asked = content.get("cc_distribution", {})
    for key, value in asked.items():
        kind = {"enable": bool, "cc_codeline": list, "cc_pre_hook": bool, "cc_log_only": bool}.get(key)
        if kind is None:
            raise UsageError(f"{where}: cc_distribution: there is no key {key}")
        if not isinstance(value, kind):
            raise UsageError(f"{where}: cc_distribution: {key} should be {_NAMES[kind]}, not {json.dumps(value)}")
    if asked.get("cc_log_only"):
        raise UsageError(
            f"{where}: cc_distribution: cc_log_only is not supported: the line of code of each collective is in its "
            "series, and the training goes on"
        )
    if not asked.get("enable"):
        return ()
    return ("sent", "received") if asked.get("cc_pre_hook") else ("received",)
