"""Two checkpoints: equal ones are equal in any format, and what was planted is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from program import lakeprobe as run

import lakeprobe
from lakeprobe.session import Lake
from tests.readers import checkpoints
from tests.readers.checkpoints import State

STATE = checkpoints.state()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("checkpoints")
    torch.save(STATE, folder / "base.pt")
    with lakeprobe.open(folder / "lake", create=True) as lake:
        lake.ingest(folder / "base.pt", run="base")
        yield lake


def written(folder: Path, kind: str) -> Path:
    """The same model in another format."""
    wrapped = {f"module.{name}": tensor for name, tensor in STATE.items()}
    if kind == "legacy":
        torch.save({"state_dict": wrapped}, folder / "x.pt", _use_new_zipfile_serialization=False)
        return folder / "x.pt"
    if kind == "inner":
        torch.save({f"transformer.{name}": tensor for name, tensor in STATE.items()}, folder / "x.pt")
        return folder / "x.pt"
    if kind == "safetensors":  # keeps a tied tensor once
        return checkpoints.safetensors(folder / "x.safetensors", {k: v for k, v in STATE.items() if k != "head.weight"})
    if kind == "ckpt":
        return checkpoints.ckpt(folder / "x.ckpt", checkpoints.as_mindspore(STATE))
    return {"sharded": checkpoints.sharded, "distributed": checkpoints.distributed, "chunks": checkpoints.in_chunks}[
        kind
    ](folder / "x", STATE)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["legacy", "inner", "safetensors", "ckpt", "sharded", "distributed", "chunks"])
def test_equal_in_every_format(lake: Lake, tmp_path: Path, kind: str) -> None:
    lake.ingest(written(tmp_path, kind), run=kind)
    result = lake.compare(kind, "base")
    assert result.verdict.value == "equal"
    assert {finding.verdict for finding in result.summary().parameters} <= {"skipped"}


def test_a_folder_with_two_formats_of_a_model_is_one_model(lake: Lake, tmp_path: Path) -> None:
    checkpoints.safetensors(tmp_path / "model.safetensors", {k: v for k, v in STATE.items() if k != "head.weight"})
    torch.save({name: tensor + 1 for name, tensor in STATE.items()}, tmp_path / "pytorch_model.bin")
    report = lake.ingest(tmp_path, run="both")
    assert lake.compare("both", "base").verdict.value == "equal"
    assert any(
        "pytorch_model.bin is left out: model.safetensors beside it has the model" in note for note in report.notes
    )


def one_element(state: State) -> None:
    state["layers.1.k.weight"][0, 0] += 1e-3


def transposed(state: State) -> None:
    state["layers.1.v.weight"] = state["layers.1.v.weight"].t().contiguous()


def swapped(state: State) -> None:
    state["layers.0.q.weight"], state["layers.0.k.weight"] = state["layers.0.k.weight"], state["layers.0.q.weight"]


def missing(state: State) -> None:
    del state["layers.0.v.bias"]


def untied(state: State) -> None:
    state["head.weight"] = state["head.weight"].clone()


def cast(state: State) -> None:
    state["layers.0.v.weight"] = state["layers.0.v.weight"].bfloat16()


def cast_without_loss(state: State) -> None:
    state["norm.weight"] = state["norm.weight"].half()


def rows_moved(state: State) -> None:
    state["layers.1.q.weight"] = state["layers.1.q.weight"].flip(0)


def reshaped(state: State) -> None:
    state["embed.weight"] = state["embed.weight"].reshape(10, 16)


def added(state: State) -> None:
    state["extra.weight"] = torch.ones(3)


def not_finite(state: State) -> None:
    state["norm.bias"][2] = float("nan")


PLANTED: dict[Callable[[State], None], dict[str, list[str]]] = {
    one_element: {"layers.1.k.weight": ["the values differ by up to 0.001, cosine 1.000000"]},
    transposed: {"layers.1.v.weight": ["transposed"]},
    swapped: {
        "layers.0.q.weight": ["has what golden has as layers.0.k.weight"],
        "layers.0.k.weight": ["has what golden has as layers.0.q.weight"],
    },
    missing: {"layers.0.v.bias": ["missing in the target"]},
    untied: {"head.weight": ["not tied: golden shares it with embed.weight"]},
    cast: {"layers.0.v.weight": ["cast: bfloat16 against float32, rounded"]},
    cast_without_loss: {"norm.weight": ["cast: float16 against float32, with the same values"]},
    rows_moved: {"layers.1.q.weight": ["the same rows in another order"]},
    reshaped: {
        "embed.weight": ["the same elements in the shape [10, 16] instead of [20, 8]"],
        "head.weight": ["not tied: golden shares it with embed.weight"],
    },
    added: {"extra.weight": ["only in the target"]},
    not_finite: {"norm.bias": ["NaN or inf at different places, or inf of different sign"]},
}  # fmt: skip


def test_what_was_planted_is_named(lake: Lake, tmp_path: Path) -> None:
    base = {name: tensor.clone() for name, tensor in STATE.items()}
    for plant in PLANTED:
        plant(base)
    torch.save(base, tmp_path / "x.pt")
    lake.ingest(tmp_path / "x.pt", run="planted")
    result = lake.compare("planted", "base")
    found = {finding.name: list(finding.messages) for finding in result.summary().parameters}
    assert found == {name: messages for planted in PLANTED.values() for name, messages in planted.items()}
    assert result.verdict.value == "different"
    for name, messages in found.items():
        assert f"  {name}: {'; '.join(messages)}" in str(result)


def test_an_untied_weight_with_the_same_values_is_a_finding(lake: Lake, tmp_path: Path) -> None:
    base = {name: tensor.clone() for name, tensor in STATE.items()}
    torch.save(base, tmp_path / "x.pt")
    lake.ingest(tmp_path / "x.pt", run="untied")
    result = lake.compare("untied", "base")
    assert [(finding.name, finding.verdict) for finding in result.summary().parameters] == [("head.weight", "warning")]
    back = lake.compare("base", "untied").summary().parameters
    assert [finding.messages for finding in back] == [("tied to embed.weight, and not in golden",)]


def test_a_cell_mapping_renames_parameters(lake: Lake, tmp_path: Path) -> None:
    torch.save({name.replace("layers.", "blocks."): tensor for name, tensor in STATE.items()}, tmp_path / "x.pt")
    (tmp_path / "cell.yaml").write_text("blocks: layers\n")
    done = run("compare", tmp_path / "x.pt", "base", "-cm", tmp_path / "cell.yaml", "--lake", lake.path)
    assert done.code == 0
    assert "Verdict: equal" in done.out


def test_names_that_tell_nothing_pair_by_contents(lake: Lake, tmp_path: Path) -> None:
    torch.save({f"p{number}": tensor for number, tensor in enumerate(STATE.values())}, tmp_path / "x.pt")
    lake.ingest(tmp_path / "x.pt", run="numbered")
    rows = lake.compare("numbered", "base").rows
    paired = rows.filter("matched_by = 'content'").project("golden_op").order("golden_op").fetchall()
    assert paired == [(f"layers.{layer}.{name}.weight",) for layer in (0, 1) for name in "kqv"]


def test_two_folders_of_state_dicts_with_one_changed_weight(tmp_path: Path) -> None:
    """They were once called equal: nothing of them had been compared."""
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for number in (0, 1):
            weight = torch.ones(3, 2)
            weight[0, 0] += 1e-3 * (side == "b") * number
            torch.save({"w": weight}, tmp_path / side / f"part{number}.pt")
    done = run("compare", tmp_path / "a", tmp_path / "b", "--lake", tmp_path / "lake", "--fail-on", "error")
    assert done.code == 1
    assert "part1.pt/w: the values differ by up to 0.001" in done.out


def test_weights_beside_a_dump_are_left_out(tmp_path: Path) -> None:
    from program import dump_text, write_dump

    write_dump(tmp_path / "dump", dump_text(add=1.0))
    torch.save(STATE, tmp_path / "dump/model.pt")
    done = run("ingest", tmp_path / "dump", "--lake", tmp_path / "lake")
    assert "left out, because they are of no dump: tensor files in" in done.err


@pytest.mark.parametrize("command", ["first-diff", "blame"])
def test_a_question_for_what_is_first_gets_what_differs(lake: Lake, tmp_path: Path, command: str) -> None:
    state = {name: tensor.clone() for name, tensor in STATE.items()}
    one_element(state)
    torch.save(state, tmp_path / "x.pt")
    run_name = f"element_{command.replace('-', '_')}"
    lake.ingest(tmp_path / "x.pt", run=run_name)
    lake.compare(run_name, "base", name=f"of_{run_name}")

    ended = run(command, f"of_{run_name}", "--lake", lake.path)
    assert ended.code == 0
    assert "  layers.1.k.weight: the values differ by up to 0.001, cosine 1.000000" in ended.out.splitlines()
    assert "None of these comes before another" in ended.out
    assert "op" not in ended.out.split()
