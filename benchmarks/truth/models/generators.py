"""Networks of diffusers, and of x-transformers with many settings: planted at places that are drawn by chance, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import x_transformers as xt
from torch import nn

from benchmarks.truth.models import strangers
from benchmarks.truth.models.diffusers_offline import diffusers as df
from benchmarks.truth.models.strangers import BATCH, LENGTH, VOCABULARY, Build
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Training


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return strangers.planted_by_chance(MEMBERS[name], name)


class _Restored(nn.Module):
    """A network whose result is held against what it is to give."""

    def __init__(self, network: nn.Module, given: dict[str, Any]) -> None:
        super().__init__()
        self.network = network
        self.given = given

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        """The mean square of what is missing."""
        wanted = batch.pop("wanted")
        result = self.network(**batch, **self.given, return_dict=False)[0]
        return nn.functional.mse_loss(result[:, : wanted.shape[1]], wanted)


def _diffusing(make: Callable[[], nn.Module], shapes: dict[str, tuple[int, ...]], /, **given: Any) -> Build:
    """Trains a network on tensors of these shapes, the first of which it is to restore, at two times."""
    generator = torch.Generator().manual_seed(3)

    def batch() -> dict[str, torch.Tensor]:
        drawn = {name: torch.randn(BATCH, *shape, generator=generator) for name, shape in shapes.items()}
        drawn["timestep"] = torch.randint(1, 900, (BATCH,), generator=generator)
        return drawn | {"wanted": torch.randn(BATCH, *next(iter(shapes.values())), generator=generator)}

    batches = [batch() for _ in range(2)]
    return lambda: Training(_Restored(make(), given), [dict(batch) for batch in batches])


class _Coded(nn.Module):
    """An autoencoder on images."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        """The mean square of what is lost."""
        return nn.functional.mse_loss(self.network(sample, return_dict=False)[0], sample)


def _coding(make: Callable[[], nn.Module], *shape: int) -> Build:
    generator = torch.Generator().manual_seed(3)
    batches = [{"sample": torch.randn(BATCH, *shape, generator=generator)} for _ in range(2)]
    return lambda: Training(_Coded(make()), [dict(batch) for batch in batches])


class _Written(nn.Module):
    """A language model with its loss."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The mean loss of what follows each token."""
        logits = self.network(ids[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def _writing(outer: dict[str, Any] | None = None, /, **settings: Any) -> Build:
    generator = torch.Generator().manual_seed(3)
    batches = [{"ids": torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)} for _ in range(2)]

    def make() -> nn.Module:
        stack = xt.Decoder(dim=48, depth=2, heads=4, attn_dim_head=12, **settings)
        return xt.TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=LENGTH, attn_layers=stack, **outer or {})

    return lambda: Training(_Written(make()), [dict(batch) for batch in batches])


HEADS = {"num_attention_heads": 4, "attention_head_dim": 12, "num_layers": 2}
FLAT = {"sample": (4, 16, 16)}
HIDDEN = {"hidden_states": (4, 16, 16)}
TEXT = {"encoder_hidden_states": (8, 48)}
BLOCKS = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8}
UP, DOWN = ("CrossAttnUpBlock2D", "UpBlock2D"), ("DownBlock2D", "CrossAttnDownBlock2D")
CODER = BLOCKS | {
    "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2, "latent_channels": 4,
}  # fmt: skip


def _places(length: int, width: int) -> torch.Tensor:
    return torch.arange(length * width).view(length, width).remainder(5).float()


MEMBERS: dict[str, Build] = {
    "unet": _diffusing(lambda: df.UNet2DModel(16, 4, 4, **BLOCKS, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D")), FLAT),
    "unetskip": _diffusing(lambda: df.UNet2DModel(16, 3, 3, block_out_channels=(32, 32), layers_per_block=1,
        down_block_types=("SkipDownBlock2D", "AttnSkipDownBlock2D"),
        up_block_types=("AttnSkipUpBlock2D", "SkipUpBlock2D")), {"sample": (3, 16, 16)}),
    "unetscale": _diffusing(lambda: df.UNet2DModel(16, 4, 4, **BLOCKS, resnet_time_scale_shift="scale_shift",
        down_block_types=("ResnetDownsampleBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "ResnetUpsampleBlock2D")), FLAT),
    "unetcond": _diffusing(lambda: df.UNet2DConditionModel(16, 4, 4, **BLOCKS, down_block_types=DOWN,
        up_block_types=UP, cross_attention_dim=48, attention_head_dim=4), FLAT | TEXT),
    "unetlinear": _diffusing(lambda: df.UNet2DConditionModel(16, 4, 4, **BLOCKS, down_block_types=DOWN,
        up_block_types=UP, cross_attention_dim=48, attention_head_dim=4, use_linear_projection=True,
        only_cross_attention=True), FLAT | TEXT),
    "unetwave": _diffusing(lambda: df.UNet1DModel(64, in_channels=4, out_channels=4, block_out_channels=(32, 32),
        extra_in_channels=64, down_block_types=("DownBlock1DNoSkip", "AttnDownBlock1D"),
        up_block_types=("AttnUpBlock1D", "UpBlock1DNoSkip")), {"sample": (4, 64)}),
    "unetfilm": _diffusing(lambda: df.UNet3DConditionModel(16, 4, 4, **BLOCKS, cross_attention_dim=48,
        attention_head_dim=4, down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D")), {"sample": (4, 3, 16, 16)} | TEXT),
    "dit": _diffusing(lambda: df.DiTTransformer2DModel(**HEADS, in_channels=4, out_channels=4, sample_size=16,
        num_embeds_ada_norm=6, norm_num_groups=1), HIDDEN, class_labels=torch.tensor([1, 4])),
    "pixart": _diffusing(lambda: df.PixArtTransformer2DModel(**HEADS, in_channels=4, out_channels=4, sample_size=16,
        cross_attention_dim=48, caption_channels=48, norm_num_groups=1, use_additional_conditions=False),
        HIDDEN | TEXT, added_cond_kwargs={"resolution": None, "aspect_ratio": None}),
    "sd3": _diffusing(lambda: df.SD3Transformer2DModel(**HEADS, sample_size=16, in_channels=4, out_channels=4,
        joint_attention_dim=48, caption_projection_dim=48, pooled_projection_dim=32, pos_embed_max_size=16),
        HIDDEN | TEXT | {"pooled_projections": (32,)}),
    "flux": _diffusing(lambda: df.FluxTransformer2DModel(in_channels=16, num_layers=1, num_single_layers=1,
        attention_head_dim=16, num_attention_heads=4, joint_attention_dim=48, pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8)), {"hidden_states": (16, 16)} | TEXT | {"pooled_projections": (32,)},
        img_ids=_places(16, 3), txt_ids=_places(8, 3)),
    "aura": _diffusing(lambda: df.AuraFlowTransformer2DModel(sample_size=16, in_channels=4, out_channels=4,
        num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=12, num_attention_heads=4,
        joint_attention_dim=48, caption_projection_dim=48, pos_embed_max_size=64), HIDDEN | TEXT),
    "cogvideo": _diffusing(lambda: df.CogVideoXTransformer3DModel(num_attention_heads=4, attention_head_dim=12,
        in_channels=4, out_channels=4, time_embed_dim=16, text_embed_dim=48, num_layers=2, sample_width=8,
        sample_height=8, sample_frames=5, max_text_seq_length=8), {"hidden_states": (2, 4, 8, 8)} | TEXT),
    "sana": _diffusing(lambda: df.SanaTransformer2DModel(in_channels=4, out_channels=4, num_attention_heads=4,
        attention_head_dim=12, num_layers=2, num_cross_attention_heads=4, cross_attention_head_dim=12,
        cross_attention_dim=48, caption_channels=48, sample_size=16), HIDDEN | TEXT),
    "wan": _diffusing(lambda: df.WanTransformer3DModel(num_attention_heads=4, attention_head_dim=12, in_channels=4,
        out_channels=4, text_dim=48, freq_dim=32, ffn_dim=96, num_layers=2, rope_max_seq_len=32),
        {"hidden_states": (4, 2, 8, 8)} | TEXT),
    "mochi": _diffusing(lambda: df.MochiTransformer3DModel(num_attention_heads=4, attention_head_dim=12, num_layers=2,
        pooled_projection_dim=48, in_channels=4, text_embed_dim=48, time_embed_dim=16),
        {"hidden_states": (4, 2, 8, 8)} | TEXT, encoder_attention_mask=torch.ones(BATCH, 8)),
    "ltx": _diffusing(lambda: df.LTXVideoTransformer3DModel(in_channels=16, out_channels=16, num_attention_heads=4,
        attention_head_dim=12, cross_attention_dim=48, num_layers=2, caption_channels=48), {"hidden_states": (16, 16)}
        | TEXT, encoder_attention_mask=torch.ones(BATCH, 8), num_frames=1, height=4, width=4),
    "prior": _diffusing(lambda: df.PriorTransformer(num_attention_heads=4, attention_head_dim=12, num_layers=2,
        embedding_dim=32, num_embeddings=8), {"hidden_states": (32,), "proj_embedding": (32,),
        "encoder_hidden_states": (8, 32)}),
    "kl": _coding(lambda: df.AutoencoderKL(**CODER), 3, 16, 16),
    "vq": _coding(lambda: df.VQModel(**CODER | {"num_vq_embeddings": 24}), 3, 16, 16),
    "tiny": _coding(lambda: df.AutoencoderTiny(encoder_block_out_channels=(16, 16), decoder_block_out_channels=(16, 16),
        num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1)), 3, 16, 16),
    "oobleck": _coding(lambda: df.AutoencoderOobleck(encoder_hidden_size=8, decoder_channels=8, audio_channels=2,
        decoder_input_channels=4, downsampling_ratios=[2, 4], channel_multiples=[1, 2]), 2, 64),
    "deepcoder": _coding(lambda: df.AutoencoderDC(in_channels=3, latent_channels=4, attention_head_dim=8,
        encoder_block_types=("ResBlock", "EfficientViTBlock"), decoder_block_types=("ResBlock", "EfficientViTBlock"),
        encoder_block_out_channels=(16, 32), decoder_block_out_channels=(16, 32), encoder_layers_per_block=(1, 1),
        decoder_layers_per_block=(1, 1), encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,)),
        decoder_norm_types="rms_norm", decoder_act_fns="silu"), 3, 16, 16),
    "plain": _writing(),
    "rotary": _writing(rotary_pos_emb=True, ff_glu=True, ff_swish=True, use_rmsnorm=True),
    "alibi": _writing(alibi_pos_bias=True, alibi_num_heads=2, attn_qk_norm=True),
    "relative": _writing(rel_pos_bias=True, ff_relu_squared=True),
    "dynamic": _writing(dynamic_pos_bias=True, use_scalenorm=True),
    "talking": _writing(attn_pre_talking_heads=True, attn_post_talking_heads=True),
    "sparse": _writing(attn_sparse_topk=4),
    "gated": _writing(gate_residual=True, attn_gate_values=True),
    "sandwich": _writing(sandwich_norm=True, macaron=True),
    "onehead": _writing(attn_one_kv_head=True, shift_tokens=1, ff_no_bias=True),
    "postnorm": _writing(pre_norm=False, attn_on_attn=True),
    "memories": _writing({"num_memory_tokens": 4}, attn_num_mem_kv=4, attn_head_scale=True),
    "smeared": _writing({"emb_frac_gradient": 0.5, "post_emb_norm": True}, residual_attn=True),
    "capped": _writing({"tie_embedding": True}, attn_softclamp_logits=True),
    "laser": _writing(attn_laser=True, attn_qk_norm=True, attn_qk_norm_dim_scale=True),
    "hyper": _writing(num_residual_streams=2),
    "values": _writing(add_value_residual=True, learned_value_residual_mix=True),
    "sigmoid": _writing(attn_sigmoid=True, rotary_xpos=True),
    "selective": _writing(attn_selective=True),
    "differential": _writing(attn_cog_signed=True),
    "forgetting": _writing(attn_data_dependent_alibi=True),
    "tied": _writing(weight_tie_layers=True),
    "unetlike": _writing(unet_skips=True),
}  # fmt: skip
"""The networks; those after "plain" are of x-transformers."""
