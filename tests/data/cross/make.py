"""Writes the lists of right pairs beside this file: which MindSpore row is the same quantity as which PyTorch row.

Run by hand: `make.py LAKE`, with a lake that holds step 0 of the golden dumps as the runs ms_L0_tensor, pt_L0_tensor, …
A rule below says where a row's counterpart is, and the contents of both rows must agree before the pair is written.
The rules come from reading the two models, and share nothing with lakeprobe's own rules: see README.md.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeprobe.session import Lake
from lakeprobe.tensors.files import read_tensor
from lakeprobe.tensors.reference import open_tensor

HERE = Path(__file__).parent
# The list's name, its target, its golden; runs of one level have the same rows, and mint has statistics only.
LISTS = [
    ("L0", "ms_L0_tensor", "pt_L0_tensor"),
    ("L1", "ms_L1_tensor", "pt_L1_tensor"),
    ("mix", "ms_mix_tensor", "pt_mix_tensor"),
    ("mint", "mint_L1_stat", "pt_L1_stat"),
]
# Largest difference of two contents that are taken for equal, as a share of the golden one's largest element.
TOLERANCE = 1e-4
# The gradient of k_proj's bias is 0 in exact arithmetic (softmax does not see a shift), so its elements are rounding
# errors of their own on each side. All others here are at least 1e-4.
ZERO = 1e-8

# MindSpore's API and PyTorch's; a counterpart's slot is the same unless it stands below in SLOTS.
APIS = {
    "Tensor.__add__": "Tensor.__add__",
    "Tensor.__mul__": "Tensor.__mul__",
    "Tensor.masked_fill": "Tensor.masked_fill",
    "Functional.matmul": "Torch.matmul",
    "Functional.softmax": "Functional.softmax",
    "Functional.gelu": "Functional.gelu",
    "Functional.cross_entropy": "Functional.cross_entropy",
    "Primitive.layer_norm.LayerNorm": "Functional.layer_norm",
    "Primitive.dense.Dense": "Functional.linear",
    "Mint.matmul": "Torch.matmul",
    "MintFunctional.softmax": "Functional.softmax",
}
# By (PyTorch API, direction): slots that stand elsewhere on the PyTorch side; None where nothing equal is there.
SLOTS: dict[tuple[str, str], dict[str, str | None]] = {
    ("Functional.softmax", "forward"): {"input.1": "input.dim"},
    # PyTorch has the normalised shape as input.1; MindSpore puts out mean and spread too.
    ("Functional.layer_norm", "forward"): {
        "input.1": "input.2",
        "input.2": "input.3",
        "output.1": None,
        "output.2": None,
    },
    # Of a primitive, MindSpore's hook lists the gradients from the last argument to the first.
    ("Functional.layer_norm", "backward"): {"output.0": "output.2", "output.2": "output.0"},
    # PyTorch's backward hook sits on the last node of the graph only: NllLoss, the view after bmm, the one after addmm.
    ("Functional.cross_entropy", "backward"): {"output.0": None},
    ("Torch.matmul", "backward"): {"output.0": None},
    ("Functional.linear", "backward"): {"output.0": None, "output.1": None, "output.2": None},
}
CELLS = {"Dense": "Linear"}
PARAMETERS = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}

_API = re.compile(r"(?P<api>.+)\.(?P<call>\d+)\.(?P<direction>forward|backward)\.(?P<slot>.+)")
_CELL = re.compile(r"Cell\.(?P<path>.+)\.(?P<cls>\w+)\.(?P<rest>(?:forward|backward|parameters_grad)\.\d+\..+)")


def counterpart(name: str) -> str | None:
    """The PyTorch name of the row's counterpart; it need not exist. None where there is none by rule."""
    if cell := _CELL.fullmatch(name):
        cls, (head, _, last) = CELLS.get(cell["cls"], cell["cls"]), cell["rest"].rpartition(".")
        return f"Module.{cell['path']}.{cls}.{head}.{PARAMETERS.get(last, last)}"
    call = _API.fullmatch(name)
    if call is None or call["api"] not in APIS:
        return None
    api = APIS[call["api"]]
    slot = SLOTS.get((api, call["direction"]), {}).get(call["slot"], call["slot"])
    return None if slot is None else f"{api}.{call['call']}.{call['direction']}.{slot}"


def rows_of(lake: Lake, run: str) -> dict[str, dict[str, Any]]:
    """The rows of a run by name, in their order, with the tensor's file where one was saved."""
    query = """
        SELECT t.name, t.kind, t.value, t.shape, t.max, t.min, t.mean, t.norm,
            d.source || '/dump_tensor_data/' || t.data_name AS file
        FROM tensors AS t JOIN dumps AS d USING (run, step, rank)
        WHERE run = $run ORDER BY row
    """
    relation = lake.sql(query, {"run": run})
    columns = relation.columns
    return {row[0]: dict(zip(columns, row, strict=True)) for row in relation.fetchall()}


def is_same(target: dict[str, Any], golden: dict[str, Any]) -> bool:
    """Whether two rows hold the same: tensors by their elements, or by their statistics where one was not saved."""
    if target["kind"] != "tensor" or golden["kind"] != "tensor":
        return bool(target["kind"] == golden["kind"] and target["value"] == golden["value"])
    if target["shape"] != golden["shape"]:
        return False
    if target["file"] and golden["file"]:
        left, right = (open_tensor(read_tensor(row["file"])).astype(np.float64) for row in (target, golden))
    else:
        # of integers and truth values PyTorch records no mean and norm
        known = [key for key in ("max", "min", "mean", "norm") if golden[key] is not None]
        left, right = (np.array([row[key] for key in known], dtype=np.float64) for row in (target, golden))
    return agree(left, right)


def agree(left: NDArray[np.float64], right: NDArray[np.float64]) -> bool:
    """Whether two arrays of one shape are equal but for rounding."""
    scale = np.abs(right[np.isfinite(right)]).max(initial=0.0)
    if scale < ZERO:
        return bool(np.abs(left).max(initial=0.0) < ZERO)
    return bool(np.allclose(left, right, rtol=0.0, atol=TOLERANCE * scale))


def main(folder: str) -> None:
    """Write every list from the lake in `folder`; a pair whose contents differ ends it with an AssertionError."""
    with Lake(folder) as lake:
        for name, target_run, golden_run in LISTS:
            targets, goldens = rows_of(lake, target_run), rows_of(lake, golden_run)
            pairs = [(row, there) for row in targets if (there := counterpart(row)) in goldens]
            wrong = [pair for pair in pairs if not is_same(targets[pair[0]], goldens[pair[1]])]
            assert not wrong, wrong
            assert len({golden for _, golden in pairs}) == len(pairs)
            with (HERE / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([("target_name", "golden_name"), *pairs])
            print(f"{name}: {len(pairs)} pairs of {len(targets)} and {len(goldens)} rows")


if __name__ == "__main__":
    main(sys.argv[1])
