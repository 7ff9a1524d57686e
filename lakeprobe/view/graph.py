"""Builds the graph of one side of a (step, rank) as tb-graph-ascend shows it: a tree below DefaultModel.

Its rules are those that users of the plug-in know (docs/view.md lists them): the hierarchy of construct.json, a
backward op without parent below the backward of its forward op's module, recomputed modules below the backward of the
module around them, ops between modules gathered, gradients of parameters below the last backward of their module.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from lakeprobe.view.recompute import homes

ROOT = "DefaultModel"
BETWEEN_MODULES = "Apis_Between_Modules"
MODULE, API, COLLECTION = 0, 1, 9
"""The plug-in's types of nodes."""
NO_FORWARD = "This backward node cannot find the forward node and cannot retrieve stack information."
_BACKWARD = re.compile(r"\.backward(\.\d+)?$")
Row = Mapping[str, Any]


class Node(Struct):
    """A node: an op, or a gathering of ops; its children are in the order of construct.json."""

    name: str
    type: int
    seq: int | None = None
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    frames: Sequence[str] = ()
    micro_step: int = 0
    depth: int = 0

    def way(self) -> list[str]:
        """Return the names from the root to this node."""
        names = [self.name]
        node = self
        while node.parent is not None:
            node = node.parent
            names.append(node.name)
        return names[::-1]


def graph(rows: Sequence[Row]) -> dict[str, Node]:
    """Return the nodes of `rows` (sql/view/graph_nodes.sql) by name, those of the tree below `ROOT` only."""
    parents = {row["op"]: row["parent"] for row in rows if row["is_constructed"]}
    root = Node(ROOT, MODULE)
    nodes = {ROOT: root}
    for row in rows:
        if row["is_constructed"]:
            node = nodes.setdefault(row["op"], Node(row["op"], API if row["kind"] == "api" else MODULE))
            node.seq, node.frames = row["seq"], row["frames"] or ()
            node.micro_step = row["micro_step"] or 0
    for row in rows:
        if row["is_constructed"]:
            _attach(nodes[row["op"]], nodes.get(_parent(row["op"], parents) or "", root), root)
    _place_recomputed(nodes, {row["op"] for row in rows if row["is_recompute"]})
    _add_gradients(nodes, rows)
    _take_frames_of_forward(nodes)
    _gather_between_modules(nodes)
    _number_micro_steps(nodes, any(row["micro_step"] is not None for row in rows))
    return {node.name: node for node in in_order(root)}


def in_order(root: Node) -> Iterator[Node]:
    """Yield the nodes below `root`, children before their parent."""
    waiting = [(root, False)]
    while waiting:
        node, is_done = waiting.pop()
        if is_done:
            yield node
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))


def _attach(node: Node, parent: Node, root: Node) -> None:
    """Put `node` below `parent`, or below the root if `parent` is below `node`: construct.json is foreign text."""
    above: Node | None = parent
    while above is not None and above is not node:
        above = above.parent
    node.parent = root if above is node else parent
    node.parent.children.append(node)


def _parent(op: str, parents: Mapping[str, str | None]) -> str | None:
    """Return the parent of `op`, with the rules for backward ops whose own entry has none, or that of a neighbour."""
    parent = parents[op]
    match = _BACKWARD.search(op)
    if not match:
        return parent
    if parent is not None and (match[1] is None or not _is_neighbour(op, parent)):
        return parent
    forward = f"{op[: match.start()]}.forward{match[1] or ''}"
    if forward not in parents:
        return parent
    above = parents[forward]
    if above is None:
        return None
    backward = above.replace(".forward", ".backward")
    return backward if backward in parents else parent


def _is_neighbour(op: str, parent: str) -> bool:
    """Return whether `parent` is not the module that the path of `op` is in: an in-place layer triggers no hook."""
    own, above = op.split("."), parent.split(".")
    return len(own) >= 5 and len(above) >= 4 and own[:-4] != above[:-3]


def _place_recomputed(nodes: Mapping[str, Node], recomputed: Container[str]) -> None:
    root = nodes[ROOT]
    modules = [node for node in nodes.values() if node.type == MODULE and node.parent is not None]
    parents = {node.name: None if node.parent in (None, root) else node.parent.name for node in modules}
    for name, home in homes(parents, recomputed).items():
        if name not in nodes[home].way():
            root.children.remove(nodes[name])
            _attach(nodes[name], nodes[home], root)


def _add_gradients(nodes: dict[str, Node], rows: Sequence[Row]) -> None:
    """Put the gradients of parameters that construct.json does not name below the last backward of their module."""
    last: dict[str, int] = {}
    for name in nodes:
        module, _, call = name.rpartition(".")
        if module.endswith(".backward") and call.isdecimal():
            last[module] = max(last.get(module, 0), int(call))
    for row in rows:
        if row["kind"] != "parameters_grad" or row["op"] in nodes:
            continue
        backward = re.sub(r"\.parameters_grad(\.\d+)?$", ".backward", row["op"])
        parent = nodes.get(f"{backward}.{last.get(backward, 0)}")
        if parent is not None:
            nodes[row["op"]] = Node(row["op"], MODULE, row["seq"], parent)
            parent.children.append(nodes[row["op"]])


def _take_frames_of_forward(nodes: Mapping[str, Node]) -> None:
    for name, node in nodes.items():
        match = _BACKWARD.search(name)
        if match and not node.frames:
            forward = nodes.get(f"{name[: match.start()]}.forward{'.0' if match[1] else ''}")
            node.frames = forward.frames if forward else (NO_FORWARD,)


def _gather_between_modules(nodes: dict[str, Node]) -> None:
    """Gather two or more ops in a row below the root."""
    root = nodes[ROOT]
    runs: list[list[Node]] = []
    for node in root.children:
        if node.type == API and runs and runs[-1][-1].type == API:
            runs[-1].append(node)
        else:
            runs.append([node])
    root.children = []
    for run in runs:
        if len(run) == 1:
            root.children += run
            continue
        number = sum(node.type == COLLECTION for node in root.children)
        gathered = Node(f"{BETWEEN_MODULES}.{number}", COLLECTION, parent=root, children=run)
        gathered.micro_step = run[0].micro_step
        for node in run:
            node.parent = gathered
        root.children.append(gathered)


def _number_micro_steps(nodes: Mapping[str, Node], is_recorded: bool) -> None:
    """Number the micro steps: a new one begins with the first forward module after another kind of module."""
    root = nodes[ROOT]
    if is_recorded:
        return
    micro_step, is_over = 0, False
    for node in root.children:
        if node.type == MODULE:
            if ".forward." in node.name:
                micro_step += is_over
                is_over = False
            else:
                is_over = True
        for below in in_order(node):
            below.micro_step = micro_step
