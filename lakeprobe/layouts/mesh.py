"""Finds the mesh of a job: its axes, and the coordinate of each rank along each.

A user's layout file says it. Otherwise pipeline stages follow from sends and receives, the other axes from the groups
of collectives, and their kinds from what the members of a group have in common: copies (dp) have the same parameters
and other data, tensor parallel ranks (tp) the same data and other parameters, parts of the sequence (cp) other data and
collectives within the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import prod

from msgspec import Struct

from lakeprobe.errors import LakeError

STAGES, MICRO = "pp", "mb"
"""The axes that do not cut tensors of one op: pipeline stages, and micro-batches, whose parts are on the same rank."""

Groups = tuple[tuple[int, ...], ...]
"""The groups of an axis: together all ranks of a stage, each once."""


class Axis(Struct, frozen=True):
    """An axis of the mesh: its name, its size, and how it is known."""

    name: str
    size: int
    source: str


class Mesh(Struct, frozen=True):
    """The axes, the stages first, and the coordinate of each rank along each."""

    axes: tuple[Axis, ...]
    coordinates: Mapping[int, Mapping[str, int]]

    def at(self, rank: int, axis: str) -> int:
        """The coordinate of a rank along an axis; 0 along one that the job does not have."""
        return self.coordinates[rank].get(axis, 0)

    @property
    def cutting(self) -> tuple[Axis, ...]:
        """The axes that cut tensors or copy them: all but the stages."""
        return tuple(axis for axis in self.axes if axis.name != STAGES)

    def __str__(self) -> str:
        """The mesh in words: dp 2 × tp 2."""
        return " × ".join(f"{axis.name} {axis.size}" for axis in self.axes) or "one rank"


class Seen(Struct, frozen=True):
    """What is known of a job before its mesh.

    `before`: the rank before each in the pipeline, by its first send or receive. `groups`: the groups of collectives,
    and whether one of their calls is within a module. `data` and `parameters`: a signature of what each rank was given
    and of its parameters. `has_experts`: whether a module has the name of experts. `cuts_sequence`: whether the data of
    a rank is shorter along its second axis than golden's.
    """

    ranks: tuple[int, ...]
    before: Mapping[int, int]
    groups: Mapping[tuple[int, ...], bool]
    data: Mapping[int, str]
    parameters: Mapping[int, str]
    has_experts: bool = False
    cuts_sequence: bool | None = None


def given(ranks: Sequence[int], sizes: Mapping[str, int]) -> Mesh:
    """The mesh of a layout file: axes with their sizes, the slowest first. Raises LakeError if it has other ranks."""
    if prod(sizes.values()) != len(ranks):
        text = " × ".join(f"{name} {size}" for name, size in sizes.items())
        raise LakeError(f"the layout file has {text} = {prod(sizes.values())} ranks, the run has {len(ranks)}")
    coordinates: dict[int, dict[str, int]] = {}
    for place, rank in enumerate(sorted(ranks)):
        rest, coordinates[rank] = place, {}
        for name, size in reversed(list(sizes.items())):
            rest, coordinates[rank][name] = divmod(rest, size)
    axes = tuple(Axis(name, size, "layout file") for name, size in sizes.items() if size > 1)
    return Mesh(axes, coordinates)


def inferred(seen: Seen) -> Mesh:
    """The mesh that a run's own records show. Raises LakeError if they do not tell the ranks apart."""
    stage = _stages(seen)
    by_stage = {
        number: [rank for rank in seen.ranks if stage[rank] == number] for number in sorted(set(stage.values()))
    }
    sizes = {len(ranks) for ranks in by_stage.values()}
    if len(sizes) != 1:
        text = " and ".join(map(str, sorted(sizes)))
        raise LakeError(f"the stages have {text} ranks, so they make no mesh; give the mesh in a layout file")
    coordinates = {rank: {STAGES: number} for rank, number in stage.items()}
    axes = [Axis(STAGES, len(by_stage), "sends and receives")] if len(by_stage) > 1 else []
    first = by_stage[0]
    partitions = _partitions(seen.groups, first)
    taken: dict[str, int] = {}
    for groups, source in sorted(_completed(partitions, first), key=lambda axis: axis[0][0][0] - axis[0][0][1]):
        name = _kind(seen, groups)
        taken[name] = taken.get(name, 0) + 1
        name = name if taken[name] == 1 else f"{name}{taken[name]}"
        axes.append(Axis(name, len(groups[0]), source))
        for group in groups:
            for place, rank in enumerate(group):
                coordinates[rank][name] = place
    _follow_stages(seen, by_stage, coordinates)
    order = {"pp": 0, "dp": 1, "cp": 2, "ep": 3, "tp": 4}
    return Mesh(tuple(sorted(axes, key=lambda axis: order.get(axis.name[:2], 5))), coordinates)


def refined(mesh: Mesh, factors: Mapping[str, int]) -> Mesh:
    """The mesh with axes in two: `factors` says by name how many parts the outer one has, each of neighbours."""
    axes: list[Axis] = []
    coordinates = {rank: dict(places) for rank, places in mesh.coordinates.items()}
    for axis in mesh.axes:
        outer = factors.get(axis.name, axis.size)
        axes.append(Axis(axis.name, outer, axis.source))
        inner = axis.size // outer
        if inner == 1:
            continue
        taken = {other.name for other in mesh.axes}
        name = next(f"{axis.name}{nth}" for nth in range(2, 99) if f"{axis.name}{nth}" not in taken)
        axes.append(Axis(name, inner, "shapes"))
        for places in coordinates.values():
            places[axis.name], places[name] = divmod(places[axis.name], inner)
    return Mesh(tuple(axes), coordinates)


def spans(mesh: Mesh, axes: Sequence[Axis], ranks: Sequence[int]) -> dict[frozenset[int], tuple[int, ...]]:
    """The groups of ranks that differ along one of `axes` only, or along several together, with the axes' numbers."""
    found: dict[frozenset[int], tuple[int, ...]] = {}
    numbers = [number for number, axis in enumerate(axes) if axis.name != MICRO]
    for count in range(1, len(numbers) + 1):
        for chosen in combinations(numbers, count):
            names = {axes[number].name for number in chosen}
            rest = [axis.name for axis in mesh.axes if axis.name not in names]
            groups: dict[tuple[int, ...], set[int]] = {}
            for rank in ranks:
                groups.setdefault(tuple(mesh.at(rank, name) for name in rest), set()).add(rank)
            found.update((frozenset(group), chosen) for group in groups.values())
    return found


def across_stages(mesh: Mesh, ranks: Sequence[int]) -> list[tuple[int, ...]]:
    """The groups of ranks at one place of two or more stages, such as those that have a copy of one embedding."""
    lines: dict[tuple[int, ...], list[int]] = {}
    for rank in sorted(ranks, key=lambda rank: mesh.at(rank, STAGES)):
        lines.setdefault(tuple(mesh.at(rank, axis.name) for axis in mesh.cutting), []).append(rank)
    return [group for line in lines.values() for group in {(line[0], line[-1]), tuple(line)} if len(line) > 1]


def _stages(seen: Seen) -> dict[int, int]:
    """The pipeline stage of each rank: how many ranks come before it."""
    stages = {}
    for rank in seen.ranks:
        chain = [rank]
        while (before := seen.before.get(chain[-1])) is not None and before not in chain:
            chain.append(before)
        stages[rank] = len(chain) - 1
    return stages


def _partitions(groups: Mapping[tuple[int, ...], bool], ranks: Sequence[int]) -> list[Groups]:
    """The sets of groups that have each of `ranks` once, the smallest groups first, without unions of others."""
    everyone = set(ranks)
    by_size: dict[int, list[tuple[int, ...]]] = {}
    for group in sorted(groups):
        if len(group) > 1 and set(group) <= everyone:
            by_size.setdefault(len(group), []).append(group)
    found: list[Groups] = []
    for size in sorted(by_size):
        left = list(by_size[size])
        while left:
            chosen: list[tuple[int, ...]] = []
            for group in left:
                if not any(set(group) & set(other) for other in chosen):
                    chosen.append(group)
            left = [group for group in left if group not in chosen]
            if {rank for group in chosen for rank in group} == everyone and not _is_union(chosen, found):
                axis = _across(chosen, found)
                found += [axis] if axis not in found else []
    return found


def _across(groups: Sequence[tuple[int, ...]], smaller: Sequence[Groups]) -> Groups:
    """The axis that groups add to those whose groups they contain: of each of these, the ranks at one place.

    Ranks that share a head of keys, for instance, are a part of the tensor parallel group.
    """
    within = [axis for axis in smaller if all(any(set(part) <= set(group) for group in groups) for part in axis)]
    if not within:
        return tuple(groups)
    parts = sorted(sorted(part) for part in _spanned(within))
    across = [line for group in groups for line in zip(*(part for part in parts if part[0] in group), strict=True)]
    return tuple(sorted(across))


def _is_union(groups: Iterable[Collection[int]], smaller: Sequence[Groups]) -> bool:
    """Whether the groups are what two or more smaller axes span together."""
    sets = {frozenset(group) for group in groups}
    return any(
        sets == _spanned(chosen) for count in range(2, len(smaller) + 1) for chosen in combinations(smaller, count)
    )


def _spanned(axes: Sequence[Groups]) -> set[frozenset[int]]:
    """The groups that several axes span together: what can be reached from a rank along any of them."""
    parts: list[set[int]] = []
    for group in (set(group) for groups in axes for group in groups):
        touching = [part for part in parts if part & group]
        parts = [part for part in parts if not part & group] + [group.union(*touching)]
    return {frozenset(part) for part in parts}


def _completed(partitions: Sequence[Groups], ranks: Sequence[int]) -> list[tuple[Groups, str]]:
    """The axes that collectives show, and one more if they do not tell all ranks apart."""
    shown = [(groups, "groups of collectives") for groups in partitions]
    spanned = _spanned(partitions) if partitions else {frozenset((rank,)) for rank in ranks}
    if len(spanned) > 1:
        parts = sorted(sorted(part) for part in spanned)
        if len({len(part) for part in parts}) != 1:
            raise LakeError("the groups of collectives do not make a mesh; give the mesh in a layout file")
        shown.append((tuple(zip(*parts, strict=True)), "what no collective joins"))
    return shown


def _kind(seen: Seen, groups: Groups) -> str:
    """What an axis is for, by what the members of its groups have in common."""
    same_data = all(len({seen.data.get(rank) for rank in group}) == 1 for group in groups)
    same_parameters = all(len({seen.parameters.get(rank) for rank in group}) == 1 for group in groups)
    if same_data and not same_parameters:
        return "ep" if seen.has_experts else "tp"
    if same_data:
        return "dp" if seen.parameters else "tp"  # copies of one model that were given one batch: a defect
    is_within = any(seen.groups.get(group, False) for group in groups)
    return "cp" if same_parameters and (seen.cuts_sequence or (seen.cuts_sequence is None and is_within)) else "dp"


def _follow_stages(
    seen: Seen, by_stage: Mapping[int, Sequence[int]], coordinates: Mapping[int, dict[str, int]]
) -> None:
    """Give each rank of a later stage the coordinates of the rank of the first stage that it hears from."""
    for number, ranks in by_stage.items():
        for rank in ranks if number else ():
            before = coordinates[seen.before[rank]]
            coordinates[rank].update({axis: place for axis, place in before.items() if axis != STAGES})
