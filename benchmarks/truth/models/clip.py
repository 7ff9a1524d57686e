"""CLIP of transformers: pictures against texts, a learnt temperature; Adam with decay in the gradient."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.models.transformers_offline import transformers
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Cause, Defect, Model
from benchmarks.truth.training import Batch, Training

VOCABULARY, LENGTH, BATCH, SIZE = 60, 10, 5, 16
END = VOCABULARY - 1


class Contrast(nn.Module):
    """The loss of CLIP: each picture against each text."""

    def __init__(self) -> None:
        super().__init__()
        shared = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = transformers.CLIPConfig(
            text_config={**shared, "vocab_size": VOCABULARY, "max_position_embeddings": 16, "eos_token_id": END},
            vision_config={**shared, "image_size": SIZE, "patch_size": 4},
            projection_dim=24,
        )
        self.clip = transformers.CLIPModel(config)

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        return self.clip(**batch, return_loss=True).loss


def build() -> Training:
    generator = torch.Generator().manual_seed(17)
    return Training(
        Contrast(),
        [_batch(generator) for _ in range(2)],
        optimizer=torch.optim.Adam,
        settings={"lr": 1e-3, "weight_decay": 1e-2, "foreach": False},
    )


def _batch(generator: torch.Generator) -> Batch:
    tokens = torch.randint(3, END, (BATCH, LENGTH), generator=generator)
    is_real = torch.ones(BATCH, LENGTH, dtype=torch.long)
    for row, length in enumerate((10, 8, 6, 9, 10)):
        tokens[row, length - 1 :] = END
        is_real[row, length:] = 0
    pictures = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator)
    return {"input_ids": tokens, "attention_mask": is_real, "pixel_values": pictures}


TEXT, VISION = "clip.text_model", "clip.vision_model"


def _early_end(batch: Batch) -> None:
    """A text ends two tokens earlier."""
    batch["input_ids"][0, LENGTH - 3 :] = END


def _other_token(batch: Batch) -> None:
    batch["input_ids"][2, 3] = (batch["input_ids"][2, 3] + 5) % (END - 3) + 3


def _exchanged(batch: Batch) -> None:
    """Two pictures stand at each other's place."""
    batch["pixel_values"][:2] = batch["pixel_values"][:2].flip(0).clone()


def _channels(batch: Batch) -> None:
    batch["pixel_values"] = batch["pixel_values"].flip(1)


def _warmer(training: Training) -> None:
    with torch.no_grad():
        training.module("clip").logit_scale += 0.05


def _scale(training: Training) -> None:
    training.module(f"{VISION}.encoder.layers.1.self_attn").scale *= 1.03


def _gelu(old: nn.Module) -> nn.Module:
    return nn.GELU()


def _norm_first(module: nn.Module, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The second residual is taken behind the norm."""

    def rewired(hidden: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        residual = hidden
        hidden = module.layer_norm1(hidden)
        attention, _ = module.self_attn(hidden, *args, **kwargs)
        hidden = module.layer_norm2(residual + attention)
        return hidden + module.mlp(hidden)

    return rewired


DEFECTS = (
    Defect("warmer", "weights", (*call("exp"), Cause(r"^Module\.clip\.CLIPModel\.forward")), _warmer),
    Defect("scale", "argument", within(f"{VISION}.encoder.layers.1.self_attn", "scaled_dot_product_attention"), _scale),
    defects.setting("norm_eps", f"{TEXT}.final_layer_norm", "eps", 1e-4, "layer_norm"),
    defects.setting("no_bias", f"{VISION}.encoder.layers.0.mlp.fc2", "bias", None, "linear"),
    defects.replaced("gelu", f"{TEXT}.encoder.layers.1.mlp.activation_fn", _gelu),
    defects.replaced("no_norm", f"{VISION}.pre_layrnorm", lambda old: nn.Identity()),
    defects.changed_forward(
        "norm_first", "wiring", f"{VISION}.encoder.layers.1", _norm_first,
        (*within(f"{VISION}.encoder.layers.1", "__add__"), *inside(f"{VISION}.encoder.layers.1.mlp.fc1", "linear")),
    ),
    defects.swapped_weights("keys_for_values", f"{TEXT}.encoder.layers.0.self_attn.k_proj",
                            f"{TEXT}.encoder.layers.0.self_attn.v_proj"),
    defects.changed_weight("one_element", f"{VISION}.encoder.layers.0.mlp.fc1", "linear", defects.one_element),
    defects.changed_weight("flipped", "clip.text_projection", "linear", defects.flipped),
    defects.changed_weight("permuted", f"{VISION}.encoder.layers.1.self_attn.out_proj", "linear", defects.permuted,
                           shows=within(f"{VISION}.encoder.layers.1", "__add__")),
    defects.frozen("frozen", f"{TEXT}.encoder.layers.0.mlp.fc2", "linear"),
    defects.lower_precision("bf16", f"{TEXT}.encoder.layers.1.mlp.fc1", "linear"),
    defects.other_data("early_end", inside(f"{TEXT}.embeddings.token_embedding", "embedding"), _early_end),
    defects.other_data("token", inside(f"{TEXT}.embeddings.token_embedding", "embedding"), _other_token, batch=1),
    defects.other_data("exchanged", (*inside(f"{VISION}.embeddings.patch_embedding", "conv2d"),
                                     *call("cross_entropy")), _exchanged),
    defects.other_data("channels", inside(f"{VISION}.embeddings.patch_embedding", "conv2d"), _channels),
    defects.optimizer("decay", "add_?", weight_decay=3e-2),
    defects.optimizer("betas", "lerp_|mul_|addcmul_", betas=(0.9, 0.98)),
    defects.no_clipping(),
    defects.faulty_kernel("norm_kernel", inside(f"{VISION}.post_layernorm", "layer_norm"), ATEN.native_layer_norm, 5,
                          scaled(1.001)),
    defects.faulty_kernel("attention_kernel", within(f"{TEXT}.encoder.layers.1.self_attn",
                          "scaled_dot_product_attention"), ATEN._scaled_dot_product_flash_attention_for_cpu, 3,
                          scaled(1.002)),
    defects.faulty_kernel("loss_backward", call("cross_entropy|t|matmul|__mul__|__r?add__", "backward"),
                          ATEN._log_softmax_backward_data, 1, one_element_wrong),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
