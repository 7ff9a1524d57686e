"""Finds the hierarchy of the ops of one (step, rank): modules, and the groups that make a long list readable.

construct.json names the module around each op. Where it is empty, the paths of the modules tell; where there are no
modules either (level L1), the call stacks do: ops that were called from one line of the user's code are a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FOLDED = 4
"""So many ops outside modules in a row become a group."""
MOST_PHASES = 64
"""Forward and backward become groups if they alternate at most so often."""
Row = Mapping[str, Any]


@dataclass
class Tree:
    """The tree over `rows` and the groups after them: by node its parent (-1 for a root), and the label of each group.

    `order` lists the nodes from the top, children in program order.
    """

    parents: list[int]
    places: list[float]
    directions: list[str]
    labels: list[str] = field(default_factory=list)
    order: list[int] = field(default_factory=list)

    def add_group(self, label: str, place: float, direction: str = "", parent: int = -1) -> int:
        """Add a group and return its node."""
        self.parents.append(parent)
        self.places.append(place)
        self.directions.append(direction)
        self.labels.append(label)
        return len(self.parents) - 1


def tree_of(rows: Sequence[Row], frames: Mapping[int, Sequence[str]]) -> Tree:
    """Return the tree of `rows` (sql/view/nodes.sql). `frames` are the user's frames by stack, innermost first."""
    tree = Tree(
        parents=[-1] * len(rows),
        places=[row["place"] for row in rows],
        directions=["backward" if row["direction"] == "parameters_grad" else row["direction"] or "" for row in rows],
    )
    if any(row["target_parent"] or row["golden_parent"] for row in rows):
        _by_construct(tree, rows)
    elif any(row["kind"] == "module" for row in rows):
        _by_path(tree, rows)
    else:
        _by_stacks(tree, rows, frames)
    _break_cycles(tree)
    _move_to_first(tree)
    _fold_roots(tree, rows)
    _group_phases(tree)
    _sort(tree)
    return tree


def _by_construct(tree: Tree, rows: Sequence[Row]) -> None:
    nodes = {
        side: {row[f"{side}_op"]: node for node, row in enumerate(rows) if row[f"{side}_op"] is not None}
        for side in ("target", "golden")
    }
    groups: dict[str, int] = {}
    gradients = {row["api"]: node for node, row in enumerate(rows) if _is_backward_module(row)}
    for node, row in enumerate(rows):
        side = "target" if row["target_op"] is not None else "golden"
        parent = row[f"{side}_parent"] or _parent_of_forward(rows, nodes[side], row[f"{side}_op"], side)
        if row["direction"] == "parameters_grad":
            tree.parents[node] = gradients.get(row["api"], -1)
        elif parent in nodes[side]:
            tree.parents[node] = nodes[side][parent]
        elif parent is not None:
            if parent not in groups:
                groups[parent] = tree.add_group(parent, row["place"])
            tree.parents[node] = groups[parent]


def _is_backward_module(row: Row) -> bool:
    return row["kind"] == "module" and row["direction"] == "backward"


def _parent_of_forward(rows: Sequence[Row], nodes: Mapping[str, int], op: str, side: str) -> str | None:
    """Return the backward module around a backward op whose parent was not recorded: that of its forward op."""
    if not op.endswith(".backward"):
        return None
    forward = nodes.get(f"{op.removesuffix('.backward')}.forward")
    parent = rows[forward][f"{side}_parent"] if forward is not None else None
    backward = parent.replace(".forward.", ".backward.") if parent else None
    return backward if backward in nodes else None


def _by_path(tree: Tree, rows: Sequence[Row]) -> None:
    """Put each module below the module with the longest path that its own begins with."""
    modules: dict[tuple[str, str, int | None], int] = {}
    for node, row in enumerate(rows):
        if row["kind"] == "module":
            modules.setdefault((row["api"], tree.directions[node], row["call"]), node)
    for node, row in enumerate(rows):
        if row["kind"] not in ("module", "parameters_grad"):
            continue
        path = row["api"]
        if row["kind"] == "parameters_grad":
            tree.parents[node] = modules.get((path, "backward", 0), -1)
            continue
        while "." in path:
            path = path.rpartition(".")[0]
            found = modules.get((path, tree.directions[node], row["call"]))
            if found is not None and found != node:
                tree.parents[node] = found
                break


def _by_stacks(tree: Tree, rows: Sequence[Row], frames: Mapping[int, Sequence[str]]) -> None:
    """Group ops in a row that were called from the same lines: a group per frame, the outermost first."""
    forward: dict[str, tuple[str, ...]] = {}
    open_groups: list[tuple[str, int]] = []
    for node, row in enumerate(rows):
        op = row["target_op"] or row["golden_op"]
        stack = row["target_stack"] if row["target_op"] is not None else None
        called = tuple(reversed(frames.get(stack, ())))[:-1] if stack is not None else ()
        if tree.directions[node] == "backward":
            called = forward.get(op.removesuffix(".backward"), ())
        else:
            forward[op.removesuffix(".forward")] = called
        called = (f"#{tree.directions[node]}", *called)  # forward and backward never share a group
        shared = 0
        while shared < min(len(called), len(open_groups)) and open_groups[shared][0] == called[shared]:
            shared += 1
        del open_groups[shared:]
        for frame in called[shared:]:
            parent = open_groups[-1][1] if open_groups else -1
            group = -1 if frame.startswith("#") else tree.add_group(_short(frame), row["place"], tree.directions[node], parent)
            open_groups.append((frame, group))
        tree.parents[node] = open_groups[-1][1] if open_groups else -1


def _short(frame: str) -> str:
    """Return a frame as `function, file:line`."""
    parts = [part.strip() for part in frame.split(",")]
    if len(parts) < 3 or not parts[0].startswith("File "):
        return frame
    file, line, function = parts[0][5:], parts[1].removeprefix("line "), parts[2].removeprefix("in ")
    return f"{function}, {file.rpartition('/')[2]}:{line}"


def _break_cycles(tree: Tree) -> None:
    """Make a root of a node that is its own ancestor: construct.json is foreign text."""
    state = bytearray(len(tree.parents))  # 0 unseen, 1 on the way, 2 known
    for start in range(len(tree.parents)):
        way, node = [], start
        while node >= 0 and state[node] == 0:
            state[node] = 1
            way.append(node)
            node = tree.parents[node]
        if node >= 0 and state[node] == 1:
            tree.parents[way[-1]] = -1
        for passed in way:
            state[passed] = 2


def _move_to_first(tree: Tree) -> None:
    """Give each module the place of the first op in it: a module is recorded when it ends."""
    for node in reversed(_from_top(tree)):
        parent = tree.parents[node]
        if parent >= 0:
            if tree.places[node] < tree.places[parent]:
                tree.places[parent] = tree.places[node]
            tree.directions[parent] = tree.directions[parent] or tree.directions[node]


def _from_top(tree: Tree) -> list[int]:
    """Return all nodes, each after its parent."""
    children = _children(tree)
    found = list(children.get(-1, ()))
    for node in found:
        found.extend(children.get(node, ()))
    return found


def _children(tree: Tree) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(node)
    return children


def _fold_roots(tree: Tree, rows: Sequence[Row]) -> None:
    children = _children(tree)
    runs: list[list[int]] = [[]]
    for node in sorted(children.get(-1, ()), key=lambda node: tree.places[node]):
        is_alone = node < len(rows) and node not in children
        if runs[-1] and (not is_alone or tree.directions[runs[-1][-1]] != tree.directions[node]):
            runs.append([])
        if is_alone:
            runs[-1].append(node)
    for run in runs:
        if len(run) >= FOLDED and len(run) < len(rows):
            _gather(tree, run, f"{len(run)} ops outside modules")


def _group_phases(tree: Tree) -> None:
    roots = sorted(_children(tree).get(-1, ()), key=lambda node: tree.places[node])
    runs: list[list[int]] = []
    for node in roots:
        direction = tree.directions[node] if not _is_named_group(tree, node) else ""
        if not runs or not direction or direction != tree.directions[runs[-1][0]] or _is_named_group(tree, runs[-1][0]):
            runs.append([])
        runs[-1].append(node)
    phases = [run for run in runs if len(run) > 1]
    if len(runs) > MOST_PHASES or len(runs) == len(roots) or len(runs) == 1:
        return
    counts: dict[str, int] = {}
    for run in phases:
        direction = tree.directions[run[0]]
        counts[direction] = counts.get(direction, 0) + 1
        number = f" {counts[direction]}" if counts[direction] > 1 else ""
        _gather(tree, run, f"{direction}{number}")


def _is_named_group(tree: Tree, node: int) -> bool:
    """Return whether `node` is a group that the dump itself names: optimizer, clip_grad."""
    number = node - (len(tree.parents) - len(tree.labels))
    return number >= 0 and " " not in tree.labels[number]


def _gather(tree: Tree, nodes: Sequence[int], label: str) -> None:
    group = tree.add_group(label, tree.places[nodes[0]], tree.directions[nodes[0]])
    for node in nodes:
        tree.parents[node] = group


def _sort(tree: Tree) -> None:
    children = _children(tree)
    for listed in children.values():
        listed.sort(key=lambda node: tree.places[node], reverse=True)
    waiting = children.get(-1, [])
    while waiting:
        node = waiting.pop()
        tree.order.append(node)
        waiting.extend(children.get(node, ()))
