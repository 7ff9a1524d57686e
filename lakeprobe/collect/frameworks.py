"""Chooses the framework to watch. Only here is it decided, and only the chosen framework is imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching.capture import Capture
from lakeprobe.errors import UsageError

_MODULES = {"torch": "pytorch", "mindspore": "mindspore"}
"""The module of each framework, and the framework's name in lakeprobe and msprobe."""


def name_of(model: Any = None) -> str:
    """Return the framework of `model` (a module or cell, a list of them, or None): "pytorch" or "mindspore".

    The class of the model decides, then the framework that was imported first, then the one that is installed. Raises
    UsageError if neither is installed.
    """
    first = model[0] if isinstance(model, Sequence) and model else model
    classes = [kind.__module__.partition(".")[0] for kind in type(first).__mro__]
    for module in (*classes, *sys.modules):
        if module in _MODULES:
            return _MODULES[module]
    for module, name in _MODULES.items():
        if importlib.util.find_spec(module) is not None:
            return name
    raise UsageError("collecting needs torch or mindspore, and neither is installed: pip install one of them")


def capture(model: Any, settings: Settings, sink: Sink) -> Capture:
    """Return a capture of `model` (a module, a list of them, or None) that is not started yet. Raises UsageError."""
    watcher = importlib.import_module(f"lakeprobe.collect.{name_of(model)}.watcher")
    return Capture(model, settings, sink, watcher.Watcher(settings, sink))


def seed(number: int, *, deterministic: bool) -> None:
    """Seed random, numpy and the framework, and turn its deterministic algorithms on or off. Raises UsageError."""
    seeding = importlib.import_module(f"lakeprobe.collect.{name_of()}.seeding")
    os.environ["PYTHONHASHSEED"] = str(number)  # for processes started from now on
    random.seed(number)
    np.random.seed(number)
    seeding.seed(number, deterministic=deterministic)
