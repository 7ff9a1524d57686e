"""Turns arguments, results and gradients into the leaves of dump.json."""

from typing import Any

import ml_dtypes
import numpy as np
from mindspore import Tensor, get_context, mint, nn
from mindspore import dtype as types
from mindspore._c_expression.typing import Number as Type
from mindspore.common.api import _no_grad
from mindspore.mint.distributed import P2POp

from lakeprobe.collect.mindspore import tensors
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.watching.values import (
    BUILTIN,
    NONE,
    NUMBERS,
    PLAIN,
    Array,
    Containers,
    Leaf,
    Statistics,
    TooManyError,
    array_leaf,
    builtin,
    file_name,
    key_text,
    members_of,
    unrecordable,
    wide,
)

_NARROW = ("Float8E5M2", "Float8E4M3FN", "HiFloat8")
"""These are measured and stored as float32, as bfloat16 is stored. msprobe does the same, since .npy supports none of
them."""

# The original functions, taken before any is replaced.
_MEASURES = [getattr(mint, name) for name in ("max", "min", "mean", "norm") if hasattr(mint, name)]
_to = Tensor.to


class Leaves:
    """Makes leaves of a run's values. The settings decide which numbers a tensor's leaf has."""

    def __init__(self, settings: Settings, failures: list[str]) -> None:
        self._summary = settings.summary_mode
        self._digest = {"md5": tensors.crc32, "xor": tensors.xor}.get(settings.summary_mode)
        self._keep_all = settings.task == "tensor"
        self._keep_parts = settings.tensor_list
        self._failures = failures
        self.forget_all()

    def forget_all(self) -> None:
        """Forget all tensors, and look up again whether they are in the CPU's memory."""
        self._on_cpu = get_context("device_target") == "CPU"

    def of(self, value: Any, op: str, category: str) -> Any:
        """Return the leaves of a value, in the value's own structure.

        `op` and `category` name the files of stored tensors.
        """
        return self.of_file(value, op, f"{op}.{category}")

    def of_file(self, value: Any, op: str, file: str) -> Any:
        """Return the leaves of a value. Its tensors are stored as `file` plus their path inside the value."""
        keep = self._keep_all or any(part in op for part in self._keep_parts)
        return self._leaf(value, None, file if keep else None, Containers())

    def _leaf(self, value: Any, key: Any, file: str | None, around: Containers) -> Any:
        try:
            return self._leaf_of(value, key, file, around)
        except Exception as error:  # noqa: BLE001  one object of an unknown type must not lose the op
            return self._failed(value, error)

    def _failed(self, value: Any, error: Exception) -> Leaf:
        self._failures.append(f"a {type(value).__name__}: {type(error).__name__}: {error}")
        return unrecordable(value)

    def _leaf_of(self, value: Any, key: Any, file: str | None, around: Containers) -> Any:
        if value is None:
            return None
        if isinstance(value, Type) or (key == "dtype" and isinstance(value, (*PLAIN, Tensor))):
            return {"type": "mindspore.dtype", "value": str(value)}
        if isinstance(value, Tensor):
            return self._tensor(value, file)
        if isinstance(value, BUILTIN):
            return builtin(value)
        if isinstance(value, np.ndarray):
            return self._array(value, file)
        if isinstance(value, P2POp):
            return self._transfer(value, file)
        return self._members(value, file, around)

    def _members(self, value: Any, file: str | None, around: Containers) -> Any:
        """Return the leaves of a container's members in a list or dict.

        None if it is not to be entered, and for what holds none to record.
        """
        if not around.enter(value):
            return None
        try:
            return self._entered(value, file, around)
        finally:
            around.leave(value)

    def _entered(self, value: Any, file: str | None, around: Containers) -> Any:
        items = members_of(value, (Tensor,), (nn.Cell,))
        if items is None:
            return None
        is_list = type(items) is enumerate
        members: dict[Any, Any] = {}
        for key, item in items:
            name = key if is_list else key_text(key, members)
            if around.is_full():
                members[name] = self._failed(value, TooManyError())
                break
            members[name] = self._leaf(item, name, None if file is None else f"{file}.{name}", around)
        return [*members.values()] if is_list else members

    def _tensor(self, tensor: Any, file: str | None) -> Leaf:
        leaf: Leaf = {"type": "mindspore.Tensor", "dtype": str(tensor.dtype), "shape": list(tensor.shape)}
        numbers = NONE
        measured = digest = contents = None
        try:
            if not self._on_cpu and self._digest is None and file is None:
                numbers = _on_device(tensor)
            else:
                array = _array_of(tensor)
                if self._summary != "xor":
                    numbers, measured = tensors.statistics(array), wide(array)
                if array.dtype == ml_dtypes.bfloat16:
                    array = array.astype(np.float32)
                digest = None if self._digest is None else self._digest(array)
                contents = None if file is None else tensors.copy(array)
        except Exception as error:  # noqa: BLE001  a tensor that cannot be measured must not stop the training step
            self._failures.append(f"{leaf['dtype']}{leaf['shape']}: {error}")
        if self._summary != "xor":
            leaf.update(zip(NUMBERS, numbers, strict=True))
        if self._digest is not None:
            leaf["md5"] = digest
        if measured is not None:
            leaf["wide"] = measured
        if contents is not None and file is not None:
            leaf["data_name"] = file_name(file, ".npy")
            leaf["tensor"] = contents
        return leaf

    def _array(self, array: Array, file: str | None) -> Leaf:
        leaf = array_leaf(array, "biufc")
        if file is not None and array.dtype.kind in "biufc":
            leaf["data_name"] = file_name(file, ".npy")
            leaf["tensor"] = tensors.copy(array)
        return leaf

    def _transfer(self, transfer: Any, file: str | None) -> Leaf:
        """Return the leaf of one of the operations that batch_isend_irecv takes."""
        return {
            "class_type": "mindspore.mint.distributed.P2POp",
            "tensor": self._tensor(transfer.tensor, file),
            "op": getattr(transfer.op, "__name__", transfer.op),
            "peer": transfer.peer,
            "tag": transfer.tag,
            "group_id": transfer.group,
        }


def _array_of(tensor: Any) -> Array:
    """Return the contents as an array, without a copy if the tensor is in the CPU's memory."""
    dtype = str(tensor.dtype)
    if dtype in _NARROW:
        with _no_grad():
            tensor = _to(tensor, types.float32)
    array: Array = tensor.asnumpy()
    return array.view(ml_dtypes.bfloat16) if dtype == "BFloat16" else array


def _on_device(tensor: Any) -> Statistics:
    """Compute the same as `tensors.statistics` with the device's kernels, as msprobe does.

    Untested: no NPU was available.
    """
    if not tensor.size or not tensor.shape or tensor.dtype in (types.bool_, types.complex64, types.complex128):
        return tensors.statistics(tensor.asnumpy())
    with _no_grad():
        if tensor.dtype not in (types.float16, types.bfloat16, types.float32):
            tensor = _to(tensor, types.float32)
        high, low, mean, norm = (measure(tensor).item() for measure in _MEASURES)
    return high, low, mean, norm
