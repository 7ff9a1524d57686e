"""Runs a program many times, each in a process of its own that is forked off one which has imported torch already.

As a program: python forks.py, with a line of JSON on stdin for each run, [program, argument, …, file for its output,
file for what it says]. Answers with the exit code, as subprocess gives it.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    code: int
    lines: list[str]
    said: str


class Forks:
    """A process that waits for programs to run."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, folder: Path, program: str, *arguments: str) -> Ended:
        """Run a program to its end. Its output lies in `folder` meanwhile."""
        files = [folder / "output", folder / "said"]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([program, *arguments, *map(str, files)]), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        output, said = (file.read_text(encoding="utf-8") for file in files)
        return Ended(code, output.splitlines(), said)

    def close(self) -> None:
        """No more programs follow."""
        self._process.communicate()


def _become(program: str, arguments: list[str], files: list[str]) -> None:
    """Be the program from here on, until it ends."""
    for descriptor, name in enumerate(["/dev/null", *files]):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if descriptor else os.O_RDONLY
        os.dup2(os.open(name, flags), descriptor)
    sys.argv = [program, *arguments]
    sys.path[0] = str(Path(program).parent)
    runpy.run_path(program, run_name="__main__")


def main() -> None:
    import torch._dynamo  # what takes the time, as the first optimizer imports it  # noqa: F401

    import lakeprobe.collect.pytorch.watcher  # noqa: F401

    while line := sys.stdin.readline():
        program, *arguments, output, said = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(program, arguments, [output, said])
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
