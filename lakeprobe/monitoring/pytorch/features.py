"""Metrics that only modules of a kind have: attention, linear layers, and routers of a mixture of experts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Found = dict[str, float | torch.Tensor]

OF_WEIGHTS = ("linear", "router_weight")
"""Kinds whose metrics are of a weight, and so the same in every forward of a step."""

_MOST_ITERATIONS, _CLOSE = 1000, 1e-12


def of(kind: str, module: nn.Module, arguments: tuple[Any, ...], output: Any, layout: str) -> Found:
    """Return the metrics of a module that is called as one of `kind`. None if it is not such a module.

    attention: `entropy` of the attention's weights and `softmax_max`, their largest, as means over the queries of the
    first batch and head, below a causal mask. The first two arguments are queries and keys in four dimensions.
    linear: `spectral_norm` of the weight and `stable_rank`, ‖W‖²_F / ‖W‖²₂ (Rudelson and Vershynin, 2007).
    router_weight: `similarity`, the mean cosine between the weights of two experts.
    router_logit: `expert_entropy` of the softmax over experts, as a mean over tokens.
    """
    if kind == "attention":
        return _attention(arguments, layout)
    if kind == "router_logit":
        return _router_logit(output)
    weight = _weight(module)
    if weight is None:
        return {}
    return _linear(weight) if kind == "linear" else _router_weight(weight)


def _attention(arguments: tuple[Any, ...], layout: str) -> Found:
    if len(arguments) < 2 or any(not isinstance(each, torch.Tensor) or each.dim() != 4 for each in arguments[:2]):
        return {}
    first = (slice(None), 0, 0) if layout == "s,b,h,d" else (0, slice(None), 0)
    query, key = (tensor.detach()[first] for tensor in arguments[:2])
    scores = (query @ key.t()) / query.shape[-1] ** 0.5
    allowed = torch.ones(scores.shape, dtype=torch.bool, device=scores.device).tril()
    below = (scores - scores.amax(1, keepdim=True)).masked_fill(~allowed, float("-inf"))
    weights = below.float().softmax(1)
    # a product, and not xlogy, which rounds its logarithm otherwise: so the number is msprobe's to the last bit
    logarithms = weights.log().masked_fill(weights == 0, 0)
    entropy = -(weights * logarithms).sum(1).mean()
    return {"entropy": entropy, "softmax_max": weights.amax(1).mean()}


def _linear(weight: torch.Tensor) -> Found:
    wide = weight.double()
    largest = _spectral_norm(wide)
    whole = float(wide.square().sum())
    return {"spectral_norm": largest, "stable_rank": whole / largest**2} if largest else {}


def _spectral_norm(weight: torch.Tensor) -> float:
    """Return the largest singular value of a matrix, by power iteration from a start that is always the same."""
    gram = weight.t() @ weight if weight.shape[0] >= weight.shape[1] else weight @ weight.t()
    vector = gram[:, gram.diagonal().argmax()].clone()
    value = 0.0
    for _ in range(_MOST_ITERATIONS):
        norm = float(vector.norm())
        if not norm or norm != norm:
            return 0.0
        vector /= norm
        vector, before = gram @ vector, value
        value = float(vector.norm())
        if abs(value - before) <= _CLOSE * value:
            break
    return math.sqrt(value)


def _router_weight(weight: torch.Tensor) -> Found:
    """Experts are the shorter side of the matrix."""
    experts = weight if weight.shape[0] < weight.shape[1] else weight.t()
    number = experts.shape[0]
    if number < 2:
        return {}
    unit = functional.normalize(experts.float(), dim=1)
    pairs = torch.ones(number, number, dtype=torch.bool, device=weight.device).triu(1)
    return {"similarity": (unit @ unit.t())[pairs].mean()}


def _router_logit(output: Any) -> Found:
    if isinstance(output, (tuple, list)):
        output = next((item for item in output if isinstance(item, torch.Tensor)), None)
    if not isinstance(output, torch.Tensor) or output.dim() < 2 or not output.numel():
        return {}
    gates = output.detach().float().reshape(-1, output.shape[-1]).softmax(1)
    return {"expert_entropy": -(gates * gates.log()).nansum(1).mean()}


def _weight(module: nn.Module) -> torch.Tensor | None:
    """Return the matrix of a linear layer or a router. None for an embedding, whose weight is a table."""
    if isinstance(module, nn.Embedding) or hasattr(module, "num_embeddings") or hasattr(module, "vocab_start_index"):
        return None
    for name in ("weight", "wg"):
        weight = getattr(module, name, None)
        if isinstance(weight, torch.Tensor) and weight.dim() == 2:
            local = getattr(weight, "to_local", None)
            return weight.detach() if local is None else local().detach()
    return None
