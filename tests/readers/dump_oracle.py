"""Reads dumps the slow and plain way, and rebuilds dump.json from the tables: what the reader is held against."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reading import Read, Row, read_source

from lakeprobe.readers import dump
from lakeprobe.readers.source import ContentOf, Source

SECTIONS = (("input_args", "input"), ("input_kwargs", "input"), ("input", "input"), ("parameters", "parameters"),
            ("output", "output"))  # fmt: skip
TENSOR_KEYS = ("dtype", "shape", "Max", "Min", "Mean", "Norm", "requires_grad", "md5", "data_name")


def source(folder: Path) -> Source:
    """The dump in `folder`, of step 0 and rank 0."""
    return Source(dump.NAME, folder, folder, 0, 0, tensors=folder / dump.TENSOR_FOLDER)


def read(folder: Path, content_of: ContentOf = lambda name: (None, None)) -> Read:
    """Read the dump in `folder` with the reader under test."""
    return read_source(dump, source(folder), content_of)


def data_of(result: Read) -> dict[str, Any]:
    """The object under `data`, rebuilt."""
    return rebuild(result.ops, result.tensors)


def write(folder: Path, data: Any, stack: Any = None, construct: Any = None, **head: Any) -> Path:
    """Write a dump as msprobe does; stack.json and construct.json only where given."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {"task": "statistics", "level": "mix", "framework": "pytorch", **head}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}, indent=1))
    for name, content in (("stack.json", stack), ("construct.json", construct)):
        if content is not None:
            (folder / name).write_text(json.dumps(content, indent=1))
    return folder


def read_entry(folder: Path, body: Any, op: str = "Torch.add.0.forward") -> list[Row]:
    """The tensor rows of a dump of one entry, which must be rebuilt from them exactly."""
    result = read(write(folder, {op: body}))
    assert canonical(data_of(result)) == canonical({op: body})
    assert places(result.tensors) == list(naive_places({op: body}))
    return result.tensors


def read_leaf(folder: Path, leaf: Any) -> Row:
    """The only row of a dump whose only entry has this one argument."""
    (row,) = read_entry(folder, {"input_args": [leaf]})
    return row


def canonical(value: Any) -> str:
    """JSON text that tells 1, 1.0, true, NaN and null apart, but not the order of keys."""
    return json.dumps(value, sort_keys=True)


# ---- the rows that a dump should have ---------------------------------------------------------------------


def places(tensors: list[Row]) -> list[tuple[Any, ...]]:
    """Where the rows of the table tensors come from."""
    assert [row["row"] for row in tensors] == list(range(len(tensors)))
    assert all(row["name"] == f"{row['op']}.{row['slot']}" for row in tensors)
    return [(row["seq"], row["op"], row["role"], row["slot"], json.loads(row["path"])) for row in tensors]


def naive_places(data: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """(seq, op, role, slot, path) of every leaf of the object under `data`, walked plainly."""
    for seq, (op, body) in enumerate(data.items()):
        parts = op.split(".")
        if "parameters_grad" in parts[-2:]:
            for parameter, leaves in body.items():
                leaves, start = (leaves, [parameter]) if leaves and isinstance(leaves, list) else ([leaves], None)
                for index, value in enumerate(leaves):
                    path = [parameter] if start is None else [parameter, index]
                    for slot, inner in _leaves(value, parameter, path):
                        yield seq, op, "parameters_grad", slot, inner
            continue
        for section, role in SECTIONS:
            if section in body:
                for slot, path in _leaves(body[section], role, []):
                    yield seq, op, role, slot, path


def _leaves(value: Any, slot: str, path: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    is_leaf = isinstance(value, dict) and (
        isinstance(value.get("type"), str)
        or (isinstance(value.get("class_type"), str) and isinstance(value.get("tensor"), dict))
    )
    if is_leaf or not isinstance(value, (dict, list)):
        yield slot, path
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield from _leaves(item, f"{slot}.{key}", [*path, key])


# ---- dump.json from the tables ----------------------------------------------------------------------------


def rebuild(ops: list[Row], tensors: list[Row]) -> dict[str, Any]:
    """The object under `data` as the tables ops and tensors tell it."""
    of_op: dict[int, list[Row]] = {}
    for row in tensors:
        of_op.setdefault(row["seq"], []).append(row)
    data = {}
    for op in ops:
        found = [([row["section"], *json.loads(row["path"])], _leaf(row)) for row in of_op.get(op["seq"], [])]
        for *path, sign in json.loads(op["empties"] or "[]"):
            found.append((path, {"[]": [], "{}": {}}[sign]))
        if op["kind"] == "parameters_grad":
            assert all(path[0] is None for path, _ in found)
            data[op["op"]] = _nest([(path[1:], value) for path, value in found]) if found else {}
            continue
        body: dict[str, Any] = _nest(found) if found else {}
        body |= json.loads(op["extra"] or "{}")
        if op["is_recompute"] is not None:
            body["is_recompute"] = op["is_recompute"]
        assert " ".join(sorted(body)) == " ".join(sorted(op["sections"].split(" "))).strip()
        data[op["op"]] = {key: body[key] for key in op["sections"].split(" ") if key}
    return data


def _nest(found: list[tuple[list[Any], Any]]) -> Any:
    if len(found) == 1 and not found[0][0]:
        return found[0][1]
    inner: dict[Any, list[tuple[list[Any], Any]]] = {}
    for path, value in found:
        inner.setdefault(path[0], []).append((path[1:], value))
    nested = {key: _nest(parts) for key, parts in inner.items()}
    if all(isinstance(key, int) for key in nested):
        assert sorted(nested) == list(range(len(nested)))
        return [nested[index] for index in range(len(nested))]
    return nested


def _leaf(row: Row) -> Any:
    extra = json.loads(row["extra"] or "{}")
    if row["fields"] is None:
        if row["kind"] == "null":
            return None
        return row["value"] if row["type"] == "str" else json.loads(row["value"])
    fields = row["fields"].split(" ")
    if row["kind"] == "tensor" and "class_type" in fields:
        inner = extra.pop("tensor")
        exact = {key: extra.pop(key) for key in TENSOR_KEYS if key in extra}
        names = inner.pop("fields").split(" ")
        kind = inner.pop("type")
        tensor = _tensor(row, names, {**inner, **exact}) | ({"type": kind} if "type" in names else {})
        return {"class_type": row["type"], "tensor": tensor, **extra}
    if row["kind"] == "tensor":
        return {"type": row["type"], **_tensor(row, fields, extra)}
    leaf = {"type": row["type"], **extra}
    if "value" in fields and "value" not in extra:
        leaf["value"] = row["value"] if row["type"] == "str" else _from_text(row["value"])
    return leaf


def _tensor(row: Row, fields: list[str], extra: dict[str, Any]) -> dict[str, Any]:
    values = {"dtype": row["dtype"], "shape": row["shape"], "requires_grad": row["requires_grad"],
              "md5": row["digest"], "data_name": row["data_name"]}  # fmt: skip
    is_value = row["shape"] == [] and "md5" in fields and row["digest"] is None and "Max" not in fields
    if is_value:
        values["md5"] = _statistic(row["stat_types"][0], row["max"], row.get("max_int"))
    for key, column, letter in zip(
        ("Max", "Min", "Mean", "Norm"), ("max", "min", "mean", "norm"), row["stat_types"], strict=True
    ):
        assert (letter == "-") == (key not in fields) or is_value
        values[key] = extra[key] if key in extra else _statistic(letter, row[column], row.get(f"{column}_int"))
    return {key: values[key] for key in TENSOR_KEYS if key in fields} | extra


def _statistic(letter: str, number: float | None, exact: int | None) -> Any:
    if number is None:
        assert letter in "-n"
        return None
    if letter == "i":
        return int(number) if exact is None else exact
    return {"f": number, "b": number == 1}[letter]


def _from_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
