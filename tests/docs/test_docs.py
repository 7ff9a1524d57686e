"""The documents say what is so: generated pages are up to date, everything has its place, and the examples run."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

import lakeprobe
from lakeprobe import resources, schema
from lakeprobe.cli import app
from lakeprobe.commands.layout import functions
from lakeprobe.compare import rule as rules
from lakeprobe.compare.run import compare
from lakeprobe.errors import RuleError

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
SQL_FILES = sorted((CHECKOUT / "sql").rglob("*.sql"))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMMANDS = [name for name, _ in functions()]


# ---- reference pages --------------------------------------------------------------------------------------


@pytest.fixture
def generate() -> ModuleType:
    """The generator without the page of answers, which test_answers_page has and which takes half a minute."""
    module = generator()
    del module.PAGES["answers.md"]
    return module


def test_generated_pages_are_up_to_date(generate: ModuleType) -> None:
    assert generate.stale() == []


def test_a_stale_page_is_reported(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the two pages that cost nothing: all others go the same way."""
    pages = {name: generate.PAGES[name] for name in ("lake.md", "results.schema.json")}
    monkeypatch.setattr(generate, "PAGES", pages)
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    assert generate.main(["--check"]) == 1
    assert "docs/lake.md is stale" in capsys.readouterr().err
    assert generate.main([]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(pages)
    assert generate.main(["--check"]) == 0
    assert generate.main(["--cheque"]) == 2


def help_of(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_an_example_and_its_options_are_documented(command: str) -> None:
    text = help_of(*command.split())
    assert f"Example: lakeprobe {command}" in text
    section = page("commands.md").split(f"\n## {command}\n")[1].split("\n## ")[0]
    of_all = {"-h", "--help", "-q", "--quiet", "-v", "--verbose"}
    assert of_all <= set(re.findall(r"`(--?[a-z]+)`", page("commands.md").split("\n## ")[0]))
    options = text.split("Options:")[1].split("Example: ")[0]
    for option in set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", options)) - of_all:
        assert f"`{option}" in section, option


def test_every_command_is_documented() -> None:
    listed = re.findall(r"^  ([\w-]+)  ", help_of().split("Collect and read:")[1], re.MULTILINE)
    assert "More:" not in help_of()  # every command is in a group
    assert sorted(listed) == sorted({command.split()[0] for command in COMMANDS})
    assert re.findall(r"^## ([\w -]+)$", page("commands.md"), re.MULTILINE) == COMMANDS


@pytest.mark.parametrize("path", sorted((CHECKOUT / "schemas").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_column_is_documented(path: Path) -> None:
    table = schema.table(path.stem)
    section = page("lake.md").split(f"\n## {table.name}\n")[1].split("\n## ")[0]
    for column in table.columns:
        assert f"| `{column.name}` | {column.type} |" in section, column.name


# ---- SQL files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_sql_file_says_its_name_and_grain(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    first = text.splitlines()[0]
    macro = re.search(r"CREATE OR REPLACE (?:TEMP )?MACRO (\w+)\(.*?\) AS( TABLE)?$", text, re.MULTILINE)
    name = macro[1] if macro else path.stem
    assert re.match(rf"-- {name}(\([\w, ]*\))?: \S", first), first
    is_rule = path.parent.name == "rules"
    if not is_rule and (macro is None or macro[2]):
        assert re.search(r"^-- grain: \S", text, re.MULTILINE)


# ---- rules ------------------------------------------------------------------------------------------------


def test_every_rule_threshold_and_view_is_explained() -> None:
    text = page("rules.md")
    thresholds = re.findall(r"^ +\('(\w+)', ([\d.]+),", resources.sql("judge/thresholds"), re.MULTILINE)
    assert thresholds
    for name, value in thresholds:
        assert f"| `{name}` | {float(value):g} |" in text, name
    for name in rules.bundled():
        assert f"`{name}`" in text, name
    for view, columns in rules.CONTRACT.items():
        assert f"| `{view}` | {', '.join(f'`{column}`' for column in columns)} |" in text, view


def rule_blocks() -> Iterator[tuple[str, str]]:
    for block in re.findall(r"^```sql rule\n(.*?)^```$", page("rules.md"), re.MULTILINE | re.DOTALL):
        yield block.splitlines()[0].removeprefix("-- ").partition(":")[0], block


RULES = dict(rule_blocks())


def tensor(norm: float) -> dict[str, Any]:
    statistics = {"Max": norm / 2, "Min": -norm / 2, "Mean": 0.0, "Norm": norm}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "requires_grad": False, **statistics}


def op(norm_in: float, norm_out: float) -> dict[str, Any]:
    return {"input_args": [tensor(norm_in)], "input_kwargs": {}, "output": [tensor(norm_out)]}


TARGET = {
    "Functional.gelu.0.forward": op(1.0, 1.3),  # off by 30 %
    "Functional.dropout.0.forward": op(1.3, 9.0),
    "Functional.tiny.0.forward": op(1.0, 3e-9),  # off by 200 % of next to nothing
    "NPU.npu_rms_norm.0.forward": op(1.0, 2.0),
    "Module.model.fc.Linear.forward.0": op(1.0, 2.0),
}
GOLDEN = {
    "Functional.gelu.0.forward": op(1.0, 1.0),
    "Functional.dropout.0.forward": op(1.0, 2.0),
    "Functional.tiny.0.forward": op(1.0, 1e-9),
    "Functional.rms_norm.0.forward": op(1.0, 2.0),
    "Module.fc.Linear.forward.0": op(1.0, 2.0),
}

EXPECTED: dict[str, list[tuple[str, str, str | None]]] = {
    "same_framework": [
        ("Functional.gelu.0.forward.output.0", "warning", "exact"),
        ("Functional.tiny.0.forward.output.0", "error", "exact"),
        ("NPU.npu_rms_norm.0.forward.output.0", "unmatched", None),
        ("Module.model.fc.Linear.forward.0.output.0", "unmatched", None),
    ],
    "cross_framework": [
        ("Functional.gelu.0.forward.output.0", "warning", "search"),
        ("NPU.npu_rms_norm.0.forward.output.0", "pass", "search"),
    ],
    "layer": [
        ("Functional.gelu.0.forward.output.0", "warning", "layer"),
        ("NPU.npu_rms_norm.0.forward.output.0", "unmatched", None),
        ("Module.model.fc.Linear.forward.0.output.0", "unmatched", None),
    ],
    "tighter": [("Functional.gelu.0.forward.output.0", "error", "exact")],
    "coarse": [
        ("Functional.gelu.0.forward.output.0", "pass", "exact"),
        ("Functional.tiny.0.forward.output.0", "error", "exact"),
    ],
    "without_prefix": [
        ("Module.model.fc.Linear.forward.0.input.0", "pass", "without_prefix"),
        ("Module.model.fc.Linear.forward.0.output.0", "pass", "without_prefix"),
        ("Functional.gelu.0.forward.output.0", "warning", "without_prefix"),
        ("NPU.npu_rms_norm.0.forward.output.0", "unmatched", None),
    ],
    "fused": [
        ("NPU.npu_rms_norm.0.forward.output.0", "pass", "fused"),
        ("Functional.gelu.0.forward.output.0", "warning", "exact"),
        ("Module.model.fc.Linear.forward.0.output.0", "unmatched", None),
    ],
    "norm_floor": [
        ("Functional.tiny.0.forward.output.0", "pass", "exact"),
        ("Functional.gelu.0.forward.output.0", "warning", "exact"),
    ],
    "spread": [("Functional.gelu.0.forward.output.0", "warning", "exact")],
    "by_ulp": [("Functional.gelu.0.forward.output.0", "warning", "exact")],
    "strict": [
        ("Functional.gelu.0.forward.input.0", "pass", "exact"),
        ("Functional.gelu.0.forward.output.0", "error", "exact"),
        ("Functional.dropout.0.forward.output.0", "pass", "exact"),
        ("NPU.npu_rms_norm.0.forward.output.0", "unmatched", None),
    ],
}
"""What a rule of docs/rules.md makes of some target rows: name, verdict, matched_by."""


def dump(folder: Path, data: dict[str, Any]) -> Path:
    folder.mkdir()
    head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(head, indent=1))
    return folder


def test_every_example_is_tested() -> None:
    assert sorted(RULES) == sorted(EXPECTED)


@pytest.mark.sampled
@pytest.mark.parametrize("name", RULES)
def test_rule_runs(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.sql"
    file.write_text(RULES[name], encoding="utf-8")
    target, golden = dump(tmp_path / "target", TARGET), dump(tmp_path / "golden", GOLDEN)
    compare(target, golden, lake=tmp_path / "lake", rule=str(file))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        rows = lake.sql("SELECT target_name, verdict, matched_by FROM results WHERE target_row IS NOT NULL").fetchall()
        for expected in EXPECTED[name]:
            assert expected in rows
        result = lake.comparison("target_vs_golden")
        assert result.stored.rule == name
        assert lake.sql(resources.sql("audits/outcomes")).fetchall() == []
        assert lake.sql(resources.sql("audits/rows_once")).fetchall() == []


def test_bundled_rule_is_shown_as_it_is() -> None:
    shown = set(rules.bundled()) & set(RULES)
    assert shown == {"same_framework", "cross_framework", "layer"}
    for name in shown:
        assert resources.sql(f"rules/{name}").strip() == RULES[name].strip()


@pytest.mark.parametrize(
    "statement", re.findall(r"^```sql refused\n(.*?)\n```$", page("rules.md"), re.MULTILINE | re.DOTALL)
)
def test_refused_statement(statement: str, tmp_path: Path) -> None:
    for number, line in enumerate(statement.splitlines()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "rule.sql").write_text(line, encoding="utf-8")
        target, golden = dump(folder / "target", TARGET), dump(folder / "golden", GOLDEN)
        with pytest.raises(RuleError, match=r"rule\.sql: "):
            compare(target, golden, lake=folder / "lake", rule=str(folder / "rule.sql"))


def test_every_wall_has_its_contract() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [contract["name"] for contract in project["tool"]["importlinter"]["contracts"]]
    table = page("architecture.md").partition("| Wall | Contract |\n|---|---|\n")[2].partition("\n\n")[0]
    walls = [line.strip("| ").rsplit(" | ", 1)[1].removesuffix(" …") for line in table.splitlines()]
    assert [[name for name in contracts if name.startswith(wall)] for wall in sorted(walls)] == [
        [name] for name in sorted(contracts)
    ]


def test_links_lead_somewhere() -> None:
    for path in DOCS.glob("*.md"):
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", path.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (path.parent / link).exists(), f"{path.name}: {link}"
