"""Networks of timm, the smallest of each family: planted at places that are drawn by chance, too.

They were written by others than those of torchvision and transformers, who compute the same in other ways.
"""

from __future__ import annotations

import torch

from benchmarks.truth.models import strangers
from benchmarks.truth.models.strangers import CLASSES, Build
from benchmarks.truth.models.timm_python import timm
from benchmarks.truth.planted import Model
from benchmarks.truth.training import Training, WithLoss

BATCH = 4  # a batch norm wants some more than two


def model(name: str) -> Model:
    """The network of this name, and what is planted in it."""
    return strangers.planted_by_chance(MEMBERS[name], name)


def _images(name: str, size: int = 64, *, sized: bool = False) -> Build:
    """Trains this network of timm on images with so many pixels on a side, for which it is made if `sized`."""
    generator = torch.Generator().manual_seed(3)
    batches = [
        {
            "inputs": torch.randn(BATCH, 3, size, size, generator=generator),
            "labels": torch.randint(0, CLASSES, (BATCH,), generator=generator),
        }
        for _ in range(2)
    ]
    settings = {"img_size": size} if sized else {}

    def build() -> Training:
        network = timm.create_model(name, num_classes=CLASSES, **settings)
        return Training(WithLoss(network, torch.nn.CrossEntropyLoss()), [dict(batch) for batch in batches])

    return build


MEMBERS: dict[str, Build] = {
    "byobnet": _images("test_byobnet", sized=True),
    "cait": _images("cait_xxs24_224", sized=True),
    "coat": _images("coat_tiny", sized=True),
    "convit": _images("convit_tiny", sized=True),
    "convmixer": _images("convmixer_768_32"),
    "convnext": _images("test_convnext"),
    "cpubone": _images("cpubone_nano"),
    "crossvit": _images("crossvit_tiny_240"),
    "csatv2": _images("csatv2"),
    "cspnet": _images("cs3darknet_focus_s"),
    "cspnext": _images("cspnext_tiny"),
    "davit": _images("davit_tiny"),
    "deit": _images("deit_tiny_patch16_224", sized=True),
    "densenet": _images("densenet121"),
    "dla": _images("dla34"),
    "dpn": _images("dpn48b"),
    "edgenext": _images("edgenext_xx_small"),
    "efficientformerv2": _images("efficientformerv2_s0", sized=True),
    "efficientnet": _images("test_efficientnet"),
    "efficientvim": _images("efficientvim_m1"),
    "efficientvitmit": _images("efficientvit_b0"),
    "efficientvitmsra": _images("efficientvit_m0", sized=True),
    "eva": _images("vit_tiny_patch16_dinov3_qkvb", sized=True),
    "fasternet": _images("fasternet_t0"),
    "fastvit": _images("fastvit_t8"),
    "focalnet": _images("focalnet_tiny_srf"),
    "gcvit": _images("gcvit_xxtiny", sized=True),
    "ghostnet": _images("ghostnet_050"),
    "hardcorenas": _images("hardcorenas_b"),
    "hgnet": _images("hgnetv2_b0"),
    "hiera": _images("hiera_tiny_224", sized=True),
    "hieradetsam2": _images("sam2_hiera_tiny"),
    "hrnet": _images("hrnet_w18_small"),
    "iformer": _images("iformer_t"),
    "inceptionnext": _images("inception_next_atto"),
    "inceptionv3": _images("inception_v3", 96),
    "inceptionv4": _images("inception_v4", 96),
    "lcnetv2": _images("lcnetv2_small"),
    "levit": _images("levit_128", sized=True),
    "lowformer": _images("lowformer_b0"),
    "mambaout": _images("test_mambaout"),
    "maxxvit": _images("test_coatnet", sized=True),
    "metaformer": _images("poolformer_s12"),
    "mlpmixer": _images("gmlp_ti16_224", sized=True),
    "mobilenetv3": _images("mobilenetv3_small_050"),
    "mobilevit": _images("mobilevit_xxs", sized=True),
    "mvitv2": _images("mvitv2_tiny", sized=True),
    "nest": _images("nest_tiny", sized=True),
    "nextvit": _images("nextvit_small"),
    "nfnet": _images("test_nfnet"),
    "pit": _images("pit_ti_224", sized=True),
    "pvtv2": _images("pvt_v2_b0"),
    "rdnet": _images("rdnet_tiny"),
    "regnet": _images("regnetx_004_tv"),
    "repghost": _images("repghostnet_050"),
    "repvit": _images("repvit_m1", sized=True),
    "res2net": _images("res2next50"),
    "resnest": _images("resnest14d"),
    "resnet": _images("test_resnet"),
    "resnetv2": _images("resnetv2_18"),
    "rexnet": _images("rexnet_100"),
    "selecsls": _images("selecsls42"),
    "senet": _images("legacy_seresnet18"),
    "sequencer": _images("sequencer2d_s", sized=True),
    "shvit": _images("shvit_s1"),
    "sknet": _images("skresnet18"),
    "starnet": _images("starnet_s050"),
    "swiftformer": _images("swiftformer_xs", sized=True),
    "swintransformer": _images("swin_tiny_patch4_window7_224", sized=True),
    "swintransformerv2": _images("swinv2_tiny_window8_256", sized=True),
    "swintransformerv2cr": _images("swinv2_cr_tiny_224", sized=True),
    "tinyvit": _images("tiny_vit_5m_224"),
    "tnt": _images("tnt_s_legacy_patch16_224", sized=True),
    "tresnet": _images("tresnet_m"),
    "twins": _images("twins_svt_small", sized=True),
    "visformer": _images("visformer_tiny", sized=True),
    "visiontransformer": _images("test_vit", sized=True),
    "visiontransformerhybrid": _images("vit_tiny_r_s16_p8_224", sized=True),
    "visiontransformerrelpos": _images("test_vit_relpos", sized=True),
    "vitamin": _images("vitamin_small_224", sized=True),
    "volo": _images("volo_d1_224", sized=True),
    "vovnet": _images("ese_vovnet19b_slim_dw"),
    "xception": _images("legacy_xception"),
    "xceptionaligned": _images("xception41p"),
    "xcit": _images("xcit_nano_12_p8_224", sized=True),
}
