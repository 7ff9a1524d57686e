"""A linear recurrence (RWKV) of which low-rank adapters are trained, two micro-batches a step; a hand-written Lion.

What a user changes: the scale of an adapter, how it starts, which weights are trained, the token that is mixed in, a
decay without its second exponential, a state that is read too late or in low precision, a square, an undivided loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.tokens import random_tokens
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

WORDS, LENGTH, BATCH, HEADS, SIZE, RANK = 60, 8, 3, 2, 12, 4
WIDTH = HEADS * SIZE


class Lion(torch.optim.Optimizer):
    """The sign of a mean of gradients (arXiv 2302.06675)."""

    def __init__(
        self, params: Any, lr: float, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            fast, slow = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                update = mean.mul(fast).add(parameter.grad, alpha=1 - fast)
                parameter.add_(update.sign(), alpha=-group["lr"])
                mean.lerp_(parameter.grad, 1 - slow)


class Adapted(nn.Module):
    """A frozen linear layer and a trained product of low rank."""

    alpha, has_root = 8.0, False

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, RANK, bias=False)
        self.up = nn.Linear(RANK, WIDTH, bias=False)
        self.dropout = nn.Dropout(0.1)
        nn.init.normal_(self.up.weight, std=0.05)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.alpha / (math.sqrt(RANK) if self.has_root else RANK)
        return self.base(x) + self.up(self.down(self.dropout(x))) * scale


class TimeMix(nn.Module):
    """Keys and values that fade, head by head, and are read by receptances."""

    shift, is_double, has_bonus, reads_late, state_dtype = 1, True, True, False, None

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(4, WIDTH))
        self.decay = nn.Parameter(torch.linspace(-3, 0, WIDTH).view(HEADS, SIZE, 1))
        self.bonus = nn.Parameter(torch.rand(HEADS, SIZE, 1))
        self.receptance, self.value = Adapted(), Adapted()
        self.key, self.gate, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.norm = nn.GroupNorm(HEADS, WIDTH, eps=64e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = functional.pad(x, (0, 0, self.shift, -self.shift))
        read, key, value, gate = (torch.lerp(before, x, mix) for mix in self.mix)
        read = self.receptance(read).view(BATCH, LENGTH, HEADS, 1, SIZE)
        key = self.key(key).view(BATCH, LENGTH, HEADS, SIZE, 1)
        value = self.value(value).view(BATCH, LENGTH, HEADS, 1, SIZE)
        fade = torch.exp(-torch.exp(self.decay)) if self.is_double else torch.exp(self.decay - 1)
        state = torch.zeros(BATCH, HEADS, SIZE, SIZE, dtype=x.dtype)
        outputs = []
        for now in range(LENGTH):
            both = key[:, now] @ value[:, now]
            if self.reads_late:
                state = state * fade + both
                outputs.append(read[:, now] @ state)
            else:
                outputs.append(read[:, now] @ (state + self.bonus * both if self.has_bonus else state + both))
                state = state * fade + both
            if self.state_dtype is not None:
                state = state.to(self.state_dtype).to(x.dtype)
        mixed = self.norm(torch.stack(outputs, 1).reshape(BATCH * LENGTH, WIDTH)).view(BATCH, LENGTH, WIDTH)
        return self.out(mixed * functional.silu(self.gate(gate)))


class ChannelMix(nn.Module):
    """A feed-forward with a squared activation and a gate."""

    squares = True

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(2, WIDTH))
        self.key, self.value = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.receptance = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = functional.pad(x, (0, 0, 1, -1))
        key = torch.relu(self.key(torch.lerp(before, x, self.mix[0])))
        value = self.value(key**2 if self.squares else key)
        return torch.sigmoid(self.receptance(torch.lerp(before, x, self.mix[1]))) * value


class Block(nn.Module):
    """Both mixes, each after a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.time, self.channel = TimeMix(), ChannelMix()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.time(self.norm1(x))
        return x + self.channel(self.norm2(x))


class Language(nn.Module):
    """The loss of the next word."""

    ahead = 1

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_("down" in name or "up" in name or "norm" in name or "decay" in name)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.words.weight)
        return functional.cross_entropy(
            logits[:, : LENGTH - self.ahead].flatten(0, 1), tokens[:, self.ahead :].flatten()
        )


def build() -> Training:
    batches: list[Batch] = [{"tokens": tokens} for tokens in random_tokens(101, (BATCH, LENGTH), WORDS, 3)]
    settings = {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1}
    return Training(Language(), batches, optimizer=Lion, settings=settings, clip=1.0, accumulate=2)


def _ahead(training: Training) -> None:
    training.network.ahead = 2


def _trained(training: Training) -> None:
    training.module("blocks.0.time.key").weight.requires_grad_(True)


def _post_norm(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def after(x: torch.Tensor) -> torch.Tensor:
        x = x + module.time(module.norm1(x))
        return module.norm2(x + module.channel(x))

    return after


STATE = "__add__|add|__matmul__|matmul|__mul__|mul|__rmul__"

DEFECTS = (
    defects.setting("alpha", "blocks.0.time.receptance", "alpha", 4.0, "__mul__|mul"),
    defects.setting("root", "blocks.1.time.value", "has_root", True, "__mul__|mul"),
    defects.changed_weight("zeroed", "blocks.1.time.receptance.up", "linear", torch.zeros_like),
    defects.setting("no_dropout", "blocks.0.time.value.dropout", "p", 0.0, "dropout"),
    Defect("trained", "weights", inside("blocks.0.time.key", "linear"), _trained),
    defects.setting("next_token", "blocks.1.time", "shift", -1, "pad"),
    defects.setting("one_exponential", "blocks.0.time", "is_double", False, "exp|__neg__|neg|__sub__|sub"),
    defects.setting("no_bonus", "blocks.1.time", "has_bonus", False, STATE),
    defects.setting("reads_late", "blocks.0.time", "reads_late", True, STATE),
    defects.setting("low_state", "blocks.1.time", "state_dtype", torch.float16, f"to|{STATE}"),
    defects.setting("eps", "blocks.0.time.norm", "eps", 1e-5, "group_norm"),
    defects.setting("no_square", "blocks.1.channel", "squares", False, "pow|__pow__|linear"),
    defects.changed_forward("post_norm", "wiring", "blocks.1", _post_norm, within("blocks.1", r"pad|layer_norm|\w+")),
    Defect("two_ahead", "argument", call("__getitem__|cross_entropy|flatten"), _ahead),
    defects.changed_weight("one_weight", "blocks.1.channel.key", "linear", defects.one_element),
    defects.changed_weight("decay", "blocks.1.time", "exp|__mul__", lambda tensor: tensor.flip(1), "decay"),
    defects.loop("undivided", call("__truediv__|div"), divides=False),
    defects.optimizer("betas", "mul|mul_|lerp_|add", betas=(0.95, 0.98)),
    defects.optimizer("decay_rate", "mul_", weight_decay=0.01),
    defects.no_clipping(),
    defects.faulty_kernel(
        "group_norm", inside("blocks.1.time.norm", "group_norm"), ATEN.native_group_norm, 1, scaled(1.002)
    ),
    defects.faulty_kernel("silu", within("blocks.0.time", "silu"), ATEN.silu, 0, one_element_wrong),
    defects.faulty_kernel("linear", inside("blocks.1.channel.value", "linear"), ATEN.mm, 22, scaled(1.002)),
)

MODEL = Model(build, DEFECTS)
