"""msprobe's TrainerMon on top of our monitor. A training script that uses it changes one import:

from lakeprobe.monitoring.trainer import TrainerMon
"""

from __future__ import annotations

import os
from typing import Any

from lakeprobe.errors import UsageError
from lakeprobe.monitoring.session import Monitor, monitor


class TrainerMon:
    """msprobe's monitor of a trainer: a monitor_config.json, then a model and an optimizer.

    The run is named after $MONITOR_OUTPUT_DIR, or monitor_output, and the lake is the folder `lake` next to that, or
    $LAKEPROBE_LAKE. `run` and `lake` override this.
    """

    def __init__(
        self, config_file_path: str | os.PathLike[str], process_group: Any = None, params_have_main_grad: bool = True,
        opt_ty: str | None = None, *, run: str | None = None, lake: str | os.PathLike[str] | None = None,
        replace: bool = False,
    ) -> None:  # fmt: skip
        """Take the configuration. Nothing is measured before `set_monitor`.

        `process_group`, `params_have_main_grad` and `opt_ty` need not be said: a main_grad is used where there is one.
        """
        self._options: dict[str, Any] = {"config": config_file_path, "run": run, "lake": lake, "replace": replace}
        self._optimizer: Any = None
        self._monitor: Monitor | None = None

    def set_monitor(
        self, model: Any, optimizer: Any, grad_acc_steps: int = 1, tp_group: Any = None, dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:  # fmt: skip
        """Begin to measure, with `start_iteration` as the number of the first step.

        Micro batches are counted as they come, whatever `grad_acc_steps`. Every rank measures what it has, so the
        groups change nothing. Raises UsageError and LakeError.
        """
        if self._monitor is not None:
            raise UsageError("set_monitor was called before; a TrainerMon watches one training")
        self._monitor = monitor(model, optimizer, **self._options)
        self._monitor.current_step = start_iteration

    def set_wrapped_optimizer(self, optimizer: Any) -> None:
        """Take the optimizer for `monitor_gnorm_with_ad`."""
        self._optimizer = optimizer

    def monitor_gnorm_with_ad(
        self, model: Any, optimizer: Any = None, grad_acc_steps: int = 1, tp_group: Any = None, dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:  # fmt: skip
        """Begin to measure, under the old name."""
        self.set_monitor(model, optimizer or self._optimizer, grad_acc_steps, tp_group, dp_group, start_iteration)

    def log(self, name: str, value: Any) -> None:
        """Add a number of the script to the running step, such as the loss: new."""
        if self._monitor is not None:
            self._monitor.log(name, value)

    def close(self) -> None:
        """Stop, and wait until everything is in the lake: new. It also happens when the program exits."""
        if self._monitor is not None:
            self._monitor.close()
