"""Reads journals of steps that repeat an earlier one in all but their numbers.

Most steps of a training call the same ops in the same order with values of the same shapes. Their journals without
the numbers are then the same text, byte for byte, so that all rows are those of the earlier step, with other numbers.
Most have even the same number of bytes, with each number in its place, and are read by these places.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from lakeprobe.journals import journal
from lakeprobe.journals.journal import Head
from lakeprobe.journals.ops import places, split, varying_of
from lakeprobe.readers.leaves import Renumbering, VariedRows, Varying

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

UnitTables = dict[str, list["pa.RecordBatch"]]
"""The rows of the tables of a unit."""


_SEPARATOR = b"\xc1batch\xc1"
"""Stands between two batches, as no type of msgpack begins with 0xc1."""
_SMALL = 0x7F
"""The largest byte that is an integer of msgpack by itself."""
_TYPES = {
    _SMALL: "u1", 0xCB: ">f8", 0xCC: "u1", 0xCD: ">u2", 0xCE: ">u4", 0xCF: ">u8",
    0xD0: "i1", 0xD1: ">i2", 0xD2: ">i4", 0xD3: ">i8",
}  # fmt: skip
"""The types of numbers by the byte that begins them, with the bytes that follow. Nil and truth values have none."""
_MOST_MISSES = 4
"""How many steps may have their numbers in other places than the one before. Finding places takes twice a split."""


class Step(NamedTuple):
    """A journal as a form, and the numbers that it is filled with."""

    head: Head
    form: bytes
    varying: Varying | None
    """None if a number is not exact in a double."""

    def has_form_of(self, other: Step) -> bool:
        """Return whether both differ in their numbers only, and in which step they are."""
        return self.form == other.form and replace(self.head, step=other.head.step) == other.head


def _text_of(path: Path) -> bytes:
    return _SEPARATOR.join(journal.encoded_batches(path))


class _Places:
    """Reads the numbers of texts that have them where one text has them, of the same types."""

    def __init__(self, text: bytes, form: bytes, numbers: dict[str, list[Any]]) -> None:
        """`form` and `numbers` are what `split` makes of `text`."""
        import numpy as np

        self._text = np.frombuffer(text, np.uint8)
        self._form, self._numbers = form, numbers
        self._is_fixed = np.ones(len(text), dtype=bool)
        self._small: list[int] = []
        """Where integers of one byte are, whose byte is their type, too."""
        self._of: dict[str, list[tuple[str, list[int], NDArray[np.int64]]]] = {}
        """The numbers of a type, and where their bytes are, by what they are of."""
        found = places(text)
        self._is_sound = all(len(found[column]) == len(of_column) for column, of_column in numbers.items())
        """Whether nothing else looks like a number before others are taken out."""
        for column, begins in found.items():
            of_types: dict[int, list[int]] = {}
            for number, begin in enumerate(begins):
                of_types.setdefault(max(text[begin], _SMALL), []).append(number)
            self._of[column] = [
                (type_, which, self._bytes_of([begins[number] for number in which], code, type_))
                for code, which in of_types.items()
                if (type_ := _TYPES.get(code))
            ]

    def _bytes_of(self, begins: list[int], code: int, type_: str) -> NDArray[np.int64]:
        import numpy as np

        first = np.array(begins, dtype=np.int64)[:, None] + (code != _SMALL)
        found = first + np.arange(np.dtype(type_).itemsize)
        self._is_fixed[found] = False
        if code == _SMALL:
            self._small += begins
        return found

    def read(self, text: bytes) -> tuple[bytes, dict[str, list[Any]]] | None:
        """Return what `split` would make of `text`. None if it has other places."""
        import numpy as np

        found = np.frombuffer(text, np.uint8)
        if not self._is_sound or len(found) != len(self._text):
            return None
        if ((found != self._text) & self._is_fixed).any() or (found[self._small] > _SMALL).any():
            return None
        return self._form, {column: self._read(column, found) for column in self._numbers}

    def _read(self, column: str, text: NDArray[np.uint8]) -> list[Any]:
        numbers = self._numbers[column].copy()
        for type_, which, bytes_of in self._of[column]:
            values = text[bytes_of].view(type_).ravel().tolist()
            if len(which) == len(numbers):
                return values
            for number, value in zip(which, values, strict=True):
                numbers[number] = value
        return numbers


class Repeats:
    """The last step that was read in full, which later ones may repeat."""

    def __init__(self) -> None:
        self._earlier: tuple[Step, Renumbering, dict[str, Any], UnitTables] | None = None
        self._places: _Places | None = None
        self._misses = 0

    def read(self, path: Path, head: Head) -> Step:
        """Return the step of a journal. Raises DumpError."""
        text = _text_of(path)
        read = None if self._places is None else self._places.read(text)
        if read is None:
            read = split(text)
            self._misses += 1
            self._places = _Places(text, *read) if self._misses <= _MOST_MISSES else None
        form, numbers = read
        return Step(head, form, varying_of(numbers))

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
