"""Collecting from trainers that own the loop: callbacks for the Trainer of transformers, and for Lightning.

They call `start`, `stop`, `step` and `close` of a collector, and import the trainer when a callback is made.
"""

from __future__ import annotations

from typing import Any

from lakeprobe.collect.session import collect


def for_transformers(**options: Any) -> Any:
    """A callback for `transformers.Trainer(callbacks=[…])`, with the options of `lakeprobe.collect` except the model.

    A step is a step of the optimizer, with all batches whose gradients it adds up, and has the trainer's number. Raises
    UsageError and LakeError.
    """
    from transformers import TrainerCallback

    collector = collect(**options)

    class Collecting(TrainerCallback):  # type: ignore[misc]
        """Collects each step of a Trainer."""

        def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            """A training begins, or goes on from a checkpoint."""
            collector.current_step = state.global_step

        def on_step_begin(self, _args: Any, _state: Any, _control: Any, model: Any = None, **_: Any) -> None:
            """A step begins."""
            collector.start(model)

        def on_step_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
            """A step has ended."""
            collector.stop()
            collector.step()

        def on_train_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
            """The training has ended."""
            collector.close()

    return Collecting()


def for_lightning(**options: Any) -> Any:
    """A callback for `lightning.Trainer(callbacks=[…])`, with the options of `lakeprobe.collect` except the model.

    A step is a step of the optimizer, as for transformers. Raises UsageError and LakeError.
    """
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    collector = collect(**options)

    class Collecting(Callback):  # type: ignore[misc]
        """Collects each step of a Trainer."""

        def on_train_start(self, trainer: Any, _module: Any) -> None:
            """A training begins, or goes on from a checkpoint."""
            collector.current_step = self._step = trainer.global_step

        def on_train_batch_start(self, _trainer: Any, module: Any, _batch: Any, _number: int) -> None:
            """A batch begins."""
            collector.start(module)

        def on_train_batch_end(self, trainer: Any, _module: Any, _outputs: Any, _batch: Any, _number: int) -> None:
            """A batch has ended, and a step where the optimizer has stepped."""
            collector.stop()
            if trainer.global_step != self._step:
                self._step = trainer.global_step
                collector.step()

        def on_train_end(self, _trainer: Any, _module: Any) -> None:
            """The training has ended."""
            collector.close()

        def on_exception(self, _trainer: Any, _module: Any, exception: BaseException) -> None:
            """The training was cut off."""
            collector.__exit__(type(exception), exception, exception.__traceback__)

    return Collecting()
