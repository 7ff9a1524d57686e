"""Puts the shards of a Megatron checkpoint together: mp_rank_TP[_PP]/model_optim_rng.pt, a state_dict for each rank.

Which parameters are split between tensor parallel ranks, and along which axis, say the rules in
schemas/data/placements.csv; all others are on every rank. Layers are numbered within their pipeline stage, and are
numbered through here; with virtual stages (model0, model1, …) the chunks of all ranks come before the next. A parameter
that should be the same on every rank and is not stands under its name and its rank. Source: Megatron-LM,
megatron/core/tensor_parallel/layers.py and tools/checkpoint (core 0.5 to 0.14).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lakeprobe import resources
from lakeprobe.errors import DumpError
from lakeprobe.tensors import TensorReference, content_hash
from lakeprobe.tensors.merged import whole_of
from lakeprobe.tensors.reference import byte_strides
from lakeprobe.tensors.saved import Saved, Whole
from lakeprobe.tensors.state_dict import read_state_dict

_RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?")
_MODEL = re.compile(r"model(\d*)\.(.+)")
_LAYER = re.compile(r"(.*?\blayers\.)(\d+)(\..+)")
_FIRST = re.compile(r"(dense_h_to_4h|linear_fc1)\.(weight|bias)$")
_SECOND = re.compile(r"(dense_4h_to_h|linear_fc2)\.weight$")


class _Shard(NamedTuple):
    """The parameters of one rank, by chunk of the model and name."""

    tensor_rank: int
    stage: int
    parameters: dict[tuple[int, str], TensorReference]


def read(files: Sequence[Path]) -> Saved:
    """The parameters of the whole model, without optimizers. Raises TensorError, and DumpError if a rank is missing."""
    shards, values, left_out = [], {}, {}
    for path in files:
        saved = read_state_dict(path)
        shards.append(_shard(path, saved))
        if path == files[0]:
            values = saved.values
            left_out = saved.left_out | {name: "of one rank" for name in saved.tensors if not _MODEL.fullmatch(name)}
            left_out |= {name: f"tensor of {unread.dtype}" for name, unread in saved.unread.items()}
    _check_all_there(shards, files)
    together = Saved(values=values, left_out=left_out)
    by_name = _by_name(shards)
    gated = _gated(by_name)
    for (name, stage), ranks in by_name.items():
        _merge(name, stage, ranks, name in gated, together)
    return together


def _shard(path: Path, saved: Saved) -> _Shard:
    match = _RANK.fullmatch(path.parent.name)
    if match is None:
        raise DumpError(f"{path.parent} is not a rank of Megatron that is read: mp_rank_TP or mp_rank_TP_PP")
    parameters = {
        (int(model[1] or 0), model[2]): reference
        for name, reference in saved.tensors.items()
        if (model := _MODEL.fullmatch(name)) and isinstance(reference, TensorReference)
    }
    return _Shard(int(match[1]), int(match[2] or 0), parameters)


def _check_all_there(shards: Sequence[_Shard], files: Sequence[Path]) -> None:
    """Raise DumpError if a rank below the highest is missing: the others would be joined as if there were no more."""
    there = {(shard.tensor_rank, shard.stage) for shard in shards}
    ranks, stages = (max(numbers) + 1 for numbers in zip(*there, strict=True))
    missing = ranks * stages - len(there)
    if missing:
        places = ((rank, stage) for rank in range(ranks) for stage in range(stages))
        rank, stage = next(place for place in places if place not in there)
        name = f"mp_rank_{rank:02d}_{stage:03d}" if stages > 1 else f"mp_rank_{rank:02d}"
        more = f" and {missing - 1} more" if missing > 1 else ""
        raise DumpError(f"{files[0].parent.parent} lacks {name}{more}; copy the checkpoint of all ranks into it")


def _by_name(shards: Sequence[_Shard]) -> dict[tuple[str, int], dict[int, TensorReference]]:
    """The shards of each parameter by tensor parallel rank, under the name in the whole model and the stage."""
    stages = max(shard.stage for shard in shards) + 1
    chunks = sorted({chunk for shard in shards for chunk, _ in shard.parameters})
    counts = {
        (chunk, stage): max(
            (
                _layers(name)
                for shard in shards
                if shard.stage == stage
                for own, name in shard.parameters
                if own == chunk
            ),
            default=0,
        )
        for chunk in chunks
        for stage in range(stages)
    }
    first, offsets = 0, {}
    for place, count in counts.items():
        offsets[place], first = first, first + count
    found: dict[tuple[str, int], dict[int, TensorReference]] = {}
    for shard in sorted(shards, key=lambda shard: (shard.stage, shard.tensor_rank)):
        for (chunk, name), reference in shard.parameters.items():
            numbered = _numbered(name, offsets[chunk, shard.stage])
            found.setdefault((numbered, shard.stage), {})[shard.tensor_rank] = reference
    return found


def _numbered(name: str, offset: int) -> str:
    """The name of a parameter in the whole model, whose stage begins with the layer `offset`."""
    return _LAYER.sub(lambda match: f"{match[1]}{int(match[2]) + offset}{match[3]}", name)


def _layers(name: str) -> int:
    """How many layers there are at least, if a parameter has this name."""
    match = _LAYER.fullmatch(name)
    return int(match[2]) + 1 if match else 0


def _gated(by_name: dict[tuple[str, int], dict[int, TensorReference]]) -> set[str]:
    """The first matrices of MLPs that are a gate and an up projection: with twice the rows that the second takes."""
    columns = {
        _SECOND.sub("", name): next(iter(ranks.values())).shape[-1]
        for (name, _), ranks in by_name.items()
        if _SECOND.search(name)
    }
    return {
        name
        for (name, _), ranks in by_name.items()
        if _FIRST.search(name) and next(iter(ranks.values())).shape[0] == 2 * columns.get(_FIRST.sub("", name), 0)
    }


def _merge(name: str, stage: int, ranks: dict[int, TensorReference], is_gated: bool, together: Saved) -> None:
    """Add a parameter to the whole: joined where it is split, once where all ranks have the same."""
    pieces = [ranks[rank] for rank in sorted(ranks)]
    axis = _axis(name)
    if axis is not None and len(pieces) > 1:
        if is_gated:
            halves = [_halves(piece) for piece in pieces]
            pieces = [half[number] for number in (0, 1) for half in halves]
        _add(together, name, stage, whole_of(pieces[0].dtype, pieces, axis))
        return
    _add(together, name, stage, pieces[0])
    contents = [content_hash(piece) for piece in pieces] if len(pieces) > 1 else []
    for rank, content in enumerate(contents):
        if content != contents[0]:
            together.tensors[f"{name}@tp{rank}"] = pieces[rank]
            together.apart.append(f"{name}@tp{rank}")


def _add(together: Saved, name: str, stage: int, tensor: TensorReference | Whole) -> None:
    """Add a tensor under its name. A second stage's copy, as of the embedding, counts if it is another."""
    earlier = together.tensors.get(name)
    if earlier is None:
        together.tensors[name] = tensor
    elif isinstance(tensor, Whole) or isinstance(earlier, Whole) or content_hash(tensor) != content_hash(earlier):
        together.tensors[f"{name}@pp{stage}"] = tensor
        together.apart.append(f"{name}@pp{stage}")


def _halves(piece: TensorReference) -> tuple[TensorReference, TensorReference]:
    """The upper and the lower half of the rows."""
    rows, step = piece.shape[0] // 2, byte_strides(piece)[0]
    first = replace(piece, shape=(rows, *piece.shape[1:]))
    return first, replace(first, offset=piece.offset + rows * step, length=piece.length - rows * step)


@cache
def _rules() -> tuple[tuple[re.Pattern[str], int], ...]:
    with resources.data("placements").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["framework"].startswith("Megatron")]
    return tuple((re.compile(row["pattern"]), int(row["dimension"])) for row in rows)


def _axis(name: str) -> int | None:
    return next((axis for pattern, axis in _rules() if pattern.search(name)), None)
