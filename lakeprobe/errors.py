"""The errors that lakeprobe raises on purpose, each with the exit code of a command that it ends.

A message has three parts: what is wrong, in which file, and what to do. Nothing here prints: `lakeprobe.diagnostics`
owns stderr.
"""

from __future__ import annotations

from collections.abc import Iterable


class LakeprobeError(Exception):
    """An error that a user can understand and fix. Its text is one line on stderr."""

    exit_code = 2


class UsageError(LakeprobeError):
    """The command or call asks for something that does not exist or contradicts itself."""


def unknown(where: object, kind: str, name: str, known: Iterable[str], hint: str = "") -> UsageError:
    """Return the error for a `name` that `where`, such as a lake, does not have among its `known` names of a `kind`.

    It says which of them is most like it, and lists them, at most `_MOST_NAMES`.
    """
    from difflib import get_close_matches

    names = list(known)
    alike = get_close_matches(name, names, 1, 0.75)
    listed = ", ".join(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        listed += f" and {len(names) - _MOST_NAMES} more: lakeprobe ls"
    has = f"did you mean {alike[0]}? It has" if alike else "it has"
    others = f"; {has} {listed}" if names else ", nor any other"
    return UsageError(f"{where} has no {kind} {name}{others}{hint and '; '}{hint}")


_MOST_NAMES = 12


class DumpError(LakeprobeError):
    """A dump file cannot be read in the format that it claims to have."""

    def __init__(self, message: str) -> None:
        """Keep the message on one line, whatever line breaks a name from the file has."""
        super().__init__(message.replace("\n", "\\n"))


class TensorError(DumpError):
    """A tensor file cannot be read. While a unit is ingested, this is recorded with the row and not raised."""


class OverflowFoundError(LakeprobeError):
    """Collecting with the task overflow_check reached its number of overflows, so the training ends."""

    exit_code = 1


class RuleError(LakeprobeError):
    """A SQL rule or query fails, or breaks the contract of `docs/rules.md`."""


class LakeError(LakeprobeError):
    """The lake cannot be read or written: no such lake, a newer format, a full disk, a second writer."""

    exit_code = 3

    @classmethod
    def from_system(cls, error: OSError, where: object, consequence: str) -> LakeError:
        """Return the error for what the system reports (a full disk, no permission), at its path or else `where`."""
        reason = error.strerror or str(error).splitlines()[0]
        return cls(f"{error.filename or where}: {reason}; {consequence}")
