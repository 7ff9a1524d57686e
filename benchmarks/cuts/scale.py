"""Measure the merge of a large cut run: CPU seconds and memory beside the comparison of the same ranks without merging.

    python -m benchmarks.cuts.scale [TP DP OPS]

Makes statistics dumps of a transformer over TP × DP ranks with at least OPS ops each (8 8 20000 if not given), and of
the whole, ingests them, and keeps the lake in benchmarks/work. Prints a Markdown table: `compare` of all ranks, each
with the same rank of another run, and `compare --cuts auto` with the whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod, sqrt
from pathlib import Path
from typing import Any

WORK = Path(__file__).resolve().parents[1] / "work"
LAKEPROBE = [sys.executable, "-m", "lakeprobe"]
BATCH, SEQUENCE, WIDTH, HEADS = 8, 128, 512, 8
OPS_OF_LAYER = 56

Json = dict[str, Any]


@dataclass(frozen=True)
class Mesh:
    """The sizes of the axes, and where a rank stands; the whole has one rank."""

    tp: int = 1
    dp: int = 1
    rank: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """The rank's coordinates: tp, dp."""
        return self.rank % self.tp, self.rank // self.tp

    def group(self, axis: str) -> list[int]:
        """The ranks that a collective over an axis joins."""
        tensor, data = self.place
        if axis == "tp":
            return [data * self.tp + one for one in range(self.tp)]
        return [one * self.tp + tensor for one in range(self.dp)]


@dataclass(frozen=True)
class Tensor:
    """A tensor of the whole: its name and shape, the dimension that an axis cuts, and the axes it is a sum over."""

    name: str
    shape: tuple[int, ...]
    cuts: tuple[tuple[str, int], ...] = ()
    sums: tuple[str, ...] = ()

    def entry(self, layer: int, cut: Mesh, whole: Mesh) -> Json:
        """What a dump has of the part of a rank. Statistics are numbers that merge into those of the whole."""
        shape, first, parts = list(self.shape), 0, 1
        for axis, dimension in self.cuts:
            size, place = (whole.tp, cut.place[0]) if axis == "tp" else (whole.dp, cut.place[1])
            shape[dimension] //= getattr(cut, axis)
            first, parts = first * size + place, parts * size
        value = 1 + zlib.crc32(f"{self.name} {layer}".encode()) % 997 / 997
        for axis, place in zip(("tp", "dp"), cut.place, strict=True):
            if axis in self.sums and getattr(cut, axis) > 1:
                value *= 0.1 + place / 100
        known = range(parts) if cut.tp * cut.dp == 1 else [first]
        elements = prod(shape) // len(known)
        return {
            "type": "torch.Tensor",
            "dtype": "torch.float32",
            "shape": shape,
            "Max": value * (2 + max(known) / 100),
            "Min": -value * (2 + max(known) / 90),
            "Mean": sum(value * (one + 1) / 100 for one in known) / len(known),
            "Norm": value * sqrt(elements * sum((1 + one / 50) ** 2 for one in known)),
            "requires_grad": True,
        }


@dataclass
class Program:
    """The ops of a rank, as a dump has them, and their modules."""

    cut: Mesh
    whole: Mesh
    data: dict[str, Json] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def leaves(self, layer: int, tensors: Sequence[Tensor]) -> list[Json]:
        """The entries of tensors of a layer."""
        return [tensor.entry(layer, self.cut, self.whole) for tensor in tensors]

    def add(self, name: str, parent: str | None, entry: Json) -> None:
        """The next op."""
        self.data[name], self.parents[name] = entry, parent

    def forward(self, name: str, parent: str | None, layer: int, given: Sequence[Tensor], taken: Tensor) -> None:
        """A forward op."""
        inputs, outputs = self.leaves(layer, given), self.leaves(layer, [taken])
        self.add(name, parent, {"input_args": inputs, "input_kwargs": {}, "output": outputs})

    def backward(self, name: str, parent: str | None, layer: int, given: Tensor, taken: Sequence[Tensor]) -> None:
        """A backward op."""
        self.add(name, parent, {"input": self.leaves(layer, [given]), "output": self.leaves(layer, taken)})

    def call(self, api: str) -> int:
        """The number of the next call of an API."""
        self.calls[api] = self.calls.get(api, -1) + 1
        return self.calls[api]

    def reduce(self, layer: int, axis: str, tensor: Tensor, parent: str | None) -> None:
        """An all_reduce of a partial sum; the whole has none."""
        if getattr(self.cut, axis) == 1:
            return
        members = self.cut.group(axis)
        name = f"{zlib.crc32(repr(members).encode()):08x}"
        group = {"type": "torch.ProcessGroup", "group_ranks": members, "group_id": name}
        left = tuple(other for other in tensor.sums if other != axis)
        after = Tensor(tensor.name, tensor.shape, tensor.cuts, left)
        name = f"Distributed.all_reduce.{self.call('all_reduce')}.forward"
        given, taken = self.leaves(layer, [tensor, after])
        self.add(name, parent, {"input_args": [given], "input_kwargs": {"group": group}, "output": [taken, group]})


@dataclass(frozen=True)
class Part:
    """A module of a layer: its path and class, what goes in and out, and the API that it calls with its arguments."""

    path: str
    kind: str
    given: Tensor
    taken: Tensor
    api: str
    arguments: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...] = ()


ROWS, COLUMNS = ("dp", 0), ("tp", 2)
HIDDEN = (BATCH, SEQUENCE, WIDTH)
X, SECOND, LAST, NORMED, AGAIN = (Tensor(name, HIDDEN, (ROWS,)) for name in ("x", "second", "last", "normed", "again"))
FUSED = Tensor("fused", (BATCH, SEQUENCE, 3 * WIDTH), (ROWS, COLUMNS))
HEADS_CUT = ((BATCH, HEADS, SEQUENCE, WIDTH // HEADS), (ROWS, ("tp", 1)))
QUERY, KEY, VALUE, MIXED = (Tensor(name, *HEADS_CUT) for name in ("query", "key", "value", "mixed"))
JOINED = Tensor("joined", HIDDEN, (ROWS, COLUMNS))
WIDE, ACTIVE = (Tensor(name, (BATCH, SEQUENCE, 4 * WIDTH), (ROWS, COLUMNS)) for name in ("wide", "active"))
ATTENDED, DOWN = (Tensor(name, HIDDEN, (ROWS,), ("tp",)) for name in ("attended", "down"))
SCALES = tuple(Tensor(name, (WIDTH,)) for name in ("scale", "shift"))
SCALES_AGAIN = tuple(Tensor(name, (WIDTH,)) for name in ("scale_again", "shift_again"))
FUSED_WEIGHT = Tensor("fused_weight", (3 * WIDTH, WIDTH), (("tp", 0),))
PROJ_WEIGHT = Tensor("proj_weight", (WIDTH, WIDTH), (("tp", 1),))
UP_WEIGHT = Tensor("up_weight", (4 * WIDTH, WIDTH), (("tp", 0),))
DOWN_WEIGHT = Tensor("down_weight", (WIDTH, 4 * WIDTH), (("tp", 1),))
NORM, LINEAR, ATTENTION = "Functional.layer_norm", "Functional.linear", "Functional.scaled_dot_product_attention"
PARTS = (
    Part("norm_before", "LayerNorm", X, NORMED, NORM, (X, *SCALES), SCALES),
    Part("qkv", "ColumnParallelLinear", NORMED, FUSED, LINEAR, (NORMED, FUSED_WEIGHT), (FUSED_WEIGHT,)),
    Part("core", "Attention", FUSED, MIXED, ATTENTION, (QUERY, KEY, VALUE)),
    Part("proj", "RowParallelLinear", JOINED, ATTENDED, LINEAR, (JOINED, PROJ_WEIGHT), (PROJ_WEIGHT,)),
    Part("norm_between", "LayerNorm", SECOND, AGAIN, NORM, (SECOND, *SCALES_AGAIN), SCALES_AGAIN),
    Part("up", "ColumnParallelLinear", AGAIN, WIDE, LINEAR, (AGAIN, UP_WEIGHT), (UP_WEIGHT,)),
    Part("act", "GELU", WIDE, ACTIVE, "Functional.gelu", (WIDE,)),
    Part("down", "RowParallelLinear", ACTIVE, DOWN, LINEAR, (ACTIVE, DOWN_WEIGHT), (DOWN_WEIGHT,)),
)
ADD = "Tensor.__add__"


def gradient(of: Tensor, *sums: str) -> Tensor:
    """The gradient of a tensor, which is a sum over some axes."""
    return Tensor(f"{of.name}'", of.shape, of.cuts, sums)


def layer_forward(number: int, program: Program) -> list[tuple[str, int]]:
    """Add the forward ops of a layer; the API calls that were made."""
    block = f"Module.layers.{number}.Layer.forward.0"
    made: list[tuple[str, int]] = []
    for part in PARTS:
        name = f"Module.layers.{number}.{part.path}.{part.kind}.forward.0"
        made.append((part.api, program.call(part.api)))
        program.forward(f"{part.api}.{made[-1][1]}.forward", name, number, part.arguments, part.taken)
        result = Tensor(part.taken.name, part.taken.shape, part.taken.cuts)
        if part.taken.sums:
            program.reduce(number, "tp", part.taken, name)
        program.forward(name, block, number, [part.given], result)
        own = zip(("weight", "bias"), program.leaves(number, part.parameters), strict=False)
        program.data[name]["parameters"] = dict(own)
        if part.taken.sums:
            before, after = (X, SECOND) if part.path == "proj" else (SECOND, LAST)
            made.append((ADD, program.call(ADD)))
            program.forward(f"{ADD}.{made[-1][1]}.forward", block, number, [before, result], after)
    program.forward(block, None, number, [X], LAST)
    return made


def layer_backward(number: int, program: Program, made: list[tuple[str, int]]) -> None:
    """Add the backward ops of a layer, whose forward ops made the API calls `made`."""
    block = f"Module.layers.{number}.Layer.backward.0"
    program.backward(block, None, number, gradient(LAST), [gradient(X)])
    for part in reversed(PARTS):
        module = f"Module.layers.{number}.{part.path}.{part.kind}"
        if part.taken.sums:
            api, nth = made.pop()
            given, taken = gradient(LAST), [gradient(SECOND), gradient(part.taken)]
            program.backward(f"{api}.{nth}.backward", block, number, given, taken)
        api, nth = made.pop()
        is_column = part.kind == "ColumnParallelLinear"
        gradients = [
            gradient(one, "dp") if one in part.parameters else gradient(one, *(("tp",) if is_column else ()))
            for one in part.arguments
        ]
        name = f"{module}.backward.0"
        program.backward(f"{api}.{nth}.backward", name, number, gradient(part.taken), gradients)
        if is_column:
            program.reduce(number, "tp", gradients[0], name)
        program.backward(name, block, number, gradient(part.taken), [gradient(part.given)])
        if part.parameters:
            own = zip(("weight", "bias"), part.parameters, strict=False)
            entry = {slot: program.leaves(number, [gradient(one, "dp")]) for slot, one in own}
            program.add(f"{module}.parameters_grad", name, entry)


def write_dump(folder: Path, cut: Mesh, whole: Mesh, layers: int) -> int:
    """Write the dump of a rank; how many ops it has."""
    program = Program(cut, whole)
    tokens = Tensor("tokens", (BATCH, SEQUENCE), (ROWS,))
    program.forward("Functional.embedding.0.forward", None, 0, [tokens], X)
    program.data["Functional.embedding.0.forward"]["input_args"][0] |= {"dtype": "torch.int64"}
    made = [layer_forward(number, program) for number in range(layers)]
    for number in reversed(range(layers)):
        layer_backward(number, program, made[number])
    for number in range(layers):
        for one in (one for part in PARTS for one in part.parameters):
            program.reduce(number, "dp", gradient(one, "dp"), None)
    folder.mkdir(parents=True)
    head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps(head | {"data": program.data}))
    stack = {"0": [list(program.data), ["File train.py, line 40, in step, \n loss.backward()"]]}
    (folder / "stack.json").write_text(json.dumps(stack))
    (folder / "construct.json").write_text(json.dumps(program.parents))
    return len(program.data)


def lake_of(tp: int, dp: int, ops: int) -> Path:
    """A lake with the runs cut, other (the same ranks again) and whole."""
    lake = WORK / f"cuts_{tp}x{dp}x{ops}"
    if lake.exists():
        return lake
    mesh, layers = Mesh(tp, dp), -(-ops // OPS_OF_LAYER)
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        folder = Path(name)
        write_dump(folder / "whole" / "step0" / "rank0", Mesh(), mesh, layers)
        for rank in range(tp * dp):
            made = write_dump(folder / "cut" / "step0" / f"rank{rank}", Mesh(tp, dp, rank), mesh, layers)
        print(f"{made} ops a rank", file=sys.stderr)
        for run, source in (("whole", "whole"), ("cut", "cut"), ("other", "cut")):
            cost(["ingest", folder / source, "--run", run, "--lake", lake])
    return lake


def cost(arguments: Sequence[str | Path]) -> tuple[float, float, str]:
    """CPU seconds (user and system, with all that it starts), the largest memory in MB, and what a command says."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*LAKEPROBE, *map(str, arguments)], stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode()
        if process.returncode not in (0, 1):  # 1: it found something
            raise SystemExit(f"{arguments} failed:\n{said[-2000:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, said


def main(arguments: list[str]) -> int:
    """Measure; 0 always."""
    tp, dp, ops = map(int, arguments or ("8", "8", "20000"))
    WORK.mkdir(exist_ok=True)
    lake = lake_of(tp, dp, ops)
    print(f"| {tp * dp} ranks × {ops} ops | CPU s | memory, MB |\n|---|---|---|")
    how: list[str | Path] = ["--lake", lake, "--replace", "--jobs", "1"]
    plain, memory, _ = cost(["compare", "cut", "other", "--name", "plain", *how])
    print(f"| each rank with its own | {plain:.1f} | {memory:.0f} |", flush=True)
    merged, memory, said = cost(["compare", "cut", "whole", "--cuts", "auto", "--name", "merged", *how])
    print(f"| merged, with the whole | {merged:.1f} ({merged / plain:.2f}×) | {memory:.0f} |")
    print(said[-3000:], file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
