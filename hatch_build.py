"""Compiles `native/*.c`, beside the sources in an editable install and into the wheel otherwise.

Without a C compiler, or with LAKEPROBE_NATIVE=0, the wheel is pure Python, which does the same more slowly.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

_OPTIONS = (
    *("-std=gnu11", "-O3", "-Wall", "-Wextra", "-shared", "-fPIC"),
    "-ffp-contract=off",  # products and sums are rounded each for itself, on every processor
)


class NativeHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling has no types here
    """Adds the compiled functions to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile them, and say for which platform the wheel is then."""
        made = self._compile(Path(self.root) / "native")
        if made is None or version == "editable":
            return
        platform = next(tag.platform for tag in sys_tags() if not tag.platform.startswith(("manylinux", "musllinux")))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][str(made)] = f"lakeprobe/native/{made.name}"

    def _compile(self, folder: Path) -> Path | None:
        if os.environ.get("LAKEPROBE_NATIVE") == "0":
            return None
        made, draft = folder / "kernels.so", folder / f".{os.getpid()}.so"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        command = [*compiler, *_OPTIONS, "-o", str(draft), *map(str, sorted(folder.glob("*.c"))), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 the user's own compiler
            draft.replace(made)  # in one step: another process may have it open, or be making it, too
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", None) or error
            self.app.display_warning(f"lakeprobe is installed without its functions in C, and slower: {reason}")
            return None
        return made
