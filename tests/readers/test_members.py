"""Streaming a JSON object's members: both paths against json.load, and every way in which a file can be damaged."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from effort import calls_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import examples

from lakeprobe.errors import DumpError
from lakeprobe.readers import members
from lakeprobe.readers.members import read_members

BODY = {"input_args": [{"type": "int", "value": 1}], "output": []}
NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, 0.1, 2**63 - 1, -(2**63), 2**64 - 1, 2**70, -(2**200)]
DUMPS: dict[str, dict[str, Any]] = {
    "plain": {"task": "statistics", "level": "mix", "data": {"a.0.forward": BODY, "b.1.backward": BODY}},
    "data_first": {"data": {"a": BODY, "b": [1]}, "task": None, "level": "L1"},
    "keys_around": {"task": "t", "data": {"a": 1, "b": {"c": {}}}, "after": {"x": 1, "y": [1, {"z": 2}]}, "last": []},
    "one_entry": {"data": {"a": None}},
    "empty_data": {"task": "t", "data": {}, "level": "L0"},
    "no_data": {"task": "t", "level": 1},
    "data_is_a_list": {"data": [1, 2]},
    "data_inside": {"head": {"data": {"x": 1}}, "data": {"data": {"data": 1}}, "tail": {"data": {"y": 1}}},
    "empty": {},
    "numbers": {"data": {"a": NUMBERS, "b": {"Max": math.nan, "Min": -math.inf}}, "task": math.inf},
    "names": {"data": {"": 1, 'q"uote\\': 2, "größe 张量\n\t": "a\u2028\U0001f600b", "}": "\n  }", "  ": "{,\"a\": "}},
    "strings_like_structure": {"data": {"a": '\n }\n}', "b": ['\n  "x": {', "\n}"], "c": "]}"}},
}  # fmt: skip
LAYOUTS: dict[str, dict[str, Any]] = {
    "indent 1": {"indent": 1},
    "indent 2": {"indent": 2},
    "indent 4": {"indent": 4},
    "tabs": {"indent": "\t"},
    "compact": {"separators": (",", ":")},
    "one line": {},
    "unescaped": {"indent": 1, "ensure_ascii": False},
}


def expected(dump: dict[str, Any], container: str | None) -> list[members.Member]:
    """The oracle: what json.load gives, listed. An empty container counts as a member of the top object."""
    listed: list[members.Member] = []
    for name, value in dump.items():
        if name == container and isinstance(value, dict) and value:
            listed += [(name, inner, body) for inner, body in value.items()]
        else:
            listed.append((None, name, value))
    return listed


def same(read: list[members.Member], dump: dict[str, Any], container: str | None) -> bool:
    """Equal in value, type and order; repr tells NaN, -0.0, True and 1 apart as == does not."""
    return repr(read) == repr(expected(dump, container))


def written(path: Path, dump: Any, **layout: Any) -> Path:
    path.write_text(json.dumps(dump, **layout), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", DUMPS)
@pytest.mark.parametrize("container", ["data", None])
def test_members_are_those_of_json_load(tmp_path: Path, case: str, layout: str, container: str | None) -> None:
    path = written(tmp_path / "x.json", DUMPS[case], **LAYOUTS[layout])
    assert same(list(read_members(path, container)), json.loads(path.read_text(encoding="utf-8")), container)


def is_split_by_lines(path: Path, container: str | None, monkeypatch: pytest.MonkeyPatch) -> bool:
    def refuse(*_: Any) -> Any:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(members, "_scan_text", refuse)
        try:
            list(read_members(path, container))
        except AssertionError:
            return False
    return True


def test_indent_1_goes_the_fast_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in ("plain", "data_first", "keys_around", "one_entry", "numbers", "names", "strings_like_structure"):
        path = written(tmp_path / "x.json", DUMPS[case], indent=1)
        assert is_split_by_lines(path, "data", monkeypatch), case
        assert is_split_by_lines(path, None, monkeypatch), case
    path = written(tmp_path / "x.json", DUMPS["plain"], indent=4)
    assert not is_split_by_lines(path, "data", monkeypatch)


@pytest.mark.parametrize("case", ["plain", "keys_around", "numbers", "names", "strings_like_structure", "empty_data"])
@pytest.mark.parametrize("layout", ["indent 1", "unescaped", "compact", "indent 4"])
def test_any_block_size_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, layout: str) -> None:
    path = written(tmp_path / "x.json", DUMPS[case], **LAYOUTS[layout])
    for size in range(1, 65):
        monkeypatch.setattr(members, "_BLOCK", size)
        assert same(list(read_members(path, "data")), DUMPS[case], "data"), size


@pytest.mark.parametrize("size", range(1, 65))
def test_any_block_size_on_the_fast_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    dump = {
        "data": {"a": {"b": [1.5, math.nan]}, "größe": {}, "c" * 99: "x" * 300},
        "task": "statistics",
        "more": {"d": 1},
    }
    path = written(tmp_path / "x.json", dump, indent=1, ensure_ascii=False)
    opening = b'{\n "data": {'
    with path.open("rb", buffering=0) as file:  # the first block holds the opening, as it does in any real file
        start = file.read(20)
        monkeypatch.setattr(members, "_BLOCK", size)
        read = list(members._split_lines(path, file, start, 1, len(opening), "data", None))
    assert same(read, dump, "data")


@pytest.mark.parametrize("number", ["1.5", "1e5", "1E+5", "-1.5e-7", "123456789012345678901234567890", "0", "-0"])
def test_a_number_may_cross_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(f'{{"a":{number},"data":{{"b":{number}}},"c":{number}}}')
    for size in range(1, 40):
        monkeypatch.setattr(members, "_BLOCK", size)
        assert same(list(read_members(path, "data")), json.loads(path.read_text()), "data"), size


def test_an_entry_larger_than_a_block(tmp_path: Path) -> None:
    dump = {"data": {"small": 1, "large": list(range(500_000)), "next": "x" * 3_000_000, "end": [1]}, "task": "t"}
    for layout in ({"indent": 1}, {}):
        assert same(list(read_members(written(tmp_path / "x.json", dump, **layout), "data")), dump, "data")


def test_keys_before_data_longer_than_a_block(tmp_path: Path) -> None:
    dump = {"head": "x" * 2_000_000, "data": {"a": BODY}}
    assert same(list(read_members(written(tmp_path / "x.json", dump, indent=1), "data")), dump, "data")


@pytest.mark.parametrize("layout", ["indent 1", "compact"])
def test_byte_order_mark_and_line_ends(tmp_path: Path, layout: str) -> None:
    dump = DUMPS["keys_around"]
    text = json.dumps(dump, **LAYOUTS[layout])
    path = tmp_path / "x.json"
    for content in (
        b"\xef\xbb\xbf" + text.encode(),
        text.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n",
        (text + "\n \t\r\n").encode(),
        (" \n" + text).encode(),
    ):
        path.write_bytes(content)
        assert same(list(read_members(path, "data")), dump, "data")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {\n "b": 1,\n "c": 2\n}}',
        '{"d": 1, "a": {\n "b": 1\n}, "e": {\n "f": 1\n}}',
        '{\n "a": 1, "b": 2,\n "c": 3, "d": {"e": 4}\n}',
        '{\n "a": 1\n ,\n "b": 2\n}',
    ],
)
def test_unusual_lines(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert same(list(read_members(path)), json.loads(text), None)


@pytest.mark.parametrize(
    "text",
    [
        '{\n "data": {\n  "a": 1, "b": 2,\n  "c": 3\n }\n}',
        '{"task": "x",\n "data": {\n  "a": 1\n }, "level": {\n  "b": 1\n }\n}',
        '{\n "data": {\n  "a": 1\n }}',
        '{"d\\u0061ta": {"\\u0061": 1}}',
    ],
)
def test_unusual_lines_around_data(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert same(list(read_members(path, "data")), json.loads(text), "data")


# ---- damaged files ----------------------------------------------------------------------------------------


def message(path: Path, container: str | None = "data") -> str:
    with pytest.raises(DumpError) as caught:
        list(read_members(path, container))
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


@pytest.mark.sampled
@pytest.mark.parametrize("layout", ["indent 1", "unescaped", "compact", "indent 4"])
@pytest.mark.parametrize("case", ["plain", "keys_around", "numbers", "names"])
def test_truncated_anywhere(tmp_path: Path, case: str, layout: str) -> None:
    whole = json.dumps(DUMPS[case], **LAYOUTS[layout]).encode() + b"\n"
    path = tmp_path / "x.json"
    for container in ("data", None):
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            if length == len(whole) - 1:  # but for the last line end
                assert same(list(read_members(path, container)), DUMPS[case], container)
            else:
                message(path, container)


@pytest.mark.parametrize("layout", ["indent 1", "compact"])
def test_a_byte_taken_out_is_found_wherever_json_finds_it(tmp_path: Path, layout: str) -> None:
    whole = json.dumps(DUMPS["keys_around"], **LAYOUTS[layout]).encode()
    path = tmp_path / "x.json"
    for place in range(len(whole)):
        damaged = whole[:place] + whole[place + 1 :]
        path.write_bytes(damaged)
        try:
            dump = json.loads(damaged)
        except ValueError:
            message(path)
            continue
        if whole[place : place + 1].isspace():  # still JSON, but the lines are no longer indented alike
            with suppress(DumpError):
                assert same(list(read_members(path, "data")), dump, "data"), damaged
        else:
            assert same(list(read_members(path, "data")), dump, "data"), damaged


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b" \n\t\r\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"[1, 2]", "is not a JSON object"),
        (b'[{\n "a": 1\n}]', "is not a JSON object"),
        (b'[{\n "a": 1\n}', "is not a JSON object"),
        (b'"text"', "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b'{\n "data": {\n  "a": "\xff"\n }\n}', "is not UTF-8"),
        (b'{\n "task": "\xff",\n "data": {\n  "a": 1\n }\n}', "is not UTF-8"),
        (b'{"data": {"a": "\xe5\xbc"}}', "is not UTF-8"),
        ('{"data": {"a": 1}}'.encode("utf-16"), "is not UTF-8"),
        (b'{\n "data": {\n  "a": 1\n }\n}x', "truncated"),
        (b'{\n "data": {\n  "a": 1\n }\n}}', "not valid JSON"),
        (b'{"data": {"a": 1}} x', "goes on after the end"),
        (b'{"a": 1}{"b": 1}', "goes on after the end"),
        (b'{\n "data": {\n  "a": 1\n  "b": 2\n }\n}', "no comma follows the entry a"),
        (b'{\n "data": {\n  "a": 1,\n }\n}', "the entry a is not valid JSON"),
        (b'{\n "data": {\n  "a": 1,,\n  "b": 2\n }\n}', "the entry a is not valid JSON"),
        (b'{\n "task": 1\n "data": {\n  "a": 1\n }\n}', "the keys before data"),
        (b'{\n "data": {\n  "a": 1\n },\n "data": {\n  "b": 1\n }\n}', "the key 'data' occurs twice"),
        (b'{"data": {"a": 1,}}', "is expected"),
        (b'{"data": {"a" 1}}', "is expected"),
        (b'{"data": {1: 1}}', "is expected"),
        (b"{'data': {}}", "is expected"),
        (b"\x80\x04\x95", "is not UTF-8"),
        (b'{\n "where": "\\ud800",\n "data": {\n  "a": 1\n }\n}', "is not valid Unicode"),
        (b'{\n "data": {\n  "a": {"b": ["\\uDC00"]}\n }\n}', "is not valid Unicode"),
        (b'{\n "data": {\n  "a": {"b": ["\xed\xa0\x80"]}\n }\n}', "is not UTF-8"),
        (b'{\n "data": {\n  "a": 1\n },\n "where": {"\\ud83d": 1}\n}', "is not valid Unicode"),
        (b'{"where": ["\\ude00\\ud83d"], "data": {"a": 1}}', "is not valid Unicode"),
    ],
)  # fmt: skip
def test_what_is_no_dump(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert says in message(path)


def test_missing_or_not_a_file(tmp_path: Path) -> None:
    assert "does not exist" in message(tmp_path / "none.json")
    message(tmp_path)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("head", ['{"data": {"x": ', '{\n "data": {\n  "x": ', ""])
def test_deep_nesting_ends_soon(tmp_path: Path, head: str, opening: str) -> None:
    path = tmp_path / "x.json"
    for text in (head + opening * 100_000, head + opening * 1000 + "\n" * 3_000_000 + opening * 100_000):
        path.write_text(text)
        assert calls_of(lambda: message(path)) < 1000


def test_an_entry_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_BLOCK", 1 << 10)
    monkeypatch.setattr(members, "LARGEST_ENTRY", 1 << 16)
    path = tmp_path / "x.json"
    for head in ('{\n "data": {\n  "x": "', '{"data": {"x": "'):
        path.write_text(head + "y" * (1 << 18))
        assert "larger than" in message(path)


def test_bounds_of_members_are_kept_to_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a block that is read as long as the member so far."""
    monkeypatch.setattr(members, "_BLOCK", 1 << 8)
    monkeypatch.setattr(members, "LARGEST_ENTRY", 1 << 12)
    path = tmp_path / "x.json"
    for head, end in (('{\n "data": {\n  "x": "', '"\n }\n}'), ('{"data": {"x": "', '"}}')):
        path.write_text(head + "y" * ((1 << 12) - 600) + end)
        assert len(list(members.read_members(path, "data"))) == 1
        for length in ((1 << 12) + 600, 1 << 13, (1 << 13) + 600):
            path.write_text(head + "y" * length + end)
            assert "larger than" in message(path)


REPEATED = {
    "top, flat": ('{"task": "a", "task": "b", "data": {}}', "the key 'task' occurs twice"),
    "data, flat": ('{"data": {"a": {}}, "data": {"b": {}}}', "the key 'data' occurs twice"),
    "section, flat": ('{"data": {"op": {"output": [1], "output": [2]}}}', "the key 'output' occurs twice"),
    "section, indented": ({"op": {"output": [1], "OUTPUT": [2]}}, "the key 'output' occurs twice"),
    "section of one of many": (
        {"op": {}, "other": {"output": [1], "OUTPUT": []}, "last": {}},
        "the key 'output' occurs",
    ),
    "leaf with NaN": ({"op": {"output": [{"Max": float("nan"), "MAX": 1.0}]}}, "the key 'Max' occurs twice"),
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_key_that_is_there_twice(tmp_path: Path, name: str) -> None:
    content, says = REPEATED[name]
    path = tmp_path / "x.json"
    if not isinstance(content, str):
        content = json.dumps({"data": content}, indent=1).replace("OUTPUT", "output").replace("MAX", "Max")
    path.write_text(content)
    assert says in message(path)


def test_what_follows_is_read_in_blocks() -> None:
    """A read of 256 MiB takes 256 MiB, even at the end of the file."""
    asked = []

    class Counted(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(size)
            return super().read(size)

    assert members._rest_of(Path("x.json"), Counted(b"tail"), 256 << 20) == b"tail"
    assert max(asked) == members._BLOCK
    with pytest.raises(DumpError, match="goes on for more than 0 MiB behind its entries"):
        members._rest_of(Path("x.json"), Counted(b"tail"), 3)


# ---- laws -------------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8"), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OBJECTS, OBJECTS, OBJECTS, st.sampled_from(sorted(LAYOUTS)))
def test_round_trip(
    tmp_path: Path, before: dict[str, Any], data: dict[str, Any], after: dict[str, Any], layout: str
) -> None:
    dump = {**before, "data": data, **{key: value for key, value in after.items() if key not in before}}
    path = written(tmp_path / "x.json", dump, **LAYOUTS[layout])
    assert same(list(read_members(path, "data")), dump, "data")
    assert same(list(read_members(path)), dump, None)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OBJECTS, st.integers(1, 64), st.sampled_from(sorted(LAYOUTS)))
def test_round_trip_in_small_blocks(tmp_path: Path, data: dict[str, Any], size: int, layout: str) -> None:
    dump = {"data": data, "after": data}
    path = written(tmp_path / "x.json", dump, **LAYOUTS[layout])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "_BLOCK", size)
        assert same(list(read_members(path, "data")), dump, "data")
