"""torchvision's models, which need none of its compiled ops.

A torchvision that was built for another torch cannot load those, and then fails at import, where it describes ops that
are not there. Then they are declared, and it is imported again.
"""

from __future__ import annotations

import torch

try:
    import torchvision.models as models
except RuntimeError:
    _DECLARED = torch.library.Library("torchvision", "DEF")
    _DECLARED.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision.models as models

__all__ = ["models"]
