"""Train the transformer whole or cut, once for each case, and collect each into a lake.

    python -m benchmarks.cuts.train FOLDER METHOD CASE ...

METHOD is `statistics` or `tensor`. A case is a cut (`model.CUTS`) or CUT+DEFECT (`defects.DEFECTS`). The runs land in
FOLDER/lake, under the names of their cases. The processes of a size are forked once and train all cases of that size.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

import torch
import torch._dynamo  # optimizers import it; here it is imported before processes are forked
import torch.distributed as dist
from torch.nn import functional

import lakeprobe
import lakeprobe.collect.pytorch.watcher
from benchmarks.cuts import defects, model
from benchmarks.cuts.model import CUTS, LAYERS, Place, Transformer
from benchmarks.truth import runs

Train = Callable[[str, Place], None]
"""Trains a case in this process, which has a place in it."""


def main(arguments: list[str]) -> int:
    """Make the runs; 1 if one failed."""
    folder, method, *cases = arguments
    return 0 if make(Path(folder), method, cases) else 1


def make(folder: Path, method: str, cases: Sequence[str], steps: int = 1, train: Train | None = None) -> bool:
    """Train each case in as many processes as its cut has, by `collected` or another; whether all went well."""
    folder.mkdir(parents=True, exist_ok=True)
    made = True
    by_size = sorted(cases, key=lambda case: CUTS[cut_of(case)].ranks)
    for size, group in groupby(by_size, key=lambda case: CUTS[cut_of(case)].ranks):
        meeting = folder / f"{size}.meeting"
        meeting.unlink(missing_ok=True)
        work = partial(_work, folder, tuple(group), size, train or partial(collected, folder / "lake", method, steps))
        processes = [runs.fork(folder / f"{size}.{rank}.log", partial(work, rank)) for rank in range(size)]
        made = max([os.waitpid(process, 0)[1] for process in processes]) == 0 and made
        meeting.unlink(missing_ok=True)
    return made


def cut_of(case: str) -> str:
    """The cut of a case."""
    return case.partition("+")[0]


def _work(folder: Path, cases: tuple[str, ...], size: int, train: Train, rank: int) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / f"{size}.meeting"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    for case in cases:
        name, _, defect = case.partition("+")
        train(case, model.place_of(CUTS[name], rank, defect))
    dist.barrier()
    dist.destroy_process_group()


def collected(lake: Path, method: str, steps: int, case: str, place: Place, updates: bool = True) -> None:
    """Train one case in this process, as one of its ranks, and collect it into `lake`."""
    chunks = parts(place)
    optimizer = torch.optim.AdamW(watched(chunks).parameters(), lr=1e-3, foreach=False)
    with lakeprobe.collect(watched(chunks), run=case, lake=lake, level="mix", task=method, replace=True) as collector:
        for step in range(steps):
            train_step(place, chunks, optimizer if updates else None, step)
            collector.step()


def parts(place: Place) -> list[Transformer]:
    """The parts of the model that a process has, with the defect that its place has."""
    cut = place.cut
    torch.manual_seed(1)
    stages = cut.pp * cut.chunks
    weights = model.whole_weights(cut.experts)
    chunks, first_layers = [], []
    for chunk in range(min(cut.chunks, LAYERS)):
        stage = chunk * cut.pp + place.at("pp")
        network = Transformer(place, _layers(stage, stages), stage == 0, stage == stages - 1)
        first_layers.append(sum(_layers(before, stages) for before in range(stage)))
        model.load(network, place, first_layers[-1], weights)
        chunks.append(network)
    defects.plant(place, chunks, first_layers)
    return chunks


def watched(chunks: list[Transformer]) -> torch.nn.Module:
    """The one module that has all parts."""
    return chunks[0] if len(chunks) == 1 else torch.nn.ModuleList(chunks)


def train_step(place: Place, chunks: list[Transformer], optimizer: torch.optim.Optimizer | None, step: int) -> None:
    """One step of training: forwards, backwards, the sums over processes, and the update if there is an optimizer."""
    _step(place, chunks, step)
    _reduce_gradients(place, chunks)
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad()


def _layers(stage: int, stages: int) -> int:
    """How many layers a stage has. With more stages than layers the first and last have none."""
    if stages <= LAYERS:
        return LAYERS // stages
    return int(0 < stage < stages - 1)


def _step(place: Place, chunks: list[Transformer], step: int) -> None:
    tokens, labels = model.batch(step)
    tokens, labels = (place.part(one, "dp", 0) for one in (tokens, labels))
    tokens, labels = (place.part(one, "cp", 1).contiguous() for one in (tokens, labels))
    if place.defect == "wrong_batch" and place.at("dp") == 1:
        tokens, labels = (one.chunk(place.cut.dp)[0] for one in model.batch(step))
    if place.cut.pp == 1:
        loss = _loss(place, chunks[0](tokens), labels)
        (loss * place.cut.cp if place.defect == "cp_loss_scale" else loss).backward()
        return
    _pipelined(place, chunks, tokens.chunk(place.cut.micro), labels.chunk(place.cut.micro))


def _loss(place: Place, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _pipelined(
    place: Place, chunks: list[Transformer], tokens: Sequence[torch.Tensor], labels: Sequence[torch.Tensor]
) -> None:
    """All micro-batches forward, chunk after chunk, then all backward (GPipe)."""
    cut, stages = place.cut, place.cut.pp * place.cut.chunks
    kept: dict[tuple[int, int], tuple[torch.Tensor | None, torch.Tensor]] = {}
    sent: list[dist.Work] = []
    for chunk, network in enumerate(chunks):
        stage = chunk * cut.pp + place.at("pp")
        for nth in range(cut.micro):
            given = tokens[nth] if stage == 0 else _received(place, stage - 1, tokens[nth])
            result = network(given if stage == 0 else given.requires_grad_())
            if stage == stages - 1:
                result = _loss(place, result, labels[nth])
                if place.defect != "micro_not_divided":
                    result = result / cut.micro
            else:
                sent.append(dist.isend(result.detach(), _rank_of(place, stage + 1)))
            kept[chunk, nth] = (None if stage == 0 else given, result)
    for chunk in reversed(range(len(chunks))):
        stage = chunk * cut.pp + place.at("pp")
        for nth in range(cut.micro):
            if place.defect == "lost_micro" and nth == 1 and stage == 0:
                _received(place, stage + 1, tokens[nth])  # and nothing is done with it
                continue
            given, result = kept[chunk, nth]
            gradient = None if stage == stages - 1 else _received(place, stage + 1, tokens[nth])
            result.backward(gradient)
            if given is not None:
                sent.append(dist.isend(given.grad, _rank_of(place, stage - 1)))
    for request in sent:
        request.wait()


def _rank_of(place: Place, stage: int) -> int:
    """The rank that has a stage."""
    return place.neighbours["pp"][stage % place.cut.pp]


def _received(place: Place, stage: int, tokens: torch.Tensor) -> torch.Tensor:
    tensor = torch.empty(*tokens.shape, model.WIDTH)
    dist.recv(tensor, _rank_of(place, stage))
    return tensor


def _reduce_gradients(place: Place, chunks: list[Transformer]) -> None:
    """What the copies and the sequence's parts have of each gradient is added up."""
    cut = place.cut
    for name, parameter in ((name, p) for network in chunks for name, p in network.named_parameters()):
        gradient = parameter.grad
        if gradient is None:
            continue
        if cut.sequence_parallel and _is_replicated(name) and place.defect != "sp_norm_grads":
            dist.all_reduce(gradient, group=place.groups["tp"])
        for axis in ("dp", "cp"):
            count = getattr(cut, axis)
            if count == 1 or place.defect == f"{axis}_not_reduced":
                continue
            dist.all_reduce(gradient, group=place.groups[axis])
            if place.defect != "not_divided":
                gradient /= count


def _is_replicated(name: str) -> bool:
    """Whether each process has all of a parameter and uses it for a part of the sequence only."""
    return "norm_b" in name or name.startswith("norm.") or name.endswith(("proj.bias", "down.bias"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
