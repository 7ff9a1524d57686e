"""Makes dumps of a small job whose collectives numpy works out, so that tests know what each rank must get."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

WORLD = 4
_DTYPES = {"float32": "Float32", "float16": "Float16", "bfloat16": "BFloat16", "int64": "Int64"}


@dataclass(frozen=True)
class Group:
    """A process group: its ranks in order."""

    ranks: tuple[int, ...]


@dataclass(frozen=True)
class ReduceOp:
    """A reduction as an argument."""

    name: str


@dataclass
class P2POp:
    """One send or receive of a batch."""

    op: str
    tensor: Any
    peer: int


@dataclass
class Call:
    """One call of all its ranks: arguments before, keywords, and arguments after (as an op in place leaves them)."""

    api: str
    before: dict[int, list[Any]]
    after: dict[int, list[Any]]
    keywords: dict[int, dict[str, Any]] = field(default_factory=dict)


def job(seed: int = 0) -> dict[str, Call]:
    """A call of each collective, by a name. The results are worked out here, in float64 where they are sums."""
    random = np.random.default_rng(seed)
    world = range(WORLD)

    def tensors(*shape: int, dtype: Any = np.float32) -> dict[int, Any]:
        return {rank: random.normal(size=shape).astype(dtype) for rank in world}

    def empty(like: Any) -> Any:
        return np.zeros_like(like)

    def total(values: Iterable[Any], dtype: Any = np.float32) -> Any:
        return np.sum([value.astype(np.float64) for value in values], axis=0).astype(dtype)

    calls: dict[str, Call] = {}
    x = tensors(4, 3)
    calls["broadcast"] = Call(
        "broadcast", {r: [x[r]] for r in world}, {r: [x[1].copy()] for r in world}, {r: {"src": 1} for r in world}
    )
    for name, dtype in {
        "all_reduce": np.float32,
        "all_reduce_half": np.float16,
        "all_reduce_bf": ml_dtypes.bfloat16,
    }.items():
        x = tensors(5, 8, dtype=dtype)
        calls[name] = Call("all_reduce", {r: [x[r]] for r in world}, {r: [total(x.values(), dtype)] for r in world})
    x = tensors(6)
    calls["all_reduce_max"] = Call(
        "all_reduce",
        {r: [x[r]] for r in world},
        {r: [np.max(list(x.values()), axis=0)] for r in world},
        {r: {"op": ReduceOp("MAX")} for r in world},
    )
    x = tensors(6)
    calls["all_reduce_pair"] = Call(
        "all_reduce",
        {r: [x[r], ReduceOp("AVG"), Group((3, 1))] for r in (1, 3)},
        {r: [total([x[1], x[3]]) / np.float32(2), ReduceOp("AVG"), Group((3, 1))] for r in (1, 3)},
    )
    x = {r: random.integers(-9, 9, 7) for r in world}
    calls["all_reduce_int"] = Call("all_reduce", {r: [x[r]] for r in world}, {r: [sum(x.values())] for r in world})
    x = tensors(4)
    calls["reduce"] = Call(
        "reduce",
        {r: [x[r]] for r in world},
        {r: [total(x.values()) if r == 2 else x[r] + 7] for r in world},
        {r: {"dst": 2} for r in world},
    )
    x = tensors(3)
    calls["all_gather"] = Call(
        "all_gather", {r: [None, x[r]] for r in world}, {r: [[x[s].copy() for s in world], x[r]] for r in world}
    )
    x = tensors(2, 3)
    calls["all_gather_into_tensor"] = Call(
        "all_gather_into_tensor",
        {r: [None, x[r]] for r in (0, 2)},
        {r: [np.concatenate([x[2], x[0]]), x[r]] for r in (0, 2)},
        {r: {"group": Group((2, 0))} for r in (0, 2)},
    )
    x = tensors(3)
    calls["gather"] = Call(
        "gather",
        {r: [x[r], None] for r in world},
        {r: [x[r], [x[s].copy() for s in world] if r == 3 else None] for r in world},
        {r: {"dst": 3} for r in world},
    )
    x = tensors(3)
    calls["scatter"] = Call(
        "scatter",
        {r: [None, list(x.values()) if r == 0 else None] for r in world},
        {r: [x[r].copy(), list(x.values()) if r == 0 else None] for r in world},
        {r: {"src": 0} for r in world},
    )
    y = {r: [random.normal(size=2).astype(np.float32) for _ in world] for r in world}
    calls["reduce_scatter"] = Call(
        "reduce_scatter",
        {r: [None, y[r]] for r in world},
        {r: [total(y[s][r] for s in world), y[r]] for r in world},
    )
    x = tensors(8, 3)
    calls["reduce_scatter_tensor"] = Call(
        "reduce_scatter_tensor",
        {r: [None, x[r]] for r in world},
        {r: [total(x.values())[2 * r : 2 * r + 2], x[r]] for r in world},
    )
    x = tensors(8)
    calls["all_to_all_single"] = Call(
        "all_to_all_single",
        {r: [None, x[r]] for r in world},
        {r: [np.concatenate([x[s][2 * r : 2 * r + 2] for s in world]), x[r]] for r in world},
    )
    splits = {r: [int(n) for n in np.roll([0, 1, 2, 3], r)] for r in world}
    x = tensors(6, 2)
    cut = {r: np.split(x[r], np.cumsum(splits[r])[:-1]) for r in world}
    calls["all_to_all_uneven"] = Call(
        "all_to_all_single",
        {r: [None, x[r], [splits[s][r] for s in world], splits[r]] for r in world},
        {
            r: [np.concatenate([cut[s][r] for s in world]), x[r], [splits[s][r] for s in world], splits[r]]
            for r in world
        },
    )
    z = {r: [random.normal(size=1 + s).astype(np.float32) for s in world] for r in world}
    calls["all_to_all"] = Call(
        "all_to_all",
        {r: [None, z[r]] for r in world},
        {r: [[z[s][r].copy() for s in world], z[r]] for r in world},
    )
    x = tensors(5)
    calls["send"] = Call("send", {0: [x[0], 1]}, {0: [x[0], 1]})
    calls["recv"] = Call("recv", {1: [None, 0]}, {1: [x[0].copy(), 0]})
    x = tensors(5)
    ring = {r: ((r + 1) % WORLD, (r - 1) % WORLD) for r in world}
    calls["batch"] = Call(
        "batch_isend_irecv",
        {r: [[P2POp("isend", x[r], ring[r][0]), P2POp("irecv", empty(x[r]), ring[r][1])]] for r in world},
        {r: [[P2POp("isend", x[r], ring[r][0]), P2POp("irecv", x[ring[r][1]].copy(), ring[r][1])]] for r in world},
    )
    return calls


def write(folder: Path, calls: dict[str, Call], mode: str, ranks: Iterable[int] = range(WORLD)) -> Path:
    """Write step0 of the job. `mode`: tensor (contents), statistics, xor (digests alone) or md5 (both)."""
    for rank in ranks:
        writer = _Writer(folder / "step0" / f"rank{rank}", mode)
        for call in calls.values():
            if rank in call.before:
                writer.add(call, rank)
        writer.close()
    return folder


class _Writer:
    def __init__(self, folder: Path, mode: str) -> None:
        self.folder, self.mode = folder, mode
        self.data: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        (folder / "dump_tensor_data").mkdir(parents=True)

    def add(self, call: Call, rank: int) -> None:
        number = self.counts[call.api] = self.counts.get(call.api, -1) + 1
        op = f"MintDistributed.{call.api}.{number}.forward"
        keywords = call.keywords.get(rank, {})
        self.data[op] = {
            "input_args": [self.leaf(value, f"{op}.input.{i}") for i, value in enumerate(call.before[rank])],
            "input_kwargs": {name: self.leaf(value, f"{op}.kwargs.{name}") for name, value in keywords.items()},
            "output": [
                self.leaf(value, f"{op}.output.{i}") for i, value in enumerate([*call.after[rank], *keywords.values()])
            ],
        }

    def close(self) -> None:
        task = "tensor" if self.mode == "tensor" else "statistics"
        head = {"task": task, "level": "L1", "framework": "mindspore", "dump_data_dir": "/elsewhere"}
        (self.folder / "dump.json").write_text(json.dumps({**head, "data": self.data}, indent=1))
        for name in ("stack", "construct"):
            (self.folder / f"{name}.json").write_text("{}")

    def leaf(self, value: Any, name: str) -> Any:
        if value is None:
            return None
        if isinstance(value, list):
            return [self.leaf(item, f"{name}.{i}") for i, item in enumerate(value)]
        if isinstance(value, Group):
            ranks = list(value.ranks)
            group = f"{zlib.crc32(str(ranks).encode()):08x}"
            return {"type": "mindspore.ProcessGroup", "group_ranks": ranks, "group_id": group}
        if isinstance(value, ReduceOp):
            return {"type": "torch.distributed.ReduceOp", "value": f"RedOpType.{value.name}"}
        if isinstance(value, P2POp):
            tensor = self.leaf(value.tensor, name)
            more = {"op": value.op, "peer": value.peer, "tag": 0, "group_id": "0"}
            return {"class_type": "torch.distributed.P2POp", "tensor": tensor, **more}
        if isinstance(value, np.ndarray):
            return self.tensor(value, name)
        return {"type": type(value).__name__, "value": value}

    def tensor(self, value: Any, name: str) -> dict[str, Any]:
        leaf: dict[str, Any] = {
            "type": "mindspore.Tensor",
            "dtype": _DTYPES[value.dtype.name],
            "shape": list(value.shape),
        }
        wide = value.astype(np.float64)
        if self.mode != "xor":
            numbers = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.linalg.norm(wide)}
            if value.dtype.kind == "i":
                leaf |= {"Max": int(value.max()), "Min": int(value.min()), "Mean": None, "Norm": None}
            else:  # in the tensor's own dtype, as msprobe's are
                leaf |= {key: float(np.asarray(number).astype(value.dtype)) for key, number in numbers.items()}
        if self.mode == "xor":
            leaf["md5"] = f"0x{zlib.crc32(value.tobytes()):016x}"
        if self.mode == "md5":
            leaf["md5"] = f"{zlib.crc32(value.tobytes()):08x}"
        if self.mode == "tensor":
            leaf["data_name"] = f"{name}.npy"
            saved = wide.astype(np.float32) if value.dtype.name == "bfloat16" else value
            np.save(self.folder / "dump_tensor_data" / f"{name}.npy", saved)
        return leaf
