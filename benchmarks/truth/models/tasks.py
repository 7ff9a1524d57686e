"""Networks of transformers for other tasks than `strangers`: planted at places that are drawn by chance, too.

Series are forecast, sounds and spectra classified and coded, pixels labelled, images read with words, games played.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth.models import strangers
from benchmarks.truth.models.strangers import ALONE, BATCH, CLASSES, EAGER, GROUPED, LENGTH, VOCABULARY, WIDE, Build
from benchmarks.truth.models.transformers_offline import transformers as hf
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Batch, Training


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return strangers.planted_by_chance(MEMBERS[name], name)


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


class _OwnLoss(nn.Module):
    """A network that needs no labels for its loss."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, labels: torch.Tensor | None = None, **inputs: Any) -> torch.Tensor:
        """The loss of a batch."""
        loss: torch.Tensor = self.network(**inputs).loss
        return loss


def _training(make: Callable[[], nn.Module], given: Given) -> Build:
    generator = torch.Generator().manual_seed(3)
    batches = [given(generator) for _ in range(2)]
    return lambda: Training(make(), [dict(batch) for batch in batches])


def _tokens(generator: torch.Generator, length: int = LENGTH, most: int = VOCABULARY) -> torch.Tensor:
    return torch.randint(4, most, (BATCH, length), generator=generator)


def _classes(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randint(0, CLASSES, (BATCH, *shape), generator=generator)


def _written(generator: torch.Generator) -> Batch:
    tokens = _tokens(generator)
    return {"input_ids": tokens, "labels": tokens.clone()}


def _text_class(generator: torch.Generator) -> Batch:
    return {"input_ids": _tokens(generator), "labels": torch.randint(0, 2, (BATCH,), generator=generator)}


def _pixels_class(generator: torch.Generator) -> Batch:
    return {"pixel_values": _image(generator, 64), "labels": _classes(generator)}


def _each_pixel(generator: torch.Generator) -> Batch:
    return {"pixel_values": _image(generator, 64), "labels": _classes(generator, 64, 64)}


def _image(generator: torch.Generator, size: int = 32) -> torch.Tensor:
    return torch.randn(BATCH, 3, size, size, generator=generator)


def _caption(generator: torch.Generator) -> Batch:
    return {"pixel_values": _image(generator), **_written(generator)}


def _paired(generator: torch.Generator) -> Batch:
    return {"pixel_values": _image(generator), "input_ids": _tokens(generator), "return_loss": True}


def _series(generator: torch.Generator) -> Batch:
    return {
        "past_values": torch.randn(BATCH, 32, 3, generator=generator),
        "future_values": torch.randn(BATCH, 8, 3, generator=generator),
    }


def _dated_series(generator: torch.Generator) -> Batch:
    return {
        "past_values": torch.rand(BATCH, 26, generator=generator) + 0.5,
        "past_time_features": torch.randn(BATCH, 26, 2, generator=generator),
        "past_observed_mask": torch.ones(BATCH, 26),
        "future_values": torch.rand(BATCH, 8, generator=generator) + 0.5,
        "future_time_features": torch.randn(BATCH, 8, 2, generator=generator),
    }


def _spectrum(generator: torch.Generator) -> Batch:
    return {"input_values": torch.randn(BATCH, 64, 32, generator=generator), "labels": _classes(generator)}


def _sound(generator: torch.Generator) -> Batch:
    sound = torch.randn(BATCH, 1, 640, generator=generator)
    return {"input_values": sound, "labels": sound.clone()}


def _heard(generator: torch.Generator) -> Batch:
    return {"input_features": torch.randn(BATCH, 40, 16, generator=generator), "labels": _tokens(generator)}


def _game(generator: torch.Generator) -> Batch:
    return {
        "states": torch.randn(BATCH, 8, 6, generator=generator),
        "actions": torch.randn(BATCH, 8, 3, generator=generator),
        "rewards": torch.randn(BATCH, 8, 1, generator=generator),
        "returns_to_go": torch.randn(BATCH, 8, 1, generator=generator),
        "timesteps": torch.arange(8).repeat(BATCH, 1),
        "attention_mask": torch.ones(BATCH, 8, dtype=torch.long),
        "labels": torch.randn(BATCH, 8, 3, generator=generator),
    }


def _question(generator: torch.Generator) -> Batch:
    return {
        "pixel_values": _image(generator),
        "input_ids": _tokens(generator),
        "labels": torch.rand(BATCH, CLASSES, generator=generator),
    }


def _boxed_words(generator: torch.Generator) -> Batch:
    low, size = (torch.randint(0, 30, (BATCH, LENGTH, 2), generator=generator) for _ in range(2))
    return {"bbox": torch.cat([low, low + size], dim=-1), **_text_class(generator)}


def _features(generator: torch.Generator) -> Batch:
    return {
        "input_ids": _tokens(generator),
        "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long),
        "visual_embeds": torch.randn(BATCH, 6, 24, generator=generator),
        "visual_attention_mask": torch.ones(BATCH, 6, dtype=torch.long),
        "labels": torch.rand(BATCH, CLASSES, generator=generator),
    }


def _span(generator: torch.Generator) -> Batch:
    return {
        "input_ids": _tokens(generator),
        "start_positions": torch.randint(0, LENGTH, (BATCH,), generator=generator),
        "end_positions": torch.randint(0, LENGTH, (BATCH,), generator=generator),
    }


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
    "patchtst": _training(lambda: hf.PatchTSTForPrediction(hf.PatchTSTConfig(
        num_input_channels=3, context_length=32, prediction_length=8, patch_length=8, patch_stride=8, d_model=32,
        num_hidden_layers=2, num_attention_heads=4, ffn_dim=64)), _series),
    "patchtsmixer": _training(lambda: hf.PatchTSMixerForPrediction(hf.PatchTSMixerConfig(
        num_input_channels=3, context_length=32, prediction_length=8, patch_length=8, patch_stride=8, d_model=16,
        num_layers=2, gated_attn=True)), _series),
    "timeseries": _training(lambda: hf.TimeSeriesTransformerForPrediction(
        hf.TimeSeriesTransformerConfig(**FORECAST)), _dated_series),
    "informer": _training(lambda: hf.InformerForPrediction(hf.InformerConfig(**FORECAST)), _dated_series),
    "autoformer": _training(lambda: hf.AutoformerForPrediction(hf.AutoformerConfig(**FORECAST)), _dated_series),
    "decision": _training(lambda: _WithLoss(hf.DecisionTransformerModel(hf.DecisionTransformerConfig(
        state_dim=6, act_dim=3, hidden_size=48, n_layer=2, n_head=4, max_ep_len=16)), "action_preds"), _game),
    "spectrogram": _training(lambda: hf.ASTForAudioClassification(hf.ASTConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, patch_size=8,
        frequency_stride=8, time_stride=8, max_length=64, num_mel_bins=32, num_labels=CLASSES)), _spectrum),
    "encodec": _training(lambda: _WithLoss(hf.EncodecModel(hf.EncodecConfig(
        num_filters=4, upsampling_ratios=[4, 2], hidden_size=16, num_lstm_layers=1, codebook_size=16,
        codebook_dim=16)), "audio_values"), _sound),
    "speechtotext": _training(lambda: hf.Speech2TextForConditionalGeneration(hf.Speech2TextConfig(
        **STEPS, input_feat_per_channel=16, conv_channels=32, max_source_positions=64, max_target_positions=64,
        decoder_start_token_id=2, use_cache=False)), _heard),
    "mae": _training(lambda: _OwnLoss(hf.ViTMAEForPreTraining(hf.ViTMAEConfig(
        **EYES, decoder_hidden_size=32, decoder_num_hidden_layers=1, decoder_num_attention_heads=4,
        decoder_intermediate_size=64, mask_ratio=0.5))), lambda generator: {"pixel_values": _image(generator)}),
    "dpt": _training(lambda: hf.DPTForSemanticSegmentation(hf.DPTConfig(
        **EYES | {"image_size": 64, "num_hidden_layers": 4}, backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16, num_labels=CLASSES)), _each_pixel),
    "upernet": _training(lambda: hf.UperNetForSemanticSegmentation(hf.UperNetConfig(
        backbone_config=hf.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
            out_features=["stage1", "stage2", "stage3", "stage4"]),
        hidden_size=32, auxiliary_in_channels=24, auxiliary_channels=16, num_labels=CLASSES)), _each_pixel),
    "mobilevitseg": _training(lambda: hf.MobileViTForSemanticSegmentation(hf.MobileViTConfig(
        hidden_sizes=[24, 32, 48], neck_hidden_sizes=[8, 12, 16, 24, 32, 40, 48], num_attention_heads=4, image_size=64,
        aspp_out_channels=32, num_labels=CLASSES)), _each_pixel),
    "cvt": _training(lambda: hf.CvtForImageClassification(hf.CvtConfig(
        embed_dim=[16, 32, 48], num_heads=[1, 2, 4], depth=[1, 2, 3], num_labels=CLASSES)), _pixels_class),
    "bit": _training(lambda: hf.BitForImageClassification(hf.BitConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_groups=4,
        num_labels=CLASSES)), _pixels_class),
    "imagegpt": _training(lambda: hf.ImageGPTForImageClassification(hf.ImageGPTConfig(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=48, n_layer=2, n_head=4, use_cache=False,
        num_labels=2)), _text_class),
    "vilt": _training(lambda: hf.ViltForQuestionAnswering(hf.ViltConfig(
        **SHORT, image_size=32, patch_size=8, num_labels=CLASSES)), _question),
    "blip": _training(lambda: hf.BlipForConditionalGeneration(hf.BlipConfig(
        text_config=SHORT | {"encoder_hidden_size": 48, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2,
            "pad_token_id": 0}, vision_config=EYES)), _caption),
    "git": _training(lambda: hf.GitForCausalLM(hf.GitConfig(**SHORT, vision_config=EYES, use_cache=False)), _caption),
    "visualbert": _training(lambda: hf.VisualBertForQuestionAnswering(hf.VisualBertConfig(
        **SHORT, visual_embedding_dim=24, num_labels=CLASSES)), _features),
    "altclip": _training(lambda: hf.AltCLIPModel(hf.AltCLIPConfig(
        text_config=SHORT | {"project_dim": 32, "pad_token_id": 1}, vision_config=EYES | {"projection_dim": 32},
        projection_dim=32)), _paired),
    "groupvit": _training(lambda: hf.GroupViTModel(hf.GroupViTConfig(
        text_config=SHORT | {"eos_token_id": 2}, vision_config={"hidden_size": 48, "intermediate_size": 96,
            "num_hidden_layers": 3, "depths": [1, 1, 1], "num_group_tokens": [8, 4, 0], "num_output_groups": [8, 4, 0],
            "num_attention_heads": 4, "image_size": 32, "patch_size": 8, "assign_eps": 1.0},
        projection_dim=32, projection_intermediate_dim=48)), _paired),
    "lilt": _training(lambda: hf.LiltForSequenceClassification(hf.LiltConfig(
        **SHORT, channel_shrink_ratio=4, max_2d_position_embeddings=64, pad_token_id=0)), _boxed_words),
    "bros": _training(lambda: hf.BrosForTokenClassification(hf.BrosConfig(**SHORT | {"hidden_size": 64}, num_labels=CLASSES)),
        lambda generator: {"input_ids": _tokens(generator), "bbox": torch.rand(BATCH, LENGTH, 8, generator=generator),
            "labels": _classes(generator, LENGTH)}),
    "splinter": _training(lambda: hf.SplinterForQuestionAnswering(hf.SplinterConfig(**SHORT, question_token_id=3)),
        _span),
    "luke": _training(lambda: hf.LukeForSequenceClassification(hf.LukeConfig(
        **SHORT, entity_vocab_size=16, entity_emb_size=16, pad_token_id=1)), _text_class),
    "mamba2": _training(lambda: hf.Mamba2ForCausalLM(hf.Mamba2Config(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_heads=4, head_dim=24, state_size=8, n_groups=2,
        chunk_size=8, use_cache=False)), _written),
    "zamba2": _training(lambda: hf.Zamba2ForCausalLM(hf.Zamba2Config(
        **WIDE, **ALONE, mamba_d_state=8, mamba_ngroups=1, n_mamba_heads=4, mamba_headdim=24, chunk_size=8,
        hybrid_layer_ids=[1], num_mem_blocks=1, attention_head_dim=24, adapter_rank=8,
        layers_block_type=["mamba", "hybrid", "mamba"])), _written),
    "deepseek2": _training(lambda: hf.DeepseekV2ForCausalLM(hf.DeepseekV2Config(
        **WIDE, **ALONE, **LATENT, **CHOSEN, num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1,
        first_k_dense_replace=1, n_group=1, topk_group=1)), _written),
    "stablelm": _training(lambda: hf.StableLmForCausalLM(hf.StableLmConfig(
        **WIDE, **ALONE, num_key_value_heads=2, partial_rotary_factor=0.5, qk_layernorm=True)), _written),
    "dbrx": _training(lambda: hf.DbrxForCausalLM(hf.DbrxConfig(
        vocab_size=VOCABULARY, d_model=48, n_heads=4, n_layers=2, max_seq_len=64, use_cache=False,
        attn_config={"kv_n_heads": 2, "clip_qkv": 2.0, "rope_theta": 1e4},
        ffn_config={"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2})), _written),
    "granitehybrid": _training(lambda: hf.GraniteMoeHybridForCausalLM(hf.GraniteMoeHybridConfig(
        **WIDE, **ALONE, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        shared_intermediate_size=32, layer_types=["mamba", "attention", "mamba"], mamba_n_heads=4, mamba_d_head=24,
        mamba_d_state=8, mamba_n_groups=1, mamba_chunk_size=8)), _written),
    "qwen35": _training(lambda: hf.Qwen3_5ForCausalLM(hf.Qwen3_5TextConfig(
        **WIDE, **GROUPED, **ALONE, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=12,
        linear_value_head_dim=12)), _written),
    "vaultgemma": _training(lambda: hf.VaultGemmaForCausalLM(hf.VaultGemmaConfig(
        **WIDE, **GROUPED, **ALONE, sliding_window=8, query_pre_attn_scalar=12)), _written),
    "longcat": _training(lambda: hf.LongcatFlashForCausalLM(hf.LongcatFlashConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_layers=2, num_attention_heads=4, ffn_hidden_size=96,
        **LATENT, moe_topk=2, n_routed_experts=4, zero_expert_num=2, head_dim=4, expert_ffn_hidden_size=32,
        max_position_embeddings=64, num_key_value_heads=4, **ALONE)), _written),
    "minimaxm2": _training(lambda: hf.MiniMaxM2ForCausalLM(hf.MiniMaxM2Config(
        **WIDE | {"intermediate_size": 32}, **GROUPED, **ALONE, num_local_experts=4, num_experts_per_tok=2)),
        _written),
    "nemotronh": _training(lambda: hf.NemotronHForCausalLM(hf.NemotronHConfig(
        **WIDE, **ALONE, num_key_value_heads=2, head_dim=12, layers_block_type=["mamba", "attention", "moe"],
        mamba_num_heads=4, mamba_head_dim=24, ssm_state_size=8, n_groups=1, chunk_size=8, n_routed_experts=4,
        moe_intermediate_size=32, moe_shared_expert_intermediate_size=32, num_experts_per_tok=2)), _written),
}  # fmt: skip
