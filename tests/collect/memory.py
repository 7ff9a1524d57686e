"""A sink that keeps what it is given."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeprobe.collect import frameworks
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.watching.capture import Capture


@dataclass
class Step:
    """One step's ops in their order."""

    number: int
    rank: int | None
    bodies: dict[str, Any] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    stacks: dict[str, Sequence[str] | None] = field(default_factory=dict)
    began: dict[str, int | None] = field(default_factory=dict)
    ended: bool = False


class Memory:
    """The steps of a run."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.closed = False
        self.claimed: tuple[int, int | None] | None = None
        self.notes: list[str] = []

    def claim(self, step: int, rank: int | None) -> None:
        self.claimed = step, rank

    def begin(self, step: int, rank: int | None) -> None:
        self.steps.append(Step(step, rank))

    def add(
        self, op: str, body: Any, *, parent: str | None, began: int | None,
        stack: Sequence[str] | None, again: bool = False,
    ) -> None:  # fmt: skip
        step = self.steps[-1]
        assert (op in step.bodies) is again, f"{op} came twice"
        step.bodies.pop(op, None)  # what comes again is in the last place
        step.bodies[op], step.parents[op], step.stacks[op], step.began[op] = body, parent, stack, began

    def note(self, text: str) -> None:
        self.notes.append(text)

    def pause(self) -> None:
        pass

    def end(self) -> None:
        self.steps[-1].ended = True

    def close(self) -> None:
        self.closed = True


def plain(value: Any) -> Any:
    """A body to be compared: floats by their digits, so that NaN and -0.0 count; keys in order; no contents."""
    if isinstance(value, dict):
        return [(key, plain(item)) for key, item in value.items() if key not in ("tensor", "wide")]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return repr(value)


def tensors(value: Any) -> Iterator[dict[str, Any]]:
    """The leaves in a body whose contents were kept."""
    if isinstance(value, dict) and "tensor" in value:
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors(item)


def capture(memory: Memory, model: Any = None, **settings: Any) -> Capture:
    """A capture into `memory` of what `settings` ask for."""
    return frameworks.capture(model, Settings(**settings), memory)


def bodies(memory: Memory) -> dict[str, Any]:
    """The ops of the last step."""
    return memory.steps[-1].bodies


_ROUNDING = 2e-6
"""What float32 may lose in a sum, as a share of the typical element."""
_SQUARELESS = 1e-19
"""Elements up to this have squares that float32 cannot hold in full."""


def as_rounded(theirs: Any, ours: Any) -> Any:
    """What msprobe recorded, with the mean and norm of ours where both differ by the rounding of a float32 sum alone.

    They may differ so in float32 tensors, of which ours are accumulated in float64 (docs/differences.md).
    """
    if isinstance(theirs, list) and isinstance(ours, (list, tuple)) and len(theirs) == len(ours):
        return [as_rounded(*pair) for pair in zip(theirs, ours, strict=True)]
    if not (isinstance(theirs, dict) and isinstance(ours, dict)):
        return theirs
    found = {key: as_rounded(item, ours.get(key)) for key, item in theirs.items()}
    if theirs.get("dtype") == "torch.float32" and isinstance(theirs.get("Norm"), float) and theirs.get("shape"):
        typical = ours["Norm"] / math.prod(theirs["shape"]) ** 0.5
        near = math.isclose(theirs["Norm"], ours["Norm"], rel_tol=_ROUNDING, abs_tol=_SQUARELESS)
        if near and math.isclose(theirs["Mean"], ours["Mean"], rel_tol=_ROUNDING, abs_tol=_ROUNDING * typical):
            found |= {"Mean": ours["Mean"], "Norm": ours["Norm"]}
    return found
