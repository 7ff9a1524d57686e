"""Watches training steps and hands what happened to a sink, with msprobe's names and in its order."""

import os
from collections.abc import Callable
from typing import Any, Protocol

from lakeprobe import diagnostics
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching import depth, switch
from lakeprobe.collect.watching.entries import Op
from lakeprobe.collect.watching.pace import Pace
from lakeprobe.collect.watching.recorder import Recorder, guarded
from lakeprobe.collect.watching.values import Containers
from lakeprobe.errors import UsageError
from lakeprobe.output import counted

_LONGEST_FAILURE = 300
"""Characters of what a note quotes."""


class Watcher(Protocol):
    """Reports every op of one framework to a recorder."""

    recorder: Recorder

    def start(self, model: Any) -> None:
        """Start watching what the recorder's settings ask for. At level L1 `model` may be None."""

    def stop(self) -> None:
        """Stop watching, and restore framework and model."""

    def next_step(self) -> None:
        """Forget what belongs to the finished step."""

    def rank(self) -> int | None:
        """Return the rank of this process. None if the job is not distributed."""

    def perturb(self, model: Any, size: float, seed: int) -> None:
        """Move the parameters of a model or a list of models by a rounding error (`watching/perturbing.py`)."""

    def on_gradient(self, value: Any, hook: Callable[[Any], None]) -> bool:
        """Call `hook` with the gradient of `value`, if it is a tensor that gets one.

        Returns whether `value` is a single value: a tensor, or something without members that could have gradients.
        """


class Capture:
    """Records what the settings ask for between `start` and `stop`. Steps are numbered from 0."""

    _running: "Capture | None" = None

    def __init__(self, model: Any, settings: Settings, sink: Sink, watcher: Watcher) -> None:
        """Prepare to capture a model, a list of models, or none (level L1). Nothing is watched yet."""
        self.current_step = 0
        """The number of the running step. Set it before the first start to continue the numbers of an earlier run."""
        self.recorder = watcher.recorder
        self.recorder.when_enough = self._stop_for_good
        self._model = model
        self._settings = settings
        self._sink = sink
        self._watcher = watcher
        self._pace = Pace(settings)
        self._rank: int | None = None
        self._started = False
        self._refused = False
        """Whether the sink did not take what would be collected."""
        self._asked = False
        """Whether recording was started and not stopped since, even if the running step is not recorded."""
        self._begun = False
        self._perturbed = False
        self._closed = False
        self._noted = 0
        self._restore_depth: Callable[[], None] = lambda: None

    def start(self, model: Any = None, rank: int | None = None) -> None:
        """Start or continue recording. Does nothing if it is running, or if the settings exclude the step or rank.

        `model` replaces the model given before. `rank` overrides the framework's rank.
        """
        if model is not None:
            self._model = model
        self._rank = self._watcher.rank() if rank is None else rank
        self._perturb()
        self._started = self._asked = True
        if self.recorder.running or not self._wanted() or self._settings.level == "debug":
            return
        if self.recorder.births is not None and self.recorder.births.enough:
            return
        if Capture._running is not None:
            raise UsageError("another capture is running in this process: stop it first")
        if self._settings.level in ("L0", "mix") and self._model is None:
            raise UsageError(f"level {self._settings.level} records modules: give start() the model")
        self._begin()
        try:
            self._watcher.start(self._model)
        except BaseException:
            self._watcher.stop()
            raise
        Capture._running = self
        self._restore_depth = depth.deepen()
        self.recorder.running = True

    @property
    def running(self) -> bool:
        """Whether the running code is recorded."""
        return self.recorder.running

    def claim(self, rank: int | None = None) -> None:
        """Raise LakeError if the run already has what would be collected. Call it before anything is watched."""
        self._rank = self._watcher.rank() if rank is None else rank
        if self._of_rank():
            asked = [step for step in self._settings.step if step >= self.current_step]
            self._refused = True
            self._sink.claim(min(asked, default=self.current_step), self._rank)
            self._refused = False

    def _perturb(self) -> None:
        """Move the parameters once.

        Unrecorded steps and ranks need it too, because they train with the same parameters.
        """
        settings = self._settings
        if not settings.perturb or self._perturbed:
            return
        if self._model is None:
            raise UsageError("perturb moves the parameters of a model: give collect() or start() the model")
        self._perturbed = True
        self._watcher.perturb(self._model, settings.perturb, settings.perturb_seed)

    def stop(self) -> None:
        """Stop recording. Restores the framework and the model, and hands all ops so far to the sink."""
        self._asked = False
        if self.recorder.running:
            self._restore_framework()
            self._hand_over()
            self._sink.pause()

    def _restore_framework(self) -> None:
        """Restore the framework and the model."""
        self.recorder.running = False
        Capture._running = None
        self._restore_depth()
        self._watcher.stop()
        self.recorder.leaves.forget_all()
        self.recorder.thread.around = None

    def give_up(self) -> None:
        """Stop recording for good. What was recorded but not yet handed to the sink is lost."""
        self._asked = False
        self._begun = False
        self._closed = True
        if self.recorder.running:
            self._restore_framework()

    def step(self) -> None:
        """End the step, recorded or not, and begin the next. Recording goes on if it was started."""
        asked = self._asked
        try:
            self.stop()
            self._end()
        finally:  # an interrupt that the program catches ends nothing
            self._asked = asked
        self._pace.ended()
        self.recorder.next_step()
        self._watcher.next_step()
        self.current_step += 1
        if asked:
            self.start(rank=self._rank)

    def close(self) -> None:
        """Stop recording, end the step and close the sink. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.stop()
        self._end()
        if not self.recorder.entries.given and self._of_rank():
            diagnostics.note(f"lakeprobe: nothing was collected: {self._why_empty()}")
        self._sink.close()

    def _why_empty(self) -> str:
        settings = self._settings
        if settings.level == "debug":
            return "no value was saved in a step that was asked for"
        if self._refused:
            return "the lake did not take the run"
        if not self._started:
            return "start() was not called"
        if settings.step and self.current_step < min(settings.step):
            return (
                f"step {min(settings.step)} was the first asked for, and the training ended in step {self.current_step}"
            )
        if settings.switch is not None:
            came = "on" if switch.number_of(settings.switch) else "there"
            return f"{settings.switch} was not {came} when a step began"
        if self.recorder.births is not None:
            return "no NaN or inf was born"
        return "no op that was asked for ran between start() and stop()"

    def save(self, name: str, value: Any, backward: bool = True) -> None:
        """Record a value by name: a tensor, a number, a text, or lists and dicts of them, and later its gradients.

        Works at every level, started or not. The op is `NAME.N.debug`, and the one of its gradients
        `NAME_grad.N.debug`. N counts from 0 for each name in a step.
        """
        if not self.recorder.running:
            self._rank = self._watcher.rank()
        if not self._wanted():
            return
        self._begin()
        self._save(name, value, backward)

    @guarded
    def _save(self, name: str, value: Any, backward: bool) -> None:
        recorder = self.recorder
        number = recorder.count(f"{name}.debug")
        op = Op(f"{name}.{number}.debug", None, None)
        op.body = recorder.leaves.of_file(value, op.name, op.name)
        recorder.entries.put(op)
        recorder.entries.finish(op)
        if backward:
            self._save_gradients(f"{name}_grad.{number}.debug", value)

    def _save_gradients(self, name: str, value: Any) -> None:
        """Put an op with the structure of the value. It has null for missing gradients."""
        op = Op(name, None, None)

        def put_all(leaf: Any) -> None:
            op.body = leaf

        op.body = self._gradients(value, name, name, put_all, Containers())
        self.recorder.entries.put(op)

    def _gradients(self, value: Any, op: str, file: str, put: Callable[[Any], None], around: Containers) -> Any:
        """Return the structure of a value with null for its leaves.

        `put` receives a gradient's leaf when it arrives.
        """
        if self._watcher.on_gradient(value, self._gradient_hook(op, file, put)):
            return None
        if not isinstance(value, (dict, list, tuple)) or not around.enter(value):
            return None
        items = value.items() if isinstance(value, dict) else enumerate(value)
        form: Any = {} if isinstance(value, dict) else []
        for index, item in items:
            if around.is_full():
                break
            key = str(index) if isinstance(value, dict) else index
            if isinstance(form, list):
                form.append(None)
            form[key] = self._gradients(item, op, f"{file}.{key}", _putter(form, key), around)
        around.leave(value)
        return form

    def _gradient_hook(self, op: str, file: str, put: Callable[[Any], None]) -> Callable[[Any], None]:
        step = self.recorder.steps

        @guarded
        def record(self: Capture, gradient: Any) -> None:
            if self.recorder.steps == step:
                put(self.recorder.leaves.of_file(gradient, op, file))

        def hook(gradient: Any) -> None:
            record(self, gradient)

        return hook

    def _wanted(self) -> bool:
        settings = self._settings
        return (
            (not settings.step or self.current_step in settings.step)
            and self._of_rank()
            and self._pace.wants(self.current_step)
        )

    def _of_rank(self) -> bool:
        return not self._settings.rank or (self._rank or 0) in self._settings.rank

    def _stop_for_good(self) -> None:
        """End the step and the collecting, because the limit of births is reached."""
        self.stop()
        self._end()

    def _begin(self) -> None:
        if not self._begun:
            self._sink.begin(self.current_step, self._rank)
            self._begun = True
        self.recorder.entries.open(self.recorder.steps)

    def _end(self) -> None:
        if self._begun:
            self._hand_over()
            self._begun = False
            self._sink.end()

    def _hand_over(self) -> None:
        self.recorder.entries.hand_over()
        repeated = self.recorder.repeated
        if repeated:
            repeats = f"backward went through ops again {len(repeated)} times, first through {repeated[0]}"
            self._sink.note(f"{repeats}; the last time is recorded")
            repeated.clear()
        late = [*self.recorder.entries.late]
        if late:
            ops = counted(len(late), "op")
            self._sink.note(
                f"a step ended before {ops} of another thread, the first {late[0]}; what came later is left out"
            )
            self.recorder.entries.late.clear()
        new = self.recorder.failures[self._noted :]
        if new:
            text = f"{counted(len(new), 'value')} could not be recorded, the first: {_shortened(new[0])}"
            self._sink.note(text)
            if not self._noted:
                diagnostics.note(f"lakeprobe: {text}; what comes later is in the notes of its unit")
            self._noted += len(new)


def _shortened(failure: str) -> str:
    """Return what failed in a line of a note. torch may list all that it can do instead."""
    line = diagnostics.in_one_line(failure)
    return line if len(line) <= _LONGEST_FAILURE else f"{line[:_LONGEST_FAILURE]}…"


def _putter(container: Any, key: Any) -> Callable[[Any], None]:
    def put(leaf: Any) -> None:
        container[key] = leaf

    return put


def _forget_in_child() -> None:
    """Stop recording in a forked process, such as a data loader's worker. The sink belongs to its parent."""
    running = Capture._running
    if running is not None:
        running.recorder.running = False
        Capture._running = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
