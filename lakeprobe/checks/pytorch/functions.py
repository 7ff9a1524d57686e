"""Finds the function that a recorded op names, in the namespaces that hold ops and nothing else.

A dump is foreign text: a name is looked up, never evaluated, and only what torch itself calls an op is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import overrides

from lakeprobe.checks.calls import NO_OPS, CannotRunError, names
from lakeprobe.checks.pytorch import fusion

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_FACTORIES = names(
    """
    arange bartlett_window blackman_window eye full full_like hamming_window hann_window kaiser_window linspace
    logspace ones ones_like range scalar_tensor zeros zeros_like tril_indices triu_indices
    """
)
"""Functions that torch cannot override because they take no tensor."""
_OPERATORS = names(
    """
    add and div eq floordiv ge getitem gt invert le lshift lt matmul mod mul ne neg or pos pow rshift setitem
    sub truediv xor abs rpow
    """
)
"""Operators of Python, __add__ and the like, also reflected and in place."""
NOT_RUN = {
    "Distributed": "it is a collective, which needs its other ranks",
    "MindSpeed": "MindSpeed's ops need MindSpeed",
    "Mindspeed": "MindSpeed's ops need MindSpeed",
}


def find(api_type: str, api: str) -> Callable[..., Any]:
    """The function of an op. Raises CannotRunError for one that this torch lacks, and for what is not an op."""
    if api_type in NOT_RUN:
        raise CannotRunError(NOT_RUN[api_type])
    if not _NAME.fullmatch(api) or api.rpartition(".")[2] in NO_OPS:
        raise CannotRunError(f"{api_type}.{api} is not run")
    if api_type == "NPU":
        return fusion.find(api)
    if api_type == "Aten":
        return _aten(api)
    holder = _HOLDERS.get(api_type)
    if holder is None:
        raise CannotRunError(f"{api_type} is not a namespace of PyTorch's ops")
    function = holder
    for part in api.split("."):
        function = getattr(function, part, None)
    if function is None and api_type == "Torch" and f"linalg.{api}" in _ops()["Torch"]:
        return find(api_type, f"linalg.{api}")  # msprobe drops the name of the module
    if function is None:
        raise CannotRunError(f"torch {torch.__version__} has no {api_type}.{api}")
    if not callable(function) or isinstance(function, (type, ModuleType)) or not _is_op(api_type, api):
        raise CannotRunError(f"{api_type}.{api} is not an op")
    found: Callable[..., Any] = function
    return found


_HOLDERS: dict[str, Any] = {
    "Functional": torch.nn.functional,
    "Torch": torch,
    "Tensor": torch.Tensor,
    "VF": torch._VF,
}


@cache
def _ops() -> dict[str, frozenset[str]]:
    """The names of ops by namespace. Taken when this module is imported, whatever is patched later."""
    overridable = overrides.get_overridable_functions()
    found: dict[str, set[str]] = {kind: set() for kind in _HOLDERS}
    for holder, functions in overridable.items():
        kind = {torch: "Torch", torch.nn.functional: "Functional", torch.Tensor: "Tensor"}.get(holder)
        if kind:
            found[kind] |= {getattr(function, "__name__", "") for function in functions}
    found["Tensor"] |= {name for name in dir(torch._C.TensorBase) if callable(getattr(torch._C.TensorBase, name, None))}
    found["Tensor"] |= {name for name in dir(torch.Tensor) if name.strip("_").lstrip("ri") in _OPERATORS}
    found["Torch"] |= set(dir(torch._C._VariableFunctions)) | _FACTORIES
    found["Torch"] |= {f"linalg.{name.removeprefix('linalg_')}" for name in dir(torch._C._linalg)}
    found["VF"] |= set(dir(torch._C._VariableFunctions))
    found["Functional"] |= {name for name in dir(torch.nn.functional) if name.islower()} - {"handle_torch_function"}
    return {kind: frozenset(members) for kind, members in found.items()}


def _is_op(api_type: str, api: str) -> bool:
    return api in _ops()[api_type]


_ops()


def _aten(api: str) -> Callable[..., Any]:
    """An op of torch.ops.aten, with its overload if the name has one."""
    name, _, overload = api.partition(".")
    found = getattr(torch.ops.aten, name, None)
    if overload and isinstance(found, torch._ops.OpOverloadPacket):
        found = getattr(found, overload, None)
    if not isinstance(found, (torch._ops.OpOverloadPacket, torch._ops.OpOverload)):
        raise CannotRunError(f"torch {torch.__version__} has no aten.{api}")
    op: Callable[..., Any] = found
    return op
