# ruff: noqa: E501 a defect is a line
"""Defects that only a cut run can have, each a change by name, with the ops that are its cause and where it sits.

They are of the kinds that parallel code gets wrong: a missing or doubled reduction, gradients that are not reduced or
not divided, a wrong order or half of shards, a wrong part of the mask. Reports of such bugs:

- sp_norm_grads: gradients of a LayerNorm differ under sequence parallelism, NVIDIA/Megatron-LM issue 1446
- router_not_summed: a router is not synchronised over tensor parallel ranks, NVIDIA/Megatron-LM issue 599, pull 619
- cp_mask: wrong gradients of attention under context parallelism, NVIDIA/Megatron-LM issues 1464 and 1465
- cp_loss_scale: a loss that is scaled once too often under context parallelism, NVIDIA/Megatron-LM issues 673 and 906
- keys_not_reduced (strangers.py): gradients of a shared head of keys, bigcode-project/Megatron-LM issues 11 and 35
- wrong_words (strangers.py): losses diverge with a cut vocabulary, NVIDIA/Megatron-LM issue 1754
- not_tied (jobs/tied.py): gradients of a tied embedding, NVIDIA/Megatron-LM issues 656 and 844
- offset (jobs/tied.py): a stage has the layers before its own, NVIDIA/Megatron-LM issue 1584
- aux_times (jobs/capacity.py): an auxiliary loss that grows with the ranks, NVIDIA/Megatron-LM pull 5047
- own_count (jobs/ulysses.py): a loss divided by the tokens of a rank, NVIDIA/Megatron-LM issue 7452

Each report was looked up; the defects are alike in kind, not reproductions. TTrace (arXiv 2506.09280) reports 14 silent
bugs of Megatron-LM. Its abstract was read, its table was not; issue 1464 is by an account with its first author's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from benchmarks.cuts.model import Place, RowLinear, Transformer
from benchmarks.group_sums import SumForward
from benchmarks.truth.planted import Cause

Change = Callable[[Place, nn.Module], None]


@dataclass(frozen=True)
class CutDefect:
    """One defect: the cuts that it is tried in, its causes, and the axis and coordinate of the ranks that have it.

    `change` is applied to each part of the model; None for what `train.py` does by the defect's name.
    """

    cuts: tuple[str, ...]
    causes: tuple[Cause, ...]
    change: Change | None = None
    at: tuple[str, int] | None = None

    def is_named(self, op: str, module: str | None) -> bool:
        """Whether this op is a true cause."""
        return any(cause.fits(op, module) for cause in self.causes)


def plant(place: Place, chunks: list[Transformer], first_layers: list[int]) -> None:
    """Give the defect of a place to its part of the model."""
    if not place.defect:
        return
    defect = DEFECTS[place.defect]
    if defect.change is None or (defect.at is not None and place.at(defect.at[0]) != defect.at[1]):
        return
    for chunk, first in zip(chunks, first_layers, strict=True):
        chunk.first_layer = first  # type: ignore[assignment]
        defect.change(place, chunk)


def _layer(chunk: nn.Module, number: int) -> nn.Module | None:
    """The layer with this number in the whole model, if this part has it."""
    own = number - int(chunk.first_layer)  # type: ignore[arg-type]
    layers: nn.ModuleList = chunk.layers  # type: ignore[assignment]
    return layers[own] if 0 <= own < len(layers) else None


def _in_layer(number: int, path: str, attribute: str, value: object) -> Change:
    def change(place: Place, chunk: nn.Module) -> None:
        layer = _layer(chunk, number)
        if layer is not None:
            module = layer.get_submodule(path)
            assert hasattr(module, attribute), attribute
            setattr(module, attribute, value)

    return change


def _other_half(place: Place, chunk: nn.Module) -> None:
    """The second rank has the rows of the first."""
    layer = _layer(chunk, 0)
    if layer is None:
        return
    from benchmarks.cuts.model import whole_weights

    whole = whole_weights(False)["layers.0.mlp.down.weight"]
    layer.mlp.down.weight.data.copy_(whole.chunk(place.cut.tp, 1)[0])  # type: ignore[union-attr,operator]


def _offset(path: str) -> Change:
    def change(place: Place, chunk: nn.Module) -> None:
        chunk.get_submodule(path).offset = 0  # type: ignore[assignment]

    return change


def _swapped_experts(place: Place, chunk: nn.Module) -> None:
    """The experts of this rank are in the wrong order."""
    layer = _layer(chunk, 0)
    if layer is not None:
        first, second = (expert.state_dict() for expert in layer.mlp.experts)  # type: ignore[union-attr]
        first, second = ({name: value.clone() for name, value in one.items()} for one in (first, second))
        layer.mlp.experts[0].load_state_dict(second)  # type: ignore[union-attr,index]
        layer.mlp.experts[1].load_state_dict(first)  # type: ignore[union-attr,index]


def _scaled_sum(place: Place, chunk: nn.Module) -> None:
    """The sum over ranks is divided as if it were a mean."""
    layer = _layer(chunk, 1)
    if layer is None:
        return
    down: RowLinear = layer.attention.proj  # type: ignore[union-attr,assignment]

    def forward(x):  # type: ignore[no-untyped-def]
        x = nn.functional.linear(x, down.weight)
        return SumForward.apply(x, place.groups["tp"]) / place.cut.tp + down.bias

    down.forward = forward  # type: ignore[method-assign]


def _within(path: str, op: str = r"\w+", direction: str = "forward") -> tuple[Cause, ...]:
    """An op of the module at `path` or below it, or one of these modules."""
    return (
        Cause(rf"\.({op})\.\d+\.{direction}", rf"^Module\.{path}\b"),
        Cause(rf"^Module\.{path}\b.*\.{direction}"),
    )


OPTIMIZER = (Cause(r"^Tensor\.(lerp_|mul_|addcmul_|sqrt|__truediv__|addcdiv_)\.\d+\.forward", "^optimizer"), Cause(r"^Tensor\.(lerp_|mul_|addcmul_)\.\d+\.forward"))  # fmt: skip
RESIDUAL = (Cause(r"^Tensor\.__add__\.\d+\.forward", r"^Module\.layers\.1\.Layer\b"),)

DEFECTS: dict[str, CutDefect] = {
    "no_forward_sum": CutDefect(
        ("tp2", "dp2_tp2"), (*_within(r"layers\.1\.mlp"), *RESIDUAL), _in_layer(1, "mlp.down", "skips", True)
    ),
    "no_forward_sum_first": CutDefect(
        ("tp2", "tp2_pp2"), _within(r"layers\.0\.attention"), _in_layer(0, "attention.proj", "skips", True)
    ),
    "no_backward_sum": CutDefect(
        ("tp2", "dp2_tp2"),
        (*_within(r"layers\.1\.attention\.qkv", direction="backward"), *_within(r"layers\.1\.norm_before", direction="(backward|parameters_grad)"),
         Cause(r"layers\.1\.norm_before")),
        _in_layer(1, "attention.qkv", "skips", True),
    ),
    "qkv_order": CutDefect(("tp2", "tp2_pp2"), _within(r"layers\.0\.attention")),
    "other_half": CutDefect(("tp2", "dp2_tp2"), _within(r"layers\.0\.mlp\.down"), _other_half, ("tp", 1)),
    "bias_twice": CutDefect(
        ("tp2", "tp2_pp2"), _within(r"layers\.0\.mlp\.down"), _in_layer(0, "mlp.down", "twice", True)
    ),
    "mean_for_sum": CutDefect(("tp2", "tp2_pp2"), (*_within(r"layers\.1\.attention\.proj"),), _scaled_sum),
    "norm_eps": CutDefect(
        ("tp2", "dp2_tp2"), _within(r"layers\.1\.norm_before"), _in_layer(1, "norm_before", "eps", 1e-3), ("tp", 1)
    ),
    "sp_norm_grads": CutDefect(("sp2", "dp2_sp2"), OPTIMIZER),
    "not_divided": CutDefect(("dp2", "dp2_tp2"), OPTIMIZER),
    "dp_not_reduced": CutDefect(("dp2", "dp2_tp2"), OPTIMIZER),
    "wrong_batch": CutDefect(("dp2", "dp2_tp2"), _within("embedding"), at=("dp", 1)),
    "cp_mask": CutDefect(
        ("cp2", "cp2_tp2"), _within(r"layers\.0\.attention", "__add__|__gt__|masked_fill"), _offset("layers.0.attention"), ("cp", 1)
    ),
    "cp_position": CutDefect(("cp2", "cp2_tp2"), _within("embedding"), _offset("embedding"), ("cp", 1)),
    "cp_loss_scale": CutDefect(("cp2", "cp2_tp2"), (Cause(r"cross_entropy\.\d+\.backward"), Cause(r"__mul__"))),
    "cp_not_reduced": CutDefect(("cp2", "cp2_tp2"), OPTIMIZER),
    "micro_not_divided": CutDefect(("pp2", "tp2_pp2"), (Cause(r"cross_entropy\.\d+\.backward"),)),
    "lost_micro": CutDefect(
        ("pp2", "tp2_pp2"), (Cause(r"layers\.0\..*(backward|parameters_grad)"), Cause(r"\.backward", r"^Module\.layers\.0\b"))
    ),
    "router_not_summed": CutDefect(
        ("ep2", "dp2_ep2"),
        (*_within(r"layers\.1\.mlp", direction="backward"), *_within(r"layers\.1\.norm_between", direction="(backward|parameters_grad)"),
         Cause(r"layers\.1\.norm_between")),
        _in_layer(1, "mlp", "skips", True),
    ),
    "expert_order": CutDefect(("ep2", "dp2_ep2"), _within(r"layers\.0\.mlp"), _swapped_experts, ("ep", 1)),
}  # fmt: skip
"""Each defect by its name."""
