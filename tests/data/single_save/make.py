"""Made golden/ and target/ with mindstudio-probe 26.2.0: python make.py golden; python make.py target.

peer.json has the rows that its SingleComparator then wrote for target against golden. The value `only` of step 1 was
removed.
"""

import sys

import torch
from msprobe.core.single_save.single_saver import SingleSave

variant = sys.argv[1]
torch.manual_seed(0)
SingleSave(f"./{variant}", "pytorch")
difference = 1e-3 if variant == "target" else 0.0
for step in range(2):
    for micro in range(2):
        x = torch.randn(3, 4)
        SingleSave.save({"loss": (x**2).mean() + difference * micro})
        SingleSave.save({"pair": [x[0], (x * 2).half()]})
        SingleSave.save({"parts": {"q": x[1], "k.w": torch.arange(5) * (step + 1), "empty_": torch.zeros(())}})
    SingleSave.save_ex({"only": torch.tensor([1.0, float("nan"), float("inf")])})
    SingleSave.step()
