"""Reads journals of steps that repeat an earlier one in all but their numbers.

Most steps of a training call the same ops in the same order with values of the same shapes. Their journals without
the numbers are then the same text, byte for byte, so that all rows are those of the earlier step, with other numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from lakeprobe.journals import journal
from lakeprobe.journals.journal import Head
from lakeprobe.journals.ops import split, varying_of
from lakeprobe.readers.leaves import Renumbering, VariedRows, Varying

if TYPE_CHECKING:
    import pyarrow as pa

UnitTables = dict[str, list["pa.RecordBatch"]]
"""The rows of the tables of a unit."""


_SEPARATOR = b"\xc1batch\xc1"
"""Stands between two batches, as no type of msgpack begins with 0xc1."""


class Step(NamedTuple):
    """A journal as a form, and the numbers that it is filled with."""

    head: Head
    text: bytes
    varying: Varying | None
    """None if a number is not exact in a double."""

    def has_form_of(self, other: Step) -> bool:
        """Return whether both differ in their numbers only, and in which step they are."""
        return self.text == other.text and replace(self.head, step=other.head.step) == other.head


def read_step(path: Path, head: Head) -> Step:
    """Return the step of a journal. Raises DumpError."""
    text, numbers = split(_SEPARATOR.join(journal.encoded_batches(path)))
    return Step(head, text, varying_of(numbers))


class Repeats:
    """The last step that was read in full, which later ones may repeat."""

    def __init__(self) -> None:
        self._earlier: tuple[Step, Renumbering, dict[str, Any], UnitTables] | None = None

    def of(self, step: Step) -> tuple[dict[str, Any], UnitTables] | None:
        """Return the row of dumps of the earlier step, and the tables of this one. None if it does not repeat it."""
        if self._earlier is None or step.varying is None or not step.has_form_of(self._earlier[0]):
            return None
        _, renumbering, row, tables = self._earlier
        batch = renumbering.batch(step.varying)
        return None if batch is None else (row, tables | {"tensors": [batch]})

    def forget(self) -> None:
        """Forget the earlier step: others may not share the numbers of its places."""
        self._earlier = None

    def learn(self, step: Step, row: dict[str, Any], tables: UnitTables, varied: VariedRows | None) -> None:
        """Take a step that was read in full. It counts if its own numbers, put where `varied` says, give its rows.

        They do not if something else looks like a number, or if an op was recorded again.
        """
        self.forget()
        batches = tables.get("tensors", [])
        if varied is None or step.varying is None or len(batches) != 1:
            return
        renumbering = Renumbering(batches[0], varied)
        again = renumbering.batch(step.varying)
        if again is not None and again.equals(batches[0]):
            self._earlier = step, renumbering, row, tables
