"""Turns arguments, results and gradients into the leaves of dump.json."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from lakeprobe.collect.pytorch.tensors import Tensors, crc32, xor
from lakeprobe.collect.pytorch.tracing import unwrapped
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.watching.values import (
    BUILTIN,
    MOST_MEMBERS,
    NONE,
    NUMBERS,
    PLAIN,
    Containers,
    Leaf,
    TooManyError,
    array_leaf,
    builtin,
    file_name,
    key_text,
    members_of,
    unrecordable,
)

_SPECIAL_KEYS = ("device", "dtype", "output_dtype")
_OF_TORCH = (torch.Size, torch.memory_format, torch.dtype, torch.device)
_OPAQUE = (torch.nn.Module, torch.optim.Optimizer)
"""What holds tensors that are recorded elsewhere."""
_MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous_format",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
    torch.preserve_format: "preserve_format",
}
_is_batched = torch._C._functorch.is_legacy_batchedtensor
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_DTYPES = {dtype: str(dtype) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
_TENSOR_KINDS = {
    "DTensor": "torch.distributed.tensor.DTensor",
    "FakeTensor": "torch._subclasses.fake_tensor.FakeTensor",
    "AsyncCollectiveTensor": "torch.distributed._functional_collectives.AsyncCollectiveTensor",
    "NestedTensor": "torch.nested._internal.nested_tensor.NestedTensor",
}
"""The full names that leaves give to tensor classes that wrap other tensors."""
_HELD: dict[str, Callable[[Any], torch.Tensor]] = {
    "DTensor": lambda tensor: tensor.to_local(),
    "AsyncCollectiveTensor": lambda tensor: tensor.trigger_wait(),  # as what takes it does
    "NestedTensor": lambda tensor: tensor.values(),
}
"""What gives the wrapped tensor. A FakeTensor holds none."""


class Leaves:
    """Makes leaves of a run's values. The settings decide which numbers a tensor's leaf has."""

    def __init__(self, settings: Settings, failures: list[str]) -> None:
        exact = settings.precision == "high"
        # At level L0 statistics are most of the cost of collecting, so an extra pass over the numbers is noticeable.
        self.tensors = Tensors(exact=exact, zeros=exact or settings.level != "L0")
        self._summary = settings.summary_mode
        self._digest = {"md5": crc32, "xor": xor}.get(settings.summary_mode)
        self._keep_all = settings.task in ("tensor", "overflow_check")
        self._keep_parts = settings.tensor_list
        self._failures = failures

    def forget_all(self) -> None:
        """Forget all tensors."""
        self.tensors.forget_all()

    def of(self, value: Any, op: str, category: str) -> Any:
        """Return the leaves of a value, in the value's own structure.

        `op` and `category` name the files of stored tensors.
        """
        if type(value) is dict and not value:  # most calls have no named arguments
            return {}
        file = f"{op}.{category}" if self._keeps(op) else None
        if type(value) is tuple:
            return self._of_tuple(value, file)
        return self._leaf(value, None, file, Containers())

    def of_file(self, value: Any, op: str, file: str) -> Any:
        """Return the leaves of a value. Its tensors are stored as `file` plus their path inside the value."""
        return self._leaf(value, None, file if self._keeps(op) else None, Containers())

    def _keeps(self, op: str) -> bool:
        """Return whether the contents of the op's tensors are stored."""
        if not self._keep_parts:
            return self._keep_all
        return self._keep_all or any(part in op for part in self._keep_parts)

    def _leaf(self, value: Any, key: Any, file: str | None, around: Containers) -> Any:
        kind = type(value)
        try:
            if kind is torch.Tensor or kind is torch.nn.Parameter:
                return self._tensor(value, file)
            if value is None:
                return None
            if key in _SPECIAL_KEYS:
                special = _special(value, key)
                if special is not None:
                    return special
            if kind in PLAIN:
                return {"type": kind.__name__, "value": value}
            if kind is tuple or kind is list:
                return self._items(value, enumerate(value), file, around, [])
            if kind is dict:
                return self._items(value, value.items(), file, around, {})
            return self._unusual(value, file, around)
        except Exception as error:  # noqa: BLE001  one object of an unknown type must not lose the op
            return self._failed(value, error)

    def _failed(self, value: Any, error: Exception) -> Leaf:
        self._failures.append(f"a {type(value).__name__}: {type(error).__name__}: {error}")
        return unrecordable(value)

    def _of_tuple(self, values: tuple[Any, ...], file: str | None) -> list[Any]:
        """Return the leaves of the members of a tuple that is in no other container. Most are tensors."""
        if len(values) > MOST_MEMBERS:
            return self._items(values, enumerate(values), file, Containers(), [])  # type: ignore[no-any-return]
        around: Containers | None = None
        leaves: list[Any] = []
        for index, value in enumerate(values):
            kind = type(value)
            if value is None:
                leaves.append(None)
            elif file is None and (kind is torch.Tensor or kind is torch.nn.Parameter):
                try:
                    leaves.append(self._tensor(value, None))
                except Exception as error:  # noqa: BLE001  as in _leaf
                    leaves.append(self._failed(value, error))
            else:
                if around is None:
                    around = Containers(len(values))
                    around.enter(values)
                leaves.append(self._leaf(value, index, None if file is None else f"{file}.{index}", around))
        return leaves

    def _items(self, value: Any, items: Any, file: str | None, around: Containers, into: Any) -> Any:
        """Return the leaves of a container's members, in a list or dict. None if it is not to be entered."""
        if not around.enter(value):
            return None
        try:
            for key, item in items:
                name = key if type(into) is list else key_text(key, into)
                full = around.is_full()
                if full:
                    leaf = self._failed(value, TooManyError())
                else:
                    leaf = self._leaf(item, key, None if file is None else f"{file}.{name}", around)
                if type(into) is list:
                    into.append(leaf)
                else:
                    into[name] = leaf
                if full:
                    break
        finally:
            around.leave(value)
        return into

    def _unusual(self, value: Any, file: str | None, around: Containers) -> Any:
        if isinstance(value, torch.Tensor):
            return self._of_subclass(value, file, around)
        if isinstance(value, np.ndarray):
            return self._array(value, file)
        if isinstance(value, _OF_TORCH):
            return _of_torch(value)
        if isinstance(value, BUILTIN):
            return builtin(value)
        if distributed.is_available():
            if isinstance(value, distributed.P2POp):
                return self._transfer(value, file)
            if isinstance(value, (distributed.ProcessGroup, distributed.ReduceOp, distributed.ReduceOp.RedOpType)):
                return _of_distributed(value)
        items = members_of(value, (torch.Tensor,), _OPAQUE)
        if items is None:
            return None
        return self._items(value, items, file, around, [] if type(items) is enumerate else {})

    def _tensor(self, tensor: torch.Tensor, file: str | None) -> Leaf:
        if _is_batched(tensor):  # gradients of `is_grads_batched`, which pass the graph all at once: the whole batch
            tensor = torch._remove_batch_dim(tensor, 1, 0, 0)
        elif _is_wrapped(tensor):
            return self._transformed(tensor, file)
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
            return self._stored(tensor)
        leaf: Leaf = {"type": "torch.Tensor", "dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape)}
        self._measure(tensor, leaf, tensor.requires_grad, file)
        return leaf

    def _of_subclass(self, tensor: torch.Tensor, file: str | None, around: Containers) -> Any:
        """Return the leaf of a tensor of a subclass, or the leaves of its component tensors by name."""
        kind = type(tensor).__name__
        if kind in _TENSOR_KINDS:
            return self._wrapped(tensor, kind, file)
        if kind == "CausalBias":  # nothing is ever written to its memory: torch makes the mask from these
            variant, *sizes = (getattr(tensor, name) for name in ("variant", "seq_len_q", "seq_len_kv"))
            return {"type": "torch.nn.attention.bias.CausalBias", "value": [variant.name, *sizes]}
        if is_traceable_wrapper_subclass(tensor):
            names, _ = tensor.__tensor_flatten__()
            return self._items(tensor, [(name, getattr(tensor, name)) for name in names], file, around, {})
        return self._tensor(tensor.as_subclass(torch.Tensor), file) if _has_memory(tensor) else _unreadable(tensor)

    def _transformed(self, tensor: torch.Tensor, file: str | None) -> Leaf:
        """Return the leaf of what a tensor of torch.func stands for.

        Of a batch contents are not kept: what the op did with them cannot be done again with the whole batch.
        """
        held, batched = unwrapped(tensor)
        leaf = self._tensor(held, None if batched else file) | {"requires_grad": tensor.requires_grad}
        return leaf | {"layout": "batched"} if batched else leaf

    def _stored(self, tensor: torch.Tensor) -> Leaf:
        """Return the leaf of a sparse, quantized or nested tensor.

        Statistics cover its stored values. Contents are not kept.
        """
        numbers = _numbers_of(tensor)
        shape = list(numbers.shape if tensor.is_nested else tensor.shape)
        leaf: Leaf = {"type": "torch.Tensor", "dtype": _DTYPES[tensor.dtype], "shape": shape}
        self._measure(numbers, leaf, tensor.requires_grad, None)
        leaf["layout"] = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else str(tensor.layout)
        return leaf

    def _wrapped(self, tensor: Any, kind: str, file: str | None) -> Leaf:
        """Return the leaf of a tensor that wraps another one. Statistics cover the part that this process holds."""
        local = _HELD[kind](tensor) if kind in _HELD else tensor
        leaf: Leaf = {"type": _TENSOR_KINDS[kind], "dtype": _DTYPES[tensor.dtype], "shape": list(local.shape)}
        if local is tensor:
            leaf.update(zip(NUMBERS, NONE, strict=True), requires_grad=tensor.requires_grad)
            return leaf
        self._measure(local, leaf, tensor.requires_grad, file)
        if kind == "DTensor":
            leaf["device_mesh"] = tensor.device_mesh.mesh.tolist()
            leaf["placements"] = [_placement(placement) for placement in tensor.placements]
        return leaf

    def _measure(self, tensor: torch.Tensor, leaf: Leaf, requires_grad: bool, file: str | None) -> None:
        """Add a tensor's numbers to its leaf, in msprobe's order."""
        numbers = NONE
        wide = digest = array = None
        try:
            if self._digest is not None and not tensor.is_meta:
                digest = self._digest(tensor.detach())
            if self._summary != "xor":
                numbers, wide = self.tensors.measure(tensor)
            if file is not None and tensor.numel() and not tensor.is_meta:
                array = self.tensors.copy(tensor)
        except Exception as error:  # noqa: BLE001  a tensor that cannot be measured must not stop the training step
            self._failures.append(f"{leaf['dtype']}{leaf['shape']}: {error}")
        if self._summary == "xor":
            leaf["md5"] = digest
        else:
            leaf["Max"], leaf["Min"], leaf["Mean"], leaf["Norm"] = numbers
        leaf["requires_grad"] = requires_grad
        if self._summary == "md5":
            leaf["md5"] = digest
        if wide is not None:
            leaf["wide"] = wide
        if array is not None and file is not None:
            leaf["data_name"] = file_name(file, ".pt")
            leaf["tensor"] = array

    def _transfer(self, transfer: Any, file: str | None) -> Leaf:
        """Return the leaf of one of the operations that batch_isend_irecv takes."""
        return {
            "class_type": "torch.distributed.P2POp",
            "tensor": self._tensor(transfer.tensor, file),
            "op": transfer.op.__name__,
            "peer": transfer.peer,
            "tag": transfer.tag,
            "group_id": _group_id(transfer.group or distributed.group.WORLD),
        }

    def _array(self, array: "np.ndarray[Any, Any]", file: str | None) -> Leaf:
        leaf = array_leaf(array, "iufc")
        if file is not None and array.dtype.kind in "biufc":
            leaf["data_name"] = file_name(file, ".pt")
            leaf["tensor"] = array.copy()
        return leaf


def _has_memory(tensor: torch.Tensor) -> bool:
    """Return whether the tensor has elements of its own. Others wrap tensors, and some do not say which."""
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return False
    return True


def _unreadable(tensor: torch.Tensor) -> Leaf:
    """Return the leaf of a tensor whose numbers cannot be read."""
    leaf: Leaf = {"type": "torch.Tensor", "dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape)}
    return leaf | dict(zip(NUMBERS, NONE, strict=True)) | {"requires_grad": tensor.requires_grad}


def _numbers_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the stored values of a sparse, quantized or nested tensor, in a tensor that can be measured."""
    tensor = tensor.detach()
    if tensor.is_nested:
        return torch.cat([part.reshape(-1) for part in tensor.unbind()])
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()


def _of_torch(value: Any) -> Leaf:
    if isinstance(value, torch.Size):
        return {"type": "torch.Size", "value": [int(size) for size in value]}
    if isinstance(value, torch.memory_format):
        return {"type": "torch.memory_format", "format": _MEMORY_FORMATS.get(value)}
    # A dtype or device. Like msprobe, record it only if the argument is named device or dtype.
    return {}


def _of_distributed(value: Any) -> Leaf:
    if not isinstance(value, distributed.ProcessGroup):
        return {"type": "torch.distributed.ReduceOp", "value": str(value)}
    ranks = distributed.get_process_group_ranks(value)
    return {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": _group_id(value)}


def _group_id(group: Any) -> str:
    """Return the CRC-32 of the ranks, written as a Python list, as msprobe does."""
    return f"{zlib.crc32(str(distributed.get_process_group_ranks(group)).encode()):08x}"


def _special(value: Any, key: str) -> Leaf | None:
    """Return the leaf of an argument named device or dtype. Returns None if its value is something else."""
    if key == "device":
        if isinstance(value, (int, str)):
            return {"type": "torch.device", "value": value}
        return {"type": "torch.device", "value": str(value)} if isinstance(value, torch.device) else None
    return {"type": "torch.dtype", "value": str(value)} if isinstance(value, (*PLAIN, torch.dtype)) else None


def _placement(placement: Any) -> Leaf:
    """Return a placement by its class: Shard, Replicate, Partial, or DTensor's own StridedShard and MaskPartial."""
    terms = [term for term in ("dim", "split_factor", "reduce_op") if hasattr(placement, term)]
    return {type(placement).__name__.lstrip("_"): {term: getattr(placement, term) for term in terms}}
