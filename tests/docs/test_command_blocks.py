"""Every command in a block of README and docs is one that the program has; those of some pages run, in their order."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from lakeprobe.cli import app, completed

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tests" / "commands"))

from program import lakeprobe, tensor  # noqa: E402 it lies beside the tests of commands

PAGES = {path.name: path for path in (CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md")))}
GENERATED = ("commands.md", "tour.md")
"""Their commands come from the program, or have run when the page was made."""


def commands_of(page: str) -> list[list[str]]:
    """The words after `lakeprobe` of every command in a block."""
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", PAGES[page].read_text(encoding="utf-8"), re.M | re.S)
    text = "".join(block for kind, block in blocks if kind in ("", "console"))
    lines = re.findall(r"^(?:\$ )?lakeprobe (.+)$", text.replace("\\\n", " "), re.M)
    return [shlex.split(line, comments=True) for line in lines]


COMMANDS = {page: found for page in PAGES if page not in GENERATED and (found := commands_of(page))}


@pytest.mark.parametrize("page", COMMANDS)
def test_the_program_knows_the_commands_and_their_options(page: str) -> None:
    for words in COMMANDS[page]:
        group: Any = typer.main.get_command(app)
        rest, context = completed(words), None
        while hasattr(group, "commands"):
            context = group.make_context("lakeprobe", rest, parent=context)
            name, group, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        assert group.make_context(name, rest, parent=context).args == [], words


RUN_ELSEWHERE = {
    "run": "tests/collect/test_running.py",
    "preflight": "tests/collect/test_preflight.py",
    "verify": "tests/checks/test_verify.py",
    "reproduce": "tests/checks/test_reproduce.py",
    "watch": "tests/monitoring/test_watch_job.py",
}
"""These start a training, or need a framework or a monitored run."""
OTHER_DUMPS = {
    "eight_ranks": "tests/layouts/test_merge_layout.py",
    "npu.safetensors": "tests/compare/test_checkpoints.py",
    "/shared/lake": "tests/lake/test_shards.py",
    "s3://bucket/lake": "tests/lake/test_storage.py",
}


def write_run(folder: Path, *, gelu: float) -> None:
    """A dump of two steps, whose gelu gives `gelu`."""
    ops = {
        "Functional.layer_norm.3.forward": 1.0,
        "Functional.gelu.3.forward": gelu,
        "Functional.cross_entropy.0.forward": gelu,
    }
    incoming = [1.0, *ops.values()]
    data = {
        op: {"input_args": [tensor(before)], "input_kwargs": {}, "output": [tensor(after, shape=[])]}
        for (op, after), before in zip(ops.items(), incoming, strict=False)
    }
    head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    for step in (0, 1):
        place = folder / f"step{step}" / "rank0"
        place.mkdir(parents=True)
        (place / "dump.json").write_text(json.dumps(head))


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    for name, gelu in {"npu_dump": 4.0, "gpu_dump": 2.0, "gpu_again": 2.000001, "ms_dump": 2.0, "pt_dump": 2.0}.items():
        write_run(tmp_path / name, gelu=gelu)
    (tmp_path / "cell.yaml").write_text("gelu.GELU: gelu.GELU\n")
    before = [["ingest", "npu_dump", "--run", "npu"], ["ingest", "gpu_dump", "--run", "gpu"], ["compare", "npu", "gpu"]]
    run = set()
    for words in [*before, *COMMANDS["view.md"], *COMMANDS["scale.md"], *COMMANDS["README.md"]]:
        if words[0] in RUN_ELSEWHERE or any(word in OTHER_DUMPS for word in words):
            continue
        done = lakeprobe(*words, *(["--yes"] if words[0] == "rm" else []))  # nobody answers its question here
        assert done.code == (1 if "--fail-on" in words else 0), f"{words}\n{done.out}{done.err}"
        assert done.out or done.err, words
        run.add(words[0])
    assert len(run) >= 17
    for test in (*RUN_ELSEWHERE.values(), *OTHER_DUMPS.values()):
        assert (CHECKOUT / test).is_file(), test
