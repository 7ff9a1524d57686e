"""The proposed mapping: held against lists of right pairs, and against models that the test renamed itself."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from real_dumps import DUMPS, NOT_THERE

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey
from lakeprobe.mapping.align import Op, best_path, heaviest_chain
from lakeprobe.mapping.known import family
from lakeprobe.mapping.propose import Proposal, propose
from lakeprobe.session import Lake

CHECKOUT = Path(__file__).resolve().parents[2]
CROSS = DUMPS / "C_cross"
LISTS = CHECKOUT / "tests" / "data" / "cross"
DEMO = CHECKOUT / "tests" / "data" / "dumps" / "demo"
FILES = ("dump.json", "stack.json", "construct.json")
ENOUGH = 0.95

Json = dict[str, Any]


def placed(proposal: Proposal) -> dict[str, str]:
    """The pairs of the proposal as they are read back from its YAML; of none there is no YAML."""
    return dict(yaml.load(proposal.yaml(), yaml.CSafeLoader)) if proposal.rows else {}


# ---- the lists of right pairs, MindSpore against PyTorch ----------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What a pair of rows must have in common on the clean pair of runs."""

    kind: str
    shape: list[int] | None
    largest: float | None
    smallest: float | None

    def is_like(self, other: Row) -> bool:
        magnitude = max(
            (abs(x) for x in (self.largest, self.smallest) if x is not None and math.isfinite(x)), default=0
        )
        return math.prod(self.shape or ()) == math.prod(other.shape or ()) and all(
            ours is None or theirs is None or ours == theirs or abs(ours - theirs) <= 1e-4 * magnitude
            for ours, theirs in ((self.largest, other.largest), (self.smallest, other.smallest))
        )


@pytest.fixture(scope="module")
def cross(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with step 0 of all runs of C_cross, as ms_L0_stat.golden and so on."""
    if not CROSS.is_dir():
        pytest.skip(NOT_THERE)
    lake = tmp_path_factory.mktemp("cross") / "lake"
    for folder in sorted(CROSS.glob("*_*/*/step0")):
        if folder.parent.name in ("golden", "ln_eps"):
            ingest(folder, lake=lake, run=f"{folder.parts[-3]}.{folder.parts[-2]}", tensors="none")
    return lake


def cross_pairs() -> Iterator[tuple[str, str, str]]:
    """Target, golden, and their list; the defect is on one side, on both, or on none."""
    for level in ("L0", "L1", "mix"):
        for task in ("stat", "tensor"):
            for ours, theirs in (
                ("golden", "golden"),
                ("ln_eps", "golden"),
                ("golden", "ln_eps"),
                ("ln_eps", "ln_eps"),
            ):
                yield f"ms_{level}_{task}.{ours}", f"pt_{level}_{task}.{theirs}", level
    for theirs in ("golden", "ln_eps"):
        yield "msmint_L1_stat.golden", f"pt_L1_stat.{theirs}", "mint"


def rows_of(lake: Path, run: str) -> dict[str, Row]:
    with Lake(lake) as opened:
        found = opened.sql("SELECT name, kind, shape, max, min FROM tensors WHERE run = $run", {"run": run}).fetchall()
    return {name: Row(*row) for name, *row in found}


@pytest.mark.sampled
@pytest.mark.parametrize("swapped", [False, True], ids=["mindspore", "pytorch"])
@pytest.mark.parametrize(("target", "golden", "name"), list(cross_pairs()))
def test_pairs_what_a_mapping_by_hand_pairs(cross: Path, target: str, golden: str, name: str, swapped: bool) -> None:
    with (LISTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        listed = [(row["target_name"], row["golden_name"]) for row in csv.DictReader(file)]
    if swapped:
        target, golden, listed = golden, target, [pair[::-1] for pair in listed]
    ours, theirs = (rows_of(cross, run.replace("ln_eps", "golden")) for run in (target, golden))
    by_hand = dict(listed)
    by_hand_back = {right: left for left, right in listed}
    tensors = {left: right for left, right in listed if ours[left].kind == theirs[right].kind == "tensor"}
    proposed = placed(propose(target, golden, lake=cross))

    found = sum(proposed.get(left) == right for left, right in tensors.items())
    assert found >= ENOUGH * len(tensors)
    assert len(set(proposed.values())) == len(proposed)
    for left, right in proposed.items():
        if left in by_hand or right in by_hand_back:
            assert by_hand.get(left) == right
        elif ours[left].kind == "tensor":
            assert ours[left].is_like(theirs[right]), (left, right)


# ---- a model that the test renames --------------------------------------------------------------------------

RENAMED = (
    ("Module.", "Cell.network."), ("layers.", "h."), (".attn.", ".attention."), (".mlp.", ".feed_forward."),
    ("Linear", "Dense"), ("Functional.", "Mint."), ("Torch.", "Mint."),
)  # fmt: skip
GAMMA = {"weight": "gamma", "bias": "beta"}
NORM_ARGUMENTS = (0, 2, 3, 1)
"""Where the arguments of layer_norm (input, shape, weight, bias) go to: the shape comes last."""


def renamed_op(name: str) -> str:
    for old, new in RENAMED:
        name = name.replace(old, new)
    return name


def renamed_leaves(name: str, entry: Json) -> Json:
    """The entry with MindSpore's dtypes, parameter names and, for a layer_norm, another order of arguments."""
    entry = json.loads(json.dumps(entry).replace('"torch.float32"', '"Float32"').replace('"torch.int64"', '"Int32"'))
    if re.match(r"Functional\.layer_norm\.\d+\.forward", name):
        given = entry["input_args"]
        entry["input_args"] = [given[place] for place in NORM_ARGUMENTS if place < len(given)] + given[4:]
    if ".LayerNorm.parameters_grad" in name:
        entry = {GAMMA[key]: value for key, value in entry.items()}
    elif ".LayerNorm.forward" in name:
        entry["parameters"] = {GAMMA[key]: value for key, value in entry["parameters"].items()}
    return entry


def original_row(name: str, originals: dict[str, str]) -> str:
    """The name that a row of the renamed dump had before."""
    op = next(name[:end] for end in (index.start() for index in re.finditer(r"\.", name)) if name[:end] in originals)
    slot = name[len(op) + 1 :]
    before = originals[op]
    argument = re.fullmatch(r"input\.(\d)(\..*)?", slot)
    if argument and re.match(r"Functional\.layer_norm\.\d+\.forward", before) and int(argument[1]) < 4:
        return f"{before}.input.{NORM_ARGUMENTS[int(argument[1])]}{argument[2] or ''}"
    last = slot.rpartition(".")
    back = {new: old for old, new in GAMMA.items()}
    return f"{before}.{last[0]}{last[1]}{back.get(last[2], last[2])}"


def dump_of(side: str) -> Path:
    return next((DEMO / side).rglob("dump.json")).parent


def write_renamed(side: str, folder: Path) -> dict[str, str]:
    """A copy of the demo dump `side` as another framework would name it; returns the old name of each op."""
    texts = {file: json.loads((dump_of(side) / file).read_text()) for file in FILES}
    dump = texts["dump.json"]
    originals = {renamed_op(name): name for name in dump["data"]}
    assert len(originals) == len(dump["data"])
    dump["framework"] = "mindspore"
    dump["data"] = {renamed_op(name): renamed_leaves(name, entry) for name, entry in dump["data"].items()}
    texts["construct.json"] = {
        renamed_op(name): parent and renamed_op(parent) for name, parent in texts["construct.json"].items()
    }
    folder.mkdir(parents=True)
    for file, content in texts.items():
        (folder / file).write_text(json.dumps({} if file == "stack.json" else content, indent=1))
    return originals


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A lake with the two demo runs, golden and target, and with both renamed, clean and defect."""
    folder = tmp_path_factory.mktemp("renamed")
    originals = {}
    for side, run in (("golden", "clean"), ("target", "defect")):
        originals = write_renamed(side, folder / run)
        ingest(folder / run, lake=folder / "lake")
        ingest(dump_of(side), lake=folder / "lake", run=side)
    return folder / "lake", originals


@pytest.mark.parametrize(("run", "least"), [("clean", 1.0), ("defect", ENOUGH)])
def test_places_a_renamed_model(renamed: tuple[Path, dict[str, str]], run: str, least: float) -> None:
    lake, originals = renamed
    proposal = propose(run, "golden", lake=lake)
    proposed = placed(proposal)
    with Lake(lake) as opened:
        rows = opened.sql("SELECT name FROM tensors WHERE run = $run AND kind = 'tensor'", {"run": run}).fetchall()
    truth = {name: original_row(name, originals) for (name,) in rows}
    tensors = {left: right for left, right in proposed.items() if left in truth}
    assert [(left, right) for left, right in tensors.items() if truth[left] != right] == []
    assert len(tensors) >= least * len(truth)
    assert sum(op.rows for op in proposal.target_unplaced) == len(truth) - len(tensors)


def test_one_framework_has_confidence_one(renamed: tuple[Path, dict[str, str]]) -> None:
    lake, _ = renamed
    proposal = propose("target", "golden", lake=lake)
    assert {row.confidence for row in proposal.rows} == {1.0}
    assert all(left == right for left, right in placed(proposal).items())
    assert proposal.target_unplaced == proposal.golden_unplaced == ()


def test_cells(renamed: tuple[Path, dict[str, str]]) -> None:
    lake, originals = renamed
    cells = yaml.safe_load(propose("defect", "golden", lake=lake).yaml("cell"))
    expected = {}
    for op, before in originals.items():
        if op.startswith("Cell.") and ".forward." in op:
            left, right = (re.sub(r"^\w+\.|\.forward\.\d+$", "", name) for name in (op, before))
            expected[left] = right
    assert cells == expected


def test_layers(renamed: tuple[Path, dict[str, str]]) -> None:
    lake, _ = renamed
    layers = yaml.safe_load(propose("clean", "golden", lake=lake).yaml("layer"))
    assert layers["Block"] == {"attention": "attn", "feed_forward": "mlp"}
    assert layers["TopLayer"] == {
        "network.h": "layers",
        **{f"network.{name}": name for name in ("tok_emb", "pos_emb", "ln_f", "head")},
    }
    assert set(layers) == {"TopLayer", "Block"}


# ---- what a proposal says -----------------------------------------------------------------------------------


def tensor(largest: float, shape: Iterable[int] = (4, 8), smallest: float = -1.5, **fields: Any) -> Json:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape), "requires_grad": False}
    return {**leaf, "Max": largest, "Min": smallest, "Mean": largest / 4, "Norm": abs(largest) * 3, **fields}


def call(inputs: list[Any], outputs: list[Any]) -> Json:
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs}


def lake_of(folder: Path, trees: dict[str, Json] | None = None, **runs: Json) -> Path:
    """A lake with a run per argument, given as the entries of its dump, or by step; `trees` have the module trees."""
    for run, data in runs.items():
        steps = data if all(isinstance(step, int) for step in data) else {0: data}
        for step, entries in steps.items():
            place = folder / run / f"step{step}" / "rank0"
            place.mkdir(parents=True)
            framework = "mindspore" if any(name.startswith(("Cell", "Mint")) for name in entries) else "pytorch"
            head = {"task": "statistics", "level": "mix", "framework": framework, "dump_data_dir": None}
            (place / "dump.json").write_text(json.dumps({**head, "data": entries}))
            (place / "stack.json").write_text("{}")
            (place / "construct.json").write_text(json.dumps((trees or {}).get(run, {})))
        ingest(folder / run, lake=folder / "lake", run=run)
    return folder / "lake"


DENSE = {
    "Mint.dense.0.forward": call([tensor(2.5), tensor(0.7, (8, 8))], [tensor(3.5)]),
    "Mint.relu.0.forward": call([tensor(3.5)], [tensor(3.5, smallest=0.0)]),
    "Mint.print.0.forward": call([tensor(77.0, (3,))], []),
}
LINEAR = {
    "Functional.linear.0.forward": call([tensor(2.5), tensor(0.7, (8, 8))], [tensor(3.5)]),
    "Torch.relu.0.forward": call([tensor(3.5)], [tensor(3.5, smallest=0.0)]),
    "Torch.extra.0.forward": call([tensor(5.0, (2, 2)), tensor(6.0, (2,))], [tensor(9.0, (2,))]),
}


def test_yaml_has_confidence_evidence_and_what_is_left_over(tmp_path: Path) -> None:
    proposal = propose("ours", "theirs", lake=lake_of(tmp_path, ours=DENSE, theirs=LINEAR))
    lines = proposal.yaml().splitlines()
    end = ", same values"
    assert [line.removesuffix(end) for line in lines if not line.startswith("#")] == [
        f"Mint.{op}.{slot}: {other}.{slot}  # 0.98 same norm {norm}, same shape, same op {kind}"
        for op, other, kind, slot, norm in (
            ("dense.0.forward", "Functional.linear.0.forward", "linear", "input.0", 7.5),
            ("dense.0.forward", "Functional.linear.0.forward", "linear", "input.1", 2.1),
            ("dense.0.forward", "Functional.linear.0.forward", "linear", "output.0", 10.5),
            ("relu.0.forward", "Torch.relu.0.forward", "relu", "input.0", 10.5),
            ("relu.0.forward", "Torch.relu.0.forward", "relu", "output.0", 10.5),
        )
    ]
    assert lines[-4:] == [
        "# not placed in ours: 1 tensor rows of 1 ops",
        "#   Mint.print.0.forward  1 of 1 tensors",
        "# not placed in theirs: 3 tensor rows of 1 ops",
        "#   Torch.extra.0.forward  3 of 3 tensors",
    ]
    assert proposal.summary() == [
        "mapped run ours step 0 rank 0 to run theirs step 0 rank 0: 2 ops, 5 rows; None needs no line",
        "  5 rows of confidence 0.95 or more: the same values",
        "  not placed in ours: 1 tensor rows of 1 ops",
        "  not placed in theirs: 3 tensor rows of 1 ops",
    ]


ODD = (
    "Mint.a: b #c.0.forward",
    "Mint.'q\"uo\\te'.0.forward",
    "Mint.- [x, {y}].0.forward",
    "Mint.zwölf\t\n\x85🦆.0.forward",
)


def test_odd_names_come_back_as_they_are(tmp_path: Path) -> None:
    """Each name needs quotes in YAML; the mapping has a line each, and no key twice."""
    ours = {name: call([tensor(2.0 + place)], [tensor(20.0 + place)]) for place, name in enumerate(ODD)}
    theirs = {name.replace("Mint", "Torch"): entry for name, entry in ours.items()}
    proposal = propose("ours", "theirs", lake=lake_of(tmp_path, ours=ours, theirs=theirs))
    expected = {f"{name}.{slot}": f"Torch{name[4:]}.{slot}" for name in ODD for slot in ("input.0", "output.0")}
    assert yaml.safe_load(proposal.yaml()) == expected
    assert len([line for line in proposal.yaml().splitlines() if not line.startswith("#")]) == len(expected)


def test_odd_names_among_what_is_left_over_stay_comments(tmp_path: Path) -> None:
    ours = DENSE | {"Mint.evil\nkey: value.0.forward": call([tensor(9.0)], [])}
    proposal = propose("ours", "theirs", lake=lake_of(tmp_path, ours=ours, theirs=LINEAR))
    assert "evil" in proposal.yaml()
    assert set(yaml.safe_load(proposal.yaml())) == {row.target.name for row in proposal.rows}


def test_keys_are_unique_where_ops_repeat(renamed: tuple[Path, dict[str, str]]) -> None:
    lake, _ = renamed
    for kind in ("data", "cell"):
        lines = [line for line in propose("defect", "golden", lake=lake).yaml(kind).splitlines() if line[0] != "#"]
        keys = Counter(line.partition(": ")[0] for line in lines)
        assert len(lines) > 20
        assert keys.most_common(1)[0][1] == 1


def test_a_cell_that_holds_a_key_gets_a_line_of_its_own(tmp_path: Path) -> None:
    """msprobe replaces a key anywhere in a name, so an unchanged cell must be listed as well."""
    values = {"fc.Dense": 2.0, "big.fc.Dense": 4.0, "big.act.ReLU": 8.0}
    entry = {name: call([tensor(value)], [tensor(10 * value)]) for name, value in values.items()}
    ours = {f"Cell.{name}.forward.0": entry[name] for name in values}
    theirs = {
        "Module.fc.Linear.forward.0": entry["fc.Dense"],
        "Module.big.fc.Dense.forward.0": entry["big.fc.Dense"],
        "Module.big.act.ReLU.forward.0": entry["big.act.ReLU"],
    }
    proposal = propose("ours", "theirs", lake=lake_of(tmp_path, ours=ours, theirs=theirs))
    assert yaml.safe_load(proposal.yaml("cell")) == {"fc.Dense": "fc.Linear", "big.fc.Dense": "big.fc.Dense"}


# ---- evidence, and doubt ------------------------------------------------------------------------------------


def test_permuted_arguments_pair_by_value_and_behind_a_defect_by_what_values_showed(tmp_path: Path) -> None:
    def norm(op: str, first: float, order: tuple[int, int], factor: float) -> Json:
        weights = [tensor(0.5 * factor, (8,)), tensor(0.25 * factor, (8,), smallest=-0.3)]
        return {op: call([tensor(first), weights[order[0]], weights[order[1]]], [tensor(first * 2)])}

    ours = norm("Mint.norm.0.forward", 2.0, (0, 1), 1.0) | norm("Mint.norm.1.forward", 3.0, (0, 1), 1.4)
    theirs = norm("Torch.norm.0.forward", 2.0, (1, 0), 1.0) | norm("Torch.norm.1.forward", 6.0, (1, 0), 1.0)
    proposed = placed(propose("ours", "theirs", lake=lake_of(tmp_path, ours=ours, theirs=theirs)))
    for number in (0, 1):
        assert proposed[f"Mint.norm.{number}.forward.input.1"] == f"Torch.norm.{number}.forward.input.2"
        assert proposed[f"Mint.norm.{number}.forward.input.2"] == f"Torch.norm.{number}.forward.input.1"


def test_permuted_gradients_pair_with_the_nearest_and_with_none_where_two_are_as_near(tmp_path: Path) -> None:
    """Nothing is equal here, and the slots are of no help: golden has the gradient of the input first, target last."""

    def gradients(name: str, *values: float, last: bool) -> Json:
        small = [tensor(value, (8,)) for value in values]
        large = [tensor(9.0 * values[0])]
        return {f"{name}.backward": {"input": [tensor(values[0])], "output": small + large if last else large + small}}

    ours = gradients("Mint.norm.0", 0.51, 0.26, last=True) | gradients("Mint.scale.0", 0.75, 0.75, last=True)
    theirs = gradients("Torch.norm.0", 0.25, 0.5, last=False) | gradients("Torch.scale.0", 0.5, 1.0, last=False)
    proposed = placed(propose("ours", "theirs", lake=lake_of(tmp_path, ours=ours, theirs=theirs)))
    assert {left: right for left, right in proposed.items() if "output" in left} == {
        "Mint.norm.0.backward.output.0": "Torch.norm.0.backward.output.2",
        "Mint.norm.0.backward.output.1": "Torch.norm.0.backward.output.1",
        "Mint.norm.0.backward.output.2": "Torch.norm.0.backward.output.0",
        "Mint.scale.0.backward.output.2": "Torch.scale.0.backward.output.0",
    }


def linear_in_parts(factor: float) -> Json:
    """A linear as Reshape, MatMul, BiasAdd and Reshape, whose activations are `factor` times what they should be."""
    first, product, last = 2.0 * factor, 3.0 * factor, 3.1 * factor
    steps = {
        "reshape.Reshape.0": ([tensor(first, (2, 4, 8))], tensor(first, (8, 8))),
        "matmul.MatMul.0": ([tensor(first, (8, 8)), tensor(0.5, (6, 8))], tensor(product, (8, 6))),
        "bias_add.BiasAdd.0": ([tensor(product, (8, 6)), tensor(0.1, (6,))], tensor(last, (8, 6))),
        "reshape.Reshape.1": ([tensor(last, (8, 6))], tensor(last, (2, 4, 6))),
        "reshape.Reshape.2": ([tensor(last, (2, 4, 6))], tensor(last, (4, 2, 6))),
    }
    return {f"Primitive.{name}.forward": call(inputs, [output]) for name, (inputs, output) in steps.items()}


@pytest.mark.parametrize("factor", [1.0, 1.3], ids=["clean", "defect"])
def test_one_op_against_several_pairs_their_inputs_and_last_output(tmp_path: Path, factor: float) -> None:
    """What is only inside the parts has no counterpart; nor has a view, which computes nothing."""
    inputs = [tensor(2.0, (2, 4, 8)), tensor(0.5, (6, 8)), tensor(0.1, (6,))]
    theirs = {"Functional.linear.0.forward": call(inputs, [tensor(3.1, (2, 4, 6))])}
    proposal = propose("ours", "theirs", lake=lake_of(tmp_path, ours=linear_in_parts(factor), theirs=theirs))
    linear = "Functional.linear.0.forward"
    assert placed(proposal) == {
        "Primitive.matmul.MatMul.0.forward.input.0": f"{linear}.input.0",
        "Primitive.matmul.MatMul.0.forward.input.1": f"{linear}.input.1",
        "Primitive.bias_add.BiasAdd.0.forward.input.1": f"{linear}.input.2",
        "Primitive.bias_add.BiasAdd.0.forward.output.0": f"{linear}.output.0",
    }
    sure = {row.target.name: row.confidence > 0.9 for row in proposal.rows}
    assert list(sure.values()) == ([True] * 4 if factor == 1.0 else [False, True, True, False])


def test_calls_stay_in_their_modules_where_the_modules_run_in_another_order(tmp_path: Path) -> None:
    """Behind a defect, where no value agrees; a call that would have to cross another is left out, not misplaced."""

    def model(root: str, api: str, order: str, factor: float) -> tuple[Json, Json]:
        entries, tree = {}, {}
        for place, name in enumerate(order):
            entry = call([tensor(factor * (1 + "qk".index(name)))], [tensor(factor * (5 + "qk".index(name)))])
            module, operation = f"{root}.{name}.Proj.forward.0", f"{api}.{place}.forward"
            entries |= {operation: entry, module: entry}
            tree |= {operation: module, module: None}
        return entries, tree

    ours, our_tree = model("Cell", "Mint.linear", "qk", 1.3)
    theirs, their_tree = model("Module", "Functional.linear", "kq", 1.0)
    lake = lake_of(tmp_path, trees={"ours": our_tree, "theirs": their_tree}, ours=ours, theirs=theirs)
    names = [(pair.target.name, pair.golden.name) for pair in propose("ours", "theirs", lake=lake).ops]
    assert names[-1] == ("Cell.k.Proj.forward.0", "Module.k.Proj.forward.0")
    calls = [pair for pair in names if pair[0].startswith("Mint")]
    assert calls
    assert set(calls) <= {
        ("Mint.linear.0.forward", "Functional.linear.1.forward"),
        ("Mint.linear.1.forward", "Functional.linear.0.forward"),
    }


def test_backward_calls_of_modules_follow_their_forward_calls(tmp_path: Path) -> None:
    """Whatever their order and values: two branches may run backward the one or the other way round."""
    forward = {name: call([tensor(value)], [tensor(value * 2)]) for name, value in (("a.Net", 1.5), ("b.Net", 2.5))}
    backward = {"input": [tensor(7.0)], "output": [tensor(8.0)]}
    both = {
        run: {
            **{f"{root}.{name}.forward.0": entry for name, entry in forward.items()},
            **{f"{root}.{name}.backward.0": backward for name in order},
        }
        for run, root, order in (("ours", "Cell", ("a.Net", "b.Net")), ("theirs", "Module", ("b.Net", "a.Net")))
    }
    proposed = placed(propose("ours", "theirs", lake=lake_of(tmp_path, **both)))
    assert len(proposed) == 8
    assert all(right == left.replace("Cell", "Module") for left, right in proposed.items())


def test_equal_values_are_those_within_a_ten_thousandth(tmp_path: Path) -> None:
    ours = {"Mint.one.0.forward": call([tensor(2.0)], [tensor(3.0)])}
    runs = {
        f"off{number}": {"Torch.one.0.forward": call([tensor(2.0 * (1 + off))], [tensor(3.0 * (1 + off))])}
        for number, off in enumerate((1e-6, 0.9e-4, 1.1e-4, 1e-2))
    }
    lake = lake_of(tmp_path, ours=ours, **runs)
    rows = {run: propose("ours", run, lake=lake).rows for run in runs}
    assert {run: {row.confidence for row in placed_rows} for run, placed_rows in rows.items()} == {
        "off0": {0.98}, "off1": {0.98}, "off2": {0.85}, "off3": {0.85},
    }  # fmt: skip
    assert all(("same norm" in " ".join(row.evidence)) == (row.confidence > 0.9) for run in runs for row in rows[run])


def test_ops_of_other_kinds_pair_where_both_put_out_one_tensor(tmp_path: Path) -> None:
    """A tensor that both take in says nothing: other ops do as well."""
    ours = {"Mint.one.0.forward": call([tensor(2.0)], [tensor(3.0)])}
    both = {"Torch.two.0.forward": call([tensor(2.0)], [tensor(3.0)])}
    output = {"Torch.two.0.forward": call([tensor(2.5)], [tensor(3.0)])}
    taken = {"Torch.two.0.forward": call([tensor(2.0)], [tensor(7.0)])}
    lake = lake_of(tmp_path, ours=ours, both=both, output=output, taken=taken)
    assert len(placed(propose("ours", "both", lake=lake))) == 2
    assert placed(propose("ours", "output", lake=lake)) == {
        "Mint.one.0.forward.output.0": "Torch.two.0.forward.output.0"
    }
    assert propose("ours", "taken", lake=lake).ops == ()


def test_a_view_is_not_taken_for_another_op(tmp_path: Path) -> None:
    """A dropout of nothing and a contiguous have the same values in and out, and nothing else in common."""
    ours = {"Mint.contiguous.0.forward": call([tensor(2.0)], [tensor(2.0)])}
    theirs = {"Functional.dropout.0.forward": call([tensor(2.0)], [tensor(2.0)])}
    assert propose("ours", "theirs", lake=lake_of(tmp_path, ours=ours, theirs=theirs)).ops == ()


def test_equal_ops_of_other_shapes_stay_apart(tmp_path: Path) -> None:
    ours = {"Mint.matmul.0.forward": call([tensor(2.0, (3, 4))], [tensor(5.0, (3, 3))])}
    theirs = {"Torch.matmul.0.forward": call([tensor(7.0, (9, 9))], [tensor(8.0, (9, 2))])}
    assert propose("ours", "theirs", lake=lake_of(tmp_path, ours=ours, theirs=theirs)).ops == ()


def test_an_extra_op_shifts_the_calls_behind_it(tmp_path: Path) -> None:
    def adds(values: list[float]) -> Json:
        return {f"Torch.add.{place}.forward": call([tensor(x)], [tensor(x + 50)]) for place, x in enumerate(values)}

    lake = lake_of(tmp_path, ours=adds([1.1, 99.0, 2.2, 3.3]), theirs=adds([1.1, 2.2, 3.3]))
    proposed = placed(propose("ours", "theirs", lake=lake))
    calls = {tuple(int(name.split(".")[2]) for name in pair) for pair in proposed.items()}
    assert calls == {(0, 0), (2, 1), (3, 2)}


# ---- refusals -----------------------------------------------------------------------------------------------


def test_unknown_run(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, ours=DENSE)
    with pytest.raises(UsageError, match=r"lake has no run theirs; it has ours; ingest it first$"):
        propose("ours", "theirs", lake=lake)


def test_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError):
        propose("ours", "theirs", lake=tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_step_and_rank(tmp_path: Path) -> None:
    """The first common step is taken; of runs with one unit each that one; what is asked for must be there."""
    lake = lake_of(tmp_path, ours={1: DENSE, 2: DENSE, 3: DENSE}, theirs={2: LINEAR, 3: LINEAR}, other={7: LINEAR})
    assert propose("ours", "theirs", lake=lake).golden.step == 2
    assert propose("ours", "theirs", lake=lake, step=3, rank=0).target.step == 3
    assert propose("other", "other", lake=lake).target.step == 7
    refusal = r"^ours and theirs have no step and rank in common with step 1; see them with: lakeprobe ls$"
    with pytest.raises(UsageError, match=refusal):
        propose("ours", "theirs", lake=lake, step=1)
    with pytest.raises(UsageError, match="in common with rank 4;"):
        propose("ours", "theirs", lake=lake, rank=4)
    with pytest.raises(UsageError, match="in common;"):
        propose("ours", "other", lake=lake)


def test_unknown_kind(tmp_path: Path) -> None:
    proposal = propose("ours", "ours", lake=lake_of(tmp_path, ours=DENSE))
    with pytest.raises(UsageError, match="there is no mapping of kind rows; write data, cell or layer"):
        proposal.yaml("rows")


def test_damaged_unit(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, ours=DENSE, theirs=LINEAR)
    (layout.unit_folder(lake, UnitKey("ours", 0, 0)) / "ops.parquet").write_bytes(b"PAR1")
    with pytest.raises(LakeError):
        propose("ours", "theirs", lake=lake)


@pytest.mark.parametrize(
    ("kind", "golden", "message"),
    [
        ("data", "nothing", "no row of run ours step 0 rank 0 could be placed in run nothing step 0 rank 0"),
        ("cell", "theirs", "no cell of run ours .*; try --kind data, or dump at level mix"),
        ("layer", "theirs", "no cell of run ours .*; try --kind data, or dump at level mix"),
    ],
)
def test_a_mapping_of_nothing_is_refused(tmp_path: Path, kind: str, golden: str, message: str) -> None:
    lake = lake_of(tmp_path, ours=DENSE, theirs=LINEAR, nothing={"Torch.none.0.forward": call([], [])})
    with pytest.raises(UsageError, match=message):
        propose("ours", golden, lake=lake).yaml(kind)


def test_cells_of_the_same_names_need_no_file(renamed: tuple[Path, dict[str, str]]) -> None:
    for kind in ("cell", "layer"):
        with pytest.raises(UsageError, match=f"have the same names, so compare needs no {kind} mapping file"):
            propose("target", "golden", lake=renamed[0]).yaml(kind)


# ---- the two algorithms against all ways --------------------------------------------------------------------

WEIGHTS = st.dictionaries(
    st.tuples(st.integers(0, 6), st.integers(0, 6)), st.integers(1, 9).map(float), min_size=1, max_size=12
)


def heaviest_of_all(weights: dict[tuple[int, int], float]) -> float:
    """By trying every increasing chain."""

    def best(after: tuple[int, int]) -> float:
        return max(
            (weight + best(pair) for pair, weight in weights.items() if pair[0] > after[0] and pair[1] > after[1]),
            default=0.0,
        )

    return best((-1, -1))


@given(WEIGHTS)
def test_heaviest_chain(weights: dict[tuple[int, int], float]) -> None:
    chain = heaviest_chain(weights)
    assert all(left[0] < right[0] and left[1] < right[1] for left, right in pairwise(chain))
    assert sum(weights[pair] for pair in chain) == heaviest_of_all(weights)


@given(WEIGHTS)
def test_best_path(weights: dict[tuple[int, int], float]) -> None:
    ops = [Op(seq, str(seq), "api", "x", "x", "forward", 0, None) for seq in range(7)]
    path = list(best_path(ops, ops, lambda left, right: weights.get((left.seq, right.seq), 0.0)))
    assert all(left[0] < right[0] and left[1] < right[1] for left, right in pairwise(path))
    assert sum(weights[pair] for pair in path) == heaviest_of_all(weights)


def test_family() -> None:
    same = [("__add__", "add"), ("LayerNorm", "layer_norm"), ("Dense", "Linear"), ("swapaxes", "transpose")]
    assert all(family(left, "mindspore") == family(right, "pytorch") for left, right in same)
    assert family("add_") != family("add")
