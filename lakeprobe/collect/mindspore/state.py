"""What MindSpore begins a run with: its context, random generators, and a cell's parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import mindspore
import numpy as np

FRAMEWORK = "mindspore"
_CONTEXT = ("mode", "deterministic", "device_target", "max_call_depth", "enable_graph_kernel", "jit_level")


def switches() -> dict[str, Any]:
    """The settings of MindSpore's context that change how numbers are computed."""
    found = {}
    for name in _CONTEXT:
        try:
            found[name] = str(mindspore.get_context(name))
        except (ValueError, KeyError, RuntimeError):
            continue  # another release has no such setting
    return found


def devices() -> dict[str, Any]:
    """The device that MindSpore computes on."""
    return {"mindspore": mindspore.__version__, "accelerator": str(mindspore.get_context("device_target")).lower()}


def generators() -> dict[str, str]:
    """The digest of the state of MindSpore's random generator."""
    state = np.ascontiguousarray(mindspore.get_rng_state().asnumpy())
    seed = str(mindspore.get_seed()).encode()
    return {"mindspore": hashlib.blake2b(state.tobytes() + seed, digest_size=16).hexdigest()}


def generators_kept() -> Callable[[], None]:
    """Remember the state of MindSpore's random generator. Returns what puts it back."""
    state = mindspore.get_rng_state()
    return lambda: mindspore.set_rng_state(state)


def weights(model: Any) -> Iterator[tuple[str, Any]]:
    """Every parameter of a cell as an array."""
    for name, parameter in model.parameters_and_names():
        yield name, array(parameter)


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor."""
    return isinstance(value, mindspore.Tensor)


def array(value: Any) -> Any:
    """The tensor `value` as an array; bfloat16, which numpy lacks, as float32."""
    return (value.float() if value.dtype == mindspore.bfloat16 else value).asnumpy()
