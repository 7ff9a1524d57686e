"""msprobe's mapping options and its compare.json on the command line, and what paired by them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from program import lakeprobe

from lakeprobe.cli import completed


def write(folder: Path, framework: str, names: list[str]) -> Path:
    folder.mkdir()
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "requires_grad": False}
    leaf |= dict.fromkeys(("Max", "Min", "Mean", "Norm"), 1.0)
    entry = {"input_args": [leaf], "input_kwargs": {}, "output": []}
    head = {"task": "statistics", "level": "mix", "framework": framework, "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "data": dict.fromkeys(names, entry)}))
    return folder / "dump.json"


@pytest.fixture
def sides(tmp_path: Path) -> tuple[str, str]:
    ours = write(tmp_path / "ms", "mindspore", ["Cell.net.fc.Own.forward.0", "Mint.relu.0.forward"])
    theirs = write(tmp_path / "pt", "pytorch", ["Module.fc.Linear.forward.0", "Torch.relu.0.forward"])
    return str(ours), str(theirs)


@pytest.mark.parametrize(
    ("given", "complete"),
    [
        (["compare", "a", "b", "-am"], ["compare", "a", "b", "--api-mapping="]),
        (["compare", "a", "b", "--api_mapping"], ["compare", "a", "b", "--api-mapping="]),
        (["view", "a", "-lm"], ["view", "a", "-lm"]),
        (["compare", "-cm", "a", "b"], ["compare", "--cell-mapping=", "a", "b"]),
        (["compare", "-lm", "x.yaml", "a", "b"], ["compare", "-lm", "x.yaml", "a", "b"]),
        (["compare", "a", "b", "--layer-mapping", "-fm"], ["compare", "a", "b", "--layer-mapping=", "-fm"]),
        (["compare", "a", "b", "--cell-mapping", "x.yml"], ["compare", "a", "b", "--cell-mapping", "x.yml"]),
        (["compare", "a", "b", "-dm", "rows"], ["compare", "a", "b", "-dm", "rows"]),
    ],
)
def test_a_mapping_option_may_stand_without_a_file(given: list[str], complete: list[str]) -> None:
    assert completed(given) == complete


def test_what_paired_and_what_did_not(tmp_path: Path, sides: tuple[str, str]) -> None:
    lake = ("--lake", str(tmp_path / "lake"))
    done = lakeprobe("compare", *sides, "-am", "--no-search", *lake)
    assert (done.code, done.out.splitlines()[0]) == (0, "ms against pt, by the rule cross_framework")
    shown = lakeprobe("unmatched", "ms_vs_pt", *lake)
    assert (shown.code, shown.err) == (0, "")
    lines = [line.split() for line in shown.out.splitlines() if line and "─" not in line]
    assert lines[:4] == [
        ["paired_by", "target_ops", "target_rows", "golden_ops", "golden_rows"],
        ["prefix", "1", "1", "1", "1"],
        ["without", "counterpart", "1", "1", "1", "1"],
        ["step", "rank", "side", "op", "rows", "candidate", "likeness"],
    ]
    *unmatched, advice = lines[4:]
    assert [line[:-1] for line in unmatched] == [
        ["0", "0", "target", "Cell.net.fc.Own.forward.0", "1", "Module.fc.Linear.forward.0"],
        ["0", "0", "golden", "Module.fc.Linear.forward.0", "1", "Cell.net.fc.Own.forward.0"],
    ]
    assert all(0.6 <= float(line[-1]) < 1 for line in unmatched)
    assert " ".join(advice) == f"A mapping of the names that differ: lakeprobe map ms pt {shlex.join(map(str, lake))}"


@pytest.mark.parametrize("option", ["-cm", "--cell-mapping"])
def test_a_cell_mapping_file(tmp_path: Path, sides: tuple[str, str], option: str) -> None:
    (tmp_path / "cells.yaml").write_text("net.fc.Own: fc.Linear\n")
    lake = ("--lake", str(tmp_path / "lake"))
    done = lakeprobe("compare", *sides, option, str(tmp_path / "cells.yaml"), *lake, "--fail-on", "warning")
    assert done.code == 0
    assert "Rows: 2 of the target and 2 of golden: 2 compared" in done.out


@pytest.mark.parametrize(
    ("option", "rule"), [("-lm", "layer"), ("-fm", "fuzzy"), ("--layer_mapping", "layer"), ("--fuzzy_match", "fuzzy")]
)
def test_options_that_choose_a_rule(tmp_path: Path, sides: tuple[str, str], option: str, rule: str) -> None:
    done = lakeprobe("compare", *sides, option, "--lake", str(tmp_path / "lake"))
    assert (done.code, done.out.splitlines()[0]) == (0, f"ms against pt, by the rule {rule}")


@pytest.mark.parametrize("option", ["-cm", "-lm", "--api-mapping"])
def test_a_mapping_file_of_another_name(tmp_path: Path, sides: tuple[str, str], option: str) -> None:
    done = lakeprobe("compare", *sides, option, tmp_path, "--lake", tmp_path / "lake")
    assert (done.code, done.err.splitlines()[-1]) == (
        2, f"Error: Got unexpected extra argument(s) ({tmp_path}). The file of a mapping option ends in .yaml or .yml"
    )  # fmt: skip
    done = lakeprobe("compare", *sides, "a\x1b[31mb")
    assert done.err.splitlines()[-1] == "Error: Got unexpected extra argument(s) (a\\u001b[31mb)"


def test_a_mapping_file_with_a_mistake(tmp_path: Path, sides: tuple[str, str]) -> None:
    (tmp_path / "cells.yaml").write_text("a: b\na: c\n")
    lake = tmp_path / "lake"
    done = lakeprobe("compare", *sides, "-cm", str(tmp_path / "cells.yaml"), "--lake", str(lake))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / 'cells.yaml'} line 2: " in done.err
    assert not lake.exists()


def test_lines_that_do_nothing_are_told(tmp_path: Path, sides: tuple[str, str]) -> None:
    (tmp_path / "apis.yaml").write_text(
        "- ms_api: Mint.rleu\n  pt_api: Torch.relu\n- ms_api: Mint.relu\n  pt_api: Torch.rel\n"
    )
    (tmp_path / "cells.yaml").write_text("net.fc.Own: fc.Linear\nnte.fc: fc\n")
    (tmp_path / "rows.yaml").write_text("Mint.relu.0.forward.input.0: Torch.relu.0.forward.input.9\n")
    given = [
        f"--{kind}-mapping={tmp_path / name}.yaml"
        for kind, name in (("api", "apis"), ("cell", "cells"), ("data", "rows"))
    ]
    done = lakeprobe("compare", *sides, *given, "--lake", str(tmp_path / "lake"))
    assert done.code == 0
    assert [line for line in done.err.splitlines() if " names " in line] == [
        "the API mapping names Mint.rleu, which the target run does not have",
        "the API mapping names Torch.rel, which the golden run does not have",
        "the cell mapping names nte.fc, which the target run does not have",
        "the data mapping names Torch.relu.0.forward.input.9, which the golden run does not have",
    ]


def test_lines_of_a_layer_mapping_that_do_nothing_are_told(tmp_path: Path, sides: tuple[str, str]) -> None:
    file = tmp_path / "layers.yaml"
    file.write_text("TopLayer:\n  net.fc: fc\n  nte: fc\nOwn:\n  relu: rule\nOwm:\n  relu: relu\n")
    done = lakeprobe("compare", *sides, "-lm", file, "--lake", tmp_path / "lake")
    assert done.code == 0
    assert [line for line in done.err.splitlines() if " names " in line] == [
        "the layer mapping names nte, which the target run does not have",
        "the layer mapping names rule, which the golden run does not have",
        "the layer mapping names Owm, which the target run does not have",
    ]


def test_an_old_compare_json(tmp_path: Path, sides: tuple[str, str]) -> None:
    old = tmp_path / "compare.json"
    old.write_text(json.dumps({"npu_path": sides[0], "bench_path": sides[1], "is_print_compare_log": True}))
    done = lakeprobe("compare", "-i", str(old), "--lake", str(tmp_path / "lake"))
    assert (done.code, done.out.splitlines()[0]) == (0, "ms against pt, by the rule cross_framework")


def test_what_to_compare_must_be_said_once() -> None:
    for words, said in (
        (("a",), "a needs a second run to be compared with: give TARGET and GOLDEN, runs of the lake or dumps"),
        (("a", "b", "-i", "compare.json"), "give TARGET and GOLDEN, or -i with a compare.json, not both"),
    ):
        done = lakeprobe("compare", *words)
        assert (done.code, done.out, done.err) == (2, "", f"lakeprobe: {said}\n")
