"""What a benchmark case is made of: a model, how it is trained, and a defect of which the cause is known.

Nothing here knows a framework. A model's file (`models/`) says how its training is set up and what can be wrong with
it; `train.py` and `train_mindspore.py` run it; `count.py` holds what is named against what was planted.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MODELS = {
    "encoder": "pytorch",
    "gpt2": "pytorch",
    "bert": "pytorch",
    "vit": "pytorch",
    "llama": "pytorch",
    "t5": "pytorch",
    "mixtral": "pytorch",
    "resnet": "pytorch",
    "unet": "pytorch",
    "gan": "pytorch",
    "lstm": "pytorch",
    "gru": "pytorch",
    "graph": "pytorch",
    "scan": "pytorch",
    "recommender": "pytorch",
    "diffusion": "pytorch",
    "clip": "pytorch",
    "speech": "pytorch",
    "actor": "pytorch",
    "whisper": "pytorch",
    "swin": "pytorch",
    "vae": "pytorch",
    "deepseek": "pytorch",
    "deberta": "pytorch",
    "segformer": "pytorch",
    "physics": "pytorch",
    "gemma": "pytorch",
    "codebook": "pytorch",
    "detector": "pytorch",
    "amp": "pytorch",
    "ranks": "pytorch",
    "strangers.opt": "pytorch",
    "strangers.neox": "pytorch",
    "strangers.bloom": "pytorch",
    "strangers.falcon": "pytorch",
    "strangers.phi": "pytorch",
    "strangers.qwen3": "pytorch",
    "strangers.qwen3moe": "pytorch",
    "strangers.olmo2": "pytorch",
    "strangers.mamba": "pytorch",
    "strangers.electra": "pytorch",
    "strangers.albert": "pytorch",
    "strangers.xlnet": "pytorch",
    "strangers.fnet": "pytorch",
    "strangers.bart": "pytorch",
    "strangers.convnext": "pytorch",
    "strangers.dinov2": "pytorch",
    "strangers.mobilevit": "pytorch",
    "strangers.regnet": "pytorch",
    "strangers.mobilenet": "pytorch",
    "strangers.levit": "pytorch",
    "strangers.poolformer": "pytorch",
    "strangers.gptj": "pytorch",
    "strangers.granite": "pytorch",
    "strangers.bigcode": "pytorch",
    "strangers.rwkv": "pytorch",
    "strangers.funnel": "pytorch",
    "strangers.mpnet": "pytorch",
    "strangers.convbert": "pytorch",
    "strangers.perceiver": "pytorch",
    "strangers.videomae": "pytorch",
    "strangers.pvt": "pytorch",
    "strangers.efficientnet": "pytorch",
    "strangers.focalnet": "pytorch",
    "strangers.beit": "pytorch",
    "strangers.hubert": "pytorch",
    "strangers.mpt": "pytorch",
    "strangers.xglm": "pytorch",
    "strangers.codegen": "pytorch",
    "strangers.starcoder2": "pytorch",
    "strangers.cohere": "pytorch",
    "strangers.olmoe": "pytorch",
    "strangers.gptneo": "pytorch",
    "strangers.recurrentgemma": "pytorch",
    "strangers.glm": "pytorch",
    "strangers.diffllama": "pytorch",
    "strangers.roformer": "pytorch",
    "strangers.nystrom": "pytorch",
    "strangers.squeezebert": "pytorch",
    "strangers.mobilebert": "pytorch",
    "strangers.longformer": "pytorch",
    "strangers.bigbird": "pytorch",
    "strangers.esm": "pytorch",
    "strangers.canine": "pytorch",
    "strangers.modernbert": "pytorch",
    "strangers.pegasus": "pytorch",
    "strangers.marian": "pytorch",
    "strangers.switch": "pytorch",
    "strangers.prophetnet": "pytorch",
    "strangers.swiftformer": "pytorch",
    "strangers.swinv2": "pytorch",
    "strangers.mobilenet1": "pytorch",
    "strangers.convnext2": "pytorch",
    "strangers.hiera": "pytorch",
    "strangers.deit": "pytorch",
    "strangers.timesformer": "pytorch",
    "strangers.vivit": "pytorch",
    "strangers.wav2vec2": "pytorch",
    "strangers.wavlm": "pytorch",
    "strangers.led": "pytorch",
    "strangers.longt5": "pytorch",
    "strangers.umt5": "pytorch",
    "strangers.pegasusx": "pytorch",
    "strangers.m2m": "pytorch",
    "strangers.bigbirdpegasus": "pytorch",
    "strangers.plbart": "pytorch",
    "strangers.jetmoe": "pytorch",
    "strangers.granitemoe": "pytorch",
    "strangers.phimoe": "pytorch",
    "strangers.gptoss": "pytorch",
    "strangers.jamba": "pytorch",
    "strangers.falconh1": "pytorch",
    "strangers.lfm2": "pytorch",
    "strangers.helium": "pytorch",
    "strangers.minimax": "pytorch",
    "strangers.exaone4": "pytorch",
    "strangers.smollm3": "pytorch",
    "strangers.gemma3": "pytorch",
    "strangers.qwen3next": "pytorch",
    "strangers.ctrl": "pytorch",
    "strangers.openai": "pytorch",
    "strangers.mra": "pytorch",
    "strangers.ibert": "pytorch",
    "strangers.rembert": "pytorch",
    "strangers.xmod": "pytorch",
    "strangers.data2vec": "pytorch",
    "strangers.sew": "pytorch",
    "strangers.conformer": "pytorch",
    "strangers.unispeech": "pytorch",
    "strangers.pvt2": "pytorch",
    "strangers.ijepa": "pytorch",
    "strangers.hgnet": "pytorch",
    "strangers.vitmsn": "pytorch",
    "strangers.resnethf": "pytorch",
    "strangers.textnet": "pytorch",
    "strangers.data2vecv": "pytorch",
    "strangers.persimmon": "pytorch",
    "strangers.nemotron": "pytorch",
    "strangers.seedoss": "pytorch",
    "strangers.cohere2": "pytorch",
    "strangers.olmo3": "pytorch",
    "strangers.arcee": "pytorch",
    "strangers.apertus": "pytorch",
    "strangers.dots": "pytorch",
    "strangers.hunyuan": "pytorch",
    "strangers.erniemoe": "pytorch",
    "strangers.glm4": "pytorch",
    "strangers.glm4moe": "pytorch",
    "strangers.flexolmo": "pytorch",
    "strangers.phi3": "pytorch",
    "strangers.qwen2moe": "pytorch",
    "strangers.biogpt": "pytorch",
    "strangers.bamba": "pytorch",
    "strangers.doge": "pytorch",
    "strangers.gemma2": "pytorch",
    "strangers.bitnet": "pytorch",
    "strangers.minicpm": "pytorch",
    "strangers.lfm2moe": "pytorch",
    "strangers.xlstm": "pytorch",
    "strangers.nanochat": "pytorch",
    "strangers.mbart": "pytorch",
    "strangers.blenderbot": "pytorch",
    "strangers.mvp": "pytorch",
    "strangers.nllbmoe": "pytorch",
    "strangers.distilbert": "pytorch",
    "strangers.xlm": "pytorch",
    "strangers.prelayernorm": "pytorch",
    "strangers.megatron": "pytorch",
    "strangers.xlmrobertaxl": "pytorch",
    "strangers.layoutlm": "pytorch",
    "strangers.eurobert": "pytorch",
    "strangers.yoso": "pytorch",
    "strangers.tapas": "pytorch",
    "strangers.donut": "pytorch",
    "strangers.mobilevit2": "pytorch",
    "strangers.siglip": "pytorch",
    "strangers.registers": "pytorch",
    "strangers.clipvision": "pytorch",
    "strangers.sewd": "pytorch",
    "strangers.unispeech1": "pytorch",
    "vision.densenet": "pytorch",
    "vision.googlenet": "pytorch",
    "vision.shufflenet": "pytorch",
    "vision.mnasnet": "pytorch",
    "vision.squeezenet": "pytorch",
    "vision.mobilenet3": "pytorch",
    "vision.wide": "pytorch",
    "vision.next": "pytorch",
    "vision.maxvit": "pytorch",
    "vision.swintv": "pytorch",
    "vision.vittv": "pytorch",
    "vision.convnexttv": "pytorch",
    "vision.regnetv": "pytorch",
    "vision.deeplab": "pytorch",
    "vision.lraspp": "pytorch",
    "vision.r3d": "pytorch",
    "vision.r2plus1d": "pytorch",
    "vision.swin3d": "pytorch",
    "vision.raft": "pytorch",
    "vision.retinanet": "pytorch",
    "vision.fcos": "pytorch",
    "vision.ssdlite": "pytorch",
    "tasks.patchtst": "pytorch",
    "tasks.patchtsmixer": "pytorch",
    "tasks.timeseries": "pytorch",
    "tasks.informer": "pytorch",
    "tasks.autoformer": "pytorch",
    "tasks.decision": "pytorch",
    "tasks.spectrogram": "pytorch",
    "tasks.encodec": "pytorch",
    "tasks.speechtotext": "pytorch",
    "tasks.mae": "pytorch",
    "tasks.dpt": "pytorch",
    "tasks.upernet": "pytorch",
    "tasks.mobilevitseg": "pytorch",
    "tasks.cvt": "pytorch",
    "tasks.bit": "pytorch",
    "tasks.imagegpt": "pytorch",
    "tasks.vilt": "pytorch",
    "tasks.blip": "pytorch",
    "tasks.git": "pytorch",
    "tasks.visualbert": "pytorch",
    "tasks.altclip": "pytorch",
    "tasks.groupvit": "pytorch",
    "tasks.lilt": "pytorch",
    "tasks.bros": "pytorch",
    "tasks.splinter": "pytorch",
    "tasks.luke": "pytorch",
    "tasks.mamba2": "pytorch",
    "tasks.zamba2": "pytorch",
    "tasks.deepseek2": "pytorch",
    "tasks.stablelm": "pytorch",
    "tasks.dbrx": "pytorch",
    "tasks.granitehybrid": "pytorch",
    "tasks.qwen35": "pytorch",
    "tasks.vaultgemma": "pytorch",
    "tasks.longcat": "pytorch",
    "tasks.minimaxm2": "pytorch",
    "tasks.nemotronh": "pytorch",
    "fused": "pytorch",
    "quantised": "pytorch",
    "forecast": "pytorch",
    "molecule": "pytorch",
    "contrast": "pytorch",
    "synth": "pytorch",
    "flow": "pytorch",
    "operator": "pytorch",
    "points": "pytorch",
    "adapters": "pytorch",
    "radiance": "pytorch",
    "slots": "pytorch",
    "waveform": "pytorch",
    "tagger": "pytorch",
    "stereo": "pytorch",
    "ms_encoder": "mindspore",
    "ms_cnn": "mindspore",
    "ms_lstm": "mindspore",
}
"""The models, each a file in `models/` or a member of one, and the framework that it needs."""


@dataclass(frozen=True)
class Cause:
    """An op that is the true cause: patterns for its name and its module, and its rank if it is on one only."""

    op: str
    module: str = ""
    rank: int | None = None

    def fits(self, op: str, module: str | None, rank: int = 0) -> bool:
        """Whether this names the op. An op that is a module is in itself."""
        is_inside = not self.module or any(re.search(self.module, name) for name in (op, module or ""))
        return bool(re.search(self.op, op)) and is_inside and self.rank in (None, rank)


@dataclass(frozen=True)
class Defect:
    """One change of one place.

    `kind` is what a report groups by. `causes` are the ops that count as the true cause, `step` is the first step in
    which it can show. `plant` changes the training before it begins.
    """

    name: str
    kind: str
    causes: tuple[Cause, ...]
    plant: Callable[[Any], None]
    step: int = 0

    def is_named(self, op: str, module: str | None, rank: int = 0) -> bool:
        """Whether this op is a true cause of the defect."""
        return any(cause.fits(op, module, rank) for cause in self.causes)


@dataclass(frozen=True)
class Model:
    """How a training is set up, and what can be wrong with it. `ranks`: processes that train together."""

    build: Callable[[], Any]
    defects: tuple[Defect, ...]
    ranks: int = 1

    def defect(self, name: str) -> Defect | None:
        """The defect of this name; a run without one (golden, equal, repeat) has none."""
        return next((defect for defect in self.defects if defect.name == name), None)


def load(name: str) -> Model:
    """The model of this name: that of a file, or one of its members (FILE.MEMBER). Its framework is imported."""
    file, _, member = name.partition(".")
    module = importlib.import_module(f"benchmarks.truth.models.{file}")
    model: Model = module.model(member) if member else module.MODEL
    return model
