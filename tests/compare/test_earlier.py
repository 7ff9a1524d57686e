"""Steps that follow one in which two runs were equal to the last bit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import lakeprobe
from lakeprobe.compare.earlier import look_back
from lakeprobe.compare.plan import Pair
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout, staging
from lakeprobe.lake.layout import UnitKey

DUMP = Path(__file__).parents[1] / "data" / "dumps" / "ranks" / "golden" / "step0"
PAIRS = [(UnitKey("target", step, rank), UnitKey("golden", step, rank)) for step in (0, 1, 2) for rank in (0, 1)]


def off_by_one_bit(dump: Path) -> None:
    """The last digit of one norm of float32."""
    content = json.loads((dump / "dump.json").read_text())
    leaf = next(iter(content["data"].values()))["input_args"][0]
    leaf["Norm"] *= 1 + 2**-23
    (dump / "dump.json").write_text(json.dumps(content))


def made(home: Path, change: Callable[[Path], None] = lambda target: None) -> Path:
    """A lake with two runs of three equal steps, two ranks each, after a change of the target's dump."""
    for side in ("target", "golden"):
        for step in (0, 1, 2):
            for rank in (0, 1):
                shutil.copytree(DUMP / f"rank{rank}", home / side / f"step{step}" / f"rank{rank}")
    change(home / "target")
    for side in ("target", "golden"):
        ingest(home / side, lake=home / "lake", run=side)
    return home / "lake"


def found(lake: Path, pairs: list[Pair] = PAIRS) -> set[tuple[int, int]]:
    """The steps and ranks of the target that follow equal ones."""
    with staging.reading(lake) as snapshot:
        return {(target.step, target.rank) for target, _ in look_back(snapshot, pairs).equal}


def test_all_but_the_first_step_of_equal_runs(tmp_path: Path) -> None:
    lake = made(tmp_path)
    assert found(lake) == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert found(lake, PAIRS[-1:]) == {(2, 1)}
    with lakeprobe.open(lake) as opened:
        opened.compact("target")
    assert found(lake) == {(1, 0), (1, 1), (2, 0), (2, 1)}


@pytest.mark.parametrize(
    "change",
    [
        lambda target: off_by_one_bit(target / "step0" / "rank1"),
        lambda target: shutil.rmtree(target / "step0" / "rank1"),
    ],
    ids=["a bit of another rank", "a rank less"],
)
def test_a_step_counts_with_all_of_its_ranks(tmp_path: Path, change: Callable[[Path], None]) -> None:
    assert found(made(tmp_path, change)) == {(2, 0), (2, 1)}


def test_steps_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    lake = made(tmp_path, lambda target: shutil.rmtree(target / "step1"))
    assert found(lake) == {(2, 0), (2, 1)} | {(1, 0), (1, 1)}
    assert found(lake, PAIRS[:2]) == set()


def test_what_cannot_be_read_counts_as_different(tmp_path: Path) -> None:
    lake = made(tmp_path)
    (layout.unit_folder(lake, UnitKey("golden", 1, 0)) / "tensors.parquet").write_bytes(b"no table")
    assert found(lake) == {(1, 0), (1, 1)}


def trained(
    home: Path,
    side: str,
    rates: tuple[float, ...],
    has_modules: bool = True,
    rounding: float = 0.0,
    apart: int = 0,
    parameters: int = 6,
) -> None:
    """Dumps of a run whose optimizer goes on by `rates` after each step. Gradients are the same, but for rounding.

    `apart`: the seed of as much noise in the gradients; 0 for none.
    """
    draw, noise = np.random.default_rng(1), np.random.default_rng(2)
    own = np.random.default_rng(apart)
    weights = draw.normal(size=(parameters, 16))
    for step, rate in enumerate(rates):
        ops = {}
        for number, weight in enumerate(weights):
            hidden = tensor(draw.normal(size=16), False)
            inputs = [hidden] if has_modules else [hidden, tensor(weight, True), tensor(weight * 2, True)]
            ops[f"Functional.double.{number}.forward"] = {"input_args": [], "output": [tensor(weight * 2, True)]}
            body = {"input_args": inputs, "input_kwargs": {}, "output": [tensor(weight * 3 * (1 + rounding), True)]}
            name = f"Module.{number}.Linear.forward.0" if has_modules else f"Functional.linear.{number}.forward"
            ops[name] = body | ({"parameters": {"weight": tensor(weight, True)}} if has_modules else {})
        folder = home / side / f"step{step}" / "rank0"
        folder.mkdir(parents=True)
        head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
        (folder / "dump.json").write_text(json.dumps({**head, "data": ops}))
        gradients = draw.normal(size=weights.shape) * (1 + 2e4 * rounding * noise.normal(size=weights.shape))
        weights = weights - rate * (gradients + bool(apart) * own.normal(size=weights.shape))


def tensor(values: NDArray[np.float64], is_trained: bool) -> dict[str, object]:
    numbers = {"Max": values.max(), "Min": values.min(), "Mean": values.mean(), "Norm": np.linalg.norm(values)}
    rounded = {name: float(np.float32(value)) for name, value in numbers.items()}
    kind = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [len(values)]}
    return {**kind, **rounded, "requires_grad": is_trained}


def moved_otherwise(lake: Path, steps: int = 3) -> set[int]:
    pairs = [(UnitKey("target", step, 0), UnitKey("golden", step, 0)) for step in range(steps)]
    with staging.reading(lake) as snapshot:
        return {target.step for target, _ in look_back(snapshot, pairs).other_updates}


@pytest.mark.parametrize("has_modules", [True, False], ids=["modules", "ops"])
@pytest.mark.parametrize(
    ("rates", "steps"),
    [((0.01, 0.01, 0.01), set()), ((0.02, 0.01, 0.01), {1}), ((0.01, 0.011, 0.01), {2}), ((0.01, 0.0, 0.01), {2})],
    ids=["the same", "the first", "a tenth further", "none"],
)
def test_steps_from_which_the_optimizer_went_otherwise(
    tmp_path: Path, has_modules: bool, rates: tuple[float, ...], steps: set[int]
) -> None:
    trained(tmp_path, "golden", (0.01, 0.01, 0.01), has_modules)
    trained(tmp_path, "target", rates, has_modules, rounding=1e-6)
    for side in ("target", "golden"):
        ingest(tmp_path / side, lake=tmp_path / "lake", run=side)
    assert moved_otherwise(tmp_path / "lake") == steps
    with lakeprobe.open(tmp_path / "lake") as opened:
        opened.compact("target")
    assert moved_otherwise(tmp_path / "lake") == steps


def test_ways_that_have_little_to_do_with_each_other_say_nothing(tmp_path: Path) -> None:
    """As between steps far apart: a quotient of ways that share a half is a half in the middle, whichever is above."""
    for number, side in enumerate(("golden", "target")):
        trained(tmp_path, side, (0.01, 0.01), rounding=1e-6 * number, apart=number + 8, parameters=200)
        ingest(tmp_path / side, lake=tmp_path / "lake", run=side)
    assert moved_otherwise(tmp_path / "lake", 2) == set()


def test_a_step_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    trained(tmp_path, "golden", (0.01, 0.01, 0.01, 0.01))
    trained(tmp_path, "target", (0.02, 0.01, 0.02, 0.01), rounding=1e-6)
    for side in ("target", "golden"):
        ingest(tmp_path / side, lake=tmp_path / "lake", run=side)
    assert moved_otherwise(tmp_path / "lake", 4) == {1, 3}
    (layout.unit_folder(tmp_path / "lake", UnitKey("golden", 0, 0)) / "tensors.parquet").write_bytes(b"no table")
    assert moved_otherwise(tmp_path / "lake", 4) == {3}
