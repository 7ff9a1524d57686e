"""Reads msprobe's config.yaml of merge_result."""

from __future__ import annotations

from pathlib import Path

from lakeprobe import strict_yaml
from lakeprobe.errors import UsageError

_EXAMPLE = "api: and below it '- Distributed.all_reduce'"


def read_config(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The APIs and metrics that msprobe's config.yaml of merge_result names: `api`, and `compare_index` if it is there.

    Raises UsageError with the line of what is wrong.
    """
    root = strict_yaml.read(path)
    if not isinstance(root, strict_yaml.Mapping):
        raise UsageError(f"{path} names no APIs; write {_EXAMPLE}")
    lists = {"api": (), "compare_index": ()} | {key.value: _names(key, value) for key, value in root.pairs}
    if not lists["api"]:
        raise root.error("api is missing or empty", f"write {_EXAMPLE}, or use --api instead of the file")
    return lists["api"], lists["compare_index"]


def _names(key: strict_yaml.Text, value: strict_yaml.Node) -> tuple[str, ...]:
    if key.value not in ("api", "compare_index"):
        raise key.error(f"the key {key.value!r} is unknown", "write api or compare_index")
    if isinstance(value, strict_yaml.Text) and value.is_missing:
        return ()
    if not isinstance(value, strict_yaml.List):
        raise key.error(f"{key.value} is not a list", f"write {_EXAMPLE}")
    names = tuple(item.value for item in value.items if isinstance(item, strict_yaml.Text) and item.value)
    if len(names) < len(value.items):
        raise key.error(f"an element of {key.value} is not a name", f"write {_EXAMPLE}")
    return names
