"""What the search for a mapping costs: python benchmarks/searching.py [LAYERS].

Writes two dumps of one transformer of so many layers (430: 19 780 ops and 24 940), as PyTorch and as MindSpore would
name its ops, with random statistics and another rounding on either side; and one of MindSpore in which nothing agrees
from the middle on. Then it compares them in a lake, and prints the processor time of the whole comparison, of one by
names alone, and of the search.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakeprobe
from lakeprobe.lake import layout
from lakeprobe.lake.connection import connect
from lakeprobe.lake.layout import UnitKey
from lakeprobe.mapping.search import search
from lakeprobe.system.own_process import prepare

Json = dict[str, Any]
Call = tuple[str, str, list[str], list[str]]
"""An op of the model: its name in PyTorch and in MindSpore, and the tensors that it takes in and puts out."""

_WIDE, _HIDDEN, _SCORES = [4, 128, 4096], [4, 128, 1024], [4, 16, 128, 128]


def layer(number: int) -> Iterator[Call]:
    """The forward ops of a layer: x and its weights in, the next layer's x out."""
    tensor = f"{number}.".__add__
    x, out = f"{number}.x", f"{number + 1}.x"
    yield "Functional.layer_norm", "Primitive.layer_norm.LayerNorm", [x, tensor("w1"), tensor("b1")], [tensor("n")]
    for part in "qkv":
        yield from _linear(tensor("n"), tensor(f"w{part}"), tensor(part))
        yield "Tensor.view", "Primitive.reshape.Reshape", [tensor(part)], [tensor(part)]
        yield "Tensor.transpose", "Primitive.transpose.Transpose", [tensor(part)], [tensor(part)]
    yield "Torch.matmul", "Primitive.batch_matmul.BatchMatMul", [tensor("q"), tensor("k")], [tensor("s")]
    yield "Tensor.__mul__", "Primitive.mul.Mul", [tensor("s")], [tensor("scaled.s")]
    yield "Functional.softmax", "Functional.softmax", [tensor("scaled.s")], [tensor("soft.s")]
    yield "Torch.matmul", "Primitive.batch_matmul.BatchMatMul", [tensor("soft.s"), tensor("v")], [tensor("a")]
    yield "Tensor.transpose", "Primitive.transpose.Transpose", [tensor("a")], [tensor("a")]
    yield "Tensor.reshape", "Primitive.reshape.Reshape", [tensor("a")], [tensor("a")]
    yield from _linear(tensor("a"), tensor("wo"), tensor("o"))
    yield "Tensor.__add__", "Primitive.add.Add", [x, tensor("o")], [tensor("r")]
    weights = [tensor("w2"), tensor("b2")]
    yield "Functional.layer_norm", "Primitive.layer_norm.LayerNorm", [tensor("r"), *weights], [tensor("m")]
    yield from _linear(tensor("m"), tensor("wu"), tensor("wide.u"))
    yield "Functional.gelu", "Functional.gelu", [tensor("wide.u")], [tensor("wide.g")]
    yield from _linear(tensor("wide.g"), tensor("wd"), tensor("d"))
    yield "Tensor.__add__", "Primitive.add.Add", [tensor("r"), tensor("d")], [out]


def _linear(x: str, weight: str, out: str) -> Iterator[Call]:
    """A linear, which is a product and a sum in MindSpore (a name that one side has not is empty)."""
    yield "Functional.linear", "", [x, weight, f"{weight}.bias"], [out]
    yield "", "Primitive.matmul.MatMul", [x, weight], [f"{out}.product"]
    yield "", "Primitive.bias_add.BiasAdd", [f"{out}.product", f"{weight}.bias"], [out]


def dump(folder: Path, side: int, layers: int, wrong: int | None = None) -> None:
    """Write the dump of a side: forward, then backward with the gradients of the outputs in and of the inputs out.

    From layer `wrong` on, forward, and all through the backward pass, no value is what it should be.
    """
    calls: Counter[str] = Counter()
    entries: Json = {}
    forward = [(call[side], call[2], call[3]) for number in range(layers) for call in layer(number) if call[side]]
    names = []
    for name, inputs, outputs in forward:
        names.append(f"{name}.{calls[name]}")
        calls[name] += 1
        entries[f"{names[-1]}.forward"] = _entry(side, inputs, outputs, wrong)
    for name, (_, inputs, outputs) in zip(reversed(names), reversed(forward), strict=True):
        entry = _entry(side, [f"grad.{each}" for each in outputs], [f"grad.{each}" for each in inputs], wrong)
        entries[f"{name}.backward"] = {"input": entry["input_args"], "output": entry["output"]}
    place = folder / "step0" / "rank0"
    place.mkdir(parents=True)
    framework = ("pytorch", "mindspore")[side]
    head = {"task": "statistics", "level": "L1", "framework": framework, "dump_data_dir": None}
    (place / "dump.json").write_text(json.dumps({**head, "data": entries}, indent=1))
    (place / "stack.json").write_text("{}")


def _entry(side: int, inputs: list[str], outputs: list[str], wrong: int | None) -> Json:
    leaves = [[_tensor(side, name, wrong) for name in names] for names in (inputs, outputs)]
    return {"input_args": leaves[0], "input_kwargs": {}, "output": leaves[1]}


def _tensor(side: int, name: str, wrong: int | None) -> Json:
    """The same numbers wherever the tensor is seen; on the other side they are rounded otherwise, by 1e-6."""
    numbers, noise = random.Random(name), random.Random(f"{side} {name}")
    shape = _SCORES if name.endswith(".s") else _WIDE if "wide." in name else _HIDDEN
    values = [numbers.uniform(1, 4), -numbers.uniform(1, 4), numbers.uniform(-1e-3, 1e-3), 100 * numbers.uniform(1, 2)]
    off = 1e-2 if _is_behind(name, wrong) else 1e-6
    shaken = [value * (1 + off * noise.gauss(0, 1)) for value in values]
    statistics = dict(zip(("Max", "Min", "Mean", "Norm"), shaken, strict=True))
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, **statistics, "requires_grad": False}


def _is_behind(name: str, wrong: int | None) -> bool:
    """Whether the tensor is an activation of layer `wrong` or a later one, or a gradient."""
    layer, _, tensor = name.removeprefix("grad.").partition(".")
    is_weight = tensor.startswith(("w", "b")) and not tensor.startswith("wide")
    return wrong is not None and (name.startswith("grad.") or (not is_weight and int(layer) > wrong))


def _costs(lake_folder: Path, target: str, golden: str) -> tuple[float, float, float]:
    """The processor time of the whole comparison, of one by names alone, and of the search by itself; best of 3."""
    rounds = []
    for _ in range(3):
        with lakeprobe.open(lake_folder, create=True) as lake:
            started = time.process_time()
            lake.compare(target, golden, name="searched", replace=True)
            whole = time.process_time()
            lake.compare(target, golden, name="by_names", replace=True, search=False)
            by_names = time.process_time()
        units = [layout.unit_place(lake_folder, UnitKey(name, 0, 0)) for name in (target, golden)]
        connection = connect()
        begun = time.process_time()
        search(connection, *units)
        alone = time.process_time()
        connection.close()
        rounds.append((whole - started, by_names - whole, alone - begun))
    return tuple(map(min, zip(*rounds, strict=True)))  # type: ignore[return-value]


def main() -> None:
    """Print the times."""
    prepare()  # as on the command line
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 430
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        runs = {"pytorch": (0, None), "mindspore": (1, None), "defect": (1, layers // 2)}
        with lakeprobe.open(path / "lake", create=True) as lake:
            for name, (side, wrong) in runs.items():
                dump(path / name, side, layers, wrong)
                lake.ingest(path / name, run=name)
        for target in ("mindspore", "defect"):
            whole, by_names, alone = _costs(path / "lake", target, "pytorch")
            print(
                f"{target}: comparison {whole:.2f} s, by names alone {by_names:.2f} s, "
                f"search {alone:.2f} s: {alone / whole:.0%}"
            )


if __name__ == "__main__":
    main()
