"""Drift over steps, against plain Python over the dump.json files, on small made runs and on real ones."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from real_dumps import DUMPS

import lakeprobe
from lakeprobe.analysis import drift as module
from lakeprobe.analysis.drift import METRICS, Drift, drift
from lakeprobe.commands import drift as command
from lakeprobe.errors import UsageError
from lakeprobe.session import Lake

STATISTICS = {"max": "Max", "min": "Min", "mean": "Mean", "norm": "Norm"}
LOSS = "Functional.mse_loss.0.forward.output.0"
GRADIENT = "Module.layers.1.fc.Linear.parameters_grad.0.weight"

Change = Callable[[int, int, str, dict[str, Any]], None]
"""Changes an entry of a dump: step, rank, op, and the entry."""


# runs made by hand


def tensor(norm: float, shape: tuple[int, ...] = (4, 4), dtype: str = "torch.float32") -> dict[str, Any]:
    numbers = {"Max": norm / 2, "Min": -norm / 3, "Mean": norm / 100, "Norm": norm}
    return {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape), **numbers}


def loss_of(step: int, rank: int) -> dict[str, Any]:
    loss = 3 - 0.1 * step + rank
    return tensor(loss, ()) | {"Max": loss, "Min": loss, "Mean": loss}


def entries(step: int, rank: int) -> dict[str, Any]:
    """The ops of one step of a model with two linear layers, whose gradients come out of its backward ops."""
    data: dict[str, Any] = {}
    for layer in range(2):
        data[f"Module.layers.{layer}.fc.Linear.forward.0"] = {
            "input_args": [tensor(2 + layer)],
            "input_kwargs": {},
            "output": [tensor(3 + layer + 0.1 * step)],
            "parameters": {"weight": tensor(5 + layer - 0.01 * step)},
        }
    data["Torch.mean.0.forward"] = {"input_args": [tensor(4.0)], "output": [tensor(0.125, ())]}
    data["Functional.mse_loss.0.forward"] = {"input_args": [tensor(4.0)], "output": [loss_of(step, rank)]}
    for layer in (1, 0):
        data[f"Module.layers.{layer}.fc.Linear.backward.0"] = {
            "input": [tensor(0.125), tensor(0.5)],
            "output": [tensor(0.25)],
        }
    for layer in (1, 0):
        weight = tensor(0.75 + layer + 0.1 * step + rank)
        data[f"Module.layers.{layer}.fc.Linear.parameters_grad.0"] = {"weight": [weight]}
    data["Torch._foreach_norm.0.forward"] = {"input_args": [tensor(1.0)], "output": [tensor(0.5, ())]}
    return data


def unchanged(step: int, rank: int, op: str, entry: dict[str, Any]) -> None:
    pass


def write_run(root: Path, steps: range | list[int], ranks: list[int], change: Change = unchanged) -> Path:
    for step in steps:
        for rank in ranks:
            data = entries(step, rank)
            for op, entry in list(data.items()):
                change(step, rank, op, entry)
                if not entry:
                    del data[op]
            folder = root / f"step{step}" / f"rank{rank}"
            folder.mkdir(parents=True)
            head = {"task": "statistics", "level": "mix", "framework": "pytorch"}
            (folder / "dump.json").write_text(json.dumps({**head, "data": data}, indent=1))
    return root


def scaled(factor: float, op: str, from_step: int = 0, only_rank: int | None = None) -> Change:
    """A change that multiplies all statistics of the outputs and gradients of `op` from a step on."""

    def change(step: int, rank: int, name: str, entry: dict[str, Any]) -> None:
        if name != op or step < from_step or only_rank not in (None, rank):
            return
        for leaf in entry.get("output", entry.get("weight")):
            leaf |= {key: leaf[key] * factor for key in STATISTICS.values()}

    return change


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakeprobe.open(tmp_path / "lake", create=True) as opened:
        yield opened


def ingest(lake: Lake, name: str, steps: range | list[int], ranks: list[int], change: Change = unchanged) -> Path:
    root = write_run(lake.path.parent / "dumps" / name, steps, ranks, change)
    lake.ingest(root, run=name)
    return root


def follow(lake: Lake, golden: str, *runs: str, **options: Any) -> Drift:
    return drift(lake._connection, golden, runs, **options)


def table(relation: Any) -> list[dict[str, Any]]:
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


# the oracle


def dumps_of(root: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """By step and rank, the ops of every dump.json under `root`."""
    found = {}
    for path in root.rglob("dump.json"):
        step = re.search(r"step(\d+)", str(path.relative_to(root)))
        rank = re.search(r"rank(\d+)", str(path.relative_to(root)))
        assert step
        found[int(step[1]), int(rank[1]) if rank else 0] = json.loads(path.read_text())["data"]
    return found


def leaves(op: str, entry: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The tensors and float arguments of an op as (name, role, leaf)."""
    roles = {"input_args": "input", "input_kwargs": "input", "input": "input", "output": "output"}
    for section, value in entry.items():
        if section in roles or section == "parameters":
            role = roles.get(section, "parameters")
            yield from ((f"{op}.{role}.{path}", role, leaf) for path, leaf in walk(value))
        elif "parameters_grad" in op:
            # a gradient is a list of one tensor
            yield from ((f"{op}.{section}", "parameters_grad", leaf) for _, leaf in walk(value))


def walk(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        if value["type"] == "torch.Tensor":
            yield ".".join(path), value
        elif value["type"] == "float":
            yield ".".join(path), {"shape": [], **dict.fromkeys(STATISTICS.values(), value["value"])}
        return
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from walk(part, (*path, str(key)))


def finite(*numbers: float | None) -> float:
    return max([abs(number) for number in numbers if number is not None and math.isfinite(number)], default=0.0)


def incoming(op: str, data: dict[str, Any]) -> float:
    backward = op.rpartition(".parameters_grad.")[0] + ".backward."
    inputs = [leaf for name, entry in data.items() if name.startswith(backward) for _, leaf in walk(entry["input"])]
    return finite(*(leaf.get("Norm") for leaf in inputs))


def distance(metric: str, ours: dict[str, Any], theirs: dict[str, Any], comes_in: float) -> float | None:
    """How far one statistic is from golden's, as a share of golden's tensor."""
    value, golden = ours.get(STATISTICS[metric]), theirs.get(STATISTICS[metric])
    if value is None or golden is None:
        return None
    if value == golden or (math.isnan(value) and math.isnan(golden)):
        return 0.0
    magnitude = max(comes_in, finite(theirs["Max"], theirs["Min"]))
    norm = max(comes_in, finite(theirs.get("Norm")))
    root = math.sqrt(max(1, math.prod(theirs["shape"])))
    mean = magnitude if theirs.get("Norm") is None else norm / root
    scale = {"norm": norm, "mean": mean, "max": magnitude, "min": magnitude}[metric]
    if not (math.isfinite(value) and math.isfinite(golden)) or scale == 0:
        return math.inf
    return abs(value - golden) / scale


def expected(run: Path, golden: Path, metric: str) -> dict[tuple[str, int, int], tuple[Any, ...]]:
    """By name, step and rank: the value, golden's value and the distance, of every tensor that both runs have."""
    ours, theirs = dumps_of(run), dumps_of(golden)
    found = {}
    for (step, rank), data in theirs.items():
        here = {name: leaf for op, entry in ours[step, rank].items() for name, _, leaf in leaves(op, entry)}
        for op, entry in data.items():
            for name, role, leaf in leaves(op, entry):
                comes_in = incoming(op, data) if role == "parameters_grad" else 0.0
                if name not in here or leaf.get("Max") is None:
                    continue
                if metric == "error":
                    every = [distance(one, here[name], leaf, comes_in) for one in STATISTICS]
                    far = max(one for one in every if one is not None)
                    found[name, step, rank] = (far, 0.0, far)
                elif leaf.get(STATISTICS[metric]) is not None:
                    pair = (float(side[STATISTICS[metric]]) for side in (here[name], leaf))
                    found[name, step, rank] = (*pair, distance(metric, here[name], leaf, comes_in))
    return found


def check_against_oracle(found: Drift, roots: dict[str, Path], least: int, begin: str = "") -> None:
    """Every value of `found` is the oracle's, but for the derived row; and nothing that begins so is left out."""
    steps = [row for row in table(found.steps) if row["role"] != "parameters_grad together"]
    for run in found.runs:
        told = {
            (row["name"], row["golden_step"], row["golden_rank"]): (row["value"], row["golden"], row["distance"])
            for row in steps
            if row["run"] == run and not row["state"].startswith("missing")
        }
        whole = expected(roots[run], roots[found.golden], found.metric)
        wanted = {key: values for key, values in whole.items() if key[0].startswith(begin)}
        assert told.keys() == wanted.keys()
        assert len(told) >= least
        for key, values in wanted.items():
            assert told[key] == pytest.approx(values, rel=1e-12, nan_ok=True), key


# made runs


@pytest.mark.sampled
@pytest.mark.parametrize("metric", METRICS)
def test_three_runs_against_one_golden(lake: Lake, metric: str) -> None:
    layer = "Module.layers.0.fc.Linear.forward.0"
    roots = {
        "golden": ingest(lake, "golden", range(4), [0, 1]),
        "a": ingest(lake, "a", range(4), [0, 1], scaled(1.5, layer, 2)),
        "b": ingest(lake, "b", range(4), [0, 1], scaled(0.25, GRADIENT.removesuffix(".weight"), 1, only_rank=1)),
        "c": ingest(lake, "c", range(4), [0, 1], scaled(math.nan, "Functional.mse_loss.0.forward", 3)),
    }
    found = follow(lake, "golden", "a", "b", "c", names=["Module", "Functional", "Torch"], metric=metric)
    check_against_oracle(found, roots, 4 * 2 * 12)
    assert [(row["run"], row["leaves_at"]) for row in table(found.by_run)] == [("a", 2), ("b", 1), ("c", 3)]


@pytest.mark.parametrize("planted_at", [0, 1, 3])
def test_a_run_that_leaves_is_told_its_step(lake: Lake, planted_at: int) -> None:
    ingest(lake, "golden", range(4), [0, 1])
    ingest(lake, "run", range(4), [0, 1], scaled(1.25, GRADIENT.removesuffix(".weight"), planted_at, only_rank=1))
    found = follow(lake, "golden", "run")
    (run,) = table(found.by_run)
    assert (run["leaves_at"], run["rank"], run["name"], run["rows_away"]) == (planted_at, 1, GRADIENT, 2)
    assert run["distance"] == pytest.approx(0.25)
    rows = {(row["name"], row["rank"]): row for row in table(found.rows)}
    assert {key for key, row in rows.items() if row["leaves_at"] is not None} == {
        (GRADIENT, 1),
        ("parameter gradients together", 1),
    }
    planted = rows[GRADIENT, 1]
    assert (planted["steps"], planted["steps_away"], planted["steps_missing"]) == (4, 4 - planted_at, 0)
    (first, *_) = table(found.modules)
    assert (first["module"], first["leaves_at"], first["worst_row"]) == ("layers.1.fc", planted_at, GRADIENT)


def test_a_run_that_comes_back_is_counted(lake: Lake) -> None:
    def only_at_one(step: int, rank: int, op: str, entry: dict[str, Any]) -> None:
        if step == 1:
            scaled(2.0, "Functional.mse_loss.0.forward")(step, rank, op, entry)

    ingest(lake, "golden", range(3), [0])
    ingest(lake, "run", range(3), [0], only_at_one)
    row = next(row for row in table(follow(lake, "golden", "run").rows) if row["role"] == "loss")
    assert (row["leaves_at"], row["steps_away"], row["worst"], row["worst_at"]) == (1, 1, 1.0, 1)


def test_equal_runs_never_leave(lake: Lake) -> None:
    ingest(lake, "golden", range(3), [0, 1], scaled(math.nan, "Functional.mse_loss.0.forward", 2))
    ingest(lake, "again", range(3), [0, 1], scaled(math.nan, "Functional.mse_loss.0.forward", 2))
    for metric in METRICS:
        found = follow(lake, "golden", "again", metric=metric, threshold=0)
        assert {row["state"] for row in table(found.steps)} == {"equal"}
        assert table(found.by_run)[0]["leaves_at"] is None
        assert table(found.by_run)[0]["worst"] == 0


def test_float_noise_is_no_leaving_whatever_the_threshold(lake: Lake) -> None:
    ingest(lake, "golden", range(2), [0])
    ingest(lake, "close", range(2), [0], scaled(1 + 8 * 2.0**-23, "Functional.mse_loss.0.forward"))
    ingest(lake, "near", range(2), [0], scaled(1 + 32 * 2.0**-23, "Functional.mse_loss.0.forward"))
    found = follow(lake, "golden", "close", "near", names=[LOSS], threshold=0)
    assert [(row["run"], row["leaves_at"]) for row in table(found.by_run)] == [("close", None), ("near", 0)]
    found = follow(lake, "golden", "close", "near", names=[LOSS])
    assert [(row["run"], row["state"]) for row in table(found.steps)] == [
        ("close", "noise"),
        ("close", "noise"),
        ("near", "near"),
        ("near", "near"),
    ]


def test_what_repeats_of_golden_differ_by_is_noise(lake: Lake) -> None:
    op = GRADIENT.removesuffix(".weight")
    ingest(lake, "golden", range(3), [0])
    ingest(lake, "repeat", range(3), [0], scaled(1.01, op))
    ingest(lake, "chip", range(3), [0], scaled(1.02, op))
    ingest(lake, "broken", range(3), [0], scaled(1.2, op, from_step=1))
    lake.measure_noise("golden", "repeat", name="repeats")
    leaves = {}
    for noise in (None, "repeats"):
        found = follow(lake, "golden", "chip", "broken", names=[GRADIENT], noise=noise)
        leaves[noise] = [(row["run"], row["leaves_at"]) for row in table(found.by_run)]
    assert leaves == {None: [("chip", 0), ("broken", 1)], "repeats": [("chip", None), ("broken", 1)]}
    with pytest.raises(UsageError, match="has no noise other"):
        follow(lake, "golden", "chip", noise="other")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_inf_leave(lake: Lake, value: float) -> None:
    ingest(lake, "golden", range(3), [0])
    ingest(lake, "run", range(3), [0], scaled(value, GRADIENT.removesuffix(".weight"), 1))
    for metric in METRICS:
        found = follow(lake, "golden", "run", names=[GRADIENT], metric=metric, threshold=1e6)
        (run,) = table(found.by_run)
        assert (run["leaves_at"], run["distance"]) == (1, math.inf)


def test_a_gradient_of_mere_rounding_is_held_against_what_comes_in(lake: Lake) -> None:
    """The gradient of a key projection's bias is 0 but for rounding: twice as large, it still means nothing."""

    def tiny(factor: float) -> Change:
        def change(step: int, rank: int, op: str, entry: dict[str, Any]) -> None:
            if "parameters_grad" in op:
                entry["bias"] = [tensor(1e-10 * factor, (4,))]

        return change

    ingest(lake, "golden", range(2), [0], tiny(1))
    ingest(lake, "run", range(2), [0], tiny(2))
    found = follow(lake, "golden", "run", names=["layers.0.fc"], threshold=0)
    bias = next(row for row in table(found.rows) if row["name"].endswith("parameters_grad.0.bias"))
    assert bias["leaves_at"] is None
    assert bias["worst"] == pytest.approx(1e-10 / 0.5)


def test_usual_rows_are_gradients_their_norm_and_the_loss(lake: Lake) -> None:
    ingest(lake, "golden", range(2), [0, 1])
    ingest(lake, "run", range(2), [0, 1])
    steps = table(follow(lake, "golden", "run").steps)
    assert {row["name"]: row["role"] for row in steps} == {
        LOSS: "loss",
        "parameter gradients together": "parameters_grad together",
        **{f"Module.layers.{layer}.fc.Linear.parameters_grad.0.weight": "parameters_grad" for layer in range(2)},
    }
    together = [row for row in steps if row["role"] == "parameters_grad together"]
    for row in together:
        offset = 0.1 * row["step"] + row["rank"]
        assert row["value"] == pytest.approx(math.hypot(0.75 + offset, 1.75 + offset))
    assert len(together) == 4


# names


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        ("Functional.mse_loss.0.forward", {"input.0", "output.0"}),
        ("Functional.mse_loss", {"input.0", "output.0"}),
        ("Functional.mse_l", {"input.0", "output.0"}),
        (LOSS, {"output.0"}),
        ("Functional.mse_loss.0.forward.output", {"output.0"}),
        ("layers.1.fc", {"forward.0.input.0", "output.0", "parameters.weight", "backward.0.input.1", "grad.0.weight"}),
        ("layers.1", {"forward.0.input.0", "output.0", "parameters.weight", "backward.0.input.1", "grad.0.weight"}),
    ],
)
def test_names(lake: Lake, asked: str, ends: set[str]) -> None:
    ingest(lake, "golden", [0], [0])
    ingest(lake, "run", [0], [0])
    names = {row["name"] for row in table(follow(lake, "golden", "run", names=asked).rows)}
    assert all(("layers.1." if "layers" in asked else "mse_loss") in name for name in names)
    for end in ends:
        assert any(name.endswith(end) for name in names), (end, names)
    if "layers" not in asked:
        assert len(names) == len(ends)


def test_a_layer_is_not_its_longer_namesake(lake: Lake) -> None:
    root = write_run(lake.path.parent / "dumps" / "golden", [0], [0])
    path = next(root.rglob("dump.json"))
    path.write_text(path.read_text().replace("layers.0.", "layers.10."))
    lake.ingest(root, run="golden")
    lake.ingest(root, run="run")
    for name in ("layers.1", "Module.layers.1"):
        rows = table(follow(lake, "golden", "run", names=[name]).rows)
        assert rows
        assert not [row["name"] for row in rows if "layers.10." in row["name"]]


def test_an_unknown_name_is_told_what_is_close(lake: Lake) -> None:
    ingest(lake, "golden", [0], [0])
    ingest(lake, "run", [0], [0])
    with pytest.raises(UsageError, match=r"layers\.1\.fcc.*similar names are.*layers\.1\.fc"):
        follow(lake, "golden", "run", names=["layers.0.fc", "layers.1.fcc"])
    with pytest.raises(UsageError, match=r"similar names are Functional\.mse_loss\.0\.forward"):
        follow(lake, "golden", "run", names=["functional.mseloss.0.forward"])


# what is missing


def test_missing_steps_and_ranks_are_named(lake: Lake) -> None:
    ingest(lake, "golden", range(3), [0, 1])
    ingest(lake, "short", [0, 1], [0, 1])
    ingest(lake, "one_rank", range(4), [0])
    found = follow(lake, "golden", "short", "one_rank", names=[LOSS])
    assert found.missing.fetchall() == [
        ("short", "run", 2, [0, 1]),
        ("one_rank", "golden", 3, [0]),
        ("one_rank", "run", 0, [1]),
        ("one_rank", "run", 1, [1]),
        ("one_rank", "run", 2, [1]),
    ]
    assert [(row["units"], row["units_missing"]) for row in table(found.by_run)] == [(4, 2), (3, 4)]
    states = {(row["run"], row["golden_step"], row["golden_rank"]): row["state"] for row in table(found.steps)}
    assert states["short", 2, 1] == "missing in run"
    assert states["one_rank", 1, 1] == "missing in run"
    assert states["one_rank", None, None] == "missing in golden"
    assert {row["leaves_at"] for row in table(found.rows)} == {None}


def test_a_missing_row_is_counted_and_no_leaving(lake: Lake) -> None:
    def without(step: int, rank: int, op: str, entry: dict[str, Any]) -> None:
        if step == 1 and op == "Functional.mse_loss.0.forward":
            entry.clear()

    ingest(lake, "golden", range(3), [0])
    ingest(lake, "run", range(3), [0], without)
    (row,) = table(follow(lake, "golden", "run", names=[LOSS]).rows)
    assert (row["steps"], row["steps_missing"], row["leaves_at"]) == (2, 1, None)
    (row,) = table(follow(lake, "run", "golden", names=[LOSS]).rows)
    assert (row["steps"], row["steps_missing"], row["leaves_at"]) == (2, 1, None)


def test_other_numbers_pair_by_place(lake: Lake) -> None:
    ingest(lake, "golden", [0, 1, 2], [0, 1])
    ingest(lake, "later", [100, 110, 120], [8, 9])
    steps = table(follow(lake, "golden", "later", names=["Module.layers.0.fc.Linear.forward.0.input.0"]).steps)
    pairs = {(row["step"], row["golden_step"], row["rank"], row["golden_rank"]) for row in steps}
    assert pairs == {(100 + 10 * step, step, 8 + rank, rank) for step in range(3) for rank in range(2)}
    assert {row["state"] for row in steps} == {"equal"}


def test_ranks_are_goldens(lake: Lake) -> None:
    ingest(lake, "golden", [0], [0, 1, 2])
    ingest(lake, "later", [0], [8, 9, 10])
    steps = table(follow(lake, "golden", "later", ranks=[2, 0]).steps)
    assert {(row["golden_rank"], row["rank"]) for row in steps} == {(0, 8), (2, 10)}


def test_steps_are_goldens(lake: Lake) -> None:
    ingest(lake, "golden", [0, 1, 2], [0, 1])
    ingest(lake, "later", [100, 110, 120], [8, 9], scaled(2.0, "Functional.mse_loss.0.forward"))
    everything = table(follow(lake, "golden", "later").steps)
    found = follow(lake, "golden", "later", steps=[2, 0], ranks=[1])
    assert table(found.steps) == [row for row in everything if row["golden_step"] != 1 and row["golden_rank"] == 1]
    assert found.missing.fetchall() == []


# bad input


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ((), {}, "give a run to compare with golden"),
        (("golden",), {}, "run golden is given twice"),
        (("run", "run"), {}, "run run is given twice"),
        (("nun",), {}, "the lake has no run nun; it has empty, golden, run, strange"),
        (("run",), {"metric": "median"}, "no metric median; take one of norm, mean"),
        (("run",), {"ranks": [7]}, "golden has no rank 7; it has 0"),
        (("run",), {"steps": [0, 3]}, "golden has no step 3; it has 0"),
        (("run",), {"threshold": -1.0}, "threshold -1.0 is not a share"),
        (("run",), {"threshold": math.nan}, "threshold nan is not a share"),
        (("strange",), {}, "strange and golden share no step and rank"),
        (("empty",), {"names": ["Torch.empty"]}, "none of the rows asked for has a norm"),
    ],
)
def test_bad_input(lake: Lake, runs: tuple[str, ...], options: dict[str, Any], message: str) -> None:
    ingest(lake, "golden", [0], [0])
    ingest(lake, "run", [0], [0])
    ingest(lake, "strange", [4, 5], [0])
    root = write_run(lake.path.parent / "dumps" / "empty", [0], [0])
    path = next(root.rglob("dump.json"))
    data = {"Torch.empty.0.forward": {"input_args": [{"type": "int", "value": 3}], "output": None}}
    path.write_text(json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "data": data}))
    lake.ingest(root, run="empty")
    with pytest.raises(UsageError, match=re.escape(message)):
        follow(lake, "golden", *runs, **options)


def test_nothing_usual(lake: Lake) -> None:
    def alone(step: int, rank: int, op: str, entry: dict[str, Any]) -> None:
        if "layers.0.fc.Linear.forward" not in op:
            entry.clear()

    ingest(lake, "golden", [0], [0], alone)
    ingest(lake, "run", [0], [0], alone)
    with pytest.raises(UsageError, match="golden has neither parameter gradients nor a loss; name ops"):
        follow(lake, "golden", "run")


def test_the_command_offers_what_there_is() -> None:
    assert [metric.value for metric in command.Metric] == list(METRICS)
    assert inspect.signature(command.drift).parameters["threshold"].default == module.THRESHOLD


# digests


def test_digests_are_equal_or_as_far_as_can_be(lake: Lake) -> None:
    def digests(changed_at: int) -> Change:
        def change(step: int, rank: int, op: str, entry: dict[str, Any]) -> None:
            entry.pop("parameters", None)
            for leaf in [leaf for section in entry.values() for _, leaf in walk(section)]:
                leaf |= {"md5": f"{step + 16:08x}" if step < changed_at else "deadbeef"}
                leaf |= dict.fromkeys(STATISTICS.values())

        return change

    ingest(lake, "golden", range(3), [0], digests(9))
    ingest(lake, "run", range(3), [0], digests(2))
    found = follow(lake, "golden", "run", names=[LOSS], metric="error")
    assert [(row["distance"], row["state"]) for row in table(found.steps)] == [
        (0.0, "equal"),
        (0.0, "equal"),
        (1.0, "away"),
    ]
    with pytest.raises(UsageError, match="none of the rows asked for has a norm"):
        follow(lake, "golden", "run", names=[LOSS])


# real runs


@pytest.mark.sampled
@pytest.mark.parametrize("metric", METRICS)
def test_real_runs_against_the_oracle(lake: Lake, metric: str) -> None:
    source = DUMPS / "A_pt_lm" / "mix_stat"
    if not source.is_dir():
        pytest.skip(f"{source} is not there")
    roots = {name: source / name for name in ("golden", "ln_eps", "dtype_cast", "bf16")}
    for name, root in roots.items():
        lake.ingest(root, run=name)
    names = ["Module", "Functional", "Tensor", "Torch", "Optimizer"]
    known = {op.partition(".")[0] for data in dumps_of(roots["golden"]).values() for op in data}
    asked = [name for name in names if name in known]
    found = follow(lake, "golden", "ln_eps", "dtype_cast", "bf16", names=asked, metric=metric)
    check_against_oracle(found, roots, 1000)


def test_real_ranks(lake: Lake) -> None:
    """On a distributed run with an operator changed on rank 1, the gelu of rank 1 is what leaves first."""
    source = DUMPS / "B_pt_dist" / "L1_stat"
    if not source.is_dir():
        pytest.skip(f"{source} is not there")
    roots = {name: source / name for name in ("golden", "gelu_tanh")}
    for name, root in roots.items():
        lake.ingest(root, run=name)
    found = follow(lake, "golden", "gelu_tanh", names=["Functional.gelu"], threshold=1e-5)
    check_against_oracle(found, roots, 64, "Functional.gelu")
    (run,) = table(found.by_run)
    assert (run["leaves_at"], run["rank"]) == (0, 1)
