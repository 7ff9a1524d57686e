"""A small translator in PyTorch: the layers of nn.Transformer, one table of words for source, target and output."""

import math

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"decoder\.layers\.0\.norm2|layer_norm\.(5|7)\.",
    "causal": r"decoder\.layers\.1\.self_attn|scaled_dot_product_attention\.4\.|multi_head_attention_forward\.4\.",
    "norm_first": r"encoder\.layers\.1|layer_norm\.2\.",
    "weight": r"decoder\.layers\.0\.multihead_attn|linear\.\d+\.|(product_attention|attention_forward)\.3\.",
    "scale": r"__mul__\.0|mul\.0",
}


class Translator(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.words = nn.Embedding(50, 24)
        angles = torch.arange(12)[:, None] / 10000 ** (torch.arange(0, 24, 2) / 24)
        self.register_buffer("places", torch.stack([angles.sin(), angles.cos()], -1).flatten(1), persistent=False)
        settings = {"dropout": 0.0, "activation": "relu", "batch_first": True}
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 48, **settings), 2, nn.LayerNorm(24))
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(24, 4, 48, **settings), 2)
        if defect == "norm_first":
            self.encoder.layers[1].norm_first = True
        if defect == "eps":
            self.decoder.layers[0].norm2.eps = 1e-3
        if defect == "causal":
            attend = self.decoder.layers[1]._sa_block
            self.decoder.layers[1]._sa_block = lambda x, mask, padding, is_causal=False: attend(x, None, padding)

    def embed(self, tokens):
        scale = math.sqrt(12 if self.defect == "scale" else 24)
        return self.words(tokens) * scale + self.places[: tokens.shape[1]]

    def forward(self, source, target, mask):
        hidden = mask == 0
        memory = self.encoder(self.embed(source), src_key_padding_mask=hidden)
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x = self.decoder(self.embed(target), memory, tgt_mask=later, memory_key_padding_mask=hidden)
        return functional.linear(x, self.words.weight)


def build(defect):
    """The model, with `defect` or None."""
    return Translator(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.decoder.layers[0].multihead_attn.in_proj_weight.data[48:60].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the next words; words are read backwards on the way in."""
    logits = model(batch["x"].flip(1), batch["x"], batch["mask"].flip(1))
    return functional.cross_entropy(logits.transpose(1, 2), batch["y"], label_smoothing=0.1)
