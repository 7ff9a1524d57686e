"""Finds the hierarchy of the ops of one (step, rank): modules, and the groups that make a long list readable.

construct.json names the module around each op. Where it is empty, the paths of the modules tell; where there are no
modules either (level L1), the call stacks do: ops that were called from one line of the user's code are a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from lakeprobe.view.recompute import homes

FOLDED = 4
"""The number of consecutive ops outside modules that become a group."""
MOST_PHASES = 64
"""The number of alternations up to which forward and backward become groups."""
Row = Mapping[str, Any]
COLUMNS = (
    "place", "direction", "kind", "api", "call", "is_recompute", "target_op", "golden_op", "target_parent",
    "golden_parent", "target_stack",
)  # fmt: skip
"""The columns of sql/view/nodes.sql that a tree is made of."""


class Tree(Struct):
    """The tree over `rows` and the groups after them: by node its parent (-1 for a root), and the label of each group.

    `order` lists the nodes from the top, children in program order.
    """

    parents: list[int]
    places: list[float]
    directions: list[str]
    labels: list[str] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    named: set[int] = field(default_factory=set)
    """Parts of a step that construct.json names although they are not ops: optimizer, clip_grad."""

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
        _place_recomputed(tree, rows)
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
        if "." not in row[f"{side}_op"]:
            tree.named.add(node)
        parent = row[f"{side}_parent"] or _parent_of_forward(rows, nodes[side], row[f"{side}_op"], side)
        if row["direction"] == "parameters_grad":
            tree.parents[node] = gradients.get(row["api"], -1)
        elif parent in nodes[side]:
            tree.parents[node] = nodes[side][parent]
        elif parent is not None:
            if parent not in groups:
                groups[parent] = tree.add_group(parent, row["place"])
                tree.named.add(groups[parent])
            tree.parents[node] = groups[parent]


def _place_recomputed(tree: Tree, rows: Sequence[Row]) -> None:
    """Put modules that were recomputed where they belong; else each would be a phase of its own."""
    for side in ("target", "golden"):
        modules = {
            row[f"{side}_op"]: node
            for node, row in enumerate(rows)
            if row[f"{side}_op"] is not None
            and row["kind"] == "module"
            and (side == "target" or row["target_op"] is None)
        }
        recomputed = {name for name, node in modules.items() if rows[node]["is_recompute"]}
        if recomputed:
            parents = {name: rows[node][f"{side}_parent"] for name, node in modules.items()}
            for name, home in homes(parents, recomputed).items():
                tree.parents[modules[name]] = modules[home]


def _is_backward_module(row: Row) -> bool:
    return bool(row["kind"] == "module" and row["direction"] == "backward")


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
    calls = _calls(tree, rows, frames)
    common = _shared(min(calls, default=()), max(calls, default=()))
    open_groups: list[tuple[str, int]] = []
    direction = ""
    for node, called in enumerate(calls):
        if tree.directions[node] != direction:
            direction, open_groups = tree.directions[node], []
        lines = called[common:]
        del open_groups[_shared([frame for frame, _ in open_groups], lines) :]
        for frame in lines[len(open_groups) :]:
            parent = open_groups[-1][1] if open_groups else -1
            open_groups.append((frame, tree.add_group(_short(frame), rows[node]["place"], direction, parent)))
        tree.parents[node] = open_groups[-1][1] if open_groups else -1


def _calls(tree: Tree, rows: Sequence[Row], frames: Mapping[int, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return for each op the lines that it was called from, the outermost first, without its own line.

    A backward op has those of its forward op. An op without a stack has those of the op before it.
    """
    calls: list[tuple[str, ...]] = []
    forward: dict[str, tuple[str, ...]] = {}
    for node, row in enumerate(rows):
        op, stack = row["target_op"] or row["golden_op"], row["target_stack"]
        called = tuple(reversed(frames.get(stack, ())[1:])) if stack is not None else None
        if tree.directions[node] == "backward":
            called = forward.get(op.removesuffix(".backward"))
        elif called is not None:
            forward[op.removesuffix(".forward")] = called
        calls.append(called if called is not None else calls[-1] if calls else ())
    return calls


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many texts both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


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
        is_other = not runs or tree.directions[node] != tree.directions[runs[-1][0]]
        if is_other or node in tree.named or runs[-1][0] in tree.named:
            runs.append([])
        runs[-1].append(node)
    runs = _joined(tree, runs)
    phases = [run for run in runs if len(run) > 1]
    if len(runs) > MOST_PHASES or len(runs) == len(roots) or len(runs) == 1:
        return
    counts: dict[str, int] = {}
    for run in phases:
        direction = tree.directions[run[0]]
        counts[direction] = counts.get(direction, 0) + 1
        number = f" {counts[direction]}" if counts[direction] > 1 else ""
        _gather(tree, run, f"{direction}{number}")


def _joined(tree: Tree, runs: list[list[int]]) -> list[list[int]]:
    """Join two runs of one direction that a single node is between: a collective of the backward has a forward name."""
    joined: list[list[int]] = []
    for run in runs:
        is_same = len(joined) > 1 and tree.directions[joined[-2][0]] == tree.directions[run[0]]
        if is_same and len(joined[-1]) == 1 and not tree.named.intersection((joined[-1][0], joined[-2][0], run[0])):
            joined[-2:] = [joined[-2] + joined[-1] + run]
        else:
            joined.append(run)
    return joined


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
