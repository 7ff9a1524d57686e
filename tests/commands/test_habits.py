"""Words of msprobe and ptdbg_ascend that lakeprobe lacks: each is answered with what to type here, and that exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from program import lakeprobe

from lakeprobe.cli import app
from lakeprobe.habits import COMMANDS, OPTIONS

REPOSITORY = Path(__file__).parents[2]
PROGRAM: Any = typer.main.get_command(app)
ENTRIES = [("lakeprobe", word, hint) for word, hint in COMMANDS.items()]
ENTRIES += [(command, word, hint) for command, hints in OPTIONS.items() for word, hint in hints.items()]


def options_of(command: Any) -> set[str]:
    return {"--help", "-h", *(name for parameter in command.params for name in parameter.opts)}


def suggested(command: str, hint: str) -> Iterator[tuple[Any, str]]:
    """Yield each option that `hint` names, with the command that it goes with: the last one named, or `command`."""
    subject = PROGRAM if command == "lakeprobe" else PROGRAM.commands[command]
    words = iter(re.sub(r"[,;()]", " ", hint.replace(". ", " ")).split())
    for word in words:
        if word == "lakeprobe":
            subject = PROGRAM
            for name in words:
                if name not in getattr(subject, "commands", {}):
                    break
                subject = subject.commands[name]
            assert subject is not PROGRAM or re.search("lakeprobe (runs|compares) no", hint), hint
            word = name
        if word.startswith("-"):
            yield subject, word.rstrip(".")


@pytest.mark.parametrize(("command", "word", "hint"), ENTRIES)
def test_what_a_hint_names_exists(command: str, word: str, hint: str) -> None:
    for subject, option in suggested(command, hint):
        assert option in options_of(subject), (hint, subject.name)
    for page in re.findall(r"docs/\w+\.md", hint):
        assert (REPOSITORY / page).is_file(), page


@pytest.mark.parametrize(("command", "word", "hint"), ENTRIES)
def test_a_habit_is_answered(command: str, word: str, hint: str) -> None:
    kind, shown = ("option:", word) if word.startswith("-") else ("command", f"'{word}'")
    done = lakeprobe(*([] if command == "lakeprobe" else [command]), word, "value")
    assert done.code == 2
    assert done.err.splitlines()[-1] == f"Error: No such {kind} {shown}. {hint}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("compare a b -xyz", "No such option: -xyz"),
        ("compare a b -qz", "No such option: -z"),
        ("-xyz", "No such option: -xyz"),
        ("compare a b --mode=auto", f"No such option: --mode. {OPTIONS['compare']['--mode']}"),
        ("compare a -ofs False", f"No such option: -ofs. {OPTIONS['compare']['-ofs']}"),
        ("compar a b", "No such command 'compar'. Did you mean 'compare', 'compact', 'comm'?"),
    ],
)
def test_an_unknown_option_is_named_as_it_was_typed(line: str, said: str) -> None:
    done = lakeprobe(*shlex.split(line))
    assert (done.code, done.err.splitlines()[-1]) == (2, f"Error: {said}")


def test_a_misspelt_option_of_ours_is_left_to_the_parser_and_a_value_is_no_option() -> None:
    done = lakeprobe("compare", "--name", "-da", "a", "b", "--lake", "nowhere", "--fomrat", "csv")
    said = done.err.splitlines()[-1]  # in the words of the typer that is installed
    assert (done.code, said.startswith("Error: No such option: --fomrat "), "--format" in said) == (2, True, True)


def test_what_follows_the_command_of_a_training_is_its_own(tmp_path: Path) -> None:
    done = lakeprobe("preflight", "pack", "-o", tmp_path / "start", "--", "true", "-f", "--mode", "-xlsx")
    assert "No such option" not in done.err
