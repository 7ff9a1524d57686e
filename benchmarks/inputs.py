"""Makes the dumps that the benchmarks read: large ones, of the small job of four ranks in tests/data.

    python benchmarks/inputs.py statistics FOLDER RANKS OPS [ROUNDING]
    python benchmarks/inputs.py tensors FOLDER OPS MEGABYTES       (with a Python that has torch)

FOLDER gets target/ and golden/, each as step0/rank*/dump.json with what is beside it. Both are equal up to an op in the
middle; from there on the target's statistics or tensors are off by a thousandth. With ROUNDING, say 1e-6, statistics of
what the target's ops made are off by up to so much, as between two chips. The same call makes the same files.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Json = Any
SIDES = ("target", "golden")
TEMPLATE = Path(__file__).resolve().parents[1] / "tests" / "data" / "dumps" / "ranks" / "golden" / "step0"
JOB = 4
"""Ranks of the template. A larger job is many of it, whose collectives over all ranks have all of them as members."""
OFF = 1.001
SCALES = 4
"""So many different scales of the statistics follow one another, so that copies of the template differ."""
DIGITS_WRITTEN = 6
"""A number of so few digits is written into the program, so no chip rounds it."""
POINT_TO_POINT = re.compile(r"Distributed\.(isend|irecv|send|recv)\.")
STATISTICS = ("Max", "Min", "Mean", "Norm")
NUMBER = re.compile(rf'"(?:{"|".join(STATISTICS)})": (-?[0-9][0-9.e+-]*)')
WIDTH = 1024
"""Columns of the tensors that are made."""


# ---- statistics ---------------------------------------------------------------------------------------------


def statistics(folder: Path, ranks: int, ops: int, rounding: float = 0.0) -> None:
    """Write statistics dumps of `ranks` ranks with at least `ops` ops each."""
    for rank in range(ranks):
        source = TEMPLATE / f"rank{rank % JOB}"
        dump, stack, construct = (
            json.loads((source / f"{name}.json").read_text()) for name in ("dump", "stack", "construct")
        )
        entries = {name: _placed(name, entry, rank, ranks) for name, entry in dump.pop("data").items()}
        copies = -(-ops // len(entries))
        calls = Counter(name.rsplit(".", 2)[0] for name in entries if not _is_module(name) and ".forward" in name)
        construct = {name: parent for name, parent in construct.items() if "." in name}  # others are no ops
        names = [{name: _renamed(name, copy, calls) for name in {*entries, *construct}} for copy in range(copies)]
        texts = _texts(entries)
        for side in SIDES:
            into = folder / side / "step0" / f"rank{rank}"
            into.mkdir(parents=True)
            is_target = side == "target"
            first_off = copies // 2 if is_target else copies
            _write_dump(into / "dump.json", dump, texts, names, first_off, rounding if is_target else 0.0)
            _write_json(into / "stack.json", _stacks(stack, names))
            parents = ((old[name], old.get(parent)) for old in names for name, parent in construct.items())
            _write_json(into / "construct.json", dict(parents))


def _is_module(name: str) -> bool:
    return name.startswith("Module.")


def _renamed(name: str, copy: int, calls: Counter[str]) -> str:
    """The name in a copy of the template: modules are in a part of their own, API calls are numbered on."""
    if _is_module(name):
        return f"Module.parts.{copy}.{name.removeprefix('Module.')}"
    api, number, direction = name.rsplit(".", 2)
    return f"{api}.{int(number) + copy * calls[api]}.{direction}"


def _placed(name: str, entry: Json, rank: int, ranks: int) -> Json:
    """The entry as the rank of a larger job has it: its groups, and the ranks that it sends to and receives from."""
    first = rank - rank % JOB
    whole = list(range(JOB))

    def placed(value: Json, is_peer: bool) -> Json:
        if isinstance(value, list):
            return [placed(item, is_peer) for item in value]
        if not isinstance(value, dict):
            return value
        value = {key: placed(inner, is_peer) for key, inner in value.items()}
        if is_peer and value.get("type") == "int":
            value["value"] += first
        if "peer" in value:
            value["peer"] += first
        if "group_ranks" in value:
            members = value["group_ranks"]
            members = list(range(ranks)) if members == whole else [first + member for member in members]
            value |= {"group_ranks": members, "group_id": f"{zlib.crc32(repr(members).encode()):08x}"}
        return value

    arguments = {"input_args", "input_kwargs"}
    is_call = bool(POINT_TO_POINT.match(name)) or "group" in entry.get("input_kwargs", {})
    return {key: placed(value, is_call and key in arguments) for key, value in entry.items()}


def _texts(entries: dict[str, Json]) -> list[dict[str, str]]:
    """The entries as texts at each scale, and again at each scale where they are off."""
    scales = [1 + number / 64 for number in range(SCALES)]
    return [
        {name: _member(_scaled(entry, factor)) for name, entry in entries.items()}
        for factor in (*scales, *(OFF * scale for scale in scales))
    ]


def _numbers_made(texts: dict[str, str]) -> set[str]:
    """The statistics of what ops computed, as they are written, but for those that a program has written.

    What is taken before an op gives it, as parameters and data, was not computed.
    """
    found: set[str] = set()
    given: set[str] = set()
    for name, text in texts.items():
        taken, _, made = (NUMBER.findall(part) for part in text.partition('"output"'))
        given.update(number for number in taken if number not in found)
        if not name.startswith("Distributed."):
            found.update(number for number in made if number not in given and _digits(number) > DIGITS_WRITTEN)
    return found


def _digits(number: str) -> int:
    return len(re.sub(r"e.*|\D", "", number).strip("0"))


def _rounded(text: str, made: set[str], copy: int, rounding: float) -> str:
    """The text with the numbers that were `made` off by up to `rounding`: a number by as much wherever it stands."""

    def off(found: re.Match[str]) -> str:
        number = found[1]
        if number not in made:
            return found[0]
        share = zlib.crc32(f"{copy} {number}".encode()) / 2**31 - 1
        return found[0].replace(number, repr(float(number) * (1 + rounding * share)))

    return NUMBER.sub(off, text)


def _write_dump(
    path: Path,
    head: Json,
    texts: list[dict[str, str]],
    names: list[dict[str, str]],
    first_off: int,
    rounding: float,
) -> None:
    """Write dump.json as msprobe lays it out. From the copy `first_off` on, the statistics are off.

    In every copy those of what ops computed are off by up to `rounding`.
    """
    made = [_numbers_made(text) for text in texts] if rounding else []
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head, indent=1).removesuffix("\n}") + ',\n "data": {')
        separator = "\n"
        for copy, renamed in enumerate(names):
            scale = copy % SCALES + (SCALES if copy >= first_off else 0)
            for name, text in texts[scale].items():
                written = _rounded(text, made[scale], copy, rounding) if made else text
                file.write(f'{separator}  "{renamed[name]}": {written}')
                separator = ",\n"
        file.write("\n }\n}")


def _member(entry: Json) -> str:
    return json.dumps(entry, indent=1).replace("\n", "\n  ")


def _scaled(value: Json, factor: float) -> Json:
    """The value with its statistics times `factor`."""
    if isinstance(value, list):
        return [_scaled(item, factor) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: inner * factor if key in STATISTICS and isinstance(inner, float) else _scaled(inner, factor)
        for key, inner in value.items()
    }


def _stacks(stack: Json, names: list[dict[str, str]]) -> Json:
    found = ([[renamed[op] for op in ops], frames] for renamed in names for ops, frames in stack.values())
    return {str(number): entry for number, entry in enumerate(found)}


def _write_json(path: Path, value: Json) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


# ---- tensors ------------------------------------------------------------------------------------------------


def tensors(folder: Path, ops: int, megabytes: float) -> None:
    """Write tensor dumps of `ops` linear layers, each with one input and one output of so many MB as .pt files."""
    import torch

    rows = int(megabytes * 1e6 / 4 / WIDTH)
    for side in SIDES:
        into = folder / side / "step0" / "rank0"
        (into / "dump_tensor_data").mkdir(parents=True)
        random = np.random.default_rng(7)
        data = {}
        for number in range(ops):
            name = f"Functional.linear.{number}.forward"
            leaves = []
            for slot in ("input.0", "output.0"):
                values = random.standard_normal((rows, WIDTH), np.float32)
                if side == "target" and number >= ops // 2:
                    values *= np.float32(OFF)
                file = f"{name}.{slot}.pt"
                torch.save(torch.from_numpy(values), into / "dump_tensor_data" / file)
                leaves.append(_leaf(values) | {"data_name": file})
            data[name] = {"input_args": leaves[:1], "input_kwargs": {}, "output": leaves[1:]}
        head = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": "dump_tensor_data"}
        _write_json(into / "dump.json", head | {"data": data})
        frames = ["File /train/model.py, line 40, in forward, \n x = self.layers(x)"]
        _write_json(into / "stack.json", {"0": [list(data), frames]})
        _write_json(into / "construct.json", dict.fromkeys(data))


def _leaf(values: np.ndarray) -> Json:
    wide = values.astype(np.float64)
    found = (values.max(), values.min(), wide.mean(), np.linalg.norm(wide))
    numbers: Iterator[tuple[str, float]] = zip(STATISTICS, map(float, found), strict=True)
    form = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(values.shape)}
    return form | dict(numbers) | {"requires_grad": False}


def main() -> None:
    """Make what is asked for."""
    kind, folder, *numbers = sys.argv[1:]
    if kind == "statistics":
        statistics(Path(folder), *map(int, numbers[:2]), *map(float, numbers[2:]))
    elif kind == "tensors":
        tensors(Path(folder), int(numbers[0]), float(numbers[1]))
    else:
        raise SystemExit(f"statistics or tensors, not {kind}")


if __name__ == "__main__":
    main()
