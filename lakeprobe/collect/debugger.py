"""msprobe's PrecisionDebugger on top of our collector. A training script that uses it changes one import:

from lakeprobe.collect.debugger import PrecisionDebugger
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NoReturn

from lakeprobe.collect import config, frameworks
from lakeprobe.collect.config import Configuration
from lakeprobe.collect.session import Collector, lake_and_run_of
from lakeprobe.errors import UsageError
from lakeprobe.monitoring import probing
from lakeprobe.monitoring.session import Monitor


def _refused(name: str, reason: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise UsageError(f"PrecisionDebugger.{name} is not supported: {reason}")

    refuse.__doc__ = f"Raises UsageError: {reason}."
    return refuse


class PrecisionDebugger:
    """The debugger, one per process. Creating another returns the first one, as in msprobe, until `close` ends it.

    Its methods can also be called on the class. The run is named after the last folder of dump_path, as
    `lakeprobe.collect.session.lake_and_run_of` describes. `run` and `lake` override that.
    """

    _instance: ClassVar[PrecisionDebugger | None] = None

    def __new__(cls, *_: Any, **__: Any) -> PrecisionDebugger:
        """Return the existing debugger, or a new one."""
        return cls._instance or super().__new__(cls)

    def __init__(
        self,
        config_path: str | os.PathLike[str] | None = None,
        task: str | None = None,
        dump_path: str | None = None,
        level: str | None = None,
        step: list[int | str] | None = None,
        *,
        model: Any = None,
        run: str | None = None,
        lake: str | os.PathLike[str] | None = None,
        replace: bool = False,
    ) -> None:
        """Read the config.json at `config_path`. Arguments override its keys. Nothing is watched before `start`.

        Raises UsageError if the configuration is wrong or asks for something unsupported, and LakeError.
        """
        if PrecisionDebugger._instance is self:
            return
        overrides = {"task": task, "dump_path": dump_path, "level": level, "step": step}
        if config_path is None:
            given = {key: value for key, value in overrides.items() if value is not None}
            configuration = config.parse(given, "PrecisionDebugger")
        else:
            configuration = config.load(config_path, **overrides)
        lake, run = _places(configuration, lake, run)
        if configuration.seed is not None:
            frameworks.seed(configuration.seed, deterministic=configuration.deterministic)
        self._monitor: Monitor | None = None
        self._probe: Callable[[Any], Monitor] | None = None
        if configuration.probe is not None:
            self._probe = partial(probing.begin, configuration, run=run, lake=lake, replace=replace)
        self._records_saved = configuration.settings.level == "debug"
        self._collector = Collector(model, configuration.settings, run=run, lake=lake, replace=replace)
        PrecisionDebugger._instance = self

    @classmethod
    def start(cls, model: Any = None, token_range: Any = None, rank_id: int | None = None) -> None:
        """Start watching `model`. Raises UsageError if there is no debugger, or if `token_range` is given.

        At task grad_probe it does nothing, as `stop` and `step`: `monitor` begins there.
        """
        if token_range is not None:
            raise UsageError("token_range is not supported: lakeprobe collects training, not requests to a server")
        if cls._one()._probe is None:
            cls._one()._collector.start(model, rank_id)

    @classmethod
    def stop(cls) -> None:
        """Stop watching until the next start."""
        if cls._one()._probe is None:
            cls._one()._collector.stop()

    @classmethod
    def step(cls) -> None:
        """End the step."""
        if cls._one()._probe is None:
            cls._one()._collector.step()

    @classmethod
    def monitor(cls, model: Any) -> None:
        """Measure the gradients of `model` ahead of each update, at task grad_probe. A step is one of any optimizer."""
        one = cls._one()
        if one._probe is None:
            raise UsageError("PrecisionDebugger.monitor needs task grad_probe; for other series use lakeprobe.monitor")
        if one._monitor is not None:
            raise UsageError("PrecisionDebugger.monitor was called before; it watches one model")
        one._monitor = one._probe(model)

    @classmethod
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """Record `variable` as `name` at level debug. Does nothing at other levels, as in msprobe."""
        if cls._one()._records_saved:
            cls._one()._collector.save(name, variable, save_backward)

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Set the number of the running step to `step`."""
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise UsageError(f"set_init_step takes a whole number from 0, not {step!r}")
        cls._one()._collector.current_step = step

    @classmethod
    def close(cls) -> None:
        """End the step, and wait until everything is in the lake. This also happens when the program exits."""
        instance, cls._instance = cls._instance, None
        if instance is not None:
            instance._collector.close()
            if instance._monitor is not None:
                instance._monitor.close()

    @classmethod
    def _one(cls) -> PrecisionDebugger:
        if cls._instance is None:
            raise UsageError("there is no PrecisionDebugger; make one first")
        return cls._instance

    module_dump = _refused("module_dump", "give the name of the module in list, at level mix")
    module_dump_end = _refused("module_dump_end", "give the name of the module in list, at level mix")
    register_custom_api = _refused("register_custom_api", "save the values by name with lakeprobe's collector.save")
    restore_custom_api = _refused("restore_custom_api", "there is no register_custom_api")


def _places(
    configuration: Configuration, lake: str | os.PathLike[str] | None, run: str | None
) -> tuple[str | os.PathLike[str] | None, str]:
    """Return the lake and the run: the given ones, or those derived from dump_path."""
    if configuration.dump_path is None:
        if run is None:
            raise UsageError("PrecisionDebugger needs a dump_path, whose last folder names the run, or a run")
        return lake, run
    by_path, named = lake_and_run_of(configuration.dump_path)
    return lake or by_path, run or named
