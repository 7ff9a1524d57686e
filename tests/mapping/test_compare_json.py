"""An old compare.json: what msprobe's releases up to 8.3 read, and each mistake with its key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import examples

from lakeprobe.errors import UsageError
from lakeprobe.mapping import compare_json, files
from lakeprobe.mapping.compare_json import OldCompare

KEYS = (
    "npu_path, bench_path, target_path, golden_path, stack_path, "
    "is_print_compare_log, rank_id, step_id, common, map_dict"
)


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two dumps in the working directory, ours/ and theirs/."""
    monkeypatch.chdir(tmp_path)
    for run in ("ours", "theirs"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "dump.json").write_text("{}")


def written(content: Any) -> Path:
    path = Path("compare.json")
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


PATHS = {"npu_path": "ours/dump.json", "bench_path": "theirs/dump.json"}


def test_the_form_of_pytorch() -> None:
    given = {**PATHS, "stack_path": "./ours/stack.json", "is_print_compare_log": True}
    assert compare_json.read(written(given)) == OldCompare(
        target=Path("ours/dump.json"), golden=Path("theirs/dump.json"), stack_path=Path("ours/stack.json")
    )


def test_the_form_of_mindspore_with_folders() -> None:
    given = {
        "npu_path": "./ours",
        "bench_path": str(Path("theirs").absolute()),
        "rank_id": [0, 3, 0],
        "step_id": 2,
        "common": True,
        "map_dict": {"input": "x", "权重": "w"},
        "is_print_compare_log": False,
    }
    assert compare_json.read(written(given)) == OldCompare(
        target=Path("ours"),
        golden=Path("theirs").absolute(),
        ranks=(0, 3),
        steps=(2,),
        common=True,
        map_dict=(("input", "x"), ("权重", "w")),
    )


def test_map_dict_as_lines_of_an_api_mapping() -> None:
    names = {"input": "x", "layer.0.w": "权重", "a": "x"}
    old = compare_json.read(written({**PATHS, "common": True, "map_dict": names}))
    assert old.apis == (("debug.input", "debug.x"), ("debug.layer.0.w", "debug.权重"), ("debug.a", "debug.x"))
    lines = "".join(f"- ms_api: debug.{ours}\n  pt_api: debug.{theirs}\n" for ours, theirs in names.items())
    Path("names.yaml").write_text(lines, encoding="utf-8")
    assert files.read(api=Path("names.yaml")).apis == old.apis


@pytest.mark.parametrize("given", [{}, {"common": True}, {"common": True, "map_dict": {}}, {"map_dict": None}])
def test_no_map_dict_maps_nothing(given: dict[str, Any]) -> None:
    assert compare_json.read(written({**PATHS, **given})).apis == ()


def test_names_of_today_null_and_empty_values() -> None:
    given = {
        "target_path": "ours",
        "golden_path": "theirs",
        "stack_path": "",
        "rank_id": None,
        "step_id": [],
        "common": None,
        "map_dict": None,
        "is_print_compare_log": None,
    }
    assert compare_json.read(written(given)) == OldCompare(target=Path("ours"), golden=Path("theirs"))


@pytest.mark.parametrize(
    ("npu_path", "stack_path", "is_told"),
    [
        ("ours/dump.json", "ours/stack.json", False),
        ("ours/dump.json", "theirs/../ours/stack.json", False),
        ("ours", "ours/stack.json", False),
        ("ours/dump.json", "theirs/stack.json", True),
        ("ours/dump.json", "ours/other.json", True),
        ("ours", "stack.json", True),
    ],
)
def test_a_stack_path_elsewhere_is_noted(npu_path: str, stack_path: str, is_told: bool) -> None:
    old = compare_json.read(written({**PATHS, "npu_path": npu_path, "stack_path": stack_path}))
    note = f"compare.json: stack_path {stack_path!r} is not used; call stacks are read from stack.json beside the dump"
    assert old.notes == ((note,) if is_told else ())


def test_a_mark_of_byte_order_does_no_harm() -> None:
    assert compare_json.read(written("\ufeff" + json.dumps(PATHS))).target == Path("ours/dump.json")


_NUMBERS = "write a list of numbers from 0, such as [0, 1]"
_NAMES = 'write names of both sides, such as {"input": "x"}'
_EXAMPLE = 'write {"npu_path": "…", "bench_path": "…"}'
_A_PATH = "write the path of a dump.json or of its folder"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, f": npu_path is missing or empty; {_A_PATH}"),
        ({"npu_path": "ours"}, f": bench_path is missing or empty; {_A_PATH}"),
        ({**PATHS, "npu_path": ""}, f": npu_path is missing or empty; {_A_PATH}"),
        ({"npu_path": "ours", "golden_path": ""}, f": golden_path is missing or empty; {_A_PATH}"),
        (
            {**PATHS, "bench_path": "none/dump.json"},
            ": bench_path 'none/dump.json' does not exist; write a path that does, relative to the working directory",
        ),
        (
            {**PATHS, "target_path": "ours"},
            ": npu_path and target_path are the same; write one of them",
        ),
        ({**PATHS, "rank_ids": []}, f": the key 'rank_ids' is unknown; write rank_id, or one of {KEYS}"),
        ({**PATHS, "x": 1}, f": the key 'x' is unknown; write one of {KEYS}"),
        ({**PATHS, "npu_path": 3}, ": npu_path is 3; write a path in quotes"),
        ({**PATHS, "bench_path": ["a"]}, ": bench_path is ['a']; write a path in quotes"),
        ({**PATHS, "stack_path": {}}, ": stack_path is {}; write a path in quotes"),
        ({**PATHS, "stack_path": "a\0b"}, ": stack_path is 'a\\x00b'; write a path in quotes"),
        ({**PATHS, "stack_path": "\ud800"}, ": stack_path is '\\ud800'; write a path in quotes"),
        ({**PATHS, "is_print_compare_log": "yes"}, ": is_print_compare_log is 'yes'; write true or false"),
        ({**PATHS, "common": 1}, ": common is 1; write true or false"),
        ({**PATHS, "rank_id": "0"}, f": rank_id is '0'; {_NUMBERS}"),
        ({**PATHS, "rank_id": ["0"]}, f": rank_id is ['0']; {_NUMBERS}"),
        ({**PATHS, "rank_id": True}, f": rank_id is True; {_NUMBERS}"),
        ({**PATHS, "step_id": [0, -1]}, f": step_id is [0, -1]; {_NUMBERS}"),
        ({**PATHS, "step_id": [1.0]}, f": step_id is [1.0]; {_NUMBERS}"),
        ({**PATHS, "step_id": [2**31]}, f": step_id is [2147483648]; {_NUMBERS}"),
        ({**PATHS, "step_id": ["x" * 99]}, f": step_id is ['{'x' * 58}…; {_NUMBERS}"),
        ({**PATHS, "map_dict": ["a"]}, f": map_dict is ['a']; {_NAMES}"),
        ({**PATHS, "map_dict": {"a": 1}}, f": map_dict is {{'a': 1}}; {_NAMES}"),
        ({**PATHS, "map_dict": {"": "a"}}, f": map_dict is {{'': 'a'}}; {_NAMES}"),
        ([PATHS], f" is not a compare.json, it holds [{str(PATHS)[:59]}…; {_EXAMPLE}"),
        ("", f" line 1: it is not JSON (Expecting value); {_EXAMPLE}"),
        (
            '{\n"npu_path": "ours",\n}',
            f" line 3: it is not JSON (Expecting property name enclosed in double quotes); {_EXAMPLE}",
        ),
        ('{"npu_path": "a",\n"npu_path": "b"}', ": the key 'npu_path' occurs twice; write each key once"),
        ("[" * 100_000, f" is not a compare.json; {_EXAMPLE}"),
        ("9" * 5000, f" is not a compare.json; {_EXAMPLE}"),
    ],
)
def test_a_mistake_is_told_with_its_key(content: Any, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        compare_json.read(written(content))
    assert str(raised.value) == f"compare.json{message}"


def test_files_that_are_none() -> None:
    with pytest.raises(UsageError, match=r"^none\.json cannot be read: No such file or directory$"):
        compare_json.read(Path("none.json"))
    with pytest.raises(UsageError, match=r"^ours cannot be read: Is a directory$"):
        compare_json.read(Path("ours"))
    Path("bytes.json").write_bytes(b'{\n"npu_path": "\xff"}')
    with pytest.raises(UsageError, match=r"^bytes\.json line 2: it is not UTF-8; save the file as UTF-8$"):
        compare_json.read(Path("bytes.json"))
    with Path("large.json").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(UsageError, match=r"^large\.json has more than 16 MB; it is not a compare\.json$"):
        compare_json.read(Path("large.json"))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.sampled_from(["ours", "."]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS.split(", ")), _VALUES))
def test_any_values_are_a_comparison_or_a_mistake(given: dict[str, Any]) -> None:
    path = written({**PATHS, **given})
    try:
        old = compare_json.read(path)
    except UsageError as error:
        assert str(error).startswith("compare.json")  # noqa: PT017 either outcome is right
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert old.target.exists()
        assert old.golden.exists()
        assert all(0 <= number < 2**31 for number in old.ranks + old.steps)
        assert [(ours[6:], theirs[6:]) for ours, theirs in old.apis] == list((given.get("map_dict") or {}).items())
