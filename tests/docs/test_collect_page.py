"""The examples of docs/collect.md run, one after the other, and fill the runs that the page says."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lakeprobe
from lakeprobe.cli import app
from lakeprobe.collect import config
from lakeprobe.collect.session import collect
from lakeprobe.errors import UsageError

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = (CHECKOUT / "docs" / "collect.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    (content,) = blocks("json config.json")
    (tmp_path / "config.json").write_text(content)
    script = tmp_path / "script.py"
    script.write_text("\n".join(blocks("python")))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), *filter(None, sys.path)])}
    environment.pop("LAKEPROBE_LAKE", None)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    (said,) = re.findall(r"print\(found\)  # (.*)$", PAGE, re.MULTILINE)
    assert done.stdout.startswith(said)
    collected = {
        "lake": [("golden_repeat1", 1), ("npu", 2), ("overflow", 1)],
        "dumps/lake": [("gpu", 2), ("old_script", 2)],
    }
    for place, expected in collected.items():
        with lakeprobe.open(tmp_path / place, create=True) as lake:
            found = lake.sql("SELECT run, count(*) FROM dumps WHERE complete GROUP BY run ORDER BY run").fetchall()
            assert found == expected
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:  # the page's commands want both runs in one lake
        lake.ingest(CHECKOUT / "tests/data/dumps/demo/golden", run="gpu")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    commands = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "lakeprobe"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (command, result.output)


def test_every_option_of_collect_is_explained_with_its_default() -> None:
    section = PAGE.split("## What can be asked for")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE)
    parameters = inspect.signature(collect).parameters
    assert [name for name, _ in rows] == list(parameters)
    for name, default in rows:
        value = parameters[name].default
        if isinstance(value, bool):
            assert default == ("on" if value else "off"), name
        elif isinstance(value, str):
            assert default == f"`{value}`", name


@pytest.mark.parametrize("line", re.findall(r"^lakeprobe\.errors\.UsageError: config\.json: (.*)$", PAGE, re.MULTILINE))
def test_the_mistakes_are_told_in_these_words(line: str) -> None:
    name = "Torch.add.0.forward"
    said = []
    for content in ({"levle": "L1"}, {"statistics": {"scope": [name, name], "list": ["add"]}}):
        with pytest.raises(UsageError) as caught:
            config.parse(content, "config.json")
        said.append(str(caught.value))
    assert f"config.json: {line}" in said
