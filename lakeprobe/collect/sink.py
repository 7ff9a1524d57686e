"""The interface between the code that watches a training step and the code that writes it down.

The watching side hands over finished ops in their final order. The writing side decides where to store them. Neither
imports the other.
"""

from collections.abc import Sequence
from typing import Any, Protocol


class Sink(Protocol):
    """Receives the ops of a run: begin, add … and end for each step, and close after the last step.

    Two threads never call it at once, but the calling thread may change: backward on a GPU runs in threads of its own.
    """

    def claim(self, step: int, rank: int | None) -> None:
        """Announce that steps from `step` on may be collected. Raises LakeError if the run already has one of them.

        Called once, before anything is watched.
        """

    def begin(self, step: int, rank: int | None) -> None:
        """Announce the first op of a step. `rank` is None if the job is not distributed.

        Called once per collected step, however often collecting is stopped and started within it.
        """

    def add(
        self, op: str, body: Any, *, parent: str | None, began: int | None,
        stack: Sequence[str] | None, again: bool,
    ) -> None:  # fmt: skip
        """Take one finished op, in final order.

        Ops come in batches: some during the step, the rest when recording stops.

        - `op` is the entry's name in dump.json: `Functional.linear.0.forward`, `Module.layers.0.mlp.MLP.forward.0`.
        - `body` is the entry as in dump.json: a dict of sections that hold lists and dicts of leaves, or {} at task
          structure. For a point saved by name (`NAME.0.debug`) it is the value itself: a leaf, list, dict or None.
        - A leaf of a tensor to save has "data_name", the name of its file in msprobe's dump, and "tensor", which the
          sink removes: a numpy array that never changes again (read-only, any strides, bfloat16 and float8 from
          ml_dtypes). Several leaves may share one array object.
        - A leaf of a tensor with numbers may have "wide", which dump.json never has: mean, norm, and the numbers of
          NaN, inf, -inf and zero elements, as in the columns tensors.wide_mean to zero_count.
        - `parent` is the op's entry in construct.json: the op of a module, "optimizer" or "clip_grad". It is None at
          the top and at level L1, which has no tree.
        - `began` is the op's position in the order in which calls begin, from 0 in each step. A module comes before
          what it calls, and numbers may be skipped. It is None without a tree, for gradients of parameters and for
          saved points.
        - `again` says that an op of this name came before, because backward went through it again. This one replaces
          it, in the last place.
        - `stack` is the call stack as in stack.json, innermost frame first. Equal stacks are the same tuple object,
          which the capture keeps alive, so `id` is a cheap key. It is None for backward and gradients, or if stacks are
          off.
        """

    def tried(self, row: dict[str, Any]) -> None:
        """Take a row of the table perturbations: what a change of an op's inputs did to one of its results.

        `op` names the op's forward or backward. Columns that follow from the step and the op are left out.
        """

    def note(self, text: str) -> None:
        """Take a remark that readers of the step must know, such as what could not be recorded."""

    def pause(self) -> None:
        """Make safe what was added. The step may continue or not."""

    def end(self) -> None:
        """End the step, which is complete."""

    def close(self) -> None:
        """Close after the last step. Safe to call twice."""
