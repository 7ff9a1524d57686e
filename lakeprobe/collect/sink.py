"""The border between what watches a training step and what writes it down.

The watching side hands over ops that are finished and in their final order; the writing side decides where they lie.
Neither imports the other.
"""

from collections.abc import Sequence
from typing import Any, Protocol


class Sink(Protocol):
    """Where the ops of a run go, step after step: begin, add …, end for each step, and close after the last.

    Never called by two threads at once, but not always by the same one: backward on a GPU runs in threads of its own.
    """

    def claim(self, step: int, rank: int | None) -> None:
        """Steps from `step` on may be collected. Raises LakeError if the run has one of them already.

        Called once, before anything is watched.
        """

    def begin(self, step: int, rank: int | None) -> None:
        """The first op of a step will follow. `rank` is None where the job is not distributed.

        Once per step, however often collecting is stopped and started within it. Steps not collected have none.
        """

    def add(
        self, op: str, body: Any, *, parent: str | None, began: int | None,
        stack: Sequence[str] | None,
    ) -> None:  # fmt: skip
        """One finished op, in final order. They come in batches: some while the step runs, the rest when it is stopped.

        `op` is the entry's name in dump.json: `Functional.linear.0.forward`, `Module.layers.0.mlp.MLP.forward.0`.
        `body` is the entry, in dump.json's form: a dict of sections, in them lists and dicts of leaves (at task
        structure {}); for a point that was saved by name (`NAME.0.debug`) the value itself: leaf, list, dict or None.
        A leaf of a tensor that is to be saved has "data_name", its file's name in msprobe's dump, and "tensor", which
        the sink takes out: a numpy array that never changes again (read-only, any strides; bfloat16 and float8 as in
        ml_dtypes). The same contents may come as the same array object in several leaves.
        A leaf of a tensor with numbers may have "wide", which no dump.json has: mean, norm, and how many elements are
        NaN, inf, -inf and zero, as the columns tensors.wide_mean to zero_count say.
        `parent` is the op's entry in construct.json: the op of a module, "optimizer", "clip_grad", or None at the top
        and at level L1, which has no tree.
        `began` is the op's place in the order in which calls begin, a module before what it calls, from 0 in each step;
        numbers may be left out. None where there is no tree, and for gradients of parameters and saved points.
        `stack` is the call stack as in stack.json, innermost frame first; the same tuple object for the same stack,
        kept alive by the capture, so `id` is a cheap key. None where the op has none: backward, gradients, or stacks
        are off.
        """

    def note(self, text: str) -> None:
        """Something that whoever reads the step must know: what could not be recorded."""

    def pause(self) -> None:
        """The step may go on, or not: what was added is to be safe."""

    def end(self) -> None:
        """The step is complete."""

    def close(self) -> None:
        """No more steps follow. Safe to call twice."""
