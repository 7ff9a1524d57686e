"""Ops with changed inputs: what is stable, unstable, or not the same twice; and that names of a dump reach only ops."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from lakeprobe import cli
from lakeprobe.checks.calls import Call, CannotRunError
from lakeprobe.errors import UsageError
from lakeprobe.session import Lake
from lakeprobe.tensors import changes

torch = pytest.importorskip("torch")
import lakeprobe  # noqa: E402
from lakeprobe.checks.pytorch import functions  # noqa: E402


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    from torch.nn import functional

    folder = tmp_path_factory.mktemp("perturb") / "lake"
    with lakeprobe.collect(None, run="run", lake=folder, task="tensor"):
        torch.manual_seed(0)
        x = (0.5 + torch.rand(8) / 2).requires_grad_()
        near = x.detach() - 1.5e-4
        y = x - near  # a difference of nearly equal numbers
        functional.softmax(x + x, dim=-1).sum().backward()
        assert y.numel() == 8
    return folder


def test_what_cancels_is_unstable_and_what_draws_is_random(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{Path(lakeprobe.__file__).parents[1]}")
    asked = ["perturb", "run", "--lake", str(place), "--import", "planted", "-o", str(tmp_path / "free.csv")]
    with pytest.raises(SystemExit) as ended:
        cli.app(asked)
    assert ended.value.code == 1
    said = capsys.readouterr().out
    with Lake(place) as lake:
        found = {row[:3] for row in lake.perturbation("run").select("op, mode, status").fetchall()}
        counts = dict(lake.sql("SELECT status, count(*) FROM perturbations GROUP BY ALL").fetchall())
        [(condition,)] = lake.sql(
            "SELECT max(condition) FROM perturbations WHERE api = '__sub__' AND mode = 'bit_noise'"
        ).fetchall()
    assert ("Tensor.__sub__.1.forward", "bit_noise", "unstable") in found
    assert ("Functional.softmax.0.forward", "no_change", "random") in found
    assert not any("__add__" in op for op, _, _ in found)
    assert counts["stable"] > 5
    assert condition > 1000
    assert "Tensor.__sub__.1.forward" in said
    with (tmp_path / "free.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["api_name"], row["pert_mode"], row["stage"]) for row in rows} >= {
        ("Tensor.__sub__.1", "bit_noise", "forward"),
        ("Functional.softmax.0", "no_change", "forward"),
    }


def test_nothing_found_is_said_in_a_sentence(place, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(Path(lakeprobe.__file__).parents[1]))
    asked = ["perturb", "run", "__add__", "--mode", "no_change", "--name", "calm", "--lake", str(place), "--jobs", "1"]
    with pytest.raises(SystemExit) as ended:
        cli.app(asked)
    assert ended.value.code == 0
    assert capsys.readouterr().out == "No op that ran is random, is unstable, or differs from the CPU.\n"


def test_changes():
    x = np.array([1.0, -2.0, 0.0, 1e-5], np.float32)
    assert changes.add_noise(x.astype(np.float64))[0] == 1 + 1e-16
    assert changes.add_noise(x.astype(np.float16))[0] == 1  # too little for the dtype
    assert changes.add_noise(x)[1] == np.float32(-2.0 + 1e-8)
    assert changes.change_value(x).tolist() == x[[3, 1, 2, 0]].tolist()
    flipped = changes.bit_noise(x)
    assert flipped[2] == 0
    assert (flipped.view(np.int32)[:2] ^ x.view(np.int32)[:2]).tolist() == [1, 1]
    assert changes.improve_precision(x.astype(np.float16)).dtype == np.float32


def test_the_ratio_is_that_of_all_elements():
    plain = np.array([1.0, 2.0, 4.0, 8.0], np.float32)
    found, flips = changes.ratio(plain * np.array([1, 1.5, 1, 1], np.float32), plain, backward=False)
    assert (found, flips) == (1.5, False)
    assert changes.ratio(-plain, plain, backward=True)[1]
    # elements below the root of the noise count as that
    assert changes.ratio(np.array([3e-5], np.float32), np.array([1e-6], np.float32), backward=False)[0] == 1.0


def test_an_unknown_mode_is_refused(place):
    with Lake(place) as lake, pytest.raises(UsageError, match="there is no mode shake"):
        lake.perturb("run", modes=["shake"])


@pytest.mark.parametrize(
    ("api_type", "api"),
    [
        ("Torch", "load"), ("Torch", "save"), ("Torch", "hub.load"), ("Torch", "compile"),
        ("Torch", "ops.load_library"),
        ("Torch", "_C._jit_set"), ("Tensor", "__reduce_ex__"), ("Tensor", "__class__"), ("Tensor", "numpy"),
        ("Functional", "warnings.warn"), ("Functional", "__builtins__"), ("VF", "__import__"), ("Module", "os"),
        ("Torch", "load('x')"), ("Torch", ""), ("Distributed", "all_reduce"), ("Aten", "__class__.mro"),
    ],
)  # fmt: skip
def test_a_name_in_a_dump_reaches_nothing_but_ops(api_type, api):
    with pytest.raises(CannotRunError):
        functions.find(api_type, api)


@pytest.mark.parametrize(
    ("api_type", "api"),
    [("Torch", "matmul"), ("Torch", "svd"), ("Torch", "vector_norm"), ("Tensor", "__rsub__"),
     ("Functional", "max_pool2d"), ("VF", "lstm"), ("Aten", "addmm"), ("NPU", "npu_rms_norm"),
     ("Torch", "linalg.norm")],
)  # fmt: skip
def test_ops_are_found(api_type, api):
    assert callable(functions.find(api_type, api))


def test_a_call_of_no_leaves_has_no_inputs():
    assert Call("key", "Torch", "relu", []).of("input") == []
