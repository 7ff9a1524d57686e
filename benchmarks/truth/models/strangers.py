"""Networks of transformers that nobody wrote defects for: they are planted at places that are drawn by chance.

Which places are drawn hangs on the network's name alone. A defect that does not change the loss of the first batch is
none, and left out: some networks have modules and settings that their forward pass does not use.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import Plant, call, inside, within
from benchmarks.truth.models.tokens import random_tokens, replace_token
from benchmarks.truth.models.transformers_offline import transformers as hf
from benchmarks.truth.noise import ATEN, FaultyKernel, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.runs import INITIAL_SEED
from benchmarks.truth.training import Training, loss_of

VOCABULARY, LENGTH, BATCH, CLASSES = 96, 16, 2, 6
EPSILONS = ("eps", "variance_epsilon", "layer_norm_eps")
SCALES = ("scaling", "scale", "inv_norm_factor", "norm_factor")
CHANGES = {
    "one_element": defects.one_element,
    "other_numbers": defects.reinitialised,
    "slightly_larger": lambda tensor: tensor * 1.003,
    "flipped": defects.flipped,
}
"""What is done to a weight of a linear layer or a convolution, one each."""

DATA = (
    r"embedding|dropout|__\w+__|view|reshape|where|pad|new_zeros|clone|cumsum|eq|ne|conv\dd|long|float|to|roll"
    r"|index_add|abs"
)
"""Ops that take a batch before all others."""

LABELS = r"cross_entropy|one_hot|contiguous|masked_fill_|\w+_loss|kl_div|sign|binary_cross_entropy\w*|argsort"
"""Ops that take labels first, beside those."""

Build = Callable[[], Training]


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return planted_by_chance(MEMBERS[name], name)


def planted_by_chance(build: Build, name: str) -> Model:
    """The network that `build` makes, with defects at places that hang on its name."""
    return Model(build, tuple(_changing(build, _defects(build, random.Random(name)))))


def _defects(build: Build, chance: random.Random) -> Iterator[Defect]:
    training = _initial(build)
    modules = _called(training)
    norms = [(path, key) for path, module in modules.items() for key in EPSILONS if _is_norm(module, key)]
    linear = [
        path for path, module in modules.items() if isinstance(module, nn.Linear) and not _is_tied(training, module)
    ]
    convolutions = [path for path, module in modules.items() if isinstance(module, nn.Conv1d | nn.Conv2d)]
    weighted = [path for path in linear + convolutions if modules[path].weight.requires_grad]
    square = [path for path in linear if len(set(modules[path].weight.shape)) == 1]
    biased = [path for path in weighted if modules[path].bias is not None]
    scales = [(path, key) for path, module in modules.items() for key in SCALES if _is_number(module, key)]
    activations = [path for path, module in modules.items() if _is_activation(module)]
    dropouts = [path for path, module in modules.items() if isinstance(module, nn.Dropout) and 0 < module.p < 0.9]
    if norms:
        path, key = chance.choice(norms)
        yield defects.setting("norm_eps", path, key, 1e-3, r"\w+")
        path, _ = chance.choice(norms)
        yield defects.changed_weight("norm_weight", path, r"\w+", lambda tensor: tensor + 0.01)
        path, _ = chance.choice(norms)
        yield defects.replaced("no_norm", path, lambda old: nn.Identity())
    if activations:
        yield defects.replaced("activation", chance.choice(activations), _other_activation)
    if scales:
        path, key = chance.choice(scales)
        yield Defect("scale", "argument", within(path, r"\w+"), _times(path, key, 1.02))
    for name, change in CHANGES.items():
        yield defects.changed_weight(name, chance.choice(weighted), r"\w+", change)
    if square:
        yield defects.changed_weight("transposed", chance.choice(square), r"\w+", defects.transposed)
    if biased:
        # a bias may be taken by the module around, as the projection of a state-space model is
        path = chance.choice(biased)
        around = within(path.rpartition(".")[0], r"__r?add__|add")
        yield defects.changed_weight("bias", path, r"\w+", lambda tensor: tensor + 0.01, "bias", shows=around)
    path = chance.choice(weighted)
    causes = inside(path, r"\w+") + call(r"__r?mul__")
    yield defects.changed_forward("output", "op", path, _scaled_output, causes)
    if linear:
        yield defects.lower_precision("bf16", chance.choice(linear), "linear|add|__matmul__")
    if dropouts:
        path = chance.choice(dropouts)
        yield Defect("dropout", "argument", _dropping(path), _plus(path, "p", 0.05))
    yield defects.frozen("frozen", chance.choice(weighted), r"\w+")
    yield from _around(training)
    kernels = [(path, kernel.api) for path, module in modules.items() if (kernel := _kernel_of(module))]
    path, api = chance.choice(kernels)
    yield defects.changed_forward("kernel", "kernel", path, _off, inside(path, api))


def _around(training: Training) -> Iterator[Defect]:
    """What is wrong around the network: its batches, and the loop that trains it."""
    key = next(key for key in training.batches[0] if key != "labels")
    taken_first = (
        *call(DATA),
        Cause(r"\.(linear|cat|cdist|bmm|square)\.0\.forward|\.(GRU|LSTM)\.forward\.0"),
        Cause(r"\.mul\.0\.forward", r"\.stem"),
    )
    yield defects.other_data("data", taken_first, lambda batch: _other_input(batch, key))
    if "labels" in training.batches[0]:
        labels = defects.other_data("label", call(f"{DATA}|{LABELS}"), _other_label, 1)
        yield replace(labels, step=0 if training.accumulate > 1 else 1)
    if training.optimizer is torch.optim.SGD:
        yield defects.optimizer("decay", r"add", weight_decay=0.1)
        yield defects.loop("divisor", call(r"__r?truediv__|div"), divides=False)
    else:
        decays_apart = training.optimizer.__name__ in ("AdamW", "Lion", "Muon")
        yield defects.optimizer("decay", r"mul_" if decays_apart else r"add|mul_", weight_decay=0.1)
        yield defects.optimizer("eps", r"add_|addcdiv_", eps=1e-6)
    yield defects.loop("clip", defects.CLIPPING, clip=0.9)


def _initial(build: Build) -> Training:
    torch.manual_seed(INITIAL_SEED)
    return build()


def _called(training: Training) -> dict[str, Any]:
    """The modules in the network that a forward pass calls, by their paths."""
    called: dict[str, Any] = {}
    paths = {module: path for path, module in training.network.named_modules() if path}

    def note(module: nn.Module, *_: Any) -> None:
        called[paths[module]] = module

    hooks = [module.register_forward_hook(note) for module in paths]
    loss_of(training, training.batches[0])
    for hook in hooks:
        hook.remove()
    return called


def _changing(build: Build, planted: Iterator[Defect]) -> Iterator[Defect]:
    """The defects that are seen in a loss, or that act after it."""

    def loss(defect: Defect | None) -> float:
        training = _initial(build)
        if defect is not None:
            defect.plant(training)
        torch.manual_seed(INITIAL_SEED)
        return float(loss_of(training, training.batches[0]).detach())

    usual = loss(None)

    def changes(defect: Defect) -> bool:
        with suppress(AttributeError, RuntimeError, TypeError, ValueError):  # some networks do not run with it
            return loss(defect) != usual
        return False

    for defect in planted:
        acts_later = defect.kind == "loop" or defect.name in ("frozen", "label")
        if acts_later or changes(defect):
            yield defect


def _is_tied(training: Training, module: nn.Linear) -> bool:
    """Whether another module has the same weight, as an embedding that is also the last layer."""
    return sum(other is module.weight for _, other in training.network.named_parameters(remove_duplicate=False)) > 1


def _is_norm(module: Any, key: str) -> bool:
    return _is_number(module, key) and getattr(module, "weight", None) is not None


def _is_number(module: Any, key: str) -> bool:
    return isinstance(getattr(module, key, None), float)


def _is_activation(module: nn.Module) -> bool:
    name = type(module).__name__
    return not list(module.parameters()) and any(word in name.lower() for word in ("gelu", "silu", "relu", "swish"))


def _other_activation(old: nn.Module) -> nn.Module:
    return nn.GELU(approximate="tanh") if "gelu" in type(old).__name__.lower() else nn.GELU()


def _scaled_output(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs, **others: forward(*inputs, **others) * 1.01


class _Kernel(NamedTuple):
    """A kernel of torch, and the API that calls it, as a pattern."""

    operator: Any
    api: str


def _kernel_of(module: nn.Module) -> _Kernel | None:
    """The kernel that does most of a module's work."""
    if isinstance(module, nn.Linear):
        return _Kernel(ATEN.mm if module.bias is None else ATEN.addmm, "linear|__matmul__")
    if isinstance(module, nn.LayerNorm):
        return _Kernel(ATEN.native_layer_norm, "layer_norm")
    return _Kernel(ATEN.convolution, r"conv\dd") if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) else None


def _off(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """The module's kernel gives two thousandths more, forwards."""

    kernel = _kernel_of(module)
    assert kernel is not None

    def off(*inputs: Any, **others: Any) -> Any:
        with FaultyKernel(kernel.operator, 0, scaled(1.002)):
            return forward(*inputs, **others)

    return off


def _dropping(path: str) -> tuple[Cause, ...]:
    """A dropout is a module, or its rate is what the module around takes."""
    return inside(path, r"\w+") + within(path.rpartition(".")[0], "dropout")


def _times(path: str, key: str, factor: float) -> Plant:
    return lambda training: setattr(training.module(path), key, getattr(training.module(path), key) * factor)


def _plus(path: str, key: str, more: float) -> Plant:
    return lambda training: setattr(training.module(path), key, getattr(training.module(path), key) + more)


def _other_input(batch: dict[str, Any], key: str) -> None:
    if batch[key].is_floating_point():
        batch[key] = batch[key] * 1.02
    else:
        replace_token(batch, key, VOCABULARY)


def _other_label(batch: dict[str, Any]) -> None:
    batch["labels"] = deepcopy(batch["labels"])
    of_boxes = isinstance(batch["labels"], list)
    labels = batch["labels"][0]["class_labels"] if of_boxes else batch["labels"]
    one = labels.view(-1)[1]
    labels.view(-1)[1] = one + 0.5 if labels.is_floating_point() else (one + 1) % max(2, int(labels.max() + 1))


def _writing(make: type, config: Callable[[], Any]) -> Build:
    """A language model, which takes its own input as labels."""
    tokens = random_tokens(3, (BATCH, LENGTH), VOCABULARY)
    return lambda: Training(make(config()), [{"input_ids": given, "labels": given.clone()} for given in tokens])


def _translating(make: type, config: Callable[[], Any]) -> Build:
    given, wanted = (random_tokens(seed, (BATCH, LENGTH), VOCABULARY) for seed in (3, 4))
    batches = zip(given, wanted, strict=True)
    pairs = [{"input_ids": one, "labels": other} for one, other in batches]
    return lambda: Training(make(config()), [dict(pair) for pair in pairs])


def _classifying(make: type, config: Callable[[], Any]) -> Build:
    generator = torch.Generator().manual_seed(3)
    tokens = random_tokens(3, (BATCH, LENGTH), VOCABULARY)
    batches = [{"input_ids": given, "labels": torch.randint(0, 2, (BATCH,), generator=generator)} for given in tokens]
    return lambda: Training(make(config()), [dict(batch) for batch in batches])


def _listening(make: type, config: Callable[[], Any], length: int = 400) -> Build:
    generator = torch.Generator().manual_seed(3)
    batches = [
        {
            "input_values": torch.randn(BATCH, length, generator=generator),
            "labels": torch.randint(0, CLASSES, (BATCH,), generator=generator),
        }
        for _ in range(2)
    ]
    return lambda: Training(make(config()), [dict(batch) for batch in batches])


def _by_plain_steps(build: Build) -> Build:
    """Two batches for each step, and an optimizer that keeps nothing."""

    def built() -> Training:
        training = build()
        training.optimizer, training.settings = torch.optim.SGD, {"lr": 0.05, "foreach": False}
        training.accumulate = 2
        return training

    return built


def _seeing(make: type, config: Callable[[], Any], size: int = 32, frames: tuple[int, ...] = ()) -> Build:
    generator = torch.Generator().manual_seed(3)
    batches = [
        {
            "pixel_values": torch.randn(3, *frames, 3, size, size, generator=generator),
            "labels": torch.randint(0, CLASSES, (3,), generator=generator),
        }
        for _ in range(2)
    ]
    return lambda: Training(make(config()), [dict(batch) for batch in batches])


SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
WIDE = SIZES | {"intermediate_size": 96}
EAGER = {"attn_implementation": "eager"}
ALONE = EAGER | {"use_cache": False}
GROUPED = {"num_key_value_heads": 2, "head_dim": 12}
STAGES = {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 1, 1], "num_labels": CLASSES}
BOTH = {
    "vocab_size": VOCABULARY, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "use_cache": False,
}  # fmt: skip
HEARING = {
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
    "conv_dim": [16, 24, 32], "conv_stride": [4, 2, 2], "conv_kernel": [8, 3, 3], "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "classifier_proj_size": 24,
    "mask_time_prob": 0.0, "num_labels": CLASSES,
}  # fmt: skip

MEMBERS: dict[str, Build] = {
    "opt": _writing(hf.OPTForCausalLM, lambda: hf.OPTConfig(**SIZES, ffn_dim=96, word_embed_proj_dim=48, **ALONE)),
    "neox": _writing(hf.GPTNeoXForCausalLM, lambda: hf.GPTNeoXConfig(**WIDE, **ALONE)),
    "bloom": _writing(hf.BloomForCausalLM, lambda: hf.BloomConfig(
        vocab_size=VOCABULARY, hidden_size=48, n_layer=3, n_head=4, use_cache=False)),
    "falcon": _writing(hf.FalconForCausalLM, lambda: hf.FalconConfig(**SIZES, **ALONE)),
    "phi": _writing(hf.PhiForCausalLM, lambda: hf.PhiConfig(**WIDE, **ALONE)),
    "qwen3": _writing(hf.Qwen3ForCausalLM, lambda: hf.Qwen3Config(**WIDE, **GROUPED, **ALONE)),
    "qwen3moe": _writing(hf.Qwen3MoeForCausalLM, lambda: hf.Qwen3MoeConfig(
        **WIDE, **GROUPED, **ALONE, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2,
        output_router_logits=True)),
    "olmo2": _writing(hf.Olmo2ForCausalLM, lambda: hf.Olmo2Config(**WIDE, **ALONE)),
    "mamba": _writing(hf.MambaForCausalLM, lambda: hf.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False)),
    "electra": _classifying(hf.ElectraForSequenceClassification, lambda: hf.ElectraConfig(
        **WIDE, embedding_size=32, **EAGER)),
    "albert": _classifying(hf.AlbertForSequenceClassification, lambda: hf.AlbertConfig(
        **WIDE, embedding_size=32, **EAGER)),
    "xlnet": _classifying(hf.XLNetForSequenceClassification, lambda: hf.XLNetConfig(
        vocab_size=VOCABULARY, d_model=48, n_layer=3, n_head=4, d_inner=96)),
    "fnet": _classifying(hf.FNetForSequenceClassification, lambda: hf.FNetConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=3, intermediate_size=96, max_position_embeddings=64)),
    "bart": _translating(hf.BartForConditionalGeneration, lambda: hf.BartConfig(
        **BOTH, **EAGER, max_position_embeddings=64)),
    "convnext": _seeing(hf.ConvNextForImageClassification, lambda: hf.ConvNextConfig(
        **STAGES, image_size=32, patch_size=2)),
    "dinov2": _seeing(hf.Dinov2ForImageClassification, lambda: hf.Dinov2Config(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, image_size=32, patch_size=8, num_labels=CLASSES,
        **EAGER)),
    "mobilevit": _seeing(hf.MobileViTForImageClassification, lambda: hf.MobileViTConfig(
        hidden_sizes=[24, 32, 48], neck_hidden_sizes=[8, 12, 16, 24, 32, 40, 48], num_attention_heads=4, image_size=64,
        num_labels=CLASSES), 64),
    "regnet": _seeing(hf.RegNetForImageClassification, lambda: hf.RegNetConfig(
        **STAGES, embedding_size=16, groups_width=8)),
    "mobilenet": _seeing(hf.MobileNetV2ForImageClassification, lambda: hf.MobileNetV2Config(
        depth_multiplier=0.25, image_size=32, num_labels=CLASSES, tf_padding=False)),
    "levit": _seeing(hf.LevitForImageClassification, lambda: hf.LevitConfig(
        image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8],
        num_labels=CLASSES), 64),
    "poolformer": _seeing(hf.PoolFormerForImageClassification, lambda: hf.PoolFormerConfig(**STAGES), 64),
    "gptj": _writing(hf.GPTJForCausalLM, lambda: hf.GPTJConfig(
        vocab_size=VOCABULARY, n_embd=48, n_layer=3, n_head=4, n_positions=64, rotary_dim=8, **ALONE)),
    "granite": _writing(hf.GraniteForCausalLM, lambda: hf.GraniteConfig(
        **WIDE, **ALONE, num_key_value_heads=2, embedding_multiplier=6.0, residual_multiplier=0.3,
        attention_multiplier=0.1, logits_scaling=4.0, initializer_range=0.1)),
    "bigcode": _by_plain_steps(_writing(hf.GPTBigCodeForCausalLM, lambda: hf.GPTBigCodeConfig(
        vocab_size=VOCABULARY, n_embd=48, n_layer=3, n_head=4, n_positions=64, n_inner=96, **ALONE))),
    "rwkv": _writing(hf.RwkvForCausalLM, lambda: hf.RwkvConfig(
        vocab_size=VOCABULARY, context_length=64, hidden_size=48, num_hidden_layers=2, use_cache=False)),
    "funnel": _classifying(hf.FunnelForSequenceClassification, lambda: hf.FunnelConfig(
        vocab_size=VOCABULARY, block_sizes=[1, 1, 1], d_model=48, n_head=4, d_head=12, d_inner=96)),
    "mpnet": _classifying(hf.MPNetForSequenceClassification, lambda: hf.MPNetConfig(**WIDE)),
    "convbert": _classifying(hf.ConvBertForSequenceClassification, lambda: hf.ConvBertConfig(
        **WIDE, embedding_size=32, initializer_range=0.1)),
    "perceiver": _classifying(hf.PerceiverForSequenceClassification, lambda: hf.PerceiverConfig(
        vocab_size=VOCABULARY, d_model=32, d_latents=48, num_latents=8, num_self_attends_per_block=2,
        num_self_attention_heads=4, num_cross_attention_heads=4, max_position_embeddings=64)),
    "videomae": _seeing(hf.VideoMAEForVideoClassification, lambda: hf.VideoMAEConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, image_size=16, patch_size=8,
        num_frames=4, num_labels=CLASSES, **EAGER), 16, (4,)),
    "pvt": _seeing(hf.PvtForImageClassification, lambda: hf.PvtConfig(
        **STAGES, image_size=32, patch_sizes=[4, 2, 2, 2], num_attention_heads=[1, 2, 2, 4],
        mlp_ratios=[2, 2, 2, 2], initializer_range=0.1)),
    "efficientnet": _by_plain_steps(_seeing(hf.EfficientNetForImageClassification, lambda: hf.EfficientNetConfig(
        image_size=32, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320, initializer_range=0.2,
        num_labels=CLASSES))),
    "focalnet": _seeing(hf.FocalNetForImageClassification, lambda: hf.FocalNetConfig(
        image_size=32, patch_size=2, embed_dim=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1],
        focal_levels=[2, 2, 2, 2], focal_windows=[3, 3, 3, 3], use_layerscale=True, layerscale_value=0.1,
        initializer_range=0.1, num_labels=CLASSES)),
    "beit": _seeing(hf.BeitForImageClassification, lambda: hf.BeitConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
        use_relative_position_bias=True, num_labels=CLASSES, **EAGER)),
    "hubert": _listening(hf.HubertForSequenceClassification, lambda: hf.HubertConfig(**HEARING, **EAGER)),
    "mpt": _writing(hf.MptForCausalLM, lambda: hf.MptConfig(
        vocab_size=VOCABULARY, d_model=48, n_heads=4, n_layers=3, max_seq_len=64, use_cache=False)),
    "xglm": _writing(hf.XGLMForCausalLM, lambda: hf.XGLMConfig(
        vocab_size=VOCABULARY, d_model=48, ffn_dim=96, num_layers=3, attention_heads=4, max_position_embeddings=64,
        dropout=0.1, use_cache=False)),
    "codegen": _writing(hf.CodeGenForCausalLM, lambda: hf.CodeGenConfig(
        vocab_size=VOCABULARY, n_embd=48, n_layer=3, n_head=4, n_positions=64, rotary_dim=8, use_cache=False)),
    "starcoder2": _writing(hf.Starcoder2ForCausalLM, lambda: hf.Starcoder2Config(**WIDE, **ALONE)),
    "cohere": _writing(hf.CohereForCausalLM, lambda: hf.CohereConfig(**WIDE, **ALONE)),
    "olmoe": _writing(hf.OlmoeForCausalLM, lambda: hf.OlmoeConfig(
        **WIDE, **ALONE, num_experts=4, num_experts_per_tok=2)),
    "gptneo": _writing(hf.GPTNeoForCausalLM, lambda: hf.GPTNeoConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
        window_size=8, max_position_embeddings=64, use_cache=False)),
    "recurrentgemma": _writing(hf.RecurrentGemmaForCausalLM, lambda: hf.RecurrentGemmaConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
        lru_width=48, attention_window_size=16, use_cache=False)),
    "glm": _writing(hf.GlmForCausalLM, lambda: hf.GlmConfig(
        **WIDE, **ALONE, head_dim=12, num_key_value_heads=2, pad_token_id=0)),
    "diffllama": _writing(hf.DiffLlamaForCausalLM, lambda: hf.DiffLlamaConfig(**WIDE, **ALONE, num_key_value_heads=2)),
    "roformer": _classifying(hf.RoFormerForSequenceClassification, lambda: hf.RoFormerConfig(
        **WIDE, embedding_size=48)),
    "nystrom": _classifying(hf.NystromformerForSequenceClassification, lambda: hf.NystromformerConfig(
        **WIDE, num_landmarks=4, segment_means_seq_len=16)),
    "squeezebert": _classifying(hf.SqueezeBertForSequenceClassification, lambda: hf.SqueezeBertConfig(
        **WIDE, embedding_size=48)),
    "mobilebert": _classifying(hf.MobileBertForSequenceClassification, lambda: hf.MobileBertConfig(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        embedding_size=16, intra_bottleneck_size=16, max_position_embeddings=64)),
    "longformer": _classifying(hf.LongformerForSequenceClassification, lambda: hf.LongformerConfig(
        **WIDE, attention_window=[8, 8, 8], pad_token_id=1)),
    "bigbird": _classifying(hf.BigBirdForSequenceClassification, lambda: hf.BigBirdConfig(
        **WIDE, attention_type="original_full")),
    "esm": _classifying(hf.EsmForSequenceClassification, lambda: hf.EsmConfig(
        **WIDE, position_embedding_type="rotary", pad_token_id=1, mask_token_id=2)),
    "canine": _classifying(hf.CanineForSequenceClassification, lambda: hf.CanineConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, max_position_embeddings=64,
        num_hash_buckets=64, local_transformer_stride=16, downsampling_rate=4)),
    "modernbert": _classifying(hf.ModernBertForSequenceClassification, lambda: hf.ModernBertConfig(
        **WIDE, **EAGER, local_attention=8, pad_token_id=0)),
    "pegasus": _translating(hf.PegasusForConditionalGeneration, lambda: hf.PegasusConfig(
        **BOTH, **EAGER, max_position_embeddings=64, decoder_start_token_id=0)),
    "marian": _translating(hf.MarianMTModel, lambda: hf.MarianConfig(
        **BOTH, **EAGER, max_position_embeddings=64, decoder_start_token_id=0, pad_token_id=1)),
    "switch": _translating(hf.SwitchTransformersForConditionalGeneration, lambda: hf.SwitchTransformersConfig(
        vocab_size=VOCABULARY, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_decoder_layers=2, num_heads=4,
        num_experts=4, decoder_start_token_id=0, use_cache=False)),
    "prophetnet": _translating(hf.ProphetNetForConditionalGeneration, lambda: hf.ProphetNetConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_encoder_layers=2, num_decoder_layers=2,
        num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
        max_position_embeddings=64, use_cache=False)),
    "swiftformer": _seeing(hf.SwiftFormerForImageClassification, lambda: hf.SwiftFormerConfig(
        image_size=32, embed_dims=[16, 24, 32, 48], depths=[1, 1, 1, 1], num_labels=CLASSES), 64),
    "swinv2": _seeing(hf.Swinv2ForImageClassification, lambda: hf.Swinv2Config(
        image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4,
        num_labels=CLASSES)),
    "mobilenet1": _seeing(hf.MobileNetV1ForImageClassification, lambda: hf.MobileNetV1Config(
        depth_multiplier=0.25, image_size=32, tf_padding=False, num_labels=CLASSES)),
    "convnext2": _seeing(hf.ConvNextV2ForImageClassification, lambda: hf.ConvNextV2Config(
        **STAGES, image_size=32, patch_size=2)),
    "hiera": _seeing(hf.HieraForImageClassification, lambda: hf.HieraConfig(
        embed_dim=16, image_size=[32, 32], patch_size=[7, 7], patch_stride=[4, 4], patch_padding=[3, 3], depths=[1, 1],
        num_heads=[1, 2], masked_unit_size=[2, 2], query_stride=[2, 2], num_query_pool=1, num_labels=CLASSES)),
    "deit": _seeing(hf.DeiTForImageClassification, lambda: hf.DeiTConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
        num_labels=CLASSES)),
    "timesformer": _seeing(hf.TimesformerForVideoClassification, lambda: hf.TimesformerConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=16, patch_size=8,
        num_frames=4, num_labels=CLASSES), 16, (4, )),
    "vivit": _seeing(hf.VivitForVideoClassification, lambda: hf.VivitConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=16, num_frames=4,
        tubelet_size=[2, 8, 8], num_labels=CLASSES), 16, (4, )),
    "wav2vec2": _listening(hf.Wav2Vec2ForSequenceClassification, lambda: hf.Wav2Vec2Config(
        **HEARING, do_stable_layer_norm=True, feat_extract_norm="layer")),
    "wavlm": _listening(hf.WavLMForSequenceClassification, lambda: hf.WavLMConfig(**HEARING)),
    "led": _translating(hf.LEDForConditionalGeneration, lambda: hf.LEDConfig(
        **BOTH, attention_window=8, max_encoder_position_embeddings=64, max_decoder_position_embeddings=64,
        decoder_start_token_id=0)),
    "longt5": _translating(hf.LongT5ForConditionalGeneration, lambda: hf.LongT5Config(
        vocab_size=VOCABULARY, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_decoder_layers=2, num_heads=4,
        local_radius=3, global_block_size=4, encoder_attention_type="transient-global", decoder_start_token_id=0,
        use_cache=False)),
    "umt5": _translating(hf.UMT5ForConditionalGeneration, lambda: hf.UMT5Config(
        vocab_size=VOCABULARY, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_decoder_layers=2, num_heads=4,
        decoder_start_token_id=0, use_cache=False)),
    "pegasusx": _translating(hf.PegasusXForConditionalGeneration, lambda: hf.PegasusXConfig(
        **BOTH, max_position_embeddings=64, num_global_tokens=4, block_size=8, decoder_start_token_id=0)),
    "m2m": _translating(hf.M2M100ForConditionalGeneration, lambda: hf.M2M100Config(
        **BOTH, max_position_embeddings=64, decoder_start_token_id=0)),
    "bigbirdpegasus": _translating(hf.BigBirdPegasusForConditionalGeneration, lambda: hf.BigBirdPegasusConfig(
        **BOTH, max_position_embeddings=64, attention_type="original_full", decoder_start_token_id=0)),
    "plbart": _translating(hf.PLBartForConditionalGeneration, lambda: hf.PLBartConfig(
        **BOTH, max_position_embeddings=64)),
    "jetmoe": _writing(hf.JetMoeForCausalLM, lambda: hf.JetMoeConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_key_value_heads=2, kv_channels=12,
        intermediate_size=96, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=64,
        use_cache=False)),
    "granitemoe": _writing(hf.GraniteMoeForCausalLM, lambda: hf.GraniteMoeConfig(
        **WIDE, **ALONE, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)),
    "phimoe": _writing(hf.PhimoeForCausalLM, lambda: hf.PhimoeConfig(
        **WIDE, **ALONE, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)),
    "gptoss": _writing(hf.GptOssForCausalLM, lambda: hf.GptOssConfig(
        **WIDE, **ALONE, head_dim=12, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=8)),
    "jamba": _writing(hf.JambaForCausalLM, lambda: hf.JambaConfig(
        **WIDE, **ALONE, num_key_value_heads=2, num_experts=2, num_experts_per_tok=1, attn_layer_period=2,
        attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, mamba_d_state=8, mamba_dt_rank=4,
        use_mamba_kernels=False, pad_token_id=0)),
    "falconh1": _writing(hf.FalconH1ForCausalLM, lambda: hf.FalconH1Config(
        **WIDE, **ALONE, num_key_value_heads=2, head_dim=12, mamba_d_ssm=48, mamba_n_heads=4, mamba_d_head=12,
        mamba_d_state=8, mamba_chunk_size=8)),
    "lfm2": _writing(hf.Lfm2ForCausalLM, lambda: hf.Lfm2Config(
        **WIDE, **ALONE, num_key_value_heads=2, layer_types=["conv", "full_attention", "conv"])),
    "helium": _writing(hf.HeliumForCausalLM, lambda: hf.HeliumConfig(
        **WIDE, **ALONE, num_key_value_heads=2, head_dim=12)),
    "minimax": _writing(hf.MiniMaxForCausalLM, lambda: hf.MiniMaxConfig(
        **WIDE, **ALONE, num_key_value_heads=2, head_dim=12, num_local_experts=2, num_experts_per_tok=1, block_size=8,
        layer_types=["linear_attention", "full_attention", "linear_attention"])),
    "exaone4": _writing(hf.Exaone4ForCausalLM, lambda: hf.Exaone4Config(
        **WIDE, **ALONE, num_key_value_heads=2, sliding_window=8)),
    "smollm3": _writing(hf.SmolLM3ForCausalLM, lambda: hf.SmolLM3Config(
        **WIDE, **ALONE, num_key_value_heads=2, pad_token_id=0)),
    "gemma3": _writing(hf.Gemma3ForCausalLM, lambda: hf.Gemma3TextConfig(
        **WIDE, **ALONE, num_key_value_heads=2, head_dim=12, sliding_window=8)),
    "qwen3next": _writing(hf.Qwen3NextForCausalLM, lambda: hf.Qwen3NextConfig(
        **WIDE, **ALONE, num_key_value_heads=2, head_dim=12, num_experts=0, linear_num_value_heads=4,
        linear_num_key_heads=2, linear_key_head_dim=12, linear_value_head_dim=12)),
    "ctrl": _writing(hf.CTRLLMHeadModel, lambda: hf.CTRLConfig(
        vocab_size=VOCABULARY, n_embd=48, n_layer=2, n_head=4, dff=96, n_positions=64, use_cache=False)),
    "openai": _writing(hf.OpenAIGPTLMHeadModel, lambda: hf.OpenAIGPTConfig(
        vocab_size=VOCABULARY, n_embd=48, n_layer=2, n_head=4, n_positions=64)),
    "mra": _classifying(hf.MraForSequenceClassification, lambda: hf.MraConfig(**WIDE)),
    "ibert": _classifying(hf.IBertForSequenceClassification, lambda: hf.IBertConfig(**WIDE, quant_mode=False)),
    "rembert": _classifying(hf.RemBertForSequenceClassification, lambda: hf.RemBertConfig(
        **WIDE, input_embedding_size=24, output_embedding_size=32)),
    "xmod": _classifying(hf.XmodForSequenceClassification, lambda: hf.XmodConfig(
        **WIDE, languages=["en_XX"], default_language="en_XX", pad_token_id=1)),
    "data2vec": _classifying(hf.Data2VecTextForSequenceClassification, lambda: hf.Data2VecTextConfig(
        **WIDE, pad_token_id=1)),
    "sew": _listening(hf.SEWForSequenceClassification, lambda: hf.SEWConfig(**HEARING, squeeze_factor=2)),
    "conformer": _listening(hf.Wav2Vec2ConformerForSequenceClassification, lambda: hf.Wav2Vec2ConformerConfig(
        **HEARING, position_embeddings_type="relative", conv_depthwise_kernel_size=7)),
    "unispeech": _listening(hf.UniSpeechSatForSequenceClassification, lambda: hf.UniSpeechSatConfig(**HEARING)),
    "pvt2": _seeing(hf.PvtV2ForImageClassification, lambda: hf.PvtV2Config(
        **STAGES, image_size=32, num_attention_heads=[1, 2, 2, 4], mlp_ratios=[2, 2, 2, 2], linear_attention=False),
        64),
    "ijepa": _seeing(hf.IJepaForImageClassification, lambda: hf.IJepaConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
        num_labels=CLASSES)),
    "hgnet": _seeing(hf.HGNetV2ForImageClassification, lambda: hf.HGNetV2Config(
        num_labels=CLASSES, embedding_size=16, hidden_sizes=[16, 32, 48, 64], stem_channels=[3, 8, 16],
        stage_in_channels=[16, 32, 48, 64], stage_mid_channels=[8, 16, 16, 16], stage_out_channels=[32, 48, 64, 64],
        stage_num_blocks=[1, 1, 1, 1], stage_numb_of_layers=[2, 2, 2, 2]), 64),
    "vitmsn": _seeing(hf.ViTMSNForImageClassification, lambda: hf.ViTMSNConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
        num_labels=CLASSES)),
    "resnethf": _seeing(hf.ResNetForImageClassification, lambda: hf.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_labels=CLASSES)),
    "textnet": _seeing(hf.TextNetForImageClassification, lambda: hf.TextNetConfig(num_labels=CLASSES), 64),
    "data2vecv": _seeing(hf.Data2VecVisionForImageClassification, lambda: hf.Data2VecVisionConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8,
        use_relative_position_bias=True, num_labels=CLASSES)),
    "persimmon": _writing(hf.PersimmonForCausalLM, lambda: hf.PersimmonConfig(**WIDE, **ALONE)),
    "nemotron": _writing(hf.NemotronForCausalLM, lambda: hf.NemotronConfig(**WIDE, **ALONE, num_key_value_heads=2)),
    "seedoss": _writing(hf.SeedOssForCausalLM, lambda: hf.SeedOssConfig(**WIDE, **GROUPED, **ALONE)),
    "cohere2": _writing(hf.Cohere2ForCausalLM, lambda: hf.Cohere2Config(
        **WIDE, **ALONE, num_key_value_heads=2, sliding_window=8)),
    "olmo3": _writing(hf.Olmo3ForCausalLM, lambda: hf.Olmo3Config(
        **WIDE, **ALONE, num_key_value_heads=2, sliding_window=8)),
    "arcee": _writing(hf.ArceeForCausalLM, lambda: hf.ArceeConfig(**WIDE, **ALONE, num_key_value_heads=2)),
    "apertus": _writing(hf.ApertusForCausalLM, lambda: hf.ApertusConfig(**WIDE, **ALONE, num_key_value_heads=2)),
    "dots": _writing(hf.Dots1ForCausalLM, lambda: hf.Dots1Config(
        **WIDE, **ALONE, num_key_value_heads=2, head_dim=12, n_routed_experts=4, n_shared_experts=1,
        num_experts_per_tok=2, moe_intermediate_size=32, first_k_dense_replace=1)),
    "hunyuan": _writing(hf.HunYuanDenseV1ForCausalLM, lambda: hf.HunYuanDenseV1Config(**WIDE, **GROUPED, **ALONE)),
    "erniemoe": _writing(hf.Ernie4_5_MoeForCausalLM, lambda: hf.Ernie4_5_MoeConfig(
        **WIDE, **ALONE, num_key_value_heads=2, moe_num_experts=4, moe_k=2, moe_intermediate_size=32,
        moe_layer_start_index=1, moe_layer_interval=1)),
    "glm4": _writing(hf.Glm4ForCausalLM, lambda: hf.Glm4Config(**WIDE, **GROUPED, **ALONE, pad_token_id=0)),
    "glm4moe": _writing(hf.Glm4MoeForCausalLM, lambda: hf.Glm4MoeConfig(
        **WIDE, **GROUPED, **ALONE, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2,
        moe_intermediate_size=32, first_k_dense_replace=1)),
    "flexolmo": _writing(hf.FlexOlmoForCausalLM, lambda: hf.FlexOlmoConfig(
        **WIDE, **ALONE, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2, pad_token_id=0)),
    "phi3": _writing(hf.Phi3ForCausalLM, lambda: hf.Phi3Config(
        **WIDE, **ALONE, num_key_value_heads=2, pad_token_id=0)),
    "qwen2moe": _writing(hf.Qwen2MoeForCausalLM, lambda: hf.Qwen2MoeConfig(
        **WIDE, **ALONE, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        shared_expert_intermediate_size=32)),
    "biogpt": _writing(hf.BioGptForCausalLM, lambda: hf.BioGptConfig(**WIDE, **ALONE)),
    "bamba": _writing(hf.BambaForCausalLM, lambda: hf.BambaConfig(
        **WIDE, **ALONE, num_key_value_heads=2, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=24,
        mamba_d_state=8, mamba_chunk_size=8)),
    "doge": _writing(hf.DogeForCausalLM, lambda: hf.DogeConfig(**WIDE, **ALONE, num_key_value_heads=2)),
    "gemma2": _writing(hf.Gemma2ForCausalLM, lambda: hf.Gemma2Config(
        **WIDE, **GROUPED, **ALONE, sliding_window=8, query_pre_attn_scalar=12)),
    "bitnet": _writing(hf.BitNetForCausalLM, lambda: hf.BitNetConfig(**WIDE, **ALONE, num_key_value_heads=2)),
    "minicpm": _writing(hf.MiniCPM3ForCausalLM, lambda: hf.MiniCPM3Config(
        **WIDE, **ALONE, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4,
        v_head_dim=12)),
    "lfm2moe": _writing(hf.Lfm2MoeForCausalLM, lambda: hf.Lfm2MoeConfig(
        **WIDE, **ALONE, num_key_value_heads=2, layer_types=["conv", "full_attention", "conv"], num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=32, num_dense_layers=1)),
    "xlstm": _writing(hf.xLSTMForCausalLM, lambda: hf.xLSTMConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_heads=4, chunk_size=8, use_cache=False)),
    "nanochat": _writing(hf.NanoChatForCausalLM, lambda: hf.NanoChatConfig(**WIDE, **ALONE, num_key_value_heads=2)),
    "mbart": _translating(hf.MBartForConditionalGeneration, lambda: hf.MBartConfig(**BOTH, max_position_embeddings=64)),
    "blenderbot": _translating(hf.BlenderbotForConditionalGeneration, lambda: hf.BlenderbotConfig(
        **BOTH, max_position_embeddings=64)),
    "mvp": _translating(hf.MvpForConditionalGeneration, lambda: hf.MvpConfig(**BOTH, max_position_embeddings=64)),
    "nllbmoe": _translating(hf.NllbMoeForConditionalGeneration, lambda: hf.NllbMoeConfig(
        **BOTH, max_position_embeddings=64, num_experts=4, encoder_sparse_step=2, decoder_sparse_step=2,
        decoder_start_token_id=0)),
    "distilbert": _classifying(hf.DistilBertForSequenceClassification, lambda: hf.DistilBertConfig(
        vocab_size=VOCABULARY, dim=48, n_layers=3, n_heads=4, hidden_dim=96, max_position_embeddings=64)),
    "xlm": _classifying(hf.XLMForSequenceClassification, lambda: hf.XLMConfig(
        vocab_size=VOCABULARY, emb_dim=48, n_layers=3, n_heads=4, max_position_embeddings=64)),
    "prelayernorm": _classifying(hf.RobertaPreLayerNormForSequenceClassification, lambda: hf.RobertaPreLayerNormConfig(
        **WIDE)),
    "megatron": _classifying(hf.MegatronBertForSequenceClassification, lambda: hf.MegatronBertConfig(**WIDE)),
    "xlmrobertaxl": _classifying(hf.XLMRobertaXLForSequenceClassification, lambda: hf.XLMRobertaXLConfig(**WIDE)),
    "layoutlm": _classifying(hf.LayoutLMForSequenceClassification, lambda: hf.LayoutLMConfig(**WIDE)),
    "eurobert": _classifying(hf.EuroBertForSequenceClassification, lambda: hf.EuroBertConfig(
        **WIDE, num_key_value_heads=2, pad_token_id=0)),
    "yoso": _classifying(hf.YosoForSequenceClassification, lambda: hf.YosoConfig(**WIDE, use_expectation=True)),
    "tapas": _classifying(hf.TapasForSequenceClassification, lambda: hf.TapasConfig(
        **WIDE, type_vocab_sizes=[3, 8, 8, 2, 8, 8, 10])),
    "donut": _seeing(hf.DonutSwinForImageClassification, lambda: hf.DonutSwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, num_labels=CLASSES)),
    "mobilevit2": _seeing(hf.MobileViTV2ForImageClassification, lambda: hf.MobileViTV2Config(
        image_size=64, width_multiplier=0.25, base_attn_unit_dims=[64, 96, 128], n_attn_blocks=[1, 1, 1],
        num_labels=CLASSES), 64),
    "siglip": _seeing(hf.SiglipForImageClassification, lambda: hf.SiglipConfig(
        vision_config={"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
        "image_size": 32, "patch_size": 8}, num_labels=CLASSES)),
    "registers": _seeing(hf.Dinov2WithRegistersForImageClassification, lambda: hf.Dinov2WithRegistersConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, image_size=32, patch_size=8, num_labels=CLASSES)),
    "clipvision": _seeing(hf.CLIPForImageClassification, lambda: hf.CLIPConfig(
        vision_config={"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
        "image_size": 32, "patch_size": 8}, num_labels=CLASSES)),
    "sewd": _listening(hf.SEWDForSequenceClassification, lambda: hf.SEWDConfig(
        **HEARING, squeeze_factor=2, max_position_embeddings=64, position_buckets=16)),
    "unispeech1": _listening(hf.UniSpeechForSequenceClassification, lambda: hf.UniSpeechConfig(**HEARING)),
}  # fmt: skip
