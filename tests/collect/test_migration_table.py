"""The migration tables of docs/collect.md and the code agree: what is honoured, and what is refused."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from lakeprobe.collect import config, switches
from lakeprobe.collect.debugger import PrecisionDebugger

PAGE = (Path(__file__).parents[2] / "docs" / "collect.md").read_text(encoding="utf-8")


def verbs(heading: str) -> dict[str, str]:
    """What stands in backticks in the first column of the table with this heading, and the verb beside it."""
    (table,) = re.findall(rf"^\| {re.escape(heading)} \| Here \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    found: dict[str, str] = {}
    for line in table.splitlines():
        names, text = re.fullmatch(r"\| (.*?) \| (.*) \|", line).groups()  # type: ignore[union-attr]
        verb = re.match(r"honoured|refused", text)
        assert verb, line
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", names), verb[0])
    return found


def chosen(found: dict[str, str], verb: str) -> set[str]:
    return {name for name, is_verb in found.items() if is_verb == verb}


def test_keys_of_config_json() -> None:
    found = verbs("Key")
    assert chosen(found, "refused") == set(config._REFUSED)
    assert chosen(found, "honoured") == {*config._TOP, *(key for keys in config._SECTIONS.values() for key in keys)}


def test_tasks() -> None:
    found = verbs("Task")
    assert chosen(found, "honoured") == set(config._SECTIONS)
    assert chosen(found, "refused") == set(config._REFUSED_TASKS)


def refuses(function: object) -> bool:
    return (inspect.getdoc(function) or "").startswith("Raises UsageError")


def signatures(found: dict[str, str]) -> dict[str, tuple[str, list[str]]]:
    """The verb and the arguments of each function in a table."""
    calls = {name: re.fullmatch(r"(\w+)\((.*)\)", name) for name in found}
    return {call[1]: (found[name], re.findall(r"\w+", call[2])) for name, call in calls.items() if call}


def arguments(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "_", "__")]  # type: ignore[arg-type]


def test_methods_of_the_debugger() -> None:
    found = signatures(verbs("Method"))
    methods = {name for name in vars(PrecisionDebugger) if not name.startswith("_")}
    assert set(found) == methods | {"PrecisionDebugger"}
    for name in methods:
        verb, named = found[name]
        method = getattr(PrecisionDebugger, name)
        assert verb == ("refused" if refuses(method) else "honoured"), name
        if verb == "honoured":
            assert named == arguments(method), name
    new = ["run", "lake", "replace"]
    assert sorted([*found["PrecisionDebugger"][1], *new]) == sorted(arguments(PrecisionDebugger.__init__))


def test_functions_of_ptdbg() -> None:
    found = signatures(verbs("Function or argument"))
    public = {
        name: function
        for name, function in inspect.getmembers(switches, inspect.isfunction)
        if not name.startswith("_") and function.__module__ == switches.__name__ and name != "close"
    }
    assert set(found) == set(public)
    for name, function in public.items():
        verb, named = found[name]
        assert verb == ("refused" if refuses(function) else "honoured"), name
        if verb == "honoured":
            assert named == arguments(function), name


@pytest.mark.parametrize("verb", ["honoured", "refused"])
def test_modes_of_ptdbg(verb: str) -> None:
    expected = {"honoured": set(switches._MODES), "refused": {"acl"}}
    assert chosen(verbs("Mode of `set_dump_switch`"), verb) == expected[verb]
