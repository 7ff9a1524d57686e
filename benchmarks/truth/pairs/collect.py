"""Collects one run of a pair: python -m benchmarks.truth.pairs.collect PAIR SIDE RUN --lake LAKE [--defect D …].

A pair is one model written twice, as two modules of this package that nothing else knows of each other:

- `FRAMEWORK`: torch or mindspore
- `DEFECTS`: what can be planted in it, each with a pattern of the op or module that is the cause
- `build(defect)`: the model, with that defect or with None
- `loss(model, batch)`: the loss of a batch of numpy arrays
- `spoil(model, defect)`: change its weights, if that is the defect (PyTorch)
- `carry(weights)`: the first side's weights under this side's names (on the second side); in MindSpore
  `carry(weights, defect)`, which changes them if that is the defect

The first side's weights lie in WEIGHTS, where its first run leaves them; so both sides train the same model.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
from pathlib import Path
from typing import Any

import numpy

import lakeprobe

PAIRS = {
    "vit": ("vit_torch", "vit_mindspore"),
    "gpt": ("gpt_torch", "gpt_mindspore"),
    "bert": ("bert_torch", "bert_mindspore"),
    "resnet": ("resnet_torch", "resnet_mindspore"),
    "lstm": ("lstm_torch", "lstm_mindspore"),
    "moe": ("moe_torch", "moe_mindspore"),
    "gpt_torch": ("gpt_torch", "gpt_parallel_torch"),
    "llama_torch": ("llama_torch", "llama_fused_torch"),
    "mixer_torch": ("mixer_torch", "mixer_steps_torch"),
    "unet": ("unet_torch", "unet_mindspore"),
    "translate": ("translate_torch", "translate_mindspore"),
    "translate_torch": ("translate_torch", "translate_steps_torch"),
    "mobile": ("mobile_torch", "mobile_mindspore"),
    "seq2seq": ("seq2seq_torch", "seq2seq_mindspore"),
    "gan": ("gan_torch", "gan_mindspore"),
    "grouped_torch": ("grouped_torch", "grouped_core_torch"),
    "window": ("window_torch", "window_mindspore"),
    "scan": ("scan_torch", "scan_mindspore"),
}


def side(pair: str, number: int) -> Any:
    """The module of the first (0) or second (1) implementation of a pair."""
    return importlib.import_module(f"benchmarks.truth.pairs.{PAIRS[pair][number]}")


def batch(pair: str) -> dict[str, Any]:
    """The same numbers on both sides: images, or tokens with their targets."""
    random = numpy.random.RandomState(1)
    if pair in ("vit", "resnet", "mixer_torch", "unet", "mobile", "gan", "window"):
        return {"x": random.randn(4, 3, 16, 16).astype("f4"), "y": random.randint(0, 10, 4).astype("i4")}
    tokens = random.randint(1, 50, (2, 13)).astype("i4")
    mask = numpy.ones((2, 12), "i4")
    mask[1, 9:] = 0
    return {"x": tokens[:, :-1].copy(), "y": tokens[:, 1:].copy(), "mask": mask}


def train_torch(
    module: Any, run: str, lake: str, defect: str | None, weights: Path, carried: bool, **how: Any
) -> float:
    """One step of a model in PyTorch; returns its loss."""
    import torch

    torch.manual_seed(0)
    model = module.build(defect)
    state = model.state_dict()
    if weights.exists():
        known = dict(numpy.load(weights))
        values = module.carry(known) if carried else known
        assert set(values) == set(state), sorted(set(values) ^ set(state))
        model.load_state_dict({name: torch.from_numpy(numpy.array(value)) for name, value in values.items()})
    else:
        numpy.savez(weights, **{name: value.numpy() for name, value in state.items()})
    module.spoil(model, defect)
    low, mixed = getattr(torch, how.pop("dtype")), how.pop("mixed")
    dtype = torch.float32 if mixed else low
    model.to(dtype).train()
    noise = how.pop("noise")
    given = {name: torch.from_numpy(value) for name, value in batch(how.pop("pair")).items()}
    given = {name: value.to(dtype) if value.is_floating_point() else value.long() for name, value in given.items()}
    shaking: Any = contextlib.nullcontext()
    if noise:
        from benchmarks.truth.pairs.chip_noise import ChipNoise

        shaking = ChipNoise()
    with shaking, lakeprobe.collect(model, run=run, lake=lake, level="mix", **how) as collector:
        with torch.autocast("cpu", low, enabled=mixed):
            loss = module.loss(model, given)
        loss.backward()
        collector.step()
    return float(loss.detach())


def train_mindspore(
    module: Any, run: str, lake: str, defect: str | None, weights: Path, carried: bool, **how: Any
) -> float:
    """One step of a model in MindSpore; returns its loss."""
    import mindspore

    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    model = module.build(defect)
    values = module.carry(dict(numpy.load(weights)), defect)
    parameters = {parameter.name: parameter for parameter in model.get_parameters()}
    assert set(values) == set(parameters), sorted(set(values) ^ set(parameters))
    low, mixed = getattr(mindspore, how.pop("dtype")), how.pop("mixed")
    dtype = mindspore.float32 if mixed else low
    for name, parameter in parameters.items():
        parameter.set_dtype(dtype)
        parameter.set_data(mindspore.Tensor(values[name], dtype))
    if mixed:
        model = mindspore.amp.auto_mixed_precision(model, "O2", low)
    model.set_train()
    how.pop("noise")  # MindSpore gives no hold to shake its kernels
    given = {name: mindspore.Tensor(value) for name, value in batch(how.pop("pair")).items()}
    given = {name: value.astype(dtype) if value.is_floating_point() else value for name, value in given.items()}
    step = mindspore.value_and_grad(lambda: module.loss(model, given), None, model.trainable_params())
    with lakeprobe.collect(model, run=run, lake=lake, level="mix", **how) as collector:
        loss, _ = step()
        collector.step()
    return float(loss)


def main() -> None:
    """Collect the run that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", choices=PAIRS)
    parser.add_argument("side", type=int, choices=(0, 1))
    parser.add_argument("runs", nargs="+", help="RUN, or RUN=DEFECT")
    parser.add_argument("--lake", required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--task", default="statistics")
    parser.add_argument("--noise", action="store_true")
    parser.add_argument(
        "--dtype", default="float32", help="of weights and batch; MindSpore has no bfloat16 on CPUs (default: float32)"
    )
    parser.add_argument(
        "--mixed",
        action="store_true",
        help="weights in float32, ops in DTYPE as each framework chooses: autocast in PyTorch, O2 in MindSpore",
    )
    asked = parser.parse_args()
    module = side(asked.pair, asked.side)
    train = train_torch if module.FRAMEWORK == "torch" else train_mindspore
    for text in asked.runs:
        run, _, defect = text.partition("=")
        loss = train(
            module, run, asked.lake, defect or None, asked.weights, asked.side == 1,
            task=asked.task, noise=asked.noise, dtype=asked.dtype, mixed=asked.mixed, pair=asked.pair, replace=True,
        )  # fmt: skip
        print(run, defect, f"{loss:.6f}", flush=True)


if __name__ == "__main__":
    main()
