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


class WithLoss(nn.Module):
    """A network without a loss, with one between a result of it and what is wanted."""

    def __init__(self, network: nn.Module, result: str) -> None:
        super().__init__()
        self.network = network
        self.result = result

    def forward(self, labels: torch.Tensor, **inputs: Any) -> torch.Tensor:
        """The mean squared error of a batch."""
        return nn.functional.mse_loss(self.network(**inputs)[self.result], labels)


def training(make: Callable[[], nn.Module], draw: Given) -> Build:
    """The training of a network on two batches."""
    generator = torch.Generator().manual_seed(3)
    batches = [draw(generator) for _ in range(2)]
    return lambda: Training(make(), [dict(batch) for batch in batches])


def given(**draws: Draw) -> Given:
    """A batch of these inputs, drawn in this order."""
    return lambda generator: {name: draw(generator) for name, draw in draws.items()}


def normal(*shape: int) -> Draw:
    """Numbers of a normal distribution."""
    return lambda generator: torch.randn(BATCH, *shape, generator=generator)


def between(least: float, *shape: int) -> Draw:
    """Numbers from `least` to one more."""
    return lambda generator: torch.rand(BATCH, *shape, generator=generator) + least


def classes(*shape: int, most: int = CLASSES) -> Draw:
    """Whole numbers below `most`."""
    return lambda generator: torch.randint(0, most, (BATCH, *shape), generator=generator)


def always(value: Any) -> Draw:
    """The same in each batch."""
    return lambda generator: value


def image(size: int = 32) -> Draw:
    """A square image of three channels."""
    return normal(3, size, size)


def tokens(generator: torch.Generator) -> torch.Tensor:
    """A text for each member of a batch."""
    return torch.randint(4, VOCABULARY, (BATCH, LENGTH), generator=generator)


def written(generator: torch.Generator, places: int = 0) -> Batch:
    """Tokens that are to be written again, behind as many places for an image."""
    all_tokens = torch.cat([torch.full((BATCH, places), IMAGE), tokens(generator)], dim=1)
    return {"input_ids": all_tokens, "labels": all_tokens.clone()}


def seen_and_written(places: int = 0, **draws: Draw) -> Given:
    """An image beside tokens that are to be written again, behind as many places for it."""
    return lambda generator: written(generator, places) | given(**draws)(generator)


def _boxed_words(generator: torch.Generator) -> Batch:
    low, size = (torch.randint(0, 30, (BATCH, LENGTH, 2), generator=generator) for _ in range(2))
    return {"bbox": torch.cat([low, low + size], dim=-1), **TEXT_CLASS(generator)}


def _patches(generator: torch.Generator) -> torch.Tensor:
    """Patches of an image, each behind its row and column."""
    places = torch.randint(1, 5, (BATCH, 8, 2), generator=generator).float()
    return torch.cat([places, normal(8, 22)(generator)], dim=-1)


def each_series(generator: torch.Generator) -> list[torch.Tensor]:
    """A series of 32 numbers for each member of a batch."""
    return [torch.randn(32, generator=generator) for _ in range(BATCH)]


IMAGE = 3
"""The token that stands for a part of an image."""
TEXT_CLASS = given(input_ids=tokens, labels=classes(most=2))
IMAGE_CLASS = given(pixel_values=image(64), labels=classes())
EACH_PIXEL = given(pixel_values=image(64), labels=classes(64, 64))
PAIR = given(pixel_values=image(), input_ids=tokens, return_loss=always(True))
QUESTION = given(pixel_values=image(), input_ids=tokens, labels=between(0, CLASSES))
SERIES = given(past_values=normal(32, 3), future_values=normal(8, 3))
DATED_SERIES = given(
    past_values=between(0.5, 26), past_time_features=normal(26, 2), past_observed_mask=always(torch.ones(BATCH, 26)),
    future_values=between(0.5, 8), future_time_features=normal(8, 2),
)  # fmt: skip
GAME = given(
    states=normal(8, 6), actions=normal(8, 3), rewards=normal(8, 1), returns_to_go=normal(8, 1),
    timesteps=always(torch.arange(8).repeat(BATCH, 1)), attention_mask=always(torch.ones(BATCH, 8, dtype=torch.long)),
    labels=normal(8, 3),
)  # fmt: skip
FEATURES = given(
    input_ids=tokens, attention_mask=always(torch.ones(BATCH, LENGTH, dtype=torch.long)),
    visual_embeds=normal(6, 24), visual_attention_mask=always(torch.ones(BATCH, 6, dtype=torch.long)),
    labels=between(0, CLASSES),
)  # fmt: skip
SPAN = given(input_ids=tokens, start_positions=classes(most=LENGTH), end_positions=classes(most=LENGTH))


def _caption(generator: torch.Generator) -> Batch:
    return {"pixel_values": image()(generator), **written(generator)}


def sound(generator: torch.Generator) -> Batch:
    """A wave that is to be made again."""
    wave = normal(1, 640)(generator)
    return {"input_values": wave, "labels": wave.clone()}


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
STAGES = ["stage1", "stage2", "stage3", "stage4"]
LATENT = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12}
CHOSEN = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}

MEMBERS: dict[str, Build] = {
    "patchtst": training(lambda: hf.PatchTSTForPrediction(hf.PatchTSTConfig(num_input_channels=3, context_length=32,
        prediction_length=8, patch_length=8, patch_stride=8, d_model=32, num_hidden_layers=2, num_attention_heads=4,
        ffn_dim=64)), SERIES),
    "patchtsmixer": training(lambda: hf.PatchTSMixerForPrediction(hf.PatchTSMixerConfig(num_input_channels=3,
        context_length=32, prediction_length=8, patch_length=8, patch_stride=8, d_model=16, num_layers=2,
        gated_attn=True)), SERIES),
    "timeseries": training(lambda: hf.TimeSeriesTransformerForPrediction(hf.TimeSeriesTransformerConfig(**FORECAST)),
        DATED_SERIES),
    "informer": training(lambda: hf.InformerForPrediction(hf.InformerConfig(**FORECAST)), DATED_SERIES),
    "autoformer": training(lambda: hf.AutoformerForPrediction(hf.AutoformerConfig(**FORECAST)), DATED_SERIES),
    "decision": training(lambda: WithLoss(hf.DecisionTransformerModel(hf.DecisionTransformerConfig(state_dim=6,
        act_dim=3, hidden_size=48, n_layer=2, n_head=4, max_ep_len=16)), "action_preds"), GAME),
    "spectrogram": training(lambda: hf.ASTForAudioClassification(hf.ASTConfig(hidden_size=48, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=96, patch_size=8, frequency_stride=8, time_stride=8, max_length=64,
        num_mel_bins=32, num_labels=CLASSES)), given(input_values=normal(64, 32), labels=classes())),
    "encodec": training(lambda: WithLoss(hf.EncodecModel(hf.EncodecConfig(num_filters=4, upsampling_ratios=[4, 2],
        hidden_size=16, num_lstm_layers=1, codebook_size=16, codebook_dim=16)), "audio_values"), sound),
    "speechtotext": training(lambda: hf.Speech2TextForConditionalGeneration(hf.Speech2TextConfig(**STEPS,
        input_feat_per_channel=16, conv_channels=32, max_source_positions=64, max_target_positions=64,
        decoder_start_token_id=2, use_cache=False)), given(input_features=normal(40, 16), labels=tokens)),
    "mae": training(lambda: hf.ViTMAEForPreTraining(hf.ViTMAEConfig(**EYES, decoder_hidden_size=32,
        decoder_num_hidden_layers=1, decoder_num_attention_heads=4, decoder_intermediate_size=64, mask_ratio=0.5)),
        given(pixel_values=image())),
    "dpt": training(lambda: hf.DPTForSemanticSegmentation(hf.DPTConfig(**EYES | {"image_size": 64,
        "num_hidden_layers": 4}, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16, num_labels=CLASSES)), EACH_PIXEL),
    "upernet": training(lambda: hf.UperNetForSemanticSegmentation(hf.UperNetConfig(backbone_config=hf.ConvNextConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=STAGES),
        hidden_size=32, auxiliary_in_channels=24, auxiliary_channels=16, num_labels=CLASSES)), EACH_PIXEL),
    "mobilevitseg": training(lambda: hf.MobileViTForSemanticSegmentation(hf.MobileViTConfig(hidden_sizes=[24, 32, 48],
        neck_hidden_sizes=[8, 12, 16, 24, 32, 40, 48], num_attention_heads=4, image_size=64, aspp_out_channels=32,
        num_labels=CLASSES)), EACH_PIXEL),
    "cvt": training(lambda: hf.CvtForImageClassification(hf.CvtConfig(embed_dim=[16, 32, 48], num_heads=[1, 2, 4],
        depth=[1, 2, 3], num_labels=CLASSES)), IMAGE_CLASS),
    "bit": training(lambda: hf.BitForImageClassification(hf.BitConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1], num_groups=4, num_labels=CLASSES)), IMAGE_CLASS),
    "imagegpt": training(lambda: hf.ImageGPTForImageClassification(hf.ImageGPTConfig(vocab_size=VOCABULARY,
        n_positions=LENGTH, n_embd=48, n_layer=2, n_head=4, use_cache=False, num_labels=2)), TEXT_CLASS),
    "vilt": training(lambda: hf.ViltForQuestionAnswering(hf.ViltConfig(**SHORT, image_size=32, patch_size=8,
        num_labels=CLASSES)), QUESTION),
    "blip": training(lambda: hf.BlipForConditionalGeneration(hf.BlipConfig(
        text_config=SHORT | {"encoder_hidden_size": 48, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2,
        "pad_token_id": 0}, vision_config=EYES)), _caption),
    "git": training(lambda: hf.GitForCausalLM(hf.GitConfig(**SHORT, vision_config=EYES, use_cache=False)), _caption),
    "visualbert": training(lambda: hf.VisualBertForQuestionAnswering(hf.VisualBertConfig(**SHORT,
        visual_embedding_dim=24, num_labels=CLASSES)), FEATURES),
    "altclip": training(lambda: hf.AltCLIPModel(hf.AltCLIPConfig(text_config=SHORT | {"project_dim": 32,
        "pad_token_id": 1}, vision_config=EYES | {"projection_dim": 32}, projection_dim=32)), PAIR),
    "groupvit": training(lambda: hf.GroupViTModel(hf.GroupViTConfig(text_config=SHORT | {"eos_token_id": 2},
        vision_config={"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "depths": [1, 1, 1],
        "num_group_tokens": [8, 4, 0], "num_output_groups": [8, 4, 0], "num_attention_heads": 4, "image_size": 32,
        "patch_size": 8, "assign_eps": 1.0}, projection_dim=32, projection_intermediate_dim=48)), PAIR),
    "lilt": training(lambda: hf.LiltForSequenceClassification(hf.LiltConfig(**SHORT, channel_shrink_ratio=4,
        max_2d_position_embeddings=64, pad_token_id=0)), _boxed_words),
    "bros": training(lambda: hf.BrosForTokenClassification(hf.BrosConfig(**SHORT | {"hidden_size": 64},
        num_labels=CLASSES)), given(input_ids=tokens, bbox=between(0, LENGTH, 8), labels=classes(LENGTH))),
    "splinter": training(lambda: hf.SplinterForQuestionAnswering(hf.SplinterConfig(**SHORT, question_token_id=3)),
        SPAN),
    "luke": training(lambda: hf.LukeForSequenceClassification(hf.LukeConfig(**SHORT, entity_vocab_size=16,
        entity_emb_size=16, pad_token_id=1)), TEXT_CLASS),
    "mamba2": training(lambda: hf.Mamba2ForCausalLM(hf.Mamba2Config(vocab_size=VOCABULARY, hidden_size=48,
        num_hidden_layers=2, num_heads=4, head_dim=24, state_size=8, n_groups=2, chunk_size=8, use_cache=False)),
        written),
    "zamba2": training(lambda: hf.Zamba2ForCausalLM(hf.Zamba2Config(**WIDE, **ALONE, mamba_d_state=8, mamba_ngroups=1,
        n_mamba_heads=4, mamba_headdim=24, chunk_size=8, hybrid_layer_ids=[1], num_mem_blocks=1, attention_head_dim=24,
        adapter_rank=8, layers_block_type=["mamba", "hybrid", "mamba"])), written),
    "deepseek2": training(lambda: hf.DeepseekV2ForCausalLM(hf.DeepseekV2Config(**WIDE, **ALONE, **LATENT, **CHOSEN,
        num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, n_group=1,
        topk_group=1)), written),
    "stablelm": training(lambda: hf.StableLmForCausalLM(hf.StableLmConfig(**WIDE, **ALONE, num_key_value_heads=2,
        partial_rotary_factor=0.5, qk_layernorm=True)), written),
    "dbrx": training(lambda: hf.DbrxForCausalLM(hf.DbrxConfig(vocab_size=VOCABULARY, d_model=48, n_heads=4, n_layers=2,
        max_seq_len=64, use_cache=False, attn_config={"kv_n_heads": 2, "clip_qkv": 2.0, "rope_theta": 1e4},
        ffn_config={"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2})), written),
    "granitehybrid": training(lambda: hf.GraniteMoeHybridForCausalLM(hf.GraniteMoeHybridConfig(**WIDE, **ALONE,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=32,
        layer_types=["mamba", "attention", "mamba"], mamba_n_heads=4, mamba_d_head=24, mamba_d_state=8,
        mamba_n_groups=1, mamba_chunk_size=8)), written),
    "qwen35": training(lambda: hf.Qwen3_5ForCausalLM(hf.Qwen3_5TextConfig(**WIDE, **GROUPED, **ALONE,
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=12, linear_value_head_dim=12)), written),
    "vaultgemma": training(lambda: hf.VaultGemmaForCausalLM(hf.VaultGemmaConfig(**WIDE, **GROUPED, **ALONE,
        sliding_window=8, query_pre_attn_scalar=12)), written),
    "longcat": training(lambda: hf.LongcatFlashForCausalLM(hf.LongcatFlashConfig(vocab_size=VOCABULARY, hidden_size=48,
        num_layers=2, num_attention_heads=4, ffn_hidden_size=96, **LATENT, moe_topk=2, n_routed_experts=4,
        zero_expert_num=2, head_dim=4, expert_ffn_hidden_size=32, max_position_embeddings=64, num_key_value_heads=4,
        **ALONE)), written),
    "minimaxm2": training(lambda: hf.MiniMaxM2ForCausalLM(hf.MiniMaxM2Config(**WIDE | {"intermediate_size": 32},
        **GROUPED, **ALONE, num_local_experts=4, num_experts_per_tok=2)), written),
    "nemotronh": training(lambda: hf.NemotronHForCausalLM(hf.NemotronHConfig(**WIDE, **ALONE, num_key_value_heads=2,
        head_dim=12, layers_block_type=["mamba", "attention", "moe"], mamba_num_heads=4, mamba_head_dim=24,
        ssm_state_size=8, n_groups=1, chunk_size=8, n_routed_experts=4, moe_intermediate_size=32,
        moe_shared_expert_intermediate_size=32, num_experts_per_tok=2)), written),
    "aimv2": training(lambda: WithLoss(hf.Aimv2VisionModel(hf.Aimv2VisionConfig(**EYES)), "last_hidden_state"),
        given(pixel_values=image(), labels=normal(16, 48))),
    "glpn": training(lambda: hf.GLPNForDepthEstimation(hf.GLPNConfig(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1,
        1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)), given(pixel_values=image(64),
        labels=between(0.5, 64, 64))),
    "swin2sr": training(lambda: WithLoss(hf.Swin2SRForImageSuperResolution(hf.Swin2SRConfig(image_size=16,
        embed_dim=24, depths=[2, 2], num_heads=[2, 2], window_size=4, upscale=2)), "reconstruction"),
        given(pixel_values=image(16), labels=image(32))),
    "beitseg": training(lambda: hf.BeitForSemanticSegmentation(hf.BeitConfig(**EYES | {"num_hidden_layers": 4,
        "image_size": 64}, out_indices=[1, 2, 3, 4], use_relative_position_bias=True, semantic_loss_ignore_index=255,
        num_labels=CLASSES, add_fpn=True)), EACH_PIXEL),
    "mobilenetseg": training(lambda: hf.MobileNetV2ForSemanticSegmentation(hf.MobileNetV2Config(depth_multiplier=0.25,
        image_size=64, num_labels=CLASSES)), EACH_PIXEL),
    "depthanything": training(lambda: WithLoss(hf.DepthAnythingForDepthEstimation(hf.DepthAnythingConfig(
        backbone_config=hf.Dinov2Config(hidden_size=48, num_hidden_layers=4, num_attention_heads=4, image_size=56,
        patch_size=14, out_features=STAGES, reshape_hidden_states=False,
        apply_layernorm=True), neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16, head_hidden_size=8,
        reassemble_hidden_size=48, patch_size=14)), "predicted_depth"), given(pixel_values=image(56),
        labels=between(0, 56, 56))),
    "vjepa": training(lambda: hf.VJEPA2ForVideoClassification(hf.VJEPA2Config(patch_size=8, crop_size=16,
        frames_per_clip=4, tubelet_size=2, hidden_size=48, num_attention_heads=4, num_hidden_layers=2, mlp_ratio=2,
        pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1, num_pooler_layers=1,
        num_labels=CLASSES)), given(pixel_values_videos=normal(4, 3, 16, 16), labels=classes())),
    "clipseg": training(lambda: hf.CLIPSegForImageSegmentation(hf.CLIPSegConfig(text_config=SHORT | {"eos_token_id": 2,
        "projection_dim": 32}, vision_config=EYES | {"num_hidden_layers": 4}, projection_dim=32, extract_layers=[1, 2,
        3], reduce_dim=16, decoder_num_attention_heads=4, decoder_intermediate_size=32)), given(input_ids=tokens,
        pixel_values=image(), labels=between(0, 32, 32))),
    "lxmert": training(lambda: hf.LxmertForQuestionAnswering(hf.LxmertConfig(vocab_size=VOCABULARY, hidden_size=48,
        num_attention_heads=4, intermediate_size=96, l_layers=1, x_layers=1, r_layers=1, visual_feat_dim=24,
        num_qa_labels=CLASSES)), given(input_ids=tokens, visual_feats=normal(6, 24), visual_pos=between(0, 6, 4),
        labels=classes())),
    "trocr": training(lambda: hf.TrOCRForCausalLM(hf.TrOCRConfig(vocab_size=VOCABULARY, d_model=48, decoder_layers=2,
        decoder_attention_heads=4, decoder_ffn_dim=96, max_position_embeddings=64, use_cache=False, is_decoder=True)),
        written),
    "pix2struct": training(lambda: hf.Pix2StructForConditionalGeneration(hf.Pix2StructConfig(
        text_config={"vocab_size": VOCABULARY, "hidden_size": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2,
        "num_heads": 4, "decoder_start_token_id": 0, "use_cache": False}, vision_config={"hidden_size": 48,
        "patch_embed_hidden_size": 22, "d_ff": 96, "d_kv": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
        "seq_len": 16})), given(flattened_patches=_patches, labels=tokens)),
    "llava": training(lambda: hf.LlavaForConditionalGeneration(hf.LlavaConfig(text_config=hf.LlamaConfig(**SHORT,
        num_key_value_heads=2), vision_config=hf.CLIPVisionConfig(**EYES), image_token_index=3, image_seq_length=16)),
        seen_and_written(16, pixel_values=image())),
    "paligemma": training(lambda: hf.PaliGemmaForConditionalGeneration(hf.PaliGemmaConfig(text_config=hf.GemmaConfig(
        **SHORT, head_dim=12, num_key_value_heads=1), vision_config=hf.SiglipVisionConfig(**EYES), image_token_index=3,
        projection_dim=48)), seen_and_written(16, pixel_values=image(), token_type_ids=always(torch.ones(BATCH,
        16 + LENGTH, dtype=torch.long)))),
    "idefics3": training(lambda: hf.Idefics3ForConditionalGeneration(hf.Idefics3Config(text_config=hf.LlamaConfig(
        **SHORT, num_key_value_heads=2), vision_config=EYES, scale_factor=2, image_token_id=3)), seen_and_written(4,
        pixel_values=normal(1, 3, 32, 32))),
    "blip2": training(lambda: hf.Blip2ForConditionalGeneration(hf.Blip2Config(vision_config=EYES,
        qformer_config=SHORT | {"encoder_hidden_size": 48}, text_config=hf.OPTConfig(**{k: v for k,
        v in SHORT.items() if k != "intermediate_size"}, ffn_dim=96, word_embed_proj_dim=48).to_dict(),
        num_query_tokens=4, image_token_index=3)), seen_and_written(4, pixel_values=image())),
    "speecht5": training(lambda: hf.SpeechT5ForSpeechToText(hf.SpeechT5Config(vocab_size=VOCABULARY, hidden_size=48,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
        decoder_ffn_dim=96, conv_dim=[16, 24, 32], conv_stride=[4, 2, 2], conv_kernel=[8, 3, 3],
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, encoder_layerdrop=0.0,
        decoder_layerdrop=0.0, mask_time_prob=0.0, decoder_start_token_id=2, use_cache=False)),
        given(input_values=normal(640), labels=tokens)),
    "bertspeech": training(lambda: hf.Wav2Vec2BertForSequenceClassification(hf.Wav2Vec2BertConfig(hidden_size=48,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, feature_projection_input_dim=16,
        conv_depthwise_kernel_size=7, classifier_proj_size=24, mask_time_prob=0.0, num_labels=CLASSES)),
        given(input_features=normal(20, 16), labels=classes())),
    "clap": training(lambda: hf.ClapModel(hf.ClapConfig(text_config=SHORT | {"projection_dim": 32,
        "pad_token_id": 1}, audio_config={"spec_size": 32, "num_mel_bins": 8, "window_size": 4, "patch_size": 2,
        "patch_stride": [2, 2], "patch_embeds_hidden_size": 16, "depths": [1, 1], "num_attention_heads": [2, 4],
        "hidden_size": 32, "projection_dim": 32, "num_classes": 4}, projection_dim=32)),
        given(input_ids=tokens, input_features=normal(1, 128, 8), return_loss=always(True))),
    "moonshine": training(lambda: hf.MoonshineForConditionalGeneration(hf.MoonshineConfig(vocab_size=VOCABULARY,
        hidden_size=48, intermediate_size=96, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2,
        encoder_num_attention_heads=4, decoder_num_attention_heads=4, decoder_start_token_id=1, pad_token_id=0,
        use_cache=False)), given(input_values=normal(1200), labels=tokens)),
    "dac": training(lambda: WithLoss(hf.DacModel(hf.DacConfig(encoder_hidden_size=8, downsampling_ratios=[2, 4],
        decoder_hidden_size=32, n_codebooks=2, codebook_size=16, codebook_dim=4, quantizer_dropout=0.0,
        upsampling_ratios=[4, 2])), "audio_values"), given(input_values=normal(1, 640), labels=normal(1, 640))),
    "timesfm": training(lambda: hf.TimesFmModelForPrediction(hf.TimesFmConfig(patch_length=8, context_length=32,
        horizon_length=16, num_hidden_layers=2, hidden_size=48, intermediate_size=48, head_dim=12,
        num_attention_heads=4)), given(past_values=each_series, future_values=normal(16),
        freq=always([0] * BATCH))),
    "fsmt": training(lambda: hf.FSMTForConditionalGeneration(hf.FSMTConfig(langs=["en", "de"],
        src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY, d_model=48, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
        max_position_embeddings=64, use_cache=False)), given(input_ids=tokens, labels=tokens)),
    "ernie": training(lambda: hf.ErnieForSequenceClassification(hf.ErnieConfig(**SHORT, use_task_id=True)),
        TEXT_CLASS),
    "nomic": training(lambda: hf.NomicBertForSequenceClassification(hf.NomicBertConfig(**SHORT)), TEXT_CLASS),
    "modernwriter": training(lambda: hf.ModernBertDecoderForCausalLM(hf.ModernBertDecoderConfig(**SHORT,
        local_attention=8, use_cache=False, pad_token_id=0)), written),
    "gptneoxja": training(lambda: hf.GPTNeoXJapaneseForCausalLM(hf.GPTNeoXJapaneseConfig(vocab_size=VOCABULARY,
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_multiple_size=2,
        max_position_embeddings=64, use_cache=False)), written),
    "olmohybrid": training(lambda: hf.OlmoHybridForCausalLM(hf.OlmoHybridConfig(**WIDE, **ALONE, num_key_value_heads=4,
        linear_num_value_heads=4, linear_num_key_heads=4, linear_key_head_dim=12, linear_value_head_dim=12,
        pad_token_id=0)), written),
    "afmoe": training(lambda: hf.AfmoeForCausalLM(hf.AfmoeConfig(**WIDE, **GROUPED, **ALONE, moe_intermediate_size=32,
        num_experts=4, num_experts_per_tok=2, num_shared_experts=1, num_dense_layers=1, sliding_window=8)), written),
    "exaonemoe": training(lambda: hf.ExaoneMoeForCausalLM(hf.ExaoneMoeConfig(**WIDE, **ALONE, num_key_value_heads=2,
        head_dim=12, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, sliding_window=8, n_group=1,
        topk_group=1)), written),
    "hunyuanmoe": training(lambda: hf.HunYuanMoEV1ForCausalLM(hf.HunYuanMoEV1Config(**WIDE, **GROUPED, **ALONE,
        num_experts=4, moe_topk=2)), written),
    "youtu": training(lambda: hf.YoutuForCausalLM(hf.YoutuConfig(**WIDE, **ALONE, **LATENT, num_key_value_heads=4)),
        written),
    "jais": training(lambda: hf.Jais2ForCausalLM(hf.Jais2Config(**WIDE, **ALONE, num_key_value_heads=2, head_dim=12)),
        written),
    "ministral": training(lambda: hf.Ministral3ForCausalLM(hf.Ministral3Config(**WIDE, **GROUPED, **ALONE)), written),
    "llama4": training(lambda: hf.Llama4ForCausalLM(hf.Llama4TextConfig(**WIDE, **GROUPED, **ALONE,
        intermediate_size_mlp=96, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2,
        attention_chunk_size=8)), written),
    "falconmamba": training(lambda: hf.FalconMambaForCausalLM(hf.FalconMambaConfig(vocab_size=VOCABULARY,
        hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False)), written),
}  # fmt: skip
