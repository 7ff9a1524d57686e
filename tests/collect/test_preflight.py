"""A preflight names each of the differences that were planted between two launches, and nothing between equal ones."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import lakeprobe as run

import lakeprobe
from lakeprobe.collect import preflight as packing
from lakeprobe.errors import DumpError, UsageError

torch = pytest.importorskip("torch")


@dataclass
class Launch:
    """What a script has before its first step."""

    model: torch.nn.Module
    settings: argparse.Namespace
    batches: list[dict[str, torch.Tensor]]
    undo: list[Callable[[], object]] = field(default_factory=list)


def launch() -> Launch:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 4))
    settings = argparse.Namespace(learning_rate=1e-3, schedule={"warmup": 10, "names": ["a", "b"]}, resume=None)
    batches = [{"tokens": torch.arange(6).reshape(2, 3) + number} for number in range(3)]
    return Launch(model, settings, batches)


def variable(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")


def missing_variable(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    patch.delenv("PLANTED")


def package(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    packages = packing._packages()
    patch.setattr(packing, "_packages", lambda: packages | {"numpy": "1.0"})


def missing_package(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    packages = packing._packages()
    patch.setattr(packing, "_packages", lambda: {name: packages[name] for name in packages if name != "duckdb"})


def world_size(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("WORLD_SIZE", "8")


def seed_of_torch(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)


def seed_of_python(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    random.seed(1)


def seed_of_numpy(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    np.random.seed(1)


def deterministic_switch(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    torch.use_deterministic_algorithms(True)
    launch.undo.append(lambda: torch.use_deterministic_algorithms(False))


def matmul_precision(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    torch.set_float32_matmul_precision("medium")
    launch.undo.append(lambda: torch.set_float32_matmul_precision("highest"))


def default_dtype(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    torch.set_default_dtype(torch.float64)
    launch.undo.append(lambda: torch.set_default_dtype(torch.float32))


def learning_rate(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    launch.settings.learning_rate = 2e-3


def nested_setting(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    launch.settings.schedule["names"][1] = "c"


def batch_order(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    launch.batches[0], launch.batches[1] = launch.batches[1], launch.batches[0]


def one_token(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    launch.batches[2]["tokens"][0, 1] += 1


def one_weight(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    launch.model[1].weight.data[0, 0] += 1e-3


def dtype_of_a_weight(launch: Launch, patch: pytest.MonkeyPatch) -> None:
    launch.model[1].bias.data = launch.model[1].bias.data.bfloat16()


PLANTED: dict[Callable[[Launch, pytest.MonkeyPatch], None], dict[str, str]] = {
    variable: {"environment.CUBLAS_WORKSPACE_CONFIG": "error: :16:8 against :4096:8"},
    missing_variable: {"environment.PLANTED": "warning: only in golden: x"},
    package: {"packages.numpy": f"error: 1.0 against {np.__version__}"},
    missing_package: {"packages.duckdb": "warning: only in golden: *"},
    world_size: {"launch.world_size": "error: 8 against 1", "environment.WORLD_SIZE": "error: only in the target: 8"},
    seed_of_torch: {"random.torch": "error: * against *"},
    seed_of_python: {"random.random": "warning: * against *"},
    seed_of_numpy: {"random.numpy": "warning: * against *"},
    deterministic_switch: {"switches.deterministic_algorithms": "error: true against false"},
    matmul_precision: {"switches.float32_matmul_precision": "error: medium against highest"},
    default_dtype: {"switches.default_dtype": "error: torch.float64 against torch.float32"},
    learning_rate: {"settings.learning_rate": "error: 0.002 against 0.001"},
    nested_setting: {"settings.schedule.names.1": "error: c against b"},
    batch_order: {
        "data.batch0.tokens": "error: has what golden has as data.batch1.tokens",
        "data.batch1.tokens": "error: has what golden has as data.batch0.tokens",
    },
    one_token: {"data.batch2.tokens": "error: its values differ; *"},
    one_weight: {"weights.1.weight": "error: its values differ; *"},
    dtype_of_a_weight: {"weights.1.bias": "error: dtype bfloat16 against float32"},
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakeprobe.session.Lake]:
    folder = tmp_path_factory.mktemp("preflight")
    with pytest.MonkeyPatch.context() as patch:
        pack(folder / "golden", launch(), patch)
    with lakeprobe.open(folder / "lake", create=True) as lake:
        lake.ingest(folder / "golden")
        yield lake


def pack(folder: Path, begun: Launch, patch: pytest.MonkeyPatch, plant: Any = None) -> None:
    patch.setenv("PLANTED", "x")
    patch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    patch.delenv("WORLD_SIZE", raising=False)
    if plant is not None:
        plant(begun, patch)
    try:
        lakeprobe.preflight(begun.model, out=folder, settings=begun.settings, batches=begun.batches)
    finally:
        for undo in begun.undo:
            undo()


def test_equal_launches_are_equal(lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(tmp_path / "again", launch(), monkeypatch)
    lake.ingest(tmp_path / "again")
    result = lake.compare("again", "golden")
    assert result.verdict.value == "equal"
    assert result.summary().parameters == ()


def test_each_planted_difference_is_found_and_nothing_else(
    lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plant_all(begun: Launch, patch: pytest.MonkeyPatch) -> None:
        for plant in PLANTED:
            plant(begun, patch)

    pack(tmp_path / "planted", launch(), monkeypatch, plant_all)
    lake.ingest(tmp_path / "planted")
    rows = lake.compare("planted", "golden").rows
    found = dict(rows.filter("len(messages) > 0").project("coalesce(target_op, golden_op), messages[1]").fetchall())
    expected = {name: message for planted in PLANTED.values() for name, message in planted.items()}
    assert found.keys() == expected.keys()
    for name, message in expected.items():
        assert fnmatchcase(found[name], message), found[name]


def test_packing_changes_nothing_that_the_training_draws_from(tmp_path: Path) -> None:
    begun = launch()
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
    states = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()
    lakeprobe.preflight(begun.model, out=tmp_path, batches=loader)
    assert (random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()) == states
    found = json.loads((tmp_path / "rank0/preflight.json").read_text())
    order = next(iter(loader))[0]
    from lakeprobe.tensors.content import array_hash

    assert found["data"]["batch0.0"]["md5"] == array_hash(order.numpy())


def test_secrets_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    lakeprobe.preflight(out=tmp_path)
    text = (tmp_path / "rank0/preflight.json").read_text()
    assert "hf_very_secret" not in text
    assert json.loads(text)["environment"]["HF_TOKEN"].startswith("hidden, ")


def test_what_cannot_be_packed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can be gone through only once"):
        lakeprobe.preflight(out=tmp_path, batches=iter([1]))
    with pytest.raises(UsageError, match="give out, a folder, or run"):
        lakeprobe.preflight()
    assert list(tmp_path.iterdir()) == []


def test_a_rank_has_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert lakeprobe.preflight(out=tmp_path) == tmp_path / "rank3"


def test_it_runs_where_there_is_no_torch(tmp_path: Path) -> None:
    """And it does not import what is installed but was not imported."""
    code = f"""
import sys, lakeprobe
class Refuse:
    def find_spec(self, name, *_):
        if name in ("torch", "mindspore"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
lakeprobe.preflight(out={str(tmp_path)!r}, settings={{"a": 1}}, batches=[[1, "x"]])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    found = json.loads((tmp_path / "rank0/preflight.json").read_text())
    assert found["settings"] == {"a": 1}
    assert found["data"] == {"batch0.0": 1, "batch0.1": "x"}
    assert found["switches"] == found["weights"] == {}


SCRIPT = """
import random, sys, numpy, torch
torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Linear(2, 2)
if int(sys.argv[1]):
    random.random()
print(model(torch.ones(1, 2)).sum().item() != 0)
"""


def test_a_wrapped_command_packs_itself(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    for name, seed in (("a", 0), ("b", 1)):
        done = run("preflight", "pack", "-o", tmp_path / name, "--", sys.executable, tmp_path / "train.py", seed)
        assert done.code == 0
    done = run(
        "preflight", "compare", tmp_path / "b", tmp_path / "a", "--lake", tmp_path / "lake", "--fail-on", "error"
    )
    assert done.code == 1
    before, _, after = done.out.partition("What differs:\n")
    assert "Verdict: different" in before
    differing = [line.strip().partition(":")[0] for line in after.partition("\n\n")[0].splitlines()]
    assert differing == [
        "random.torch", "weights.weight", "weights.bias", "launch.arguments", "random.random",
        "random.calls.random.random",
    ]  # fmt: skip
    assert "random.calls.random.random: only in the target: 1 at train.py:6" in done.out
    packed = json.loads((tmp_path / "a/rank0/preflight.json").read_text())["random"]
    assert packed["calls.torch.kaiming_uniform_"] == packed["calls.torch.uniform_"] == "1 at train.py:4"
    assert packed["random"] == "not seeded"


def test_the_exit_code_of_the_command_is_kept(tmp_path: Path) -> None:
    assert run("preflight", "pack", "-o", tmp_path, "--", sys.executable, "-c", "raise SystemExit(7)").code == 7
    assert run("preflight", "pack", "-o", tmp_path, "--", "no-such-program").line.endswith("No such file or directory")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "is not a preflight of version 1"),
        ('{"preflight": 2}', "is not a preflight of version 1"),
        ('{"preflight": 1, "settings": []}', "settings is not an object of values"),
        ('{"preflight": 1, "settings": {"a": [1]}}', "settings.a is not a value"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_damaged_preflight_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "preflight.json").write_text(text)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake, pytest.raises(DumpError, match=message) as caught:
        lake.ingest(tmp_path / "preflight.json")
    assert str(tmp_path / "preflight.json") in str(caught.value)


def test_compare_and_blame_say_what_differed_before_the_first_op(tmp_path: Path) -> None:
    for name, error in (("golden", 0.0), ("target", 1e-3)):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        model.weight.data[0, 0] += error
        with lakeprobe.collect(model, run=name, lake=tmp_path / "lake", preflight=True, weights="digest") as collector:
            model(torch.ones(2, 4)).sum().backward()
            collector.step()
    compared = run("compare", "target", "golden", "--lake", tmp_path / "lake")
    before = compared.out.index("Before the first op, the settings and weights differ:\n  weights.weight: ")
    assert before < compared.out.index("Verdict: different")
    blamed = run("blame", "target_vs_golden", "--lake", tmp_path / "lake")
    assert "\n  weights.weight: its values differ; " in blamed.out
    assert blamed.out.index("Before the first op") < blamed.out.index("Functional.linear.0.forward")
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        assert lake.runs == ["golden", "golden.preflight", "target", "target.preflight"]
    directly = run("preflight", "compare", "target", "golden", "--lake", tmp_path / "lake")
    assert "weights.weight: its values differ; " in directly.out
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert lake.comparisons == ["target.preflight_vs_golden.preflight", "target_vs_golden"]


def test_runs_without_a_preflight_are_refused_and_their_comparison_stays(tmp_path: Path) -> None:
    from program import dump_text, write_dump

    lake = ("--lake", tmp_path / "lake")
    for name, norm in (("golden", 1.0), ("target", 2.0)):
        run("ingest", write_dump(tmp_path / name, dump_text(add=norm)), *lake)
    before = run("compare", "target", "golden", *lake).out
    refused = run("preflight", "compare", "target", "golden", *lake)
    assert (refused.code, "one of the two is no preflight; collect with preflight=True" in refused.line) == (2, True)
    assert run("compare", "target", "golden", *lake).out == before


def test_first_checkpoints_are_compared_with_their_runs(tmp_path: Path) -> None:
    from program import dump_text, write_dump

    lake = ("--lake", tmp_path / "lake")
    for name, norm, weight in (("golden", 1.0, 1.0), ("target", 2.0, 1.5)):
        run("ingest", write_dump(tmp_path / name, dump_text(add=norm)), *lake)
        torch.save({"w": torch.tensor([[weight, 1.0]])}, tmp_path / f"{name}.pt")
        run("ingest", tmp_path / f"{name}.pt", "--run", f"{name}.weights", *lake)
    done = run("compare", "target", "golden", *lake)
    differ = "Before the first op, the first checkpoints differ:\n  w: the values differ by up to 0.5"
    assert differ in done.out
    later = tmp_path / "step1" / "rank0"
    later.mkdir(parents=True)
    torch.save({"w": torch.tensor([[1.0, 1.0]])}, later / "w.pt")
    for name in ("golden", "target"):
        assert run("ingest", later.parent, "--run", f"{name}.weights", *lake).code == 0
    again = run("compare", "target", "golden", *lake)
    assert (again.code, differ in again.out) == (0, True)
    units = run("sql", "select count(*) from results where comparison = 'target.weights_vs_golden.weights'", *lake)
    assert units.out.split()[-1] == "2"
