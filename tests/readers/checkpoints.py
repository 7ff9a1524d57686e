"""Writes checkpoints in every format, by code of its own where the format is simple: an oracle for the readers."""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

State = dict[str, Tensor]
_SAFE = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}
_MINDSPORE = {torch.float32: "Float32", torch.float16: "Float16", torch.bfloat16: "BFloat16", torch.int64: "Int64"}


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(8, 8) for _ in range(3))


class Model(torch.nn.Module):
    """Two layers of attention, a norm, and a head that is tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(20, 8)
        self.layers = torch.nn.ModuleList(Attention() for _ in range(2))
        self.norm = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight


def state() -> State:
    torch.manual_seed(0)
    return Model().state_dict()


def bytes_of(tensor: Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def safetensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> Path:
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    data = b""
    for name, tensor in tensors.items():
        raw = bytes_of(tensor)
        place = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": _SAFE[tensor.dtype], "shape": list(tensor.shape), "data_offsets": place}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def sharded(folder: Path, tensors: State) -> Path:
    """Two shards with every second tensor each, and their index."""
    folder.mkdir()
    names = list(tensors)
    weight_map = {}
    for number in (0, 1):
        file = f"model-0000{number + 1}-of-00002.safetensors"
        safetensors(folder / file, {name: tensors[name] for name in names[number::2]})
        weight_map |= dict.fromkeys(names[number::2], file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def ckpt(path: Path, tensors: Mapping[str, Tensor], slice_bytes: int = 1 << 29) -> Path:
    """A checkpoint of MindSpore: a message of values, a large tensor in slices."""
    data = b""
    for name, tensor in tensors.items():
        raw = bytes_of(tensor)
        for start in range(0, max(len(raw), 1), slice_bytes):
            dims = b"".join(_field(1, 0) + _varint(extent) for extent in (tensor.shape or (0,)))
            parts = dims + _bytes(2, _MINDSPORE[tensor.dtype].encode()) + _bytes(3, raw[start : start + slice_bytes])
            data += _bytes(1, _bytes(1, name.encode()) + _bytes(2, parts))
    path.write_bytes(data)
    return path


def _varint(number: int) -> bytes:
    low = number & 0x7F
    return bytes([low]) if number < 0x80 else bytes([low | 0x80]) + _varint(number >> 7)


def _field(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _bytes(number: int, raw: bytes) -> bytes:
    return _field(number, 2) + _varint(len(raw)) + raw


def distributed(folder: Path, tensors: Mapping[str, object]) -> Path:
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it saves in a single process
        dcp.save(dict(tensors), checkpoint_id=folder, no_dist=True)
    return folder


def in_chunks(folder: Path, tensors: Mapping[str, object]) -> Path:
    """The same, but with the first tensor split in two by rows: two chunks in the metadata, as two ranks write them."""
    import pickle

    from torch.distributed.checkpoint import metadata as described

    distributed(folder, tensors)
    found = pickle.loads((folder / ".metadata").read_bytes())
    name = next(name for name, tensor in found.state_dict_metadata.items() if len(tensor.size) == 2)
    whole = found.state_dict_metadata[name]
    rows = whole.size[0] // 2
    halves = [(0, rows), (rows, whole.size[0] - rows)]
    whole.chunks = [
        described.ChunkStorageMetadata(torch.Size([start, 0]), torch.Size([extent, whole.size[1]]))
        for start, extent in halves
    ]
    values = tensors[name]
    assert isinstance(values, Tensor)
    key = next(key for key in found.storage_data if key.fqn == name)
    info = found.storage_data.pop(key)
    for number, (start, extent) in enumerate(halves):
        path = folder / f"__{number + 1}_0.distcp"
        torch.save(values[start : start + extent].clone(), path)
        own = type(info)(path.name, 0, path.stat().st_size)
        found.storage_data[described.MetadataIndex(name, torch.Size([start, 0]))] = own
    (folder / ".metadata").write_bytes(pickle.dumps(found))
    return folder


def megatron(folder: Path, tensor_ranks: int, stages: int) -> Path:
    """A model of four layers, gated, split over tensor and pipeline parallel ranks."""
    whole = _megatron_state()
    for tensor_rank in range(tensor_ranks):
        for stage in range(stages):
            shard = {}
            for name, tensor in whole.items():
                own = _in_stage(name, stage, stages)
                if own is not None:
                    shard[own] = _split(name, tensor, tensor_rank, tensor_ranks).clone()
            rank = folder / (f"mp_rank_{tensor_rank:02d}" + (f"_{stage:03d}" if stages > 1 else ""))
            rank.mkdir(parents=True)
            torch.save({"model": shard, "iteration": 7}, rank / "model_optim_rng.pt")
    return folder


def _megatron_state() -> State:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    state = {"embedding.word_embeddings.weight": drawn(12, 4)}
    for layer in range(4):
        before = f"decoder.layers.{layer}."
        state |= {
            f"{before}self_attention.linear_qkv.weight": drawn(12, 4),
            f"{before}self_attention.linear_proj.weight": drawn(4, 4),
            f"{before}self_attention.linear_proj.bias": drawn(4),
            f"{before}mlp.linear_fc1.weight": drawn(12, 4),
            f"{before}mlp.linear_fc2.weight": drawn(4, 6),
        }
    return state | {"decoder.final_layernorm.weight": drawn(4), "output_layer.weight": drawn(12, 4)}


def _in_stage(name: str, stage: int, stages: int) -> str | None:
    """The name of a parameter in a stage; None if it is not there."""
    if ".layers." not in name:
        return name if (stage == 0) == name.startswith("embedding") or stages == 1 else None
    layer, each = int(name.split(".")[2]), 4 // stages
    return name.replace(f"layers.{layer}.", f"layers.{layer % each}.") if layer // each == stage else None


def _split(name: str, tensor: Tensor, rank: int, ranks: int) -> Tensor:
    if name.endswith("linear_fc1.weight"):
        return torch.cat([half.chunk(ranks)[rank] for half in tensor.chunk(2)])
    if name.endswith(("word_embeddings.weight", "output_layer.weight", "linear_qkv.weight")):
        return tensor.chunk(ranks)[rank]
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return tensor.chunk(ranks, 1)[rank]
    return tensor


def as_mindspore(tensors: State) -> State:
    """The same tensors under the names of MindSpore's cells."""
    renamed = {"embed.weight": "embed.embedding_table", "norm.weight": "norm.gamma", "norm.bias": "norm.beta"}
    return {renamed.get(name, name): tensor for name, tensor in tensors.items()}


def same(found: np.ndarray, tensor: Tensor) -> bool:
    return found.shape == tuple(tensor.shape) and np.ascontiguousarray(found).tobytes() == bytes_of(tensor)
