"""A synthesizer: a GRU gives loudness and overtones, oscillators sound them, and spectra of several sizes are compared.

What a user changes: the window and the hop of a spectrum, what is added before a logarithm, how controls are stretched
to samples, phases added up in low precision, the dimension of a softmax, noise that is not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.truth import defects
from benchmarks.truth.defects import inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Batch, Training

FRAMES, HOP, OVERTONES, WIDTH, BATCH = 16, 32, 8, 24, 3


class Controls(nn.Module):
    """Loudness and the shares of the overtones, frame by frame."""

    dimension = -1

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(2, WIDTH), nn.LayerNorm(WIDTH), nn.LeakyReLU())
        self.memory = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.loudness = nn.Linear(WIDTH, 1)
        self.shares = nn.Linear(WIDTH, OVERTONES)

    def forward(self, pitch: torch.Tensor, level: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, _ = self.memory(self.enter(torch.stack([pitch.log(), level], -1)))
        return 2 * torch.sigmoid(self.loudness(states)) ** math.log(10), self.shares(states).softmax(self.dimension)


class Oscillators(nn.Module):
    """The sum of sines, whose phases add up sample by sample."""

    mode = "linear"

    def forward(self, pitch: torch.Tensor, amplitudes: torch.Tensor) -> torch.Tensor:
        phase = self.stretched(pitch[..., None]).cumsum(1)
        numbers = torch.arange(1, OVERTONES + 1, dtype=phase.dtype)
        return (torch.sin(phase * numbers) * self.stretched(amplitudes)).sum(-1)

    def stretched(self, frames: torch.Tensor) -> torch.Tensor:
        ends = {"align_corners": False} if self.mode == "linear" else {}
        return functional.interpolate(frames.transpose(1, 2), scale_factor=HOP, mode=self.mode, **ends).transpose(1, 2)


class Spectrum(nn.Module):
    """How far two sounds are apart at one size of window."""

    periodic, floor, share = True, 1e-5, 4

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def magnitudes(self, sound: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(self.size, periodic=self.periodic)
        return torch.stft(
            sound.float(), self.size, self.size // self.share, window=window, center=True, return_complex=True
        ).abs()

    def forward(self, sound: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        ours, theirs = self.magnitudes(sound), self.magnitudes(wanted)
        logs = (torch.log(ours + self.floor) - torch.log(theirs + self.floor)).abs().mean()
        return functional.l1_loss(ours, theirs) + logs


class Synth(nn.Module):
    """The loss over all sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.controls = Controls()
        self.oscillators = Oscillators()
        self.filter = nn.utils.parametrizations.weight_norm(nn.Conv1d(1, 1, 9, padding=4))
        self.spectra = nn.ModuleList(Spectrum(size) for size in (128, 64, 32))

    def forward(self, pitch: torch.Tensor, level: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        loudness, shares = self.controls(pitch, level)
        sound = self.oscillators(pitch, loudness * shares)
        sound = self.filter(sound[:, None])[:, 0]
        return torch.stack([spectrum(sound, wanted) for spectrum in self.spectra]).sum()


def build() -> Training:
    generator = torch.Generator().manual_seed(71)
    batches: list[Batch] = []
    for _ in range(2):
        pitch = (
            0.05
            + 0.1 * torch.rand(BATCH, 1, generator=generator)
            + 0.01 * torch.rand(BATCH, FRAMES, generator=generator)
        )
        level = torch.rand(BATCH, FRAMES, generator=generator)
        wanted = torch.sin(pitch.repeat_interleave(HOP, 1).cumsum(1)) * level.repeat_interleave(HOP, 1)
        batches.append({"pitch": pitch, "level": level, "wanted": wanted})
    return Training(Synth(), batches, settings={"lr": 2e-3, "foreach": False}, clip=3.0)


def _low_phase(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def low(pitch: torch.Tensor, amplitudes: torch.Tensor) -> torch.Tensor:
        other = torch.float16
        phase = module.stretched(pitch[..., None]).to(other).cumsum(1).to(pitch.dtype)
        numbers = torch.arange(1, OVERTONES + 1, dtype=phase.dtype)
        return (torch.sin(phase * numbers) * module.stretched(amplitudes)).sum(-1)

    return low


def _late(batch: Batch) -> None:
    batch["level"] = batch["level"].roll(1, -1)


DEFECTS = (
    defects.setting("window", "spectra.1", "periodic", False, "hann_window|stft"),
    defects.setting("floor", "spectra.0", "floor", 1e-3, "__add__|add|log"),
    defects.setting("hop", "spectra.2", "share", 2, "stft"),
    defects.setting("nearest", "oscillators", "mode", "nearest", "interpolate"),
    defects.setting("dimension", "controls", "dimension", 1, "softmax"),
    defects.changed_forward("low_phase", "dtype", "oscillators", _low_phase, within("oscillators", "to|cumsum")),
    defects.other_data("late", inside("controls.enter.0", "linear"), _late),
    defects.setting("slope", "controls.enter.2", "negative_slope", 0.02, "leaky_relu"),
    defects.changed_weight("bias", "controls.loudness", "linear", lambda tensor: tensor + 0.01, "bias"),
    defects.changed_weight("recurrent", "controls.memory", "gru|GRU", defects.one_element, "weight_hh_l0"),
    defects.no_clipping(),
    defects.faulty_kernel("cumsum", within("oscillators", "cumsum"), ATEN.cumsum, 0, one_element_wrong),
    defects.faulty_kernel("sigmoid", within("controls", "sigmoid"), ATEN.sigmoid, 0, scaled(1.001)),
)

MODEL = Model(build, DEFECTS)
