"""lakeprobe rules: what is listed, shown and copied, and what cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from program import dump_text, lakeprobe, write_dump
from typer.testing import CliRunner, Result

from lakeprobe.cli import app as whole
from lakeprobe.cli import main
from lakeprobe.commands.rules import app

SQL = Path(__file__).resolve().parents[2] / "sql" / "rules"
NAMES = sorted(path.stem for path in SQL.glob("*.sql"))


def rules(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"}, catch_exceptions=False)


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that the program says of `words`, which must end it with 2."""
    if not any(group.name == "rules" for group in whole.registered_groups):
        whole.add_typer(app, name="rules")
    monkeypatch.setattr(sys, "argv", ["lakeprobe", "rules", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    return said.err.strip()


def test_help_has_examples() -> None:
    assert all(name in rules("--help").stdout for name in ("list", "show", "new"))
    for command in ("list", "show", "new"):
        assert f"Example: lakeprobe rules {command}" in rules(command, "--help").stdout


def test_list() -> None:
    listed = rules("list")
    assert listed.exit_code == 0
    assert listed.stderr == "copy one to edit it: lakeprobe rules new FILE --from RULE\n"
    head, line, *lines = listed.stdout.splitlines()
    assert head.split() == ["rule", "purpose"]
    assert set(line) == {"─", " "}
    assert [text.split()[0] for text in lines] == NAMES
    for name, text in zip(NAMES, lines, strict=True):
        purpose = text.removeprefix(name).strip()
        assert (SQL / f"{name}.sql").read_text().startswith(f"-- {name}: {purpose}\n")
        assert purpose


@pytest.mark.parametrize("name", NAMES)
def test_show(name: str) -> None:
    for spelt in (name, f"{name}.sql", f"rules/{name}.sql"):
        shown = rules("show", spelt)
        assert (shown.exit_code, shown.stdout, shown.stderr) == (0, (SQL / f"{name}.sql").read_text(), "")


@pytest.mark.parametrize("name", NAMES)
def test_new(tmp_path: Path, name: str) -> None:
    file = tmp_path / "my rule.sql"
    made = rules("new", file, "--from", name)
    assert (made.exit_code, made.stdout) == (0, "")
    assert made.stderr == f"written: {file}; edit it, then: lakeprobe compare TARGET GOLDEN --sql '{file}'\n"
    head, copied = file.read_text().split("\n", 1)
    assert head.startswith(f"-- my rule: a copy of {name}; change its views (")
    assert "pairs, metrics, verdicts) and thresholds: docs/rules.md." in head
    assert copied == (SQL / f"{name}.sql").read_text()


def test_a_new_rule_runs_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.sql"
    assert rules("new", file).exit_code == 0
    for name in ("a", "b"):
        write_dump(tmp_path / name, dump_text(add=1.0))
    done = lakeprobe("compare", tmp_path / "a", tmp_path / "b", "--sql", file, "--lake", tmp_path / "lake")
    assert done.code == 0
    assert done.out.startswith("a against b, by the rule mine\n")
    assert "Verdicts: 0 error, 0 warning, 2 pass" in done.out


def test_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.sql"
    file.write_text("-- my work")
    assert (
        refused(monkeypatch, capsys, "new", file)
        == f"lakeprobe: {file} exists already; name another file, or remove it first"
    )
    assert file.read_text() == "-- my work"
    away = tmp_path / "away" / "mine.sql"
    says = f"lakeprobe: {away} cannot be written: No such file or directory"
    assert refused(monkeypatch, capsys, "new", away) == says
    assert not away.parent.exists()


def test_no_such_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    says = f"lakeprobe: nothing is neither a file nor a bundled rule; the bundled rules are {', '.join(NAMES)}"
    assert refused(monkeypatch, capsys, "show", "nothing") == says
    assert refused(monkeypatch, capsys, "new", tmp_path / "x.sql", "--from", "nothing") == says
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("show",), ("new",), ("nothing",), ("list", "x"), ("new", "x.sql", "--nothing")])
def test_wrong_usage(words: tuple[str, ...]) -> None:
    done = rules(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
