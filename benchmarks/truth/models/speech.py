"""Speech to letters: convolutions over time with weight norm, two-way LSTM, CTC; silent frames; NAdam."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

BANDS, FRAMES, LETTERS, WIDTH, BATCH = 20, 48, 12, 32, 4


class Speech(nn.Module):
    """Frames of a spectrum to the loss of their letters."""

    blank = 0
    slope = 0.1
    floor = 1e-5

    def __init__(self) -> None:
        super().__init__()
        self.first = parametrizations.weight_norm(nn.Conv1d(BANDS, WIDTH, 5, padding=2))
        self.second = parametrizations.weight_norm(nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1))
        self.norm = nn.InstanceNorm1d(WIDTH, affine=True)
        self.narrow = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, dilation=2, groups=4)
        self.memory = nn.LSTM(WIDTH, WIDTH // 2, num_layers=1, batch_first=True, bidirectional=True)
        self.out = nn.Linear(WIDTH, LETTERS)
        self.loss = nn.CTCLoss(blank=0, zero_infinity=True)

    def forward(
        self, frames: torch.Tensor, lengths: torch.Tensor, letters: torch.Tensor, sizes: torch.Tensor
    ) -> torch.Tensor:
        x = torch.log(frames.clamp(min=self.floor))
        x = (x - x.mean(dim=2, keepdim=True)) / (x.std(dim=2, keepdim=True) + 1e-3)
        x = functional.leaky_relu(self.first(x), self.slope)
        x = functional.leaky_relu(self.norm(self.second(x)), self.slope)
        x = x + functional.glu(torch.cat([self.narrow(x), x], dim=1), dim=1)
        heard, _ = self.memory(x.transpose(1, 2))
        guesses = functional.log_softmax(self.out(heard).float(), dim=-1).transpose(0, 1)
        return self.loss(guesses, letters, lengths // 2, sizes)


def build() -> Training:
    generator = torch.Generator().manual_seed(29)
    batches = [
        {
            "frames": torch.rand(BATCH, BANDS, FRAMES, generator=generator) ** 3,
            "lengths": torch.tensor([48, 40, 44, 36]),
            "letters": torch.randint(1, LETTERS, (BATCH, 7), generator=generator),
            "sizes": torch.tensor([7, 5, 6, 4]),
        }
        for _ in range(2)
    ]
    return Training(Speech(), batches, optimizer=torch.optim.NAdam, settings={"lr": 2e-3, "foreach": False})


def _set(name: str, value: float) -> object:
    return lambda training: setattr(training.network, name, value)


def _one_letter(batch: Batch) -> None:
    batch["letters"][1, 2] = batch["letters"][1, 2] % (LETTERS - 1) + 1


def _longer(batch: Batch) -> None:
    batch["lengths"][3] = 48


def _louder(batch: Batch) -> None:
    batch["frames"][2] = batch["frames"][2] * 1.1


def _reversed(batch: Batch) -> None:
    batch["frames"] = batch["frames"].flip(2)


def _magnitude(training: Training) -> None:
    with torch.no_grad():
        training.module("second.parametrizations.weight").original0.mul_(1.01)


def _dilation(training: Training) -> None:
    narrow = training.module("narrow")
    narrow.dilation, narrow.padding = (1,), (1,)


def _recurrent(training: Training) -> None:
    with torch.no_grad():
        weight = training.module("memory").weight_hh_l0_reverse
        weight.copy_(weight.flip(0).clone())


_NORM = r"^Module\.second\.parametrizations\.weight\.(0\._WeightNorm|ParametrizationList)\.forward"
DEFECTS = (
    Defect("floor", "argument", call("clamp|log"), _set("floor", 1e-4)),
    Defect("slope", "argument", call("leaky_relu"), _set("slope", 0.01)),
    Defect("dilation", "argument", inside("narrow", "conv1d"), _dilation),
    defects.setting("norm_eps", "norm", "eps", 1e-3, "instance_norm"),
    defects.setting("no_bias", "out", "bias", None, "linear"),
    defects.setting("blank", "loss", "blank", 11, "ctc_loss"),
    defects.setting("reduction", "loss", "reduction", "sum", "ctc_loss"),
    defects.replaced("other_norm", "norm", lambda old: nn.GroupNorm(1, WIDTH)),
    Defect("magnitude", "weights", (Cause(_NORM), *inside("second", "conv1d")), _magnitude),
    Defect("recurrent", "weights", inside("memory", "lstm"), _recurrent),
    defects.changed_weight("one_element", "narrow", "conv1d", defects.one_element),
    defects.changed_weight("flipped", "out", "linear", defects.flipped),
    defects.frozen("frozen", "narrow", "conv1d"),
    defects.lower_precision("bf16", "narrow", "conv1d"),
    defects.other_data("letter", inside("loss", "ctc_loss"), _one_letter),
    defects.other_data("longer", (*inside("loss", "ctc_loss"), *call("__floordiv__|floor_divide|div")), _longer,
                       batch=1),
    defects.other_data("louder", call("clamp|log"), _louder),
    defects.other_data("reversed", (*call("clamp|log"), *inside("first", "conv1d")), _reversed),
    defects.optimizer("rate", r"addcdiv_|mul_|add_", lr=2.1e-3),
    defects.optimizer("momentum_decay", r"addcdiv_|mul_|add_|__imul__", momentum_decay=8e-3),
    defects.no_clipping(),
    defects.faulty_kernel("softmax_kernel", call("log_softmax"), ATEN._log_softmax, 0, scaled(1.001)),
    defects.faulty_kernel("glu_one_element", call("glu"), ATEN.glu, 0, one_element_wrong),
    defects.faulty_kernel("conv_backward", inside("narrow", "conv1d", "backward"), ATEN.convolution_backward, 0,
                          scaled(1.002)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
