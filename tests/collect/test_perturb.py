"""A repeat of golden: the model's parameters are moved by a rounding, once, and nothing else is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakeprobe
from lakeprobe.collect.watching.perturbing import Float, Noise
from lakeprobe.errors import UsageError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402


class Model(nn.Module):
    """Tied, frozen, zero, half and strided parameters, a buffer, and a parameter of whole numbers."""

    def __init__(self, dtype: Any = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(500, 40, dtype=dtype)
        self.head = nn.Linear(40, 500, bias=False, dtype=dtype)
        self.head.weight = self.embed.weight
        self.norm = nn.BatchNorm1d(40, dtype=dtype)
        self.frozen = nn.Linear(40, 40, dtype=dtype).requires_grad_(False)
        self.strided = nn.Parameter(torch.randn(30, 20, dtype=dtype).t())
        self.whole = nn.Parameter(torch.arange(4), requires_grad=False)


def state(model: Any) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def perturbed(lake: Path, run: str, model: Any = None, **options: Any) -> dict[str, Any]:
    model = model or Model()
    with lakeprobe.collect(model, run=run, lake=lake, **({"perturb": 1e-7} | options)):
        return state(model)


def equal(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [name for name in one if torch.equal(one[name], other[name])]


def test_only_floating_point_parameters_move_and_frozen_ones_too(tmp_path: Path) -> None:
    model = Model()
    before = state(model)
    after = perturbed(tmp_path, "repeat", model)
    buffers = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert set(equal(before, after)) == {"whole", "norm.bias", *buffers}  # that bias is all zeros
    assert model.head.weight is model.embed.weight
    assert model.strided.stride() == (1, 20)


def test_the_same_seed_gives_the_same_bits_and_another_others(tmp_path: Path) -> None:
    first = perturbed(tmp_path, "a", perturb_seed=1)
    assert len(equal(first, perturbed(tmp_path, "b", perturb_seed=1))) == len(first)
    other = perturbed(tmp_path, "c", perturb_seed=2)
    assert "frozen.weight" not in equal(first, other)
    assert "norm.weight" not in equal(first, other)


def test_without_a_seed_the_name_of_the_run_is_one(tmp_path: Path) -> None:
    first, again = perturbed(tmp_path / "1", "a"), perturbed(tmp_path / "2", "a")
    assert len(equal(first, again)) == len(first)
    assert "frozen.weight" not in equal(first, perturbed(tmp_path / "3", "b"))


@pytest.mark.parametrize(
    ("dtype", "perturb", "size"),
    [
        (torch.float64, 1e-7, 1e-7),
        (torch.float32, 1e-5, 1e-5),
        # a rounding of float32 by chance adds at most half a spacing, in the root of the squares
        (torch.float32, 1e-7, 1.07e-7),
        # what was asked for would be nothing: half of eps, and the rounding
        (torch.bfloat16, 1e-7, 2**-8 * 1.12),
        (torch.float16, 1e-7, 2**-11 * 1.12),
    ],
)
def test_the_size_of_the_change_is_what_was_asked_for(tmp_path: Path, dtype: Any, perturb: float, size: float) -> None:
    model = Model(dtype)
    before = model.embed.weight.detach().clone().double()
    after = perturbed(tmp_path, "repeat", model, perturb=perturb)["embed.weight"]
    assert after.dtype == dtype
    change = (after.double() / before - 1)[before.abs() > 1e-3]
    assert abs(change.mean().item()) < 4 * size / len(change) ** 0.5
    assert change.std().item() == pytest.approx(size, rel=0.06)


def test_tied_parameters_move_once(tmp_path: Path) -> None:
    tied, alone = Model(), Model()
    alone.head = nn.Linear(40, 500)
    after = perturbed(tmp_path, "a", tied, perturb_seed=0)
    assert torch.equal(after["embed.weight"], perturbed(tmp_path, "b", alone, perturb_seed=0)["embed.weight"])
    listed = Model()
    with lakeprobe.collect([listed, listed.norm], run="c", lake=tmp_path, perturb=1e-7, perturb_seed=0):
        assert torch.equal(listed.norm.weight, after["norm.weight"])


def test_it_happens_once_however_often_collecting_starts(tmp_path: Path) -> None:
    model = Model()
    collector = lakeprobe.collect(model, run="repeat", lake=tmp_path, perturb=1e-7, step=[1])
    collector.start()  # step 0 is not recorded, but trained
    first = state(model)
    collector.stop()
    collector.step()
    collector.start()
    collector.close()
    assert len(equal(first, state(model))) == len(first)
    assert "frozen.weight" not in equal(first, state(Model()))


def test_random_numbers_of_torch_numpy_and_python_are_left_alone(tmp_path: Path) -> None:
    import random

    model = Model()
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    perturbed(tmp_path, "repeat", model)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before[1:]  # type: ignore[index]


def test_the_lake_says_that_a_run_is_perturbed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lakeprobe.commands.ls import ls

    for run, options in (("repeat", {"perturb": 1e-7, "perturb_seed": 5}), ("golden", {})):
        model = nn.Linear(2, 2)
        with lakeprobe.collect(model, run=run, lake=tmp_path, **options):
            model(torch.ones(1, 2))
    with lakeprobe.open(tmp_path, create=True) as lake:
        found = lake.sql(
            "SELECT run, notes, (head ->> '$.settings.perturb')::DOUBLE FROM dumps ORDER BY run"
        ).fetchall()
    note = "perturbed: each floating-point parameter was moved by 1e-07 of it before the run (seed 5)"
    assert found == [("golden", [], 0.0), ("repeat", [note], 1e-7)]
    ls(tmp_path)
    header, _, golden, repeat, *_ = (line.split() for line in capsys.readouterr().out.splitlines())
    assert "perturbed" in header
    assert "1e-07" in repeat
    assert "1e-07" not in golden


@pytest.mark.parametrize("size", [-1e-7, 1.0, float("nan")])
def test_a_size_that_is_none_is_refused(tmp_path: Path, size: float) -> None:
    with pytest.raises(UsageError, match="perturb should be a number above 0 and below 1"):
        lakeprobe.collect(nn.Linear(2, 2), run="repeat", lake=tmp_path, perturb=size)


def test_a_seed_without_a_size_or_below_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="perturb should be"):
        lakeprobe.collect(nn.Linear(2, 2), run="repeat", lake=tmp_path, perturb_seed=1)
    with pytest.raises(UsageError, match="perturb_seed should be a whole number from 0, not -1"):
        lakeprobe.collect(nn.Linear(2, 2), run="repeat", lake=tmp_path, perturb=1e-7, perturb_seed=-1)


def test_it_needs_a_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give collect\\(\\) or start\\(\\) the model"):
        lakeprobe.collect(run="repeat", lake=tmp_path, perturb=1e-7).start()


def test_numbers_at_the_ends_of_a_dtype_stay_in_it() -> None:
    numbers = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, -65504.0, 2.0**-24, 1.0])
    half = np.finfo(np.float16)
    noise = Noise("w", Float(float(half.eps), float(half.tiny), float(half.max)), perturb=0.1, seed=0)
    moved = noise.moved(np.tile(numbers, 1000)).reshape(1000, -1)
    assert np.array_equal(moved[:, :5], np.tile(numbers[:5], (1000, 1)), equal_nan=True)
    assert np.array_equal(np.signbit(moved[0, :2]), [False, True])
    with np.errstate(over="raise"):
        cast = moved[:, 5:].astype(np.float16)
    assert np.isfinite(cast).all()
    assert set(cast[:, 2].tolist()) <= {0.0, 2.0**-24, 2.0**-23}
