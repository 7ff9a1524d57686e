"""Networks of transformers that came after `strangers` and `tasks`: planted at places that are drawn by chance, too.

Sparse and linear attention, streams that are mixed, detectors that match boxes, words beside pixels.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.truth.models import strangers
from benchmarks.truth.models.strangers import ALONE, BATCH, CLASSES, GROUPED, LENGTH, VOCABULARY, WIDE, Build
from benchmarks.truth.models.tasks import (
    CHOSEN,
    EYES,
    LATENT,
    PAIR,
    SHORT,
    STAGES,
    STEPS,
    TEXT_CLASS,
    Draw,
    WithLoss,
    always,
    between,
    classes,
    each_series,
    given,
    image,
    normal,
    seen_and_written,
    sound,
    tokens,
    training,
    written,
)
from benchmarks.truth.models.transformers_offline import transformers as hf
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Batch


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return strangers.planted_by_chance(MEMBERS[name], name)


def _boxes(generator: torch.Generator) -> Batch:
    """An image with three boxes in it."""
    return {"pixel_values": image(64)(generator), "labels": [_boxed(generator) for _ in range(BATCH)]}


def _boxed(generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "class_labels": torch.randint(0, CLASSES, (3,), generator=generator),
        "boxes": torch.rand(3, 4, generator=generator) * 0.3 + 0.2,
    }


def _drawn(generator: torch.Generator) -> Batch:
    """An image with two masks in it."""
    return {
        "pixel_values": image(64)(generator),
        "mask_labels": [(torch.rand(2, 64, 64, generator=generator) > 0.5).float() for _ in range(BATCH)],
        "class_labels": [torch.randint(0, CLASSES, (2,), generator=generator) for _ in range(BATCH)],
    }


def _said(generator: torch.Generator) -> torch.Tensor:
    """Six tokens, for a spectrum that is longer."""
    return torch.randint(4, VOCABULARY, (BATCH, 6), generator=generator)


def _spectrum(length: int) -> dict[str, Draw]:
    return {
        "input_features": normal(length, 16),
        "attention_mask": always(torch.ones(BATCH, length, dtype=torch.long)),
        "labels": _said,
    }


def _shown(generator: torch.Generator) -> Batch:
    """Four places for an image before what is written."""
    places = torch.cat([torch.ones(BATCH, 4), torch.zeros(BATCH, LENGTH)], dim=1).bool()
    return seen_and_written(4, pixel_values=image())(generator) | {"image_embeds_position_mask": places}


def _cut_image(generator: torch.Generator) -> torch.Tensor:
    """Sixteen patches of two frames of an image each."""
    return torch.randn(BATCH * 16, 3 * 2 * 8 * 8, generator=generator)


def _backbone(*stages: int) -> dict[str, Any]:
    """What a detector sees with: the results of these stages of a network."""
    seen = hf.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1],
        out_features=[f"stage{stage}" for stage in stages],
    )  # fmt: skip
    return {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": seen}


DETECTOR = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_queries": 6, "num_labels": CLASSES,
}  # fmt: skip
LISTENING = {
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
    "conv_kernel_size": 5, "subsampling_conv_channels": 8, "num_mel_bins": 16, "dropout": 0, "layerdrop": 0,
}  # fmt: skip
ONE_GROUP = CHOSEN | {"n_routed_experts": 4, "n_group": 1, "topk_group": 1}
LINEAR = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 12, "linear_value_head_dim": 12,
}  # fmt: skip

MEMBERS: dict[str, Build] = {
    "mistral": training(lambda: hf.MistralForCausalLM(hf.MistralConfig(**WIDE, **GROUPED, **ALONE, sliding_window=8)),
        written),
    "graniteshared": training(lambda: hf.GraniteMoeSharedForCausalLM(hf.GraniteMoeSharedConfig(**WIDE, **GROUPED,
        **ALONE, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=32)), written),
    "glmlite": training(lambda: hf.Glm4MoeLiteForCausalLM(hf.Glm4MoeLiteConfig(**WIDE, **ALONE, **LATENT, **ONE_GROUP,
        num_key_value_heads=4)), written),
    "deepseek32": training(lambda: hf.DeepseekV32ForCausalLM(hf.DeepseekV32Config(**WIDE, **ALONE, **LATENT,
        **ONE_GROUP, num_key_value_heads=4, index_n_heads=2, index_head_dim=8, index_topk=8)), written),
    "deepseek4": training(lambda: hf.DeepseekV4ForCausalLM(hf.DeepseekV4Config(**WIDE, **ALONE, **CHOSEN, head_dim=16,
        q_lora_rank=24, qk_rope_head_dim=8, partial_rotary_factor=0.5, n_routed_experts=4, o_groups=2, o_lora_rank=16,
        index_n_heads=2, index_head_dim=8, index_topk=4, sliding_window=8, hc_mult=2, hc_sinkhorn_iters=4)), written),
    "kimi": training(lambda: hf.KimiLinearForCausalLM(hf.KimiLinearConfig(**WIDE, **ALONE, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, num_key_value_heads=4, kv_lora_rank=16, qk_rope_head_dim=4, v_head_dim=12,
        qk_nope_head_dim=8, num_experts_per_token=2, moe_intermediate_size=32, num_experts=4, linear_head_dim=12,
        linear_num_heads=4, head_dim=12)), written),
    "mistral4": training(lambda: hf.Mistral4ForCausalLM(hf.Mistral4Config(**WIDE, **ALONE, **LATENT, **ONE_GROUP,
        num_key_value_heads=4)), written),
    "solar": training(lambda: hf.SolarOpenForCausalLM(hf.SolarOpenConfig(**WIDE, **GROUPED, **ALONE, **ONE_GROUP)),
        written),
    "laguna": training(lambda: hf.LagunaForCausalLM(hf.LagunaConfig(**WIDE, **GROUPED, **ALONE, **CHOSEN,
        num_experts=4)), written),
    "zaya": training(lambda: hf.ZayaForCausalLM(hf.ZayaConfig(**WIDE, **GROUPED, **ALONE, moe_intermediate_size=32,
        num_experts=4, router_hidden_size=16)), written),
    "graniteswa": training(lambda: hf.GraniteSWAForCausalLM(hf.GraniteSWAConfig(**WIDE, **GROUPED, **ALONE)), written),
    "hrm": training(lambda: hf.HrmTextForCausalLM(hf.HrmTextConfig(**WIDE, **GROUPED, **ALONE)), written),
    "mellum": training(lambda: hf.MellumForCausalLM(hf.MellumConfig(**WIDE, **GROUPED, **ALONE, sliding_window=8,
        moe_intermediate_size=32, num_experts_per_tok=2, num_local_experts=4)), written),
    "gemma4": training(lambda: hf.Gemma4ForCausalLM(hf.Gemma4TextConfig(**WIDE, **GROUPED, **ALONE, sliding_window=8,
        vocab_size_per_layer_input=VOCABULARY, hidden_size_per_layer_input=8,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"])), written),
    "gemma3n": training(lambda: hf.Gemma3nForCausalLM(hf.Gemma3nTextConfig(**WIDE | {"intermediate_size": [96] * 3},
        **GROUPED, **ALONE, num_kv_shared_layers=0, laurel_rank=8, vocab_size_per_layer_input=VOCABULARY,
        hidden_size_per_layer_input=8, activation_sparsity_pattern=[0.5, 0.0, 0.0])), written),
    "qwen35moe": training(lambda: hf.Qwen3_5MoeForCausalLM(hf.Qwen3_5MoeTextConfig(**WIDE, **GROUPED, **ALONE, **LINEAR,
        **CHOSEN, num_experts=4, shared_expert_intermediate_size=32)), written),
    "bertwriter": training(lambda: hf.BertGenerationDecoder(hf.BertGenerationConfig(**SHORT, is_decoder=True,
        use_cache=False)), written),
    "t5gemma": training(lambda: hf.T5GemmaForConditionalGeneration(hf.T5GemmaConfig(encoder={**SHORT, **GROUPED},
        decoder={**SHORT, **GROUPED}, vocab_size=VOCABULARY)), given(input_ids=tokens, labels=tokens)),
    "rocbert": training(lambda: hf.RoCBertForSequenceClassification(hf.RoCBertConfig(**SHORT,
        pronunciation_vocab_size=32, shape_vocab_size=32)), TEXT_CLASS),
    "gte": training(lambda: hf.GteForSequenceClassification(hf.GteConfig(**SHORT)), TEXT_CLASS),
    "jina": training(lambda: hf.JinaEmbeddingsV3ForSequenceClassification(hf.JinaEmbeddingsV3Config(**SHORT)),
        TEXT_CLASS),
    "esmc": training(lambda: hf.EsmcForSequenceClassification(hf.EsmcConfig(**SHORT)), TEXT_CLASS),
    "markup": training(lambda: hf.MarkupLMForSequenceClassification(hf.MarkupLMConfig(**SHORT, max_depth=4)),
        TEXT_CLASS),
    "flaubert": training(lambda: hf.FlaubertForSequenceClassification(hf.FlaubertConfig(vocab_size=VOCABULARY,
        emb_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64)), TEXT_CLASS),
    "dino3": training(lambda: WithLoss(hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**EYES, num_register_tokens=2)),
        "pooler_output"), given(pixel_values=image(), labels=normal(48))),
    "dino3conv": training(lambda: WithLoss(hf.DINOv3ConvNextModel(hf.DINOv3ConvNextConfig(hidden_sizes=[16, 24, 32,
        48], depths=[1, 1, 1, 1])), "pooler_output"), given(pixel_values=image(64), labels=normal(48))),
    "yolos": training(lambda: hf.YolosForObjectDetection(hf.YolosConfig(**EYES | {"image_size": [64, 64]},
        num_detection_tokens=6, num_labels=CLASSES)), _boxes),
    "detr": training(lambda: hf.DetrForObjectDetection(hf.DetrConfig(**_backbone(4), **DETECTOR)), _boxes),
    "conditional": training(lambda: hf.ConditionalDetrForObjectDetection(hf.ConditionalDetrConfig(**_backbone(4),
        **DETECTOR)), _boxes),
    "deformable": training(lambda: hf.DeformableDetrForObjectDetection(hf.DeformableDetrConfig(**_backbone(2, 3, 4),
        **DETECTOR, num_feature_levels=3)), _boxes),
    "rtdetr": training(lambda: hf.RTDetrForObjectDetection(hf.RTDetrConfig(**_backbone() | {"backbone_config":
        hf.RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=STAGES[1:])}, **DETECTOR, encoder_hidden_dim=32, encoder_in_channels=[24, 32, 48],
        num_denoising=0, decoder_in_channels=[32, 32, 32], hidden_expansion=0.5)), _boxes),
    "mask2former": training(lambda: hf.Mask2FormerForUniversalSegmentation(hf.Mask2FormerConfig(
        use_pretrained_backbone=False, backbone_config=hf.SwinConfig(image_size=64, embed_dim=16, depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2], window_size=2, out_features=STAGES), feature_size=32, mask_feature_size=32,
        hidden_dim=32, encoder_feedforward_dim=32, encoder_layers=1, decoder_layers=2, dim_feedforward=32,
        num_attention_heads=2, num_queries=6, num_labels=CLASSES, train_num_points=64)), _drawn),
    "vitdet": training(lambda: WithLoss(hf.VitDetModel(hf.VitDetConfig(hidden_size=48, num_hidden_layers=2,
        num_attention_heads=4, image_size=64, pretrain_image_size=64, patch_size=8, window_size=4,
        window_block_indices=[0], residual_block_indices=[1], use_relative_position_embeddings=True)),
        "last_hidden_state"), given(pixel_values=image(64), labels=normal(48, 8, 8))),
    "lcnet": training(lambda: WithLoss(hf.PPLCNetForImageClassification(hf.PPLCNetConfig(scale=0.25,
        num_labels=CLASSES)), "last_hidden_state"), given(pixel_values=image(64), labels=normal(CLASSES))),
    "pixio": training(lambda: WithLoss(hf.PixioModel(hf.PixioConfig(**EYES)), "last_hidden_state"),
        given(pixel_values=image(), labels=normal(24, 48))),
    "sapiens": training(lambda: WithLoss(hf.Sapiens2Model(hf.Sapiens2Config(**EYES)), "last_hidden_state"),
        given(pixel_values=image(), labels=normal(25, 48))),
    "owlvit": training(lambda: hf.OwlViTModel(hf.OwlViTConfig(text_config=SHORT | {"max_position_embeddings": LENGTH,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}, vision_config=EYES, projection_dim=32)), PAIR),
    "chineseclip": training(lambda: hf.ChineseCLIPModel(hf.ChineseCLIPConfig(text_config=SHORT, vision_config=EYES | {
        "projection_dim": 32}, projection_dim=32)), PAIR),
    "mimi": training(lambda: WithLoss(hf.MimiModel(hf.MimiConfig(hidden_size=32, num_filters=4, upsampling_ratios=[4,
        2], codebook_size=16, codebook_dim=16, num_quantizers=2, num_semantic_quantizers=1,
        vector_quantization_hidden_dimension=16, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4,
        head_dim=8, intermediate_size=64, upsample_groups=8, use_cache=False)), "audio_values"), sound),
    "parakeet": training(lambda: hf.ParakeetForCTC(hf.ParakeetCTCConfig(vocab_size=VOCABULARY, pad_token_id=0,
        encoder_config=LISTENING)), given(**_spectrum(160))),
    "lasr": training(lambda: hf.LasrForCTC(hf.LasrCTCConfig(vocab_size=VOCABULARY, pad_token_id=0,
        encoder_config=LISTENING)), given(**_spectrum(100))),
    "timesfm2": training(lambda: hf.TimesFm2_5ModelForPrediction(hf.TimesFm2_5Config(patch_length=8, context_length=32,
        horizon_length=16, num_hidden_layers=2, hidden_size=48, intermediate_size=48, head_dim=12,
        num_attention_heads=4, num_key_value_heads=4, output_quantile_len=16)), given(past_values=each_series,
        future_values=normal(16))),
    "data2vecaudio": training(lambda: hf.Data2VecAudioForSequenceClassification(hf.Data2VecAudioConfig(hidden_size=48,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, conv_dim=[16, 24, 32], conv_stride=[4, 2, 2],
        conv_kernel=[8, 3, 3], num_conv_pos_embedding_groups=4, conv_pos_kernel_size=5, num_conv_pos_embeddings=2,
        mask_time_prob=0.0, layerdrop=0.0, classifier_proj_size=24, num_labels=CLASSES)),
        given(input_values=normal(640), labels=classes())),
    "univnet": training(lambda: WithLoss(hf.UnivNetModel(hf.UnivNetConfig(model_in_channels=8, model_hidden_channels=8,
        num_mel_bins=16, resblock_kernel_sizes=[3, 3], resblock_stride_sizes=[4, 4], resblock_dilation_sizes=[[1, 3],
        [1, 3]], kernel_predictor_hidden_channels=8)), "waveforms"), given(input_features=normal(10, 16),
        noise_sequence=normal(10, 8), labels=normal(160))),
    "chameleon": training(lambda: hf.ChameleonForConditionalGeneration(hf.ChameleonConfig(**WIDE, **GROUPED, **ALONE,
        vocabulary_map={f"IMGIMG{letter}Z": place for place, letter in enumerate("ABCDEFGH")} | {"<image>": 8},
        vq_config={"embed_dim": 16, "num_embeddings": 8, "latent_channels": 16, "resolution": 32, "base_channels": 32,
        "channel_multiplier": [1, 1], "num_res_blocks": 1})), written),
    "qwen2vl": training(lambda: hf.Qwen2VLForConditionalGeneration(hf.Qwen2VLConfig(text_config={**SHORT,
        "num_key_value_heads": 2, "rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [2, 2,
        2]}}, vision_config={"embed_dim": 48, "hidden_size": 48, "depth": 2, "num_heads": 4, "mlp_ratio": 2,
        "patch_size": 8, "in_channels": 3}, image_token_id=3)), seen_and_written(4, pixel_values=_cut_image,
        image_grid_thw=always(torch.tensor([[1, 4, 4]] * BATCH)), mm_token_type_ids=always(torch.tensor([[1] * 4
        + [0] * LENGTH] * BATCH)))),
    "kosmos2": training(lambda: hf.Kosmos2ForConditionalGeneration(hf.Kosmos2Config(text_config={"vocab_size":
        VOCABULARY, "embed_dim": 48, "layers": 2, "ffn_dim": 96, "attention_heads": 4, "max_position_embeddings": 64,
        "use_cache": False}, vision_config=EYES, latent_query_num=4)), _shown),
    "florence": training(lambda: hf.Florence2ForConditionalGeneration(hf.Florence2Config(text_config=hf.BartConfig(
        **STEPS, max_position_embeddings=64).to_dict(), vision_config={"embed_dim": [16, 32], "depths": [1, 1],
        "num_heads": [2, 4], "num_groups": [2, 4], "patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3,
        1], "patch_prenorm": [False, True], "window_size": 2, "projection_dim": 48, "drop_path_rate": 0.0},
        image_token_id=3)), seen_and_written(17, pixel_values=image())),
    "seggpt": training(lambda: hf.SegGptForImageSegmentation(hf.SegGptConfig(hidden_size=48, num_hidden_layers=2,
        num_attention_heads=4, image_size=[32, 16], patch_size=8, mlp_dim=96, pretrain_image_size=16, merge_index=0,
        intermediate_hidden_state_indices=[1], decoder_hidden_size=16, drop_path_rate=0.0)), given(
        pixel_values=image(16), prompt_pixel_values=image(16), prompt_masks=image(16), labels=image(16))),
    "zoedepth": training(lambda: WithLoss(hf.ZoeDepthForDepthEstimation(hf.ZoeDepthConfig(backbone_config=hf.BeitConfig(
        **EYES | {"num_hidden_layers": 4, "image_size": 64}, out_features=STAGES, use_relative_position_bias=True,
        reshape_hidden_states=False), neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16, bottleneck_features=16,
        num_relative_features=8, backbone_hidden_size=48, bin_centers_type="softplus", bin_embedding_dim=16,
        num_attractors=[4, 2, 2, 1], bin_configurations=[{"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0,
        "name": None}])), "predicted_depth"), given(pixel_values=image(64), labels=between(0, 128, 128))),
}  # fmt: skip
