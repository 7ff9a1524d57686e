"""Reads MindSpore's IR (*.ir): which lines of code the nodes of a compiled graph, and so its kernels, come from.

    subgraph @kernel_graph0() {
      %4(x) = PrimFunc_Reshape(%3, …) … cnode_primal_attrs: {unique_id: "25442"}
          # Fullname with scope: (Default/network-Net/fc-Dense/Reshape-op0)
          # In file /train/net.py:39~40, 4~40/    def construct(self, x):/
          # In file /train/net.py:40, 25~36/        return self.head(self.blocks(x))/
    }

The lines go from the outermost call to the innermost. A kernel is named by its scope, with _ for /. A node of the
backward pass has forward_unique_id, the unique_id of the node whose gradient it computes; where it has no lines of its
own, those of that node stand for it. A node without a line of the user's, such as an update of the optimizer or a sum
of gradients, has the lines of what it is computed from, or else of what uses it, marked so. MindSpore writes IR beside
a kernel dump (rank_R/graphs), and with MS_DEV_SAVE_GRAPHS=1; the files of releases before 2.3 say
`# In file /train/net.py(40)/ … /`.
A constant may fill many lines of a node, which are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct, field

from lakeprobe.bounds import LONGEST_IR_LINE, MOST_IR_NODES
from lakeprobe.errors import DumpError
from lakeprobe.system.files import open_regular

if TYPE_CHECKING:
    from lakeprobe.readers.tables import Tables

SUFFIX = ".ir"
GRAPHS_FOLDER = "graphs"
"""The folder of a rank in which MindSpore writes the IR of the graphs that it dumps."""

_NODE = re.compile(r"\s*%(?P<node>\w+)\((?P<name>[^)]*)\) = (?P<op>[^\s(]+)\(")
_SCOPE = re.compile(r"\s*# (?:Fullname with scope: |scope: )?\((?P<scope>[^()]+)\)\s*$")
_FRAME = re.compile(  # file, line, and the code between slashes, perhaps with a remark after it
    r"\s*# In file (?P<file>.+?)(?::(?P<line>\d+)|\((?P<old>\d+)\))(?:~\d+)?(?:, [\d~]+)?"
    r"/(?P<code>.*?)/(?:<~~.*)?\s*$"
)
_FUNCTION = re.compile(r"\s*def (\w+)")
_INPUT = re.compile(r"%(\w+)")
_NUMBER = re.compile(r"-op\d+$")
_OWN = re.compile(r"(site-packages|dist-packages|package)/mindspore/")
"""In the paths of MindSpore's own files."""
_ORDER = "UpdateState"
"""The operator that only orders its inputs: no data passes through it."""
_UNIQUE = re.compile(r'(?P<forward>forward_)?unique_id: "(?P<id>\d+)"')


class Node(Struct):
    """A node of a graph: its name in the file, the operator, the scope, its frames, and what it is the gradient of.

    `frames` are innermost first, as in stack.json. `line` is where the node stands in the file.
    """

    graph: str
    number: str
    name: str
    op: str
    line: int
    inputs: tuple[str, ...] = ()
    scope: str = ""
    frames: list[str] = field(default_factory=list)
    unique_id: str = ""
    forward_id: str = ""


def nodes(path: Path) -> list[Node]:
    """Return the nodes of the graphs in a file, in its order. Raises DumpError if the file is cut short or not IR."""
    try:
        with open_regular(path) as file:
            found = list(_nodes(path, _lines(path, file)))
    except OSError as error:
        raise DumpError(f"{path} cannot be read: {error.strerror}; copy it again") from error
    if not found:
        raise DumpError(f"{path} is not IR of MindSpore: it has no node; save the graphs again, or remove it")
    forward = {node.unique_id: node for node in reversed(found) if node.unique_id and node.frames}
    for node in found:
        if not node.frames and node.forward_id in forward:
            node.frames = forward[node.forward_id].frames
    _take_over(found)
    return found


def _take_over(found: Sequence[Node]) -> None:
    """Give nodes without a line of the user's those of what they are computed from, or else of what uses them.

    An update of a parameter has a gradient among its inputs, which comes before the others.
    """
    numbered = {(node.graph, node.number): node for node in found if node.op != _ORDER}
    sources = {
        id(node): sorted(
            (numbered[node.graph, number] for number in node.inputs if (node.graph, number) in numbered),
            key=lambda source: not source.forward_id,
        )
        for node in numbered.values()
    }
    uses: dict[int, list[Node]] = {}
    for node in numbered.values():
        for source in sources[id(node)]:
            uses.setdefault(id(source), []).append(node)
    lines = {id(node): _users(node.frames) for node in numbered.values()}
    for nodes, neighbours, remark in (  # inputs stand before a node, and what uses it after it
        (list(numbered.values()), sources, "[its input comes from here]"),
        (list(reversed(numbered.values())), uses, "[it is used for what comes from here]"),
        (list(numbered.values()), sources, "[its input comes from here]"),
    ):
        for node in nodes:
            if not lines[id(node)]:
                near = (lines[id(other)] for other in neighbours.get(id(node), ()))
                lines[id(node)] = next((theirs for theirs in near if theirs), [])
                node.frames = [*node.frames, *(f"{frame} {remark}" for frame in lines[id(node)])]


def _users(frames: Iterable[str]) -> list[str]:
    """The frames that are not of MindSpore's own files."""
    return [frame for frame in frames if not _OWN.search(frame)]


def frames_by_kernel(files: Iterable[Path]) -> dict[str, Sequence[str]]:
    """The frames of each kernel in the files, innermost first, by the name that a kernel dump gives it."""
    found: dict[str, Sequence[str]] = {}
    for path in files:
        for node in nodes(path):
            if node.scope and node.frames:
                found.setdefault(kernel_name(node.scope), node.frames)
    for name, frames in list(found.items()):  # later passes may number the ops of a scope anew
        found.setdefault(_NUMBER.sub("", name), frames)
    return found


class Lines:
    """The lines of code of the kernels of a dump, and how many kernels have none."""

    def __init__(self, files: Iterable[Path], tables: Tables) -> None:
        """Read the IR among `files`, and keep call stacks in `tables`. Raises DumpError."""
        self._frames = frames_by_kernel(path for path in files if path.suffix == SUFFIX)
        self._tables = tables
        self._kernels: set[str] = set()
        self._without: set[str] = set()

    def stack(self, kernel: str) -> int | None:
        """Return the number of a kernel's call stack, by its name with or without its number. None if it has none."""
        frames = self._frames.get(kernel) or self._frames.get(_NUMBER.sub("", kernel))
        self._kernels.add(kernel)
        if frames:
            return self._tables.stack(frames)
        self._without.add(kernel)
        return None

    def notes(self) -> list[str]:
        """Return a note on kernels without a line, if the dump has IR."""
        if not self._frames or not self._without:
            return []
        counts = f"{len(self._without)} of {len(self._kernels)} kernels"
        return [f"{counts} have no line of code in the IR, for example {min(self._without)}"]


def graphs_of(folder: Path, root: Path) -> list[Path]:
    """Return the IR of a dump's graphs: in a folder from `folder` up to `root`, or in a folder `graphs` next to one."""
    above = (folder, *folder.parents)
    for each in above[: above.index(root) + 1 if root in above else 1]:
        for place in (each, each / GRAPHS_FOLDER):
            found = sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else []
            if found:
                return found
    return []


def kernel_name(scope: str) -> str:
    """The name of the kernel of a scope, as the files of a kernel dump have it."""
    return scope.replace("/", "_")


def _nodes(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[Node]:
    graph, node, function, count = "", None, "", 0
    for number, line in lines:
        begun = _begun(graph, number, line) if graph else None
        if node is not None and begun is None and not _ends(line):
            function = _take(node, line, function)
            continue
        if node is not None:
            yield node
        node, function, count = begun, "", count + (begun is not None)
        if count > MOST_IR_NODES:
            raise DumpError(f"{path} has more than {MOST_IR_NODES} nodes; give the IR of one graph")
        if line.startswith("subgraph @"):
            if graph:
                raise _cut_short(path, graph)
            graph = line[len("subgraph @") :].partition("(")[0]
        elif line.startswith("}"):
            graph = ""
    if graph:
        raise _cut_short(path, graph)


def _begun(graph: str, number: int, line: str) -> Node | None:
    """The node that begins with a line of a graph."""
    match = _NODE.match(line)
    if match is None:
        return None
    inputs = tuple(_INPUT.findall(line, match.end()))
    node = Node(graph, match["node"], match["name"], match["op"].removeprefix("PrimFunc_"), number, inputs)
    _take_ids(node, line)
    return node


def _ends(line: str) -> bool:
    """Return whether a line begins something else than the node before it."""
    return line.startswith(("}", "subgraph @")) or line.lstrip().startswith("Return(")


def _take(node: Node, line: str, function: str) -> str:
    """Add to a node what a line after it says. Returns the function that the next lines of code are in."""
    if match := _FRAME.match(line):
        if defined := _FUNCTION.match(match["code"]):
            return defined[1]
        place = f"File {match['file']}, line {match['line'] or match['old']}, in {function or 'construct'}"
        node.frames.insert(0, f"{place}, {match['code'].strip()}")
    elif not node.scope and (match := _SCOPE.match(line)):
        node.scope = match["scope"]
    else:
        _take_ids(node, line)
    return function


def _take_ids(node: Node, line: str) -> None:
    for match in _UNIQUE.finditer(line):
        if match["forward"]:
            node.forward_id = match["id"]
        else:
            node.unique_id = match["id"]


def _lines(path: Path, file: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers. A line that is too long is reduced to its beginning and end."""
    number, is_within = 0, False
    while line := file.readline(LONGEST_IR_LINE):
        number += not is_within
        is_within = not line.endswith(b"\n")
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            if len(line) < LONGEST_IR_LINE:
                raise DumpError(f"{path} is not text (line {number}); save the graphs again, or remove it") from error


def _cut_short(path: Path, graph: str) -> DumpError:
    return DumpError(f"{path} ends in the middle of the graph {graph!r:.80}; save the graphs again, or remove it")
