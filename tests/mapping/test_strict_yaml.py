"""YAML with lines: what PyYAML reads is read alike, and what can do harm is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from effort import calls_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeprobe import strict_yaml
from lakeprobe.errors import UsageError
from lakeprobe.strict_yaml import List, Mapping, Node, Text


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both of PyYAML's parsers: an installation may be without libyaml."""
    monkeypatch.setattr(strict_yaml, "_LOADER", getattr(yaml, request.param))
    return str(request.param)


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def message(path: Path) -> str:
    """Why the file is not read."""
    with pytest.raises(UsageError) as raised:
        strict_yaml.read(path)
    return str(raised.value)


def plain(node: Node | None) -> Any:
    """A tree of nodes as dicts, lists and texts."""
    if isinstance(node, Text):
        return node.value
    if isinstance(node, List):
        return [plain(item) for item in node.items]
    if isinstance(node, Mapping):
        return {key.value: plain(value) for key, value in node.pairs}
    return node


@pytest.mark.usefixtures("loader")
def test_every_node_knows_its_line(tmp_path: Path) -> None:
    text = "# a comment\na: 1\nb:\n  - x\n  - 'y'\n  - {c: d,\n     e: }\n\"f\": |\n  long\n"
    root = strict_yaml.read(written(tmp_path / "a.yaml", text))
    assert isinstance(root, Mapping)
    assert plain(root) == {"a": "1", "b": ["x", "y", {"c": "d", "e": ""}], "f": "long\n"}
    assert [key.line for key, _ in root.pairs] == [2, 3, 8]
    b = root.pairs[1][1]
    assert isinstance(b, List)
    assert [item.line for item in b.items] == [4, 5, 6]
    x, y, inner = b.items
    assert isinstance(x, Text)
    assert isinstance(y, Text)
    assert isinstance(inner, Mapping)
    assert (x.is_quoted, y.is_quoted) == (False, True)
    (_, d), (e, nothing) = inner.pairs
    assert (d.line, e.line) == (6, 7)
    assert isinstance(nothing, Text)
    assert nothing.is_missing


@pytest.mark.usefixtures("loader")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.text(st.characters(min_codepoint=32, max_codepoint=126)),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("abc0.", min_size=1), inner),
        max_leaves=20,
    )
)
def test_trees_are_read_as_pyyaml_reads_them(tmp_path: Path, tree: Any) -> None:
    # the default style dumps `0` and `yes` in quotes, so that PyYAML's own reading is text throughout
    text = yaml.safe_dump(tree)
    assert plain(strict_yaml.read(written(tmp_path / "a.yaml", text))) == yaml.safe_load(text)


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "---\n...\n", "\ufeff", "%YAML 1.1\n---\n"])
def test_a_file_without_a_value_is_none(tmp_path: Path, text: str) -> None:
    assert strict_yaml.read(written(tmp_path / "a.yaml", text)) is None


@pytest.mark.usefixtures("loader")
def test_marks_of_byte_order_and_other_line_ends_do_no_harm(tmp_path: Path) -> None:
    root = strict_yaml.read(written(tmp_path / "a.yaml", "\ufeffa: b\r\n\r\nc: d\r\n"))
    assert isinstance(root, Mapping)
    assert plain(root) == {"a": "b", "c": "d"}
    assert [key.line for key, _ in root.pairs] == [1, 3]


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b\na: c\n", "line 2: the key 'a' is on line 1 already; write each key once, with one value"),
        (
            "x:\n  0: b\n  c: d\n  '0': c\n",
            "line 4: the key '0' is on line 2 already; write each key once, with one value",
        ),
        (
            "a: b\nc: !!python/object/apply:os.system [touch /tmp/x]\n",
            "line 2: the tag 'tag:yaml.org,2002:python/object/apply:os.system'; write the value without it",
        ),
        (
            "!!python/name:os.system {}\n",
            "line 1: the tag 'tag:yaml.org,2002:python/name:os.system'; write the value without it",
        ),
        ("a: !mine b\n", "line 1: the tag '!mine'; write the value without it"),
        ("a: b\n!!str c: d\n", "line 2: the tag 'tag:yaml.org,2002:str'; write the value without it"),
        ("a: &x b\nc: *x\n", "line 1: the anchor &x; write the value without it"),
        ("a: *x\n", "line 1: the alias *x; write the value itself"),
        ("a:\n  <<: {b: c}\n", "line 2: the merge key <<; write the keys themselves"),
        ("a: b\n---\nc: d\n", "line 2: a second document begins here; write one document to a file"),
        ("? [a]\n: b\n", "line 1: a list or mapping is not a key; write a name before the colon"),
        ("a: b\nc: {{d}: e}\n", "line 2: a list or mapping is not a key; write a name before the colon"),
        ("a: b\nc: \x07d\n", "line 2: the character '\\x07'; write the name without it"),
        ('a: b\n\nc: "\\0"\n', "line 3: the character '\\x00'; write the name without it"),
        (b"a: b\nc: \xff\n", "line 2: the byte 0xff is not UTF-8; save the file as UTF-8"),
        ("a: b\n".encode("utf-16"), "line 1: the byte 0xff is not UTF-8; save the file as UTF-8"),
        ("a: ü\n".encode("latin-1"), "line 1: the byte 0xfc is not UTF-8; save the file as UTF-8"),
    ],
)
def test_what_a_mapping_has_no_need_of_is_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = written(tmp_path / "a.yaml", text)
    with pytest.raises(UsageError) as raised:
        strict_yaml.read(path)
    assert str(raised.value) == f"{path} {message}"


@pytest.mark.parametrize(
    ("text", "line", "c_reason", "python_reason"),
    [
        (
            "a: b\nms_args: [0,1]  pt_args: [0,1]\n",
            2,
            "did not find expected key",
            "expected <block end>, but found '<scalar>'",
        ),
        (
            "a: b\nc: d: e\n",
            2,
            "mapping values are not allowed in this context",
            "mapping values are not allowed here",
        ),
        (
            "a: b\n\tc: d\n",
            2,
            "found a tab character that violates indentation",
            "found character '\\t' that cannot start any token",
        ),
        (
            "a: [b\n",
            1,
            "did not find expected ',' or ']'",
            "expected ',' or ']', but got '<stream end>'",
        ),
        ("a: 'b\n", 1, "found unexpected end of stream", "found unexpected end of stream"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(
    tmp_path: Path, loader: str, text: str, line: int, c_reason: str, python_reason: str
) -> None:
    path = written(tmp_path / "a.yaml", text)
    with pytest.raises(UsageError) as raised:
        strict_yaml.read(path)
    reason = c_reason if loader == "CSafeLoader" else python_reason
    assert str(raised.value) == f"{path} line {line}: it is not YAML ({reason}); write one 'key: value' to a line"


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        strict_yaml.read(tmp_path / "none.yaml")
    assert str(raised.value) == f"{tmp_path}/none.yaml cannot be read: No such file or directory"
    with pytest.raises(UsageError) as raised:
        strict_yaml.read(tmp_path)
    assert str(raised.value) == f"{tmp_path} cannot be read: Is a directory"
    with pytest.raises(UsageError, match="cannot be read: embedded null byte"):
        strict_yaml.read(Path("a\0b"))


# --- bombs -----------------------------------------------------------------------------------------------------------


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(UsageError) as raised:
        strict_yaml.read(path)
    assert str(raised.value) == (f"{path} has more than 16 MB, too much for a mapping; name modules instead of rows")


def test_more_names_than_a_mapping_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_yaml, "MOST_NAMES", 9)
    few = written(tmp_path / "few.yaml", "a: b\nc: d\n")  # 4 names and 6 events around them
    assert plain(strict_yaml.read(few)) == {"a": "b", "c": "d"}
    many = written(tmp_path / "many.yaml", "a: b\nc: d\ne: f\n")
    with pytest.raises(UsageError) as raised:
        strict_yaml.read(many)
    assert str(raised.value) == f"{many} line 4: 9 names stand before it; name modules instead of rows"


@pytest.mark.usefixtures("loader")
def test_the_largest_nesting_is_read_and_the_next_is_not(tmp_path: Path) -> None:
    inner: Any = "x"
    for _ in range(strict_yaml.DEEPEST_MAPPING - 1):
        inner = [inner]
    assert (
        plain(strict_yaml.read(written(tmp_path / "a.yaml", yaml.safe_dump(inner, default_flow_style=True)))) == inner
    )
    path = written(tmp_path / "b.yaml", yaml.safe_dump([inner], default_flow_style=True))
    with pytest.raises(UsageError) as raised:
        strict_yaml.read(path)
    assert str(raised.value) == f"{path} line 1: it is nested deeper than 20 levels; write a mapping of names"


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[\n", "a: [{", "{? "])
def test_deep_nesting_is_refused_at_once(tmp_path: Path, opening: str) -> None:
    path = written(tmp_path / "deep.yaml", opening * 100_000)
    assert calls_of(lambda: message(path)) < 50_000


@pytest.mark.usefixtures("loader")
def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
    path = written(tmp_path / "bomb.yaml", "\n".join(lines))
    assert calls_of(lambda: message(path)) < 1000
    assert message(path) == f"{path} line 1: the anchor &a0; write the value without it"
