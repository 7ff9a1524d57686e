"""Ops of collected runs, run again: right ones pass, planted ones are named, and no op stops the others."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeprobe.checks import verify as verifying
from lakeprobe.cli import app
from lakeprobe.errors import UsageError
from lakeprobe.session import Lake

torch = pytest.importorskip("torch")
import lakeprobe  # noqa: E402

PLANTED = {"gelu", "layer_norm", "relu", "tanh", "softmax"}
RIGHT = {"linear", "sigmoid", "__mul__", "dropout", "embedding", "lstm", "conv2d", "cross_entropy"}


def train():
    from torch.nn import functional

    torch.manual_seed(0)
    weight = (torch.randn(8, 8) / 3).requires_grad_()
    x = torch.randn(4, 8)
    x[0, :3] = -0.0
    x.requires_grad_()
    y = torch.relu(x)
    y = functional.linear(y, weight)
    y = functional.gelu(y)
    y = functional.layer_norm(y, [8], torch.ones(8, requires_grad=True), torch.zeros(8, requires_grad=True))
    y = torch.tanh(y) * torch.sigmoid(y)
    y = functional.dropout(y, 0.5)
    y = functional.softmax(y * 2.0, dim=-1)
    table = torch.randn(5, 8, requires_grad=True)
    z = functional.embedding(torch.tensor([[1, 2, 2], [0, 4, 1]]), table)
    lstm = torch.nn.LSTM(8, 4, batch_first=True)
    z, _ = lstm(z)
    image = torch.randn(1, 2, 5, 5, requires_grad=True)
    c = functional.conv2d(image, torch.randn(3, 2, 3, 3, requires_grad=True), torch.randn(3, requires_grad=True))
    loss = functional.cross_entropy(y, torch.tensor([1, 2, 3, 0])) + z.sum() + c.square().mean()
    loss.backward()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A lake with a run that has contents, and one that has statistics."""
    folder = tmp_path_factory.mktemp("verify") / "lake"
    for task in ("tensor", "statistics"):
        with lakeprobe.collect(None, run=task, lake=folder, task=task):
            train()
    return folder


@pytest.fixture(scope="module")
def lake(place):
    with Lake(place) as opened:
        yield opened


@pytest.fixture(scope="module")
def right(lake):
    return lake.verify("tensor", name="right", limit=60)


@pytest.fixture
def planted_path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{Path(lakeprobe.__file__).parents[1]}")


def statuses(verification, **wanted):
    found = verification.rows.fetchall()
    columns = verification.rows.columns
    rows = [dict(zip(columns, row, strict=True)) for row in found]
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def test_every_op_runs_forward_and_backward_and_is_right(right, lake):
    rows = statuses(right)
    assert {row["api"] for row in rows} >= PLANTED | RIGHT
    assert [row["op"] for row in rows if row["status"] != "pass"] == []
    recorded = lake.sql("SELECT DISTINCT api FROM ops WHERE run = 'tensor' AND direction = 'backward'").fetchall()
    assert {row["api"] for row in rows if row["direction"] == "backward"} == {api for (api,) in recorded}
    assert right.report.statuses == {"pass": len(rows)}


def test_the_dumps_own_results_are_measured_too(right):
    recorded = statuses(right, origin="recorded")
    assert {row["api"] for row in recorded} >= {"linear", "gelu", "tanh", "lstm"}
    assert all(row["status"] == "pass" and row["is_deterministic"] is None for row in recorded)
    # the dump has the gradient of the loss in cross entropy by its last kernel, which is not that of its input
    assert not [row for row in recorded if row["direction"] == "backward" and row["api"] == "cross_entropy"]


def test_equal_calls_run_once_and_known_ones_not_again(right, lake):
    again = lake.verify("tensor", name="right").report
    assert (again.known, again.distinct) == (again.distinct, right.report.distinct)
    assert again.statuses == right.report.statuses


def test_what_was_verified_on_something_else_is_not_mixed(right, lake):
    with pytest.raises(UsageError, match="the verification right is of run tensor, device cpu; use"):
        lake.verify("statistics", name="right")


def test_every_planted_op_is_named_and_no_other(lake, planted_path):
    found = lake.verify("tensor", name="planted", imports=["planted"])
    wrong = {(row["api"], row["direction"], row["status"]) for row in statuses(found) if row["status"] != "pass"}
    assert wrong == {
        ("gelu", "forward", "error"),
        ("layer_norm", "forward", "error"),
        ("layer_norm", "backward", "error"),
        ("relu", "forward", "error"),
        ("tanh", "backward", "error"),
        ("softmax", "forward", "warning"),
        ("softmax", "backward", "warning"),
    }
    assert all(row["origin"] == "device" for row in statuses(found, status="error"))


def test_random_inputs_have_the_recorded_statistics(lake):
    found = lake.verify("statistics", "linear", "gelu", "embedding", "lstm")
    assert {row["api"] for row in statuses(found)} == {"linear", "gelu", "embedding", "lstm"}
    assert {row["status"] for row in statuses(found)} == {"pass"}
    assert {row["inputs"] for row in statuses(found)} == {"random"}


def test_a_crash_and_an_endless_op_cost_their_own_rows(lake, planted_path):
    found = lake.verify("tensor", "gelu", "relu", "linear", name="breaking", imports=["breaking"], limit=10)
    problems = {row["api"]: row["problem"] for row in statuses(found, status="skip")}
    assert problems["gelu"].startswith("its process ended: SIGSEGV")
    assert problems["relu"] == "it ran longer than 10 seconds"
    assert [row["problem"] for row in statuses(found, api="linear")] == [None] * 5
    # they are known, with their reason, and run again only when asked to
    assert lake.verify("tensor", "gelu", name="breaking").report.known == 1


def cells(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def test_msprobes_files(right, tmp_path):
    result, details = right.write(tmp_path)
    rows = cells(details)
    assert rows[0][:5] == ["API Name", "Bench Dtype", "DEVICE Dtype", "Shape", "余弦相似度"]
    assert len(rows[0]) == 23
    assert "Torch.relu.0.forward.output.0" in {row[0] for row in rows}
    summary = {row[0]: row[1:] for row in cells(result)}
    assert summary["Functional.gelu.0"] == ["pass", "pass", ""]


def test_two_devices_are_held_against_each_other_and_wrong_ops_are_kept(right, lake, planted_path, tmp_path):
    lake.verify("tensor", "layer_norm", name="other", imports=["planted"], save_errors=tmp_path)
    [folder] = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} >= {"input.0.npy", "result.output.0.npy", "gradient.input.0.npy"}
    rows = lake.verification("other").against("right").fetchall()
    columns = lake.verification("other").against("right").columns
    found = {row[columns.index("op")]: row[columns.index("status")] for row in rows}
    assert found["Functional.layer_norm.0.forward"] == "error"
    with pytest.raises(UsageError, match="has no verification nothing"):
        lake.verification("other").against("nothing")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"run": "none"}, "has no run none"),
        ({"ops": ["no_such_op"]}, "has none of the API calls asked for"),
        ({"standard": "strict"}, "there is no standard strict"),
        ({"device": "warp:0", "name": "x"}, "pytorch cannot run ops on warp:0"),
        ({"of": "none"}, "has no comparison none"),
        ({"imports": ["no_such_module"], "name": "x"}, "no_such_module is not installed"),
    ],
)
def test_what_cannot_be_verified_is_said(place, asked, message):
    with pytest.raises(UsageError, match=message):
        verifying.verify(**{"run": "tensor", "ops": ["gelu"], "lake": place} | asked)
    with Lake(place) as opened:
        assert "x" not in {name for (name,) in opened.sql("SELECT DISTINCT verification FROM verifications").fetchall()}


def test_blame_says_what_verifications_say_of_its_first_suspect(place, planted_path, monkeypatch):
    """The target ran with a wrong layer norm: what it recorded is wrong by its own inputs, the op here is right."""
    from torch.nn import functional

    from lakeprobe.reports.blame_text import blame_text

    right = functional.layer_norm
    monkeypatch.setattr(functional, "layer_norm", lambda x, *rest, **named: right(x, *rest, **named) * 1.001)
    with lakeprobe.collect(None, run="npu", lake=place, task="tensor"):
        train()
    monkeypatch.undo()
    with Lake(place) as opened:
        opened.compare("npu", "tensor", name="pair")
        before = blame_text(opened.comparison("pair").blame())
        report = opened.verify("npu", name="npu_worst", of="pair", most=3).report
        assert report.calls <= 3
        after = blame_text(opened.comparison("pair").blame())
    assert "Functional.layer_norm.0.forward on rank 0" in before
    assert "given the inputs of npu" not in before
    assert "The op itself is wrong: given the inputs of npu, what npu recorded is off by up to 0.0" in after
    assert "The op itself is right: given the inputs of npu, run again on cpu is within rounding." in after


def test_a_part_of_a_gradient_is_not_held_against_the_whole(tmp_path):
    """softsign and normalize use their input in two nodes, and msprobe records what the last one gives."""
    import torch
    from torch.nn import functional

    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    with lakeprobe.collect(None, run="run", lake=tmp_path / "lake", task="tensor"):
        (functional.softsign(x) + functional.normalize(x) + functional.gelu(x)).sum().backward()
    with Lake(tmp_path / "lake") as lake:
        lake.verify("run")
        found = set(lake.sql("SELECT api, direction, origin, status FROM verifications").fetchall())
    assert {status for *_, status in found} == {"pass"}
    assert ("gelu", "backward", "recorded", "pass") in found
    assert ("softsign", "backward", "device", "pass") in found
    assert ("softsign", "backward", "recorded", "pass") not in found


def test_the_command_says_what_it_found_and_exits_by_it(place, right):
    done = CliRunner().invoke(app, ["verify", "tensor", "--name", "right", "--lake", str(place)])
    assert done.exit_code == 0, done.output
    counts = re.match(r"right: (\d+) calls of ops, (\d+) distinct, (\d+) known before\n", done.stdout)
    calls, distinct, known = map(int, counts.groups())
    assert calls >= distinct == known > 20
    assert "Every op that ran is right: its error is what rounding explains." in done.stdout
    unknown = CliRunner().invoke(app, ["verify", "nobody", "--lake", str(place)])
    assert unknown.exit_code != 0
