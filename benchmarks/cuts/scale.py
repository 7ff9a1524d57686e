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
from collections.abc import Iterator, Sequence
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
        return [data * self.tp + one for one in range(self.tp)] if axis == "tp" else [one * self.tp + tensor for one in range(self.dp)]  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """A tensor of the whole: its name and shape, the dimension that an axis cuts, and the axes that it is a sum over."""

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
            "type": "torch.Tensor", "dtype": "torch.float32", "shape": shape,
            "Max": value * (2 + max(known) / 100), "Min": -value * (2 + max(known) / 90),
            "Mean": sum(value * (one + 1) / 100 for one in known) / len(known),
            "Norm": value * sqrt(elements * sum((1 + one / 50) ** 2 for one in known)), "requires_grad": True,
        }  # fmt: skip


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

    def call(self, api: str) -> int:
        """The number of the next call of an API."""
        self.calls[api] = self.calls.get(api, -1) + 1
        return self.calls[api]

    def reduce(self, layer: int, axis: str, tensor: Tensor, parent: str | None) -> None:
        """An all_reduce of a partial sum; the whole has none."""
        if getattr(self.cut, axis) == 1:
            return
        members = self.cut.group(axis)
        group = {"type": "torch.ProcessGroup", "group_ranks": members, "group_id": f"{zlib.crc32(repr(members).encode()):08x}"}  # fmt: skip
        left = tuple(other for other in tensor.sums if other != axis)
        after = Tensor(tensor.name, tensor.shape, tensor.cuts, left)
        name = f"Distributed.all_reduce.{self.call('all_reduce')}.forward"
        given, taken = self.leaves(layer, [tensor, after])
        self.add(name, parent, {"input_args": [given], "input_kwargs": {"group": group}, "output": [taken, group]})


def layer_ops(number: int, program: Program) -> Iterator[None]:
    """Add the forward ops of a layer; then, when asked again, its backward ops."""
    rows, tensor = ("dp", 0), ("tp", 2)
    hidden = (BATCH, SEQUENCE, WIDTH)

    def of(name: str, *cuts: tuple[str, int], shape: tuple[int, ...] = hidden, sums: tuple[str, ...] = ()) -> Tensor:
        return Tensor(name, shape, cuts, sums)

    heads = (BATCH, HEADS, SEQUENCE, WIDTH // HEADS)
    query, key, value, mixed = (of(name, rows, ("tp", 1), shape=heads) for name in ("query", "key", "value", "mixed"))
    x, first, second, last = (of(name, rows) for name in ("x", "first", "second", "last"))
    normed, normed_again = of("normed", rows), of("normed_again", rows)
    fused = of("fused", rows, tensor, shape=(BATCH, SEQUENCE, 3 * WIDTH))
    joined = of("joined", rows, tensor)
    wide, active = (of(name, rows, tensor, shape=(BATCH, SEQUENCE, 4 * WIDTH)) for name in ("wide", "active"))
    attended, down = (of(name, rows, sums=("tp",)) for name in ("attended", "down"))
    scales = [of(name, shape=(WIDTH,)) for name in ("scale", "shift")]
    scales_again = [of(name, shape=(WIDTH,)) for name in ("scale_again", "shift_again")]
    modules: list[tuple[str, str, Tensor, Tensor, list[Tensor], list[Tensor], str]] = [
        ("norm_before", "LayerNorm", x, normed, [x, *scales], scales, "Functional.layer_norm"),
        ("qkv", "ColumnParallelLinear", normed, fused, [normed, of("fused_weight", ("tp", 0), shape=(3 * WIDTH, WIDTH))], [of("fused_weight", ("tp", 0), shape=(3 * WIDTH, WIDTH))], "Functional.linear"),
        ("core", "Attention", fused, mixed, [query, key, value], [], "Functional.scaled_dot_product_attention"),
        ("proj", "RowParallelLinear", joined, attended, [joined, of("proj_weight", ("tp", 1), shape=(WIDTH, WIDTH))], [of("proj_weight", ("tp", 1), shape=(WIDTH, WIDTH))], "Functional.linear"),
        ("norm_between", "LayerNorm", second, normed_again, [second, *scales_again], scales_again, "Functional.layer_norm"),
        ("up", "ColumnParallelLinear", normed_again, wide, [normed_again, of("up_weight", ("tp", 0), shape=(4 * WIDTH, WIDTH))], [of("up_weight", ("tp", 0), shape=(4 * WIDTH, WIDTH))], "Functional.linear"),
        ("act", "GELU", wide, active, [wide], [], "Functional.gelu"),
        ("down", "RowParallelLinear", active, down, [active, of("down_weight", ("tp", 1), shape=(WIDTH, 4 * WIDTH))], [of("down_weight", ("tp", 1), shape=(WIDTH, 4 * WIDTH))], "Functional.linear"),
    ]  # fmt: skip
    block = f"Module.layers.{number}.Layer.forward.0"
    made: list[tuple[str, int]] = []
    for path, kind, given, taken, inputs, parameters, api in modules:
        name = f"Module.layers.{number}.{path}.{kind}.forward.0"
        made.append((api, program.call(api)))
        program.add(f"{api}.{made[-1][1]}.forward", name, {"input_args": program.leaves(number, inputs), "input_kwargs": {}, "output": program.leaves(number, [taken])})  # fmt: skip
        result = Tensor(taken.name, taken.shape, taken.cuts)
        if taken.sums:
            program.reduce(number, "tp", taken, name)
        own = dict(zip(("weight", "bias"), program.leaves(number, parameters), strict=False))
        program.add(name, block, {"input_args": program.leaves(number, [given]), "input_kwargs": {}, "output": program.leaves(number, [result]), "parameters": own})  # fmt: skip
        if taken.sums:
            before, after = (x, second) if path == "proj" else (second, last)
            made.append(("Tensor.__add__", program.call("Tensor.__add__")))
            program.add(f"Tensor.__add__.{made[-1][1]}.forward", block, {"input_args": program.leaves(number, [before, result]), "input_kwargs": {}, "output": program.leaves(number, [after])})  # fmt: skip
    program.add(block, None, {"input_args": program.leaves(number, [x]), "input_kwargs": {}, "output": program.leaves(number, [last]), "parameters": {}})  # fmt: skip
    yield

    def back(one: Tensor, *sums: str) -> Tensor:
        return Tensor(f"{one.name}'", one.shape, one.cuts, sums)

    block = block.replace("forward", "backward")
    program.add(block, None, {"input": program.leaves(number, [back(last)]), "output": program.leaves(number, [back(x)])})  # fmt: skip
    for path, kind, given, taken, inputs, parameters, _ in reversed(modules):
        name = f"Module.layers.{number}.{path}.{kind}.backward.0"
        if taken.sums:
            api, nth = made.pop()
            program.add(f"{api}.{nth}.backward", block, {"input": program.leaves(number, [back(last)]), "output": program.leaves(number, [back(second), back(taken)])})  # fmt: skip
        api, nth = made.pop()
        is_column = kind == "ColumnParallelLinear"
        gradients = [
            back(one, "dp") if one in parameters else back(one, *(("tp",) if is_column else ())) for one in inputs
        ]
        program.add(f"{api}.{nth}.backward", name, {"input": program.leaves(number, [back(taken)]), "output": program.leaves(number, gradients)})  # fmt: skip
        if is_column:
            program.reduce(number, "tp", gradients[0], name)
        program.add(name, block, {"input": program.leaves(number, [back(taken)]), "output": program.leaves(number, [back(given)])})  # fmt: skip
        if parameters:
            own = zip(("weight", "bias"), parameters, strict=False)
            program.add(f"Module.layers.{number}.{path}.{kind}.parameters_grad", name, {slot: program.leaves(number, [back(one, "dp")]) for slot, one in own})  # fmt: skip
    yield
    for *_, parameters, _ in modules:
        for one in parameters:
            program.reduce(number, "dp", back(one, "dp"), None)
    yield


def write_dump(folder: Path, cut: Mesh, whole: Mesh, layers: int) -> int:
    """Write the dump of a rank; how many ops it has."""
    program = Program(cut, whole)
    ids = (BATCH, SEQUENCE)
    tokens = Tensor("tokens", ids, (("dp", 0),)).entry(0, cut, whole) | {"dtype": "torch.int64"}
    embedded = Tensor("x", (*ids, WIDTH), (("dp", 0),)).entry(0, cut, whole)
    program.add("Functional.embedding.0.forward", None, {"input_args": [tokens], "input_kwargs": {}, "output": [embedded]})  # fmt: skip
    made = [layer_ops(number, program) for number in range(layers)]
    for direction in (made, made[::-1], made):
        for one in direction:
            next(one)
    folder.mkdir(parents=True)
    head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps(head | {"data": program.data}))
    (folder / "stack.json").write_text(json.dumps({"0": [list(program.data), ["File train.py, line 40, in step, \n loss.backward()"]]}))  # fmt: skip
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
        made = [write_dump(folder / "cut" / "step0" / f"rank{rank}", Mesh(tp, dp, rank), mesh, layers) for rank in range(tp * dp)]  # fmt: skip
        print(f"{made[0]} ops a rank", file=sys.stderr)
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
    plain, memory, _ = cost(["compare", "cut", "other", "--lake", lake, "--name", "plain", "--replace", "--jobs", "1", "--quiet"])  # fmt: skip
    print(f"| each rank with its own | {plain:.1f} | {memory:.0f} |", flush=True)
    merged, memory, said = cost(["compare", "cut", "whole", "--cuts", "auto", "--lake", lake, "--name", "merged", "--replace", "--jobs", "1"])  # fmt: skip
    print(f"| merged, with the whole | {merged:.1f} ({merged / plain:.2f}×) | {memory:.0f} |")
    print(said[-3000:], file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
