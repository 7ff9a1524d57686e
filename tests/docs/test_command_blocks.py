"""Every command in a block of README and docs is one that the program has; those of some pages run, in their order."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import lakeprobe as package
from lakeprobe.cli import app, completed
from lakeprobe.session import Lake

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
        with group.make_context(name, rest, parent=context) as asked:
            assert asked.args == [], words


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
    "one_gpu": "tests/layouts/test_merge_layout.py",
    "from layouts where run = 'whole' and problem is not null": "tests/layouts/test_merge_layout.py",
    "eight_gpus_whole_vs_one_gpu": "tests/layouts/test_merge_layout.py",
    "./checkpoint-500": "tests/compare/test_checkpoints.py",
    "model.safetensors": "tests/compare/test_checkpoints.py",
    "net.ckpt": "tests/compare/test_checkpoints.py",
    "iter_0001000": "tests/readers/test_checkpoint.py",
    "./init.pt": "tests/collect/test_preflight.py",
    "./init_gpu.pt": "tests/collect/test_preflight.py",
    "./ptdbg_dump": "tests/readers/test_ptdbg.py",
    "./graph_a": "tests/readers/test_kernel.py",
    "/shared/lake": "tests/lake/test_shards.py",
    "s3://bucket/lake": "tests/lake/test_storage.py",
}
"""These need a framework, checkpoints, kernels, a cut run or a store: the tests make those, and ask the same."""
RUN_HERE = ("view.md", "scale.md", "README.md", "formats.md", "rules.md", "start.md", "cuts.md", "ops.md", "collect.md")
"""The commands of the other pages run in test_ranks_page and test_tutorials, or have run when the page was made."""


def write_run(folder: Path, *, gelu: float) -> None:
    """A dump of two steps, whose gelu gives `gelu`."""
    ops = {
        "Functional.conv2d.1.forward": 1.0,
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
    for name in ("job", "npu_root", "gpu_root"):
        write_run(tmp_path / name, gelu=2.0)
    (tmp_path / "my_rule.sql").write_text("SET VARIABLE norm_error_output = 0.1;\n")
    sides = {"npu_path": str(tmp_path / "npu_root"), "bench_path": str(tmp_path / "gpu_root")}
    (tmp_path / "compare.json").write_text(json.dumps(sides | {"is_print_compare_log": True}))
    (tmp_path / "cell.yaml").write_text("gelu.GELU: gelu.GELU\n")
    before = [["ingest", "npu_dump", "--run", "npu"], ["ingest", "gpu_dump", "--run", "gpu"], ["compare", "npu", "gpu"]]
    assert lakeprobe("compare", "npu_root", "gpu_root", "--lake", "other", "-o", "table", "--format", "csv").code == 0
    next((tmp_path / "table").rglob("*.csv")).rename(tmp_path / "compare_result_20260101120000.csv")
    run = set()
    asked = [*before, *(words for page in RUN_HERE for words in COMMANDS[page])]
    for words in map(list, dict.fromkeys(map(tuple, asked))):  # pages repeat what they begin with
        if words[0] in RUN_ELSEWHERE or any(word in OTHER_DUMPS for word in words):
            continue
        if words == ["export", "npu", "./npu_dump"]:
            shutil.rmtree("npu_dump")  # the page's dump comes from a training
        done = lakeprobe(*words, *(["--yes"] if words[0] == "rm" else []))  # nobody answers its question here
        assert done.code == (1 if "--fail-on" in words else 0), f"{words}\n{done.out}{done.err}"
        assert done.out or done.err, words
        run.add(words[0])
    assert len(run) >= 17
    for test in (*RUN_ELSEWHERE.values(), *OTHER_DUMPS.values()):
        assert (CHECKOUT / test).is_file(), test


PYTHON = [
    (page, block)
    for page in PAGES
    for block in re.findall(r"^```python\n(.*?)^```$", PAGES[page].read_text(encoding="utf-8"), re.M | re.S)
]


@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[page for page, _ in PYTHON])
def test_python_blocks_call_what_there_is(page: str, block: str) -> None:
    """Every name after `lakeprobe.` exists, and so does every method of a lake, with the options that it is given."""
    for call in ast.walk(ast.parse(block)):
        if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name) and call.value.id == "lakeprobe":
            assert hasattr(package, call.attr), call.attr
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and ast.unparse(call.func.value) == "lake"
        ):
            known = inspect.signature(getattr(Lake, call.func.attr)).parameters
            assert {keyword.arg for keyword in call.keywords} <= set(known), call.func.attr
