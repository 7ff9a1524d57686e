"""Reads msprobe's mapping files as they are, into rows that pair APIs, cells, rows and layers of target and golden.

Names stay as they were written, except that row names are brought to the lake's form. SQL defines what the rows mean
for a comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

from lakeprobe import strict_yaml
from lakeprobe.errors import UsageError
from lakeprobe.readers import names
from lakeprobe.strict_yaml import List, Mapping, Node, Text

Api = tuple[str, str]
Slot = tuple[str, str, str | None, str, str | None]

_API_EXAMPLE = "ms_api: Functional.dense and pt_api: Functional.linear, each on a line"
_CELL_EXAMPLE = "q_proj.Dense: q_proj.Linear"
_DATA_EXAMPLE = "Cell.fc.Dense.forward.0.input.0: Module.fc.Linear.forward.0.input.0"
_LAYER_EXAMPLE = "TopLayer: and below it, indented, network: module"

_SECTIONS = (
    ("args", None, "input"),
    ("output", None, "output"),
    ("parameters", None, "parameters"),
    ("parameters_grad", "parameters_grad", None),
)
"""The sections of an API mapping: the name of a list, its direction, and the first part of its slots."""

_API_KEYS = ("api", "args", "output", "outputs", "parameters", "parameters_grad")
_KNOWN_KEYS = tuple(f"{side}_{key}" for key in _API_KEYS for side in ("ms", "pt"))

_EXTENSION = re.compile(r"\.(npy|pt)$")
_KWARGS = re.compile(r"(\.(?:forward|backward)(?:\.\d+)?)\.(?:kwargs|input_kwargs|input_args)\.")
_TOP_LAYER = {"Cell": "TopLayer"}
"""Older layer mappings call the model's own class Cell."""


class Mappings(Struct, frozen=True):
    """The content of the mapping files, each kind in the order of its file. Empty without a file.

    apis: target_api, golden_api. slots: target_api, golden_api, direction (None: any), target_slot, golden_slot. Of a
    section named here (input, output, parameters, or the direction parameters_grad), only the named slots pair. A
    section with an empty list is one slot: its bare name, with golden_slot None. cells: target_text, golden_text (which
    may be empty). data: target_name, golden_name, which are names of rows in the lake's form. layers: class,
    target_scope, golden_scope.
    """

    apis: tuple[Api, ...] = ()
    slots: tuple[Slot, ...] = ()
    cells: tuple[tuple[str, str], ...] = ()
    data: tuple[tuple[str, str], ...] = ()
    layers: tuple[tuple[str, str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no file maps anything."""
        return self == Mappings()


def read(
    api: Path | None = None, cell: Path | None = None, data: Path | None = None, layer: Path | None = None
) -> Mappings:
    """Return the content of the four kinds of mapping files. Raises UsageError with the line of a mistake."""
    apis, slots = read_apis(api) if api else ((), ())
    return Mappings(
        apis=apis,
        slots=slots,
        cells=read_cells(cell) if cell else (),
        data=read_data(data) if data else (),
        layers=read_layers(layer) if layer else (),
    )


def read_apis(path: Path) -> tuple[tuple[Api, ...], tuple[Slot, ...]]:
    """Return the apis and slots (see Mappings) of an API mapping: one mapping, or a list of them."""
    root = _root(path, "API mapping", _API_EXAMPLE)
    entries = root.items if isinstance(root, List) else (root,)
    lines: dict[str, int] = {}
    apis: list[Api] = []
    slots: list[Slot] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise entry.error("an API mapping has keys and values", f"write {_API_EXAMPLE}")
        lists = _by_known_key(entry)
        target = _api(entry, lists, "ms_api")
        golden = _api(entry, lists, "pt_api")
        if target in lines:
            raise entry.error(f"ms_api {target} is mapped on line {lines[target]} already", "write each API once")
        lines[target] = entry.line
        apis.append((target, golden))
        slots += _slots(target, golden, lists)
    return tuple(apis), tuple(slots)


def read_cells(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the cells (see Mappings) of a cell mapping with lines `text: text`."""
    return tuple(
        (_name(key, key, _CELL_EXAMPLE), _replacement(key, value))
        for key, value in _pairs(_root(path, "cell mapping", _CELL_EXAMPLE), _CELL_EXAMPLE)
    )


def read_data(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the data (see Mappings) of a data mapping with lines `row: row`. A row may be given by its data_name."""
    target_lines: dict[str, int] = {}
    golden_lines: dict[str, int] = {}
    rows = []
    for key, value in _pairs(_root(path, "data mapping", _DATA_EXAMPLE), _DATA_EXAMPLE):
        target = _row(key, _name(key, key, _DATA_EXAMPLE))
        golden = _row(key, _name(key, value, _DATA_EXAMPLE))
        if target in target_lines:
            raise key.error(f"{target!r} is mapped on line {target_lines[target]} already", "write each row once")
        if golden in golden_lines:
            raise key.error(
                f"{golden!r} is paired on line {golden_lines[golden]} already", "write each row of golden once"
            )
        target_lines[target] = golden_lines[golden] = key.line
        rows.append((target, golden))
    return tuple(rows)


def read_layers(path: Path) -> tuple[tuple[str, str, str], ...]:
    """Return the layers (see Mappings) of a layer mapping: classes, and below each, lines `scope: scope`."""
    lines: dict[tuple[str, str], int] = {}
    rows = []
    for class_key, scopes in _pairs(_root(path, "layer mapping", _LAYER_EXAMPLE), _LAYER_EXAMPLE):
        class_name = _name(class_key, class_key, _LAYER_EXAMPLE)
        class_name = _TOP_LAYER.get(class_name, class_name)
        if not isinstance(scopes, Mapping) or not scopes.pairs:
            raise class_key.error(f"the class {class_name!r} has no scopes below it", f"write {_LAYER_EXAMPLE}")
        for key, value in scopes.pairs:
            target = _scope(key, _name(key, key, _LAYER_EXAMPLE))
            golden = _scope(key, _name(key, value, _LAYER_EXAMPLE))
            if (class_name, target) in lines:
                line = lines[class_name, target]
                raise key.error(f"{target!r} of {class_name} is mapped on line {line} already", "write each scope once")
            lines[class_name, target] = key.line
            rows.append((class_name, target, golden))
    return tuple(rows)


def _root(path: Path, kind: str, example: str) -> Node:
    root = strict_yaml.read(path) or Text(path, 1, "", is_quoted=False)
    is_empty = isinstance(root, Text) and root.is_missing
    if is_empty or (isinstance(root, Mapping) and not root.pairs) or (isinstance(root, List) and not root.items):
        raise root.error(f"the {kind} is empty", f"write {example}")
    return root


def _pairs(node: Node, example: str) -> tuple[tuple[Text, Node], ...]:
    if not isinstance(node, Mapping):
        raise node.error("it is not a mapping of names", f"write {example}")
    return node.pairs


def _name(key: Text, node: Node, example: str) -> str:
    """Return the text of `node`, which is the key itself or its value. It must not be empty."""
    if not isinstance(node, Text):
        raise key.error(f"the value of {key.value!r} is not text", f"write {example}")
    if not node.value.strip():
        what = "a name before the colon" if node is key else f"the value of {key.value!r}"
        raise key.error(f"{what} is missing", f"write {example}")
    return node.value


def _replacement(key: Text, value: Node) -> str:
    """Return the replacement of a cell text. It may be empty only if it is quoted."""
    if isinstance(value, Text) and value.is_missing:
        raise key.error(f"the value of {key.value!r} is missing", f'write {_CELL_EXAMPLE}, or "" to remove the text')
    return value.value if isinstance(value, Text) and not value.value else _name(key, value, _CELL_EXAMPLE)


def _row(key: Text, name: str) -> str:
    """Return a row's name in the lake's form: without a tensor file's extension, and with `.input.` before a
    keyword."""
    row = _KWARGS.sub(r"\1.input.", _EXTENSION.sub("", name), count=1)
    if names.parse(row).kind in ("api", "module"):
        raise key.error(f"{name!r} is an op, not a row", f"write its rows, such as {row}.input.0")
    return row


def _scope(key: Text, written: str) -> str:
    """Return a scope: names with dots between them. What follows a bracket is ignored."""
    scope = written.partition("(")[0].strip()
    if not all(scope.split(".")):
        raise key.error(f"the scope {written!r} has an empty part", "write names with one dot between them")
    return scope


def _by_known_key(entry: Mapping) -> dict[str, tuple[Text, Node]]:
    """Return the values by key, with `outputs` under `output`. Each comes with the key as it was written."""
    lists: dict[str, tuple[Text, Node]] = {}
    for key, value in entry.pairs:
        if key.value not in _KNOWN_KEYS:
            raise key.error(f"the key {key.value!r} is unknown", _closest_key(key.value))
        name = key.value.removesuffix("s") if key.value.endswith("outputs") else key.value
        if name in lists:
            raise key.error(f"{lists[name][0].value} on line {lists[name][0].line} says the same", "write one of them")
        lists[name] = key, value
    return lists


def _closest_key(key: str) -> str:
    close = get_close_matches(key, _KNOWN_KEYS, n=1)
    return f"write {f'{close[0]}, or ' if close else ''}one of {', '.join(_KNOWN_KEYS)}"


def _api(entry: Mapping, lists: dict[str, tuple[Text, Node]], name: str) -> str:
    if name not in lists:
        raise entry.error(f"{name} is missing", f"write {_API_EXAMPLE}")
    key, value = lists[name]
    api = _name(key, value, _API_EXAMPLE)
    parts = api.split(".")
    if names.parse(api).direction:
        raise key.error(f"{name} {api!r} is an op, not an API", f"write {name}: {'.'.join(parts[:-2])}")
    if len(parts) < 2 or not all(parts) or any(part != part.strip() for part in parts):
        raise key.error(f"{name} {api!r} has an unknown API form", f"write type and name, such as {name}: Mint.matmul")
    return api


def _slots(target: str, golden: str, lists: dict[str, tuple[Text, Node]]) -> Iterator[Slot]:
    """Yield the slots of all given sections, in the order of the sections."""
    for section, direction, prefix in _SECTIONS:
        ours, theirs = lists.get(f"ms_{section}"), lists.get(f"pt_{section}")
        if not ours and not theirs:
            continue
        if not ours or not theirs:
            raise _without_other(ours or theirs)
        target_slots, golden_slots = _elements(*ours), _elements(*theirs)
        if len(target_slots) != len(golden_slots):
            raise ours[0].error(
                f"{ours[0].value} has {len(target_slots)} elements, {theirs[0].value} has {len(golden_slots)}",
                "write two lists of equal length, the i-th of one for the i-th of the other",
            )
        start = f"{prefix}." if prefix else ""
        for ours_slot, theirs_slot in zip(target_slots, golden_slots, strict=True):
            yield target, golden, direction, start + ours_slot, start + theirs_slot
        if not target_slots:
            yield target, golden, direction, prefix or section, None


def _without_other(given: tuple[Text, Node] | None) -> UsageError:
    assert given
    key = given[0]
    other = {"ms": "pt", "pt": "ms"}[key.value[:2]] + key.value[2:]
    return key.error(f"{key.value} is given without {other}", "write both, or neither to pair all by their own names")


def _elements(key: Text, value: Node) -> tuple[str, ...]:
    """Return the indexes and names of a list, as they were written."""
    example = f"{key.value}: [0, 1]"
    if not isinstance(value, List):
        raise key.error(f"{key.value} is not a list", f"write {example}")
    lines: dict[str, int] = {}
    for item in value.items:
        if not isinstance(item, Text) or not item.value.strip():
            raise item.error(f"an element of {key.value} is neither an index nor a name", f"write {example}")
        if re.fullmatch(r"-\d+", item.value):
            raise item.error(f"the index {item.value} in {key.value}", "count from the first, which is 0")
        if item.value in lines:
            raise item.error(
                f"{key.value} has {item.value!r} twice", "write each element once, as a row pairs with one row"
            )
        lines[item.value] = item.line
    return tuple(lines)
