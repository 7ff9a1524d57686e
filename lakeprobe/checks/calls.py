"""A recorded call of an op, as it travels to a worker process: plain values and places of contents, no framework."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from lakeprobe.tensors import TensorReference
from lakeprobe.tensors.measures import Measures


def names(text: str) -> frozenset[str]:
    """The names in a text, which blanks separate."""
    return frozenset(text.split())


KEEPS_DTYPE = names("type_as to half float bfloat16 double int long bool byte char short npu_dtype_cast")
"""Ops whose result has the dtype that their arguments name, so that their reference is not raised."""

CASTS = names("to astype cast Cast")
"""The same of MindSpore."""

NO_OPS = names(
    """
    __setstate__ __reduce_ex__ __reduce__ __deepcopy__ apply_ map_ map2_ set_ register_hook share_memory_
    storage numpy tolist data_ptr backward record_stream pin_memory from_file empty empty_like empty_strided
    new_empty new_empty_strided resize_ resize_as_ to_dlpack
    """
)
"""In the namespaces of PyTorch's ops, what is not an op, or has no defined result."""


class CannotRunError(Exception):
    """A call cannot be run again; the text says why, for the row of the call."""


class Leaf(Struct, frozen=True):
    """One leaf of a call: a tensor with its content or its statistics, a number, a text, or another object."""

    slot: str
    role: str
    section: str | None
    path: str
    kind: str
    type: str | None = None
    dtype: str | None = None
    shape: list[int] | None = None
    max: float | None = None
    min: float | None = None
    max_int: int | None = None
    min_int: int | None = None
    nan_count: int | None = None
    posinf_count: int | None = None
    neginf_count: int | None = None
    zero_count: int | None = None
    value: str | None = None
    requires_grad: bool | None = None
    extra: str | None = None
    content: str | None = None
    content_problem: str | None = None
    reference: TensorReference | None = None

    @property
    def plain_dtype(self) -> str:
        """The element type as all frameworks call it: 'torch.float32' and 'Float32' are float32."""
        return (self.dtype or "").rpartition(".")[2].lower()


class Call(Struct, frozen=True):
    """A forward call and, if it was recorded, its backward: all leaves in the dump's order.

    `key` is the same for calls that need to run only once. `empties` are the paths of empty lists and objects,
    `attributes` what a primitive of MindSpore was made with, both as JSON.
    """

    key: str
    api_type: str
    api: str
    forward: list[Leaf]
    backward: list[Leaf] = field(default_factory=list)
    empties: str | None = None
    attributes: str | None = None

    def of(self, role: str) -> list[Leaf]:
        """The leaves of the forward that are `role`: input or output."""
        return [leaf for leaf in self.forward if leaf.role == role]

    def gradients(self, role: str) -> list[Leaf]:
        """The leaves of the backward: what came in (input) and what it gave (output)."""
        return [leaf for leaf in self.backward if leaf.role == role]


class Setup(Struct, frozen=True):
    """What a worker is told once: where ops run, and modules to import before."""

    framework: str
    device: str
    seed: int
    imports: list[str] = field(default_factory=list)
    save: str | None = None
    """A folder for the inputs and results of calls that go wrong; None for none."""
    modes: list[str] = field(default_factory=list)
    """How inputs are changed; none where results are measured against a reference."""


class Outcome(Struct, frozen=True):
    """What became of one result of a call: its measures, or the problem for which there are none.

    `origin` is device (run here) or recorded (the dump's own result).
    """

    direction: str = "forward"
    slot: str | None = None
    origin: str = "device"
    dtype: str | None = None
    reference_dtype: str | None = None
    shape: list[int] | None = None
    is_deterministic: bool | None = None
    has_float8: bool = False
    problem: str | None = None
    remark: str | None = None
    measures: Measures = field(default_factory=Measures)


class Perturbed(Struct, frozen=True):
    """What a change of the inputs did to one result: schemas/perturbations.yaml explains the fields."""

    mode: str | None = None
    direction: str = "forward"
    slot: str | None = None
    dtype: str | None = None
    shape: list[int] | None = None
    max_relative: float | None = None
    limit: float | None = None
    flips_sign: bool | None = None
    is_consistent: bool | None = None
    condition: float | None = None
    problem: str | None = None


class Answer(Struct, frozen=True):
    """The result of running a call, and how long it took: outcomes, or what changes of its inputs did.

    A call that cannot run has a `problem`.
    """

    key: str
    outcomes: list[Outcome] = field(default_factory=list)
    perturbed: list[Perturbed] = field(default_factory=list)
    problem: str | None = None
    seconds: float = 0.0


def nested(leaves: Mapping[tuple[Any, ...], Any], empties: str | None, section: str) -> Any:
    """The value of a section of the call, from its members by path: lists and dicts as they were recorded."""
    found: list[tuple[tuple[Any, ...], Any]] = list(leaves.items())
    for place in json.loads(empties or "[]"):
        if place[0] == section and len(place) > 2:
            found.append((tuple(place[1:-1]), [] if place[-1] == "[]" else {}))
    top: dict[Any, Any] = {}
    for path, value in found:
        holder = top
        for key in path[:-1]:
            holder = holder.setdefault(key, {})
        holder[path[-1]] = value
    return _plain(top)


def _plain(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return value
    if all(isinstance(key, int) for key in value):
        return [_plain(value[key]) for key in sorted(value)]
    return {key: _plain(member) for key, member in value.items()}


def values_of(leaf: Leaf) -> Any:
    """The value of a scalar leaf, as Python has it. Raises CannotRunError for what the dump does not hold."""
    if leaf.kind == "null":
        return None
    if leaf.type == "str":
        return leaf.value
    if leaf.value is None:
        raise CannotRunError(f"{leaf.slot} is {leaf.type or 'an object'}, of which the dump has no value")
    try:
        value = json.loads(leaf.value)
    except ValueError:
        raise CannotRunError(f"{leaf.slot} is {leaf.type}, which cannot be rebuilt from {leaf.value[:40]!r}") from None
    if leaf.type == "slice":
        return slice(*value)
    if leaf.type == "tuple":
        return tuple(value)
    return value


def paths(leaves: list[Leaf], section: str) -> Iterator[tuple[tuple[Any, ...], Leaf]]:
    """The leaves of a section, each with the indexes and keys that lead to it."""
    for leaf in leaves:
        if leaf.section == section:
            yield tuple(json.loads(leaf.path)), leaf
