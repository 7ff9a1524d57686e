"""The errors that lakeprobe raises on purpose, each with the exit code it ends a command with.

A message has three parts: what is wrong, in which file, and what to do about it. Nothing here prints:
`lakeprobe.diagnostics` owns stderr.
"""

from __future__ import annotations


class LakeprobeError(Exception):
    """Something that a user can understand and mend. Its text is shown as one line on stderr."""

    exit_code = 2


class UsageError(LakeprobeError):
    """The command or call asks for something that does not exist or contradicts itself."""


class DumpError(LakeprobeError):
    """A dump file cannot be read as what it claims to be."""


class TensorError(DumpError):
    """A tensor file cannot be read. While a unit is ingested this is recorded with the row, not raised."""


class OverflowFoundError(LakeprobeError):
    """Collecting with task overflow_check found as many ops that make NaN or inf as it was to find: training ends."""

    exit_code = 1


class RuleError(LakeprobeError):
    """A SQL rule or query does not run, or does not keep the contract of `docs/rules.md`."""


class LakeError(LakeprobeError):
    """The lake cannot be read or written: no such lake, a newer format, a full disk, a second writer."""

    exit_code = 3

    @classmethod
    def from_system(cls, error: OSError, where: object, consequence: str) -> LakeError:
        """What the file system reports (a full disk, no permission), at its own path or else `where`."""
        reason = error.strerror or str(error).splitlines()[0]
        return cls(f"{error.filename or where}: {reason}; {consequence}")
