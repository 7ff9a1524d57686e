"""A state-space language model: causal convolution, gated selective scan, hand-written RMS norm; AdamW, fused loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

WORDS, WIDTH, STATE, BATCH, LENGTH = 60, 24, 6, 3, 10


class RootMeanSquare(nn.Module):
    """Divides by the root of the mean square."""

    eps = 1e-6

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Mixer(nn.Module):
    """h ← exp(−Δ·A)·h + Δ·B·x along the sequence; the output is C·h, gated."""

    is_gated = True
    limit = 20.0
    """softplus is linear above."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 4, padding=3, groups=WIDTH)
        self.select = nn.Linear(WIDTH, 1 + 2 * STATE)
        self.decay = nn.Parameter(torch.log(torch.arange(1, STATE + 1).float()).repeat(WIDTH, 1))
        self.skip = nn.Parameter(torch.ones(WIDTH))
        self.leave = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner, gate = self.enter(x).chunk(2, dim=-1)
        inner = self.conv(inner.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        inner = functional.silu(inner)
        step, brings, reads = self.select(inner).split([1, STATE, STATE], dim=-1)
        step = functional.softplus(step, threshold=self.limit)
        keeps = torch.exp(-step[..., None] * torch.exp(self.decay).to(step.dtype))
        state = torch.zeros(x.shape[0], WIDTH, STATE, dtype=x.dtype)
        outputs = []
        for t in range(x.shape[1]):
            comes = (step[:, t] * inner[:, t])[:, :, None] * brings[:, t, None, :]
            state = keeps[:, t] * state + comes
            outputs.append((state * reads[:, t, None, :]).sum(-1))
        scanned = torch.stack(outputs, dim=1) + inner * self.skip
        return self.leave(scanned * functional.silu(gate) if self.is_gated else scanned)


class Layer(nn.Module):
    """A mixer around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = RootMeanSquare()
        self.mixer = Mixer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mixer(self.norm(x))


class Language(nn.Module):
    """Predicts the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm = RootMeanSquare()
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.words(words)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(self.norm(hidden))
        return functional.cross_entropy(logits[:, :-1].reshape(-1, WORDS), words[:, 1:].reshape(-1))


def build() -> Training:
    generator = torch.Generator().manual_seed(77)
    batches = [{"words": torch.randint(0, WORDS, (BATCH, LENGTH), generator=generator)} for _ in range(2)]
    return Training(Language(), batches, clip=0.5)


def _one_word(batch: Batch) -> None:
    batch["words"][1, 4] = (batch["words"][1, 4] + 1) % WORDS


def _no_gate(training: Training) -> None:
    training.module("layers.1.mixer").is_gated = False


def _small_limit(training: Training) -> None:
    training.module("layers.1.mixer").limit = 0.5


def _norm_eps(training: Training) -> None:
    training.module("layers.2.norm").eps = 1e-3


def _no_causal_cut(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The convolution sees the future: it is shifted by one."""
    return lambda x: forward(x).roll(-1, -1)


def _twice_scanned(training: Training) -> None:
    with torch.no_grad():
        training.module("layers.0.mixer").skip.mul_(1.01)


DEFECTS = (
    Defect("limit", "argument", within("layers.1.mixer", "softplus"), _small_limit),
    Defect("norm_eps", "argument", within("layers.2.norm", r"__r?add__|rsqrt"), _norm_eps),
    defects.setting("conv_bias", "layers.1.mixer.conv", "bias", None, "conv1d"),
    defects.setting("groups_padding", "layers.0.mixer.conv", "padding_mode", "circular", "conv1d|pad"),
    Defect("no_gate", "op", within("layers.1.mixer", r"silu|__r?mul__|linear"), _no_gate),
    defects.changed_forward(
        "shifted", "wiring", "layers.1.mixer.conv", _no_causal_cut, within("layers.1.mixer", r"roll|conv1d|__getitem__")
    ),
    Defect("skip_weight", "weights", within("layers.0.mixer", r"__r?mul__"), _twice_scanned),
    defects.changed_weight("decay_flipped", "layers.1.mixer", r"exp|__r?mul__", defects.flipped, "decay"),
    defects.changed_weight("one_element", "layers.1.mixer.leave", "linear", defects.one_element),
    defects.changed_weight("other_start", "layers.2.mixer.enter", "linear", defects.reinitialised),
    defects.changed_weight("select_flipped", "layers.0.mixer.select", "linear", defects.flipped),
    defects.frozen("frozen", "layers.2.mixer.leave", "linear"),
    defects.lower_precision("leave_bf16", "layers.1.mixer.leave", "linear"),
    defects.other_data("one_word", call("embedding|__getitem__|cross_entropy"), _one_word),
    defects.optimizer("decay_rate", "mul_", weight_decay=0.1),
    defects.optimizer("rate", r"addcdiv_|mul_", lr=1.1e-3),
    defects.no_clipping(),
    defects.faulty_kernel("rsqrt_kernel", within("layers.1.norm", "rsqrt"), ATEN.rsqrt, 1, scaled(1.001)),
    defects.faulty_kernel("silu_one_element", within("layers.0.mixer", "silu"), ATEN.silu, 1, one_element_wrong),
    defects.faulty_kernel(
        "conv_backward",
        inside("layers.1.mixer.conv", "conv1d", "backward"),
        ATEN.convolution_backward,
        1,
        scaled(1.002),
    ),
)


MODEL = Model(build, DEFECTS)
