"""Moves the floating-point parameters of a model by a rounding error, see `lakeprobe.collect.watching.perturbing`."""

from collections.abc import Iterator
from typing import Any

import torch

from lakeprobe.collect.watching.perturbing import Float, Noise, pieces


def perturb(models: Any, perturb: float, seed: int) -> None:
    """Move each parameter of a model or a list of models. Includes frozen parameters, but no buffers.

    Tied parameters are moved once.
    """
    with torch.no_grad():
        for name, parameter in _parameters(models):
            if parameter.is_floating_point() and not parameter.is_meta:
                local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
                _move(local, Noise(name, _float(local.dtype), perturb=perturb, seed=seed))


def _parameters(models: Any) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for index, model in enumerate(models if isinstance(models, (list, tuple)) else [models]):
        for name, parameter in model.named_parameters(prefix=f"{index}" if index else ""):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter


def _move(parameter: torch.Tensor, noise: Noise) -> None:
    contents = parameter.detach()
    flat = contents.reshape(-1)
    for piece in pieces(flat.numel()):
        moved = noise.moved(flat[piece].to("cpu", torch.float64).numpy())
        flat[piece] = torch.from_numpy(moved).to(flat.dtype).to(flat.device)
    if flat.data_ptr() != contents.data_ptr():  # reshape had to copy
        contents.copy_(flat.view(contents.shape))


def _float(dtype: torch.dtype) -> Float:
    info = torch.finfo(dtype)
    return Float(info.eps, info.tiny, info.max)
