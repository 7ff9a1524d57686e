"""The model of `llama.py` cut with DTensor: tensor parallel (parallelize_module), fully sharded (FSDP2), and both.

    python -m benchmarks.cuts.placed FOLDER METHOD [CASE ...]

METHOD is statistics or tensor. A case is a cut of CUTS, or CUT+DEFECT. Runs are collected into FOLDER/lake. Prints a
line per case.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional

import lakeprobe
import lakeprobe.collect.pytorch.watcher
from benchmarks.cuts import asking, llama
from benchmarks.cuts.llama import Llama
from benchmarks.truth import runs

CUTS: dict[str, dict[str, int]] = {
    "whole": {}, "dt_tp2": {"tp": 2}, "dt_sp2": {"tp": 2}, "fsdp2": {"dp": 2}, "fsdp2_tp2": {"dp": 2, "tp": 2},
}  # fmt: skip
"""The axes of each cut."""


def _layer_plan(sequence: bool) -> dict[str, Any]:
    columns, rows = ColwiseParallel, RowwiseParallel
    attention = {f"self_attn.{name}_proj": columns() for name in "qkv"}
    mlp = {f"mlp.{name}_proj": columns() for name in ("gate", "up")}
    if not sequence:
        return attention | mlp | {"self_attn.o_proj": rows(), "mlp.down_proj": rows()}
    gathered = partial(PrepareModuleInput, input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    return attention | mlp | {
        "input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel(),
        "self_attn": gathered(), "mlp": gathered(),
        "self_attn.o_proj": rows(output_layouts=Shard(1)), "mlp.down_proj": rows(output_layouts=Shard(1)),
    }  # fmt: skip


def cut(model: Llama, mesh: DeviceMesh | None, name: str) -> None:
    """Cut the model over the mesh."""
    if mesh is None:
        return
    axes = mesh.mesh_dim_names or ()
    if "tp" in axes:
        sequence = "sp" in name
        for layer in model.layers:
            parallelize_module(layer, mesh["tp"], _layer_plan(sequence))
        if sequence:
            outer = {
                "embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
                "norm": SequenceParallel(),
                "lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
            }
        else:
            outer = {"embed_tokens": RowwiseParallel(input_layouts=Replicate()),
                     "lm_head": ColwiseParallel(output_layouts=Replicate())}  # fmt: skip
        parallelize_module(model, mesh["tp"], outer)
    if "dp" in axes:
        for layer in model.layers:
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])


def _wrong_shard(model: Llama, rank: int) -> None:
    """The second rank has the shard of the first."""
    weight = model.layers[-1].mlp.down_proj.weight
    assert isinstance(weight, DTensor)
    whole = weight.full_tensor()
    if rank % 2:
        weight.to_local().data.copy_(whole.chunk(2, 1)[0])


def _scaled(model: Llama, rank: int) -> None:
    """The second rank's norm has another epsilon."""
    if rank % 2:
        model.layers[-1].input_layernorm.eps = 1e-1


DEFECTS: dict[str, Callable[[Llama, int], None]] = {"wrong_shard": _wrong_shard, "norm_eps": _scaled}

CAUSES = {"wrong_shard": r"layers\.1\.mlp\.down_proj", "norm_eps": r"layers\.1\.input_layernorm"}
"""Where each defect is, in a model of two layers."""

CASES = ("dt_tp2", "dt_sp2", "fsdp2", "fsdp2_tp2", "dt_tp2+wrong_shard", "dt_sp2+wrong_shard",
         *(f"{cut}+norm_eps" for cut in ("dt_tp2", "dt_sp2", "fsdp2", "fsdp2_tp2")))  # fmt: skip


def train(case: str, rank: int, lake: Path, method: str, layers: int = 2) -> None:
    """Train one case in this process, as one of its ranks."""
    name, _, defect = case.partition("+")
    sizes = CUTS[name]
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes)) if sizes else None
    model = llama.drawn(layers)
    cut(model, mesh, name)
    if defect:
        DEFECTS[defect](model, rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    tokens, labels = llama.batch()
    if "dp" in sizes:
        assert mesh is not None
        tokens, labels = (one.chunk(sizes["dp"])[mesh.get_local_rank("dp")] for one in (tokens, labels))
    with lakeprobe.collect(model, run=case, lake=lake, level="mix", task=method, replace=True) as collector:
        logits = model(tokens)
        functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
        collector.step()


def make(folder: Path, method: str, cases: Sequence[str], layers: int = 2) -> bool:
    """Train each case in as many processes as its cut has; whether all went well."""
    folder.mkdir(parents=True, exist_ok=True)
    made = True
    for size in (1, 2, 4):
        own = [case for case in cases if _ranks(case) == size]
        if own:
            meeting = folder / f"placed{size}.meeting"
            meeting.unlink(missing_ok=True)
            work = partial(_work, folder, method, own, layers, size, meeting)
            processes = [runs.fork(folder / f"placed{size}.{rank}.log", partial(work, rank)) for rank in range(size)]
            made = max([os.waitpid(process, 0)[1] for process in processes]) == 0 and made
    return made


def _ranks(case: str) -> int:
    size = 1
    for count in CUTS[case.partition("+")[0]].values():
        size *= count
    return size


def _work(folder: Path, method: str, cases: Sequence[str], layers: int, size: int, meeting: Path, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(meeting), size), rank=rank, world_size=size)
    for case in cases:
        train(case, rank, folder / "lake", method, layers)
    dist.barrier()
    dist.destroy_process_group()


def main(arguments: Sequence[str]) -> int:
    """Make the runs, and say what was found; 1 if a run failed."""
    folder, method, *wanted = arguments
    asked = wanted or CASES
    absent = asking.missing(Path(folder), ["whole", *asked])
    if absent and not make(Path(folder), method, absent):
        return 1
    asking.ask(Path(folder), asked, lambda _: "whole", lambda _: CAUSES)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
