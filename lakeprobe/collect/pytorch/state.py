"""What torch begins a run with: switches, devices, random generators, and a model's parameters and buffers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from lakeprobe.collect.pytorch.tensors import copy

FRAMEWORK = "pytorch"


def switches() -> dict[str, Any]:
    """The settings of torch that change how, and in what order, numbers are computed."""
    cuda = torch.backends.cuda
    return {
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill_uninitialized_memory": torch.utils.deterministic.fill_uninitialized_memory,
        "cudnn.enabled": torch.backends.cudnn.enabled,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "flash_attention": cuda.flash_sdp_enabled(),
        "memory_efficient_attention": cuda.mem_efficient_sdp_enabled(),
        "math_attention": cuda.math_sdp_enabled(),
        "mkldnn": torch.backends.mkldnn.is_available(),
        "default_dtype": str(torch.get_default_dtype()),
        "anomaly_detection": torch.is_anomaly_enabled(),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
    }


def devices() -> dict[str, Any]:
    """The accelerators that torch sees, and the libraries that it was built with."""
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "none",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    accelerator = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
    found["accelerator"] = accelerator.type if accelerator is not None else "cpu"
    if torch.cuda.is_available():
        found["count"] = torch.cuda.device_count()
        found["cudnn"] = str(torch.backends.cudnn.version())
        found |= {f"device{number}": torch.cuda.get_device_name(number) for number in range(found["count"])}
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        found["world_size"] = torch.distributed.get_world_size()
        found["backend"] = torch.distributed.get_backend()
    return found


def generators() -> dict[str, str]:
    """Digests of the states of torch's random generators."""
    states = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states |= {f"cuda{number}": state for number, state in enumerate(torch.cuda.get_rng_state_all())}
    return {name: hashlib.blake2b(bytes(state.tolist()), digest_size=16).hexdigest() for name, state in states.items()}


def generators_kept() -> Callable[[], None]:
    """Remember the states of torch's random generators. Returns what puts them back."""
    state = torch.get_rng_state()
    return lambda: torch.set_rng_state(state)


def weights(model: Any) -> Iterator[tuple[str, Any]]:
    """Every parameter and buffer of a module as an array; a tied one once."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        array = copy(tensor)
        if array is not None:
            yield name, array


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor whose bytes can be copied."""
    return isinstance(value, torch.Tensor) and copy(value) is not None


def array(value: Any) -> Any:
    """The tensor `value` as an array."""
    return copy(value)
