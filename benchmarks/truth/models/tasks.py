"""Networks of transformers for other tasks than `strangers`: planted at places that are drawn by chance, too.

Series are forecast, sounds and spectra classified and coded, pixels labelled, images read with words, games played.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth.models import strangers
from benchmarks.truth.models.strangers import ALONE, BATCH, CLASSES, GROUPED, LENGTH, VOCABULARY, WIDE, Build
from benchmarks.truth.models.transformers_offline import transformers as hf
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Batch, Training


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return strangers.planted_by_chance(MEMBERS[name], name)


Draw = Callable[[torch.Generator], Any]
"""Makes one input of a batch."""
Given = Callable[[torch.Generator], Batch]
"""Makes a batch."""


class _WithLoss(nn.Module):
    """A network without a loss, with one between a result of it and what is wanted."""

    def __init__(self, network: nn.Module, result: str) -> None:
        super().__init__()
        self.network = network
        self.result = result

    def forward(self, labels: torch.Tensor, **inputs: Any) -> torch.Tensor:
        """The mean squared error of a batch."""
        return nn.functional.mse_loss(self.network(**inputs)[self.result], labels)


def _training(make: Callable[[], nn.Module], given: Given) -> Build:
    generator = torch.Generator().manual_seed(3)
    batches = [given(generator) for _ in range(2)]
    return lambda: Training(make(), [dict(batch) for batch in batches])


def _given(**draws: Draw) -> Given:
    """A batch of these inputs, drawn in this order."""
    return lambda generator: {name: draw(generator) for name, draw in draws.items()}


def _normal(*shape: int) -> Draw:
    return lambda generator: torch.randn(BATCH, *shape, generator=generator)


def _between(least: float, *shape: int) -> Draw:
    """Numbers from `least` to one more."""
    return lambda generator: torch.rand(BATCH, *shape, generator=generator) + least


def _classes(*shape: int, most: int = CLASSES) -> Draw:
    return lambda generator: torch.randint(0, most, (BATCH, *shape), generator=generator)


def _always(value: Any) -> Draw:
    return lambda generator: value


def _image(size: int = 32) -> Draw:
    return _normal(3, size, size)


def _tokens(generator: torch.Generator) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (BATCH, LENGTH), generator=generator)


def _written(generator: torch.Generator, image: int = 0) -> Batch:
    """Tokens that are to be written again, behind those that stand for an image."""
    tokens = torch.cat([torch.full((BATCH, image), IMAGE), _tokens(generator)], dim=1)
    return {"input_ids": tokens, "labels": tokens.clone()}


def _seen_and_written(image: int = 0, **draws: Draw) -> Given:
    return lambda generator: _written(generator, image) | _given(**draws)(generator)


def _boxed_words(generator: torch.Generator) -> Batch:
    low, size = (torch.randint(0, 30, (BATCH, LENGTH, 2), generator=generator) for _ in range(2))
    return {"bbox": torch.cat([low, low + size], dim=-1), **TEXT_CLASS(generator)}


def _patches(generator: torch.Generator) -> torch.Tensor:
    """Patches of an image, each behind its row and column."""
    places = torch.randint(1, 5, (BATCH, 8, 2), generator=generator).float()
    return torch.cat([places, _normal(8, 22)(generator)], dim=-1)


def _each_series(generator: torch.Generator) -> list[torch.Tensor]:
    return [torch.randn(32, generator=generator) for _ in range(BATCH)]


IMAGE = 3
"""The token that stands for a part of an image."""
TEXT_CLASS = _given(input_ids=_tokens, labels=_classes(most=2))
IMAGE_CLASS = _given(pixel_values=_image(64), labels=_classes())
EACH_PIXEL = _given(pixel_values=_image(64), labels=_classes(64, 64))
PAIR = _given(pixel_values=_image(), input_ids=_tokens, return_loss=_always(True))
QUESTION = _given(pixel_values=_image(), input_ids=_tokens, labels=_between(0, CLASSES))
SERIES = _given(past_values=_normal(32, 3), future_values=_normal(8, 3))
DATED_SERIES = _given(
    past_values=_between(0.5, 26), past_time_features=_normal(26, 2), past_observed_mask=_always(torch.ones(BATCH, 26)),
    future_values=_between(0.5, 8), future_time_features=_normal(8, 2),
)  # fmt: skip
GAME = _given(
    states=_normal(8, 6), actions=_normal(8, 3), rewards=_normal(8, 1), returns_to_go=_normal(8, 1),
    timesteps=_always(torch.arange(8).repeat(BATCH, 1)), attention_mask=_always(torch.ones(BATCH, 8, dtype=torch.long)),
    labels=_normal(8, 3),
)  # fmt: skip
FEATURES = _given(
    input_ids=_tokens, attention_mask=_always(torch.ones(BATCH, LENGTH, dtype=torch.long)),
    visual_embeds=_normal(6, 24), visual_attention_mask=_always(torch.ones(BATCH, 6, dtype=torch.long)),
    labels=_between(0, CLASSES),
)  # fmt: skip
SPAN = _given(input_ids=_tokens, start_positions=_classes(most=LENGTH), end_positions=_classes(most=LENGTH))


def _caption(generator: torch.Generator) -> Batch:
    return {"pixel_values": _image()(generator), **_written(generator)}


def _sound(generator: torch.Generator) -> Batch:
    sound = _normal(1, 640)(generator)
    return {"input_values": sound, "labels": sound.clone()}


EYES = {
    "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
SHORT = WIDE | {"num_hidden_layers": 2}
FORECAST = {
    "prediction_length": 8, "context_length": 16, "lags_sequence": [1, 2, 10], "num_time_features": 2, "d_model": 32,
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip
STEPS = {
    "vocab_size": VOCABULARY, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96,
}  # fmt: skip
LATENT = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12}
CHOSEN = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}

MEMBERS: dict[str, Build] = {
    "patchtst": _training(lambda: hf.PatchTSTForPrediction(hf.PatchTSTConfig(num_input_channels=3, context_length=32,
        prediction_length=8, patch_length=8, patch_stride=8, d_model=32, num_hidden_layers=2, num_attention_heads=4,
        ffn_dim=64)), SERIES),
    "patchtsmixer": _training(lambda: hf.PatchTSMixerForPrediction(hf.PatchTSMixerConfig(num_input_channels=3,
        context_length=32, prediction_length=8, patch_length=8, patch_stride=8, d_model=16, num_layers=2,
        gated_attn=True)), SERIES),
    "timeseries": _training(lambda: hf.TimeSeriesTransformerForPrediction(hf.TimeSeriesTransformerConfig(**FORECAST)),
        DATED_SERIES),
    "informer": _training(lambda: hf.InformerForPrediction(hf.InformerConfig(**FORECAST)), DATED_SERIES),
    "autoformer": _training(lambda: hf.AutoformerForPrediction(hf.AutoformerConfig(**FORECAST)), DATED_SERIES),
    "decision": _training(lambda: _WithLoss(hf.DecisionTransformerModel(hf.DecisionTransformerConfig(state_dim=6,
        act_dim=3, hidden_size=48, n_layer=2, n_head=4, max_ep_len=16)), "action_preds"), GAME),
    "spectrogram": _training(lambda: hf.ASTForAudioClassification(hf.ASTConfig(hidden_size=48, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=96, patch_size=8, frequency_stride=8, time_stride=8, max_length=64,
        num_mel_bins=32, num_labels=CLASSES)), _given(input_values=_normal(64, 32), labels=_classes())),
    "encodec": _training(lambda: _WithLoss(hf.EncodecModel(hf.EncodecConfig(num_filters=4, upsampling_ratios=[4, 2],
        hidden_size=16, num_lstm_layers=1, codebook_size=16, codebook_dim=16)), "audio_values"), _sound),
    "speechtotext": _training(lambda: hf.Speech2TextForConditionalGeneration(hf.Speech2TextConfig(**STEPS,
        input_feat_per_channel=16, conv_channels=32, max_source_positions=64, max_target_positions=64,
        decoder_start_token_id=2, use_cache=False)), _given(input_features=_normal(40, 16), labels=_tokens)),
    "mae": _training(lambda: hf.ViTMAEForPreTraining(hf.ViTMAEConfig(**EYES, decoder_hidden_size=32,
        decoder_num_hidden_layers=1, decoder_num_attention_heads=4, decoder_intermediate_size=64, mask_ratio=0.5)),
        _given(pixel_values=_image())),
    "dpt": _training(lambda: hf.DPTForSemanticSegmentation(hf.DPTConfig(**EYES | {"image_size": 64,
        "num_hidden_layers": 4}, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16, num_labels=CLASSES)), EACH_PIXEL),
    "upernet": _training(lambda: hf.UperNetForSemanticSegmentation(hf.UperNetConfig(backbone_config=hf.ConvNextConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]),
        hidden_size=32, auxiliary_in_channels=24, auxiliary_channels=16, num_labels=CLASSES)), EACH_PIXEL),
    "mobilevitseg": _training(lambda: hf.MobileViTForSemanticSegmentation(hf.MobileViTConfig(hidden_sizes=[24, 32, 48],
        neck_hidden_sizes=[8, 12, 16, 24, 32, 40, 48], num_attention_heads=4, image_size=64, aspp_out_channels=32,
        num_labels=CLASSES)), EACH_PIXEL),
    "cvt": _training(lambda: hf.CvtForImageClassification(hf.CvtConfig(embed_dim=[16, 32, 48], num_heads=[1, 2, 4],
        depth=[1, 2, 3], num_labels=CLASSES)), IMAGE_CLASS),
    "bit": _training(lambda: hf.BitForImageClassification(hf.BitConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1], num_groups=4, num_labels=CLASSES)), IMAGE_CLASS),
    "imagegpt": _training(lambda: hf.ImageGPTForImageClassification(hf.ImageGPTConfig(vocab_size=VOCABULARY,
        n_positions=LENGTH, n_embd=48, n_layer=2, n_head=4, use_cache=False, num_labels=2)), TEXT_CLASS),
    "vilt": _training(lambda: hf.ViltForQuestionAnswering(hf.ViltConfig(**SHORT, image_size=32, patch_size=8,
        num_labels=CLASSES)), QUESTION),
    "blip": _training(lambda: hf.BlipForConditionalGeneration(hf.BlipConfig(
        text_config=SHORT | {"encoder_hidden_size": 48, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2,
        "pad_token_id": 0}, vision_config=EYES)), _caption),
    "git": _training(lambda: hf.GitForCausalLM(hf.GitConfig(**SHORT, vision_config=EYES, use_cache=False)), _caption),
    "visualbert": _training(lambda: hf.VisualBertForQuestionAnswering(hf.VisualBertConfig(**SHORT,
        visual_embedding_dim=24, num_labels=CLASSES)), FEATURES),
    "altclip": _training(lambda: hf.AltCLIPModel(hf.AltCLIPConfig(text_config=SHORT | {"project_dim": 32,
        "pad_token_id": 1}, vision_config=EYES | {"projection_dim": 32}, projection_dim=32)), PAIR),
    "groupvit": _training(lambda: hf.GroupViTModel(hf.GroupViTConfig(text_config=SHORT | {"eos_token_id": 2},
        vision_config={"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "depths": [1, 1, 1],
        "num_group_tokens": [8, 4, 0], "num_output_groups": [8, 4, 0], "num_attention_heads": 4, "image_size": 32,
        "patch_size": 8, "assign_eps": 1.0}, projection_dim=32, projection_intermediate_dim=48)), PAIR),
    "lilt": _training(lambda: hf.LiltForSequenceClassification(hf.LiltConfig(**SHORT, channel_shrink_ratio=4,
        max_2d_position_embeddings=64, pad_token_id=0)), _boxed_words),
    "bros": _training(lambda: hf.BrosForTokenClassification(hf.BrosConfig(**SHORT | {"hidden_size": 64},
        num_labels=CLASSES)), _given(input_ids=_tokens, bbox=_between(0, LENGTH, 8), labels=_classes(LENGTH))),
    "splinter": _training(lambda: hf.SplinterForQuestionAnswering(hf.SplinterConfig(**SHORT, question_token_id=3)),
        SPAN),
    "luke": _training(lambda: hf.LukeForSequenceClassification(hf.LukeConfig(**SHORT, entity_vocab_size=16,
        entity_emb_size=16, pad_token_id=1)), TEXT_CLASS),
    "mamba2": _training(lambda: hf.Mamba2ForCausalLM(hf.Mamba2Config(vocab_size=VOCABULARY, hidden_size=48,
        num_hidden_layers=2, num_heads=4, head_dim=24, state_size=8, n_groups=2, chunk_size=8, use_cache=False)),
        _written),
    "zamba2": _training(lambda: hf.Zamba2ForCausalLM(hf.Zamba2Config(**WIDE, **ALONE, mamba_d_state=8, mamba_ngroups=1,
        n_mamba_heads=4, mamba_headdim=24, chunk_size=8, hybrid_layer_ids=[1], num_mem_blocks=1, attention_head_dim=24,
        adapter_rank=8, layers_block_type=["mamba", "hybrid", "mamba"])), _written),
    "deepseek2": _training(lambda: hf.DeepseekV2ForCausalLM(hf.DeepseekV2Config(**WIDE, **ALONE, **LATENT, **CHOSEN,
        num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, n_group=1,
        topk_group=1)), _written),
    "stablelm": _training(lambda: hf.StableLmForCausalLM(hf.StableLmConfig(**WIDE, **ALONE, num_key_value_heads=2,
        partial_rotary_factor=0.5, qk_layernorm=True)), _written),
    "dbrx": _training(lambda: hf.DbrxForCausalLM(hf.DbrxConfig(vocab_size=VOCABULARY, d_model=48, n_heads=4, n_layers=2,
        max_seq_len=64, use_cache=False, attn_config={"kv_n_heads": 2, "clip_qkv": 2.0, "rope_theta": 1e4},
        ffn_config={"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2})), _written),
    "granitehybrid": _training(lambda: hf.GraniteMoeHybridForCausalLM(hf.GraniteMoeHybridConfig(**WIDE, **ALONE,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=32,
        layer_types=["mamba", "attention", "mamba"], mamba_n_heads=4, mamba_d_head=24, mamba_d_state=8,
        mamba_n_groups=1, mamba_chunk_size=8)), _written),
    "qwen35": _training(lambda: hf.Qwen3_5ForCausalLM(hf.Qwen3_5TextConfig(**WIDE, **GROUPED, **ALONE,
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=12, linear_value_head_dim=12)), _written),
    "vaultgemma": _training(lambda: hf.VaultGemmaForCausalLM(hf.VaultGemmaConfig(**WIDE, **GROUPED, **ALONE,
        sliding_window=8, query_pre_attn_scalar=12)), _written),
    "longcat": _training(lambda: hf.LongcatFlashForCausalLM(hf.LongcatFlashConfig(vocab_size=VOCABULARY, hidden_size=48,
        num_layers=2, num_attention_heads=4, ffn_hidden_size=96, **LATENT, moe_topk=2, n_routed_experts=4,
        zero_expert_num=2, head_dim=4, expert_ffn_hidden_size=32, max_position_embeddings=64, num_key_value_heads=4,
        **ALONE)), _written),
    "minimaxm2": _training(lambda: hf.MiniMaxM2ForCausalLM(hf.MiniMaxM2Config(**WIDE | {"intermediate_size": 32},
        **GROUPED, **ALONE, num_local_experts=4, num_experts_per_tok=2)), _written),
    "nemotronh": _training(lambda: hf.NemotronHForCausalLM(hf.NemotronHConfig(**WIDE, **ALONE, num_key_value_heads=2,
        head_dim=12, layers_block_type=["mamba", "attention", "moe"], mamba_num_heads=4, mamba_head_dim=24,
        ssm_state_size=8, n_groups=1, chunk_size=8, n_routed_experts=4, moe_intermediate_size=32,
        moe_shared_expert_intermediate_size=32, num_experts_per_tok=2)), _written),
    "aimv2": _training(lambda: _WithLoss(hf.Aimv2VisionModel(hf.Aimv2VisionConfig(**EYES)), "last_hidden_state"),
        _given(pixel_values=_image(), labels=_normal(16, 48))),
    "glpn": _training(lambda: hf.GLPNForDepthEstimation(hf.GLPNConfig(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1,
        1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)), _given(pixel_values=_image(64),
        labels=_between(0.5, 64, 64))),
    "swin2sr": _training(lambda: _WithLoss(hf.Swin2SRForImageSuperResolution(hf.Swin2SRConfig(image_size=16,
        embed_dim=24, depths=[2, 2], num_heads=[2, 2], window_size=4, upscale=2)), "reconstruction"),
        _given(pixel_values=_image(16), labels=_image(32))),
    "beitseg": _training(lambda: hf.BeitForSemanticSegmentation(hf.BeitConfig(**EYES | {"num_hidden_layers": 4,
        "image_size": 64}, out_indices=[1, 2, 3, 4], use_relative_position_bias=True, semantic_loss_ignore_index=255,
        num_labels=CLASSES, add_fpn=True)), EACH_PIXEL),
    "mobilenetseg": _training(lambda: hf.MobileNetV2ForSemanticSegmentation(hf.MobileNetV2Config(depth_multiplier=0.25,
        image_size=64, num_labels=CLASSES)), EACH_PIXEL),
    "depthanything": _training(lambda: _WithLoss(hf.DepthAnythingForDepthEstimation(hf.DepthAnythingConfig(
        backbone_config=hf.Dinov2Config(hidden_size=48, num_hidden_layers=4, num_attention_heads=4, image_size=56,
        patch_size=14, out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False,
        apply_layernorm=True), neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16, head_hidden_size=8,
        reassemble_hidden_size=48, patch_size=14)), "predicted_depth"), _given(pixel_values=_image(56),
        labels=_between(0, 56, 56))),
    "vjepa": _training(lambda: hf.VJEPA2ForVideoClassification(hf.VJEPA2Config(patch_size=8, crop_size=16,
        frames_per_clip=4, tubelet_size=2, hidden_size=48, num_attention_heads=4, num_hidden_layers=2, mlp_ratio=2,
        pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1, num_pooler_layers=1,
        num_labels=CLASSES)), _given(pixel_values_videos=_normal(4, 3, 16, 16), labels=_classes())),
    "clipseg": _training(lambda: hf.CLIPSegForImageSegmentation(hf.CLIPSegConfig(text_config=SHORT | {"eos_token_id": 2,
        "projection_dim": 32}, vision_config=EYES | {"num_hidden_layers": 4}, projection_dim=32, extract_layers=[1, 2,
        3], reduce_dim=16, decoder_num_attention_heads=4, decoder_intermediate_size=32)), _given(input_ids=_tokens,
        pixel_values=_image(), labels=_between(0, 32, 32))),
    "lxmert": _training(lambda: hf.LxmertForQuestionAnswering(hf.LxmertConfig(vocab_size=VOCABULARY, hidden_size=48,
        num_attention_heads=4, intermediate_size=96, l_layers=1, x_layers=1, r_layers=1, visual_feat_dim=24,
        num_qa_labels=CLASSES)), _given(input_ids=_tokens, visual_feats=_normal(6, 24), visual_pos=_between(0, 6, 4),
        labels=_classes())),
    "trocr": _training(lambda: hf.TrOCRForCausalLM(hf.TrOCRConfig(vocab_size=VOCABULARY, d_model=48, decoder_layers=2,
        decoder_attention_heads=4, decoder_ffn_dim=96, max_position_embeddings=64, use_cache=False, is_decoder=True)),
        _written),
    "pix2struct": _training(lambda: hf.Pix2StructForConditionalGeneration(hf.Pix2StructConfig(
        text_config={"vocab_size": VOCABULARY, "hidden_size": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2,
        "num_heads": 4, "decoder_start_token_id": 0, "use_cache": False}, vision_config={"hidden_size": 48,
        "patch_embed_hidden_size": 22, "d_ff": 96, "d_kv": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
        "seq_len": 16})), _given(flattened_patches=_patches, labels=_tokens)),
    "llava": _training(lambda: hf.LlavaForConditionalGeneration(hf.LlavaConfig(text_config=hf.LlamaConfig(**SHORT,
        num_key_value_heads=2), vision_config=hf.CLIPVisionConfig(**EYES), image_token_index=3, image_seq_length=16)),
        _seen_and_written(16, pixel_values=_image())),
    "paligemma": _training(lambda: hf.PaliGemmaForConditionalGeneration(hf.PaliGemmaConfig(text_config=hf.GemmaConfig(
        **SHORT, head_dim=12, num_key_value_heads=1), vision_config=hf.SiglipVisionConfig(**EYES), image_token_index=3,
        projection_dim=48)), _seen_and_written(16, pixel_values=_image(), token_type_ids=_always(torch.ones(BATCH,
        16 + LENGTH, dtype=torch.long)))),
    "idefics3": _training(lambda: hf.Idefics3ForConditionalGeneration(hf.Idefics3Config(text_config=hf.LlamaConfig(
        **SHORT, num_key_value_heads=2), vision_config=EYES, scale_factor=2, image_token_id=3)), _seen_and_written(4,
        pixel_values=_normal(1, 3, 32, 32))),
    "blip2": _training(lambda: hf.Blip2ForConditionalGeneration(hf.Blip2Config(vision_config=EYES,
        qformer_config=SHORT | {"encoder_hidden_size": 48}, text_config=hf.OPTConfig(**{k: v for k,
        v in SHORT.items() if k != "intermediate_size"}, ffn_dim=96, word_embed_proj_dim=48).to_dict(),
        num_query_tokens=4, image_token_index=3)), _seen_and_written(4, pixel_values=_image())),
    "speecht5": _training(lambda: hf.SpeechT5ForSpeechToText(hf.SpeechT5Config(vocab_size=VOCABULARY, hidden_size=48,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
        decoder_ffn_dim=96, conv_dim=[16, 24, 32], conv_stride=[4, 2, 2], conv_kernel=[8, 3, 3],
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, encoder_layerdrop=0.0,
        decoder_layerdrop=0.0, mask_time_prob=0.0, decoder_start_token_id=2, use_cache=False)),
        _given(input_values=_normal(640), labels=_tokens)),
    "bertspeech": _training(lambda: hf.Wav2Vec2BertForSequenceClassification(hf.Wav2Vec2BertConfig(hidden_size=48,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, feature_projection_input_dim=16,
        conv_depthwise_kernel_size=7, classifier_proj_size=24, mask_time_prob=0.0, num_labels=CLASSES)),
        _given(input_features=_normal(20, 16), labels=_classes())),
    "clap": _training(lambda: hf.ClapModel(hf.ClapConfig(text_config=SHORT | {"projection_dim": 32,
        "pad_token_id": 1}, audio_config={"spec_size": 32, "num_mel_bins": 8, "window_size": 4, "patch_size": 2,
        "patch_stride": [2, 2], "patch_embeds_hidden_size": 16, "depths": [1, 1], "num_attention_heads": [2, 4],
        "hidden_size": 32, "projection_dim": 32, "num_classes": 4}, projection_dim=32)),
        _given(input_ids=_tokens, input_features=_normal(1, 128, 8), return_loss=_always(True))),
    "moonshine": _training(lambda: hf.MoonshineForConditionalGeneration(hf.MoonshineConfig(vocab_size=VOCABULARY,
        hidden_size=48, intermediate_size=96, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2,
        encoder_num_attention_heads=4, decoder_num_attention_heads=4, decoder_start_token_id=1, pad_token_id=0,
        use_cache=False)), _given(input_values=_normal(1200), labels=_tokens)),
    "dac": _training(lambda: _WithLoss(hf.DacModel(hf.DacConfig(encoder_hidden_size=8, downsampling_ratios=[2, 4],
        decoder_hidden_size=32, n_codebooks=2, codebook_size=16, codebook_dim=4, quantizer_dropout=0.0,
        upsampling_ratios=[4, 2])), "audio_values"), _given(input_values=_normal(1, 640), labels=_normal(1, 640))),
    "timesfm": _training(lambda: hf.TimesFmModelForPrediction(hf.TimesFmConfig(patch_length=8, context_length=32,
        horizon_length=16, num_hidden_layers=2, hidden_size=48, intermediate_size=48, head_dim=12,
        num_attention_heads=4)), _given(past_values=_each_series, future_values=_normal(16),
        freq=_always([0] * BATCH))),
    "fsmt": _training(lambda: hf.FSMTForConditionalGeneration(hf.FSMTConfig(langs=["en", "de"],
        src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY, d_model=48, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
        max_position_embeddings=64, use_cache=False)), _given(input_ids=_tokens, labels=_tokens)),
    "ernie": _training(lambda: hf.ErnieForSequenceClassification(hf.ErnieConfig(**SHORT, use_task_id=True)),
        TEXT_CLASS),
    "nomic": _training(lambda: hf.NomicBertForSequenceClassification(hf.NomicBertConfig(**SHORT)), TEXT_CLASS),
    "modernwriter": _training(lambda: hf.ModernBertDecoderForCausalLM(hf.ModernBertDecoderConfig(**SHORT,
        local_attention=8, use_cache=False, pad_token_id=0)), _written),
    "gptneoxja": _training(lambda: hf.GPTNeoXJapaneseForCausalLM(hf.GPTNeoXJapaneseConfig(vocab_size=VOCABULARY,
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_multiple_size=2,
        max_position_embeddings=64, use_cache=False)), _written),
    "olmohybrid": _training(lambda: hf.OlmoHybridForCausalLM(hf.OlmoHybridConfig(**WIDE, **ALONE, num_key_value_heads=4,
        linear_num_value_heads=4, linear_num_key_heads=4, linear_key_head_dim=12, linear_value_head_dim=12,
        pad_token_id=0)), _written),
    "afmoe": _training(lambda: hf.AfmoeForCausalLM(hf.AfmoeConfig(**WIDE, **GROUPED, **ALONE, moe_intermediate_size=32,
        num_experts=4, num_experts_per_tok=2, num_shared_experts=1, num_dense_layers=1, sliding_window=8)), _written),
    "exaonemoe": _training(lambda: hf.ExaoneMoeForCausalLM(hf.ExaoneMoeConfig(**WIDE, **ALONE, num_key_value_heads=2,
        head_dim=12, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, sliding_window=8, n_group=1,
        topk_group=1)), _written),
    "hunyuanmoe": _training(lambda: hf.HunYuanMoEV1ForCausalLM(hf.HunYuanMoEV1Config(**WIDE, **GROUPED, **ALONE,
        num_experts=4, moe_topk=2)), _written),
    "youtu": _training(lambda: hf.YoutuForCausalLM(hf.YoutuConfig(**WIDE, **ALONE, **LATENT, num_key_value_heads=4)),
        _written),
    "jais": _training(lambda: hf.Jais2ForCausalLM(hf.Jais2Config(**WIDE, **ALONE, num_key_value_heads=2, head_dim=12)),
        _written),
    "ministral": _training(lambda: hf.Ministral3ForCausalLM(hf.Ministral3Config(**WIDE, **GROUPED, **ALONE)), _written),
    "llama4": _training(lambda: hf.Llama4ForCausalLM(hf.Llama4TextConfig(**WIDE, **GROUPED, **ALONE,
        intermediate_size_mlp=96, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2,
        attention_chunk_size=8)), _written),
    "falconmamba": _training(lambda: hf.FalconMambaForCausalLM(hf.FalconMambaConfig(vocab_size=VOCABULARY,
        hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False)), _written),
}  # fmt: skip
