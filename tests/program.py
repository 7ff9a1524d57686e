"""Runs the command line, in this process or as the real program, and writes the dumps that it is run on."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lakeprobe import cli

FRAME = "File /job/train.py, line 12, in forward, \n x = self.head(x)"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line that a failure says."""
        assert self.out == ""
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("lakeprobe: "), self.err
        return self.err.strip()


def lakeprobe(*words: Any, stdin: str = "", encoding: str = "utf-8", **environment: Any) -> Ended:
    """Run the command line in this process, with streams of its own. A program of its own takes 0.4 s to start."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding) for name in ("stdout", "stderr")}
    reader = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    arguments = ["lakeprobe", *map(str, words)]
    with (
        patch.multiple(sys, argv=arguments, stdin=reader, **streams),
        patch.dict(os.environ, _variables(environment), clear=True),
    ):
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    out, err = (_text(stream) for stream in streams.values())
    assert "Traceback" not in err, err
    return Ended(code, out, err)


def real_program(*words: Any, stdin: str = "", **environment: Any) -> Ended:
    """Run the program in a process of its own, as a user does, with its warnings as errors."""
    command = [sys.executable, "-W", "error", "-m", "lakeprobe", *map(str, words)]
    variables = _variables(environment)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=variables, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def _variables(environment: dict[str, Any]) -> dict[str, str]:
    variables = {key: value for key, value in os.environ.items() if key != "LAKEPROBE_LAKE"}
    return variables | {key: str(value) for key, value in environment.items()}


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(stream.encoding)


def tensor(statistic: float = 1.0, **fields: Any) -> dict[str, Any]:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "requires_grad": False}
    return leaf | dict.fromkeys(("Max", "Min", "Mean", "Norm"), statistic) | fields


def dump_text(**norms: float) -> str:
    """dump.json with one op per name, whose argument is 1 and whose output has the given norm."""
    data = {
        f"Torch.{name}.0.forward": {"input_args": [tensor()], "input_kwargs": {}, "output": [tensor(Norm=norm)]}
        for name, norm in norms.items()
    }
    return json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "data": data})


def write_dump(folder: Path, text: str | bytes, *, side_files: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dump.json").write_bytes(text.encode() if isinstance(text, str) else text)
    if side_files:
        (folder / "stack.json").write_text(json.dumps({"0": [["Torch.add.0.forward"], [FRAME]]}))
        (folder / "construct.json").write_text(json.dumps({"Torch.add.0.forward": "Module.model.Net.forward.0"}))
    return folder


def listing(lake: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(lake)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in lake.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }
