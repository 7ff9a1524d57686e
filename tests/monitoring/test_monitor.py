"""What a monitor measures, what rules find in it, and that the training does not notice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import lakeprobe  # noqa: E402
from lakeprobe.analysis import watch as watching  # noqa: E402
from lakeprobe.cli import app  # noqa: E402
from lakeprobe.errors import LakeError, RuleError, UsageError  # noqa: E402
from lakeprobe.monitoring import alarm, settings  # noqa: E402
from lakeprobe.monitoring.writing import SeriesWriter  # noqa: E402

Plant = Callable[[Any, int], None]
RATE, BETAS, EPS = 1e-3, (0.9, 0.99), 1e-8


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))


def trained(lake: Path | None, run: str = "npu", steps: int = 30, plant: Plant | None = None, **options: Any) -> Any:
    """A model that was trained `steps` steps, monitored if there is a lake."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPS)
    monitor = lakeprobe.monitor(model, optimizer, run=run, lake=lake, **options) if lake else None
    for step in range(steps):
        optimizer.zero_grad()
        loss = (model(torch.randn(16, 6)) - 1).square().mean()
        loss.backward()
        if monitor:
            monitor.log("loss", loss)
        if plant:
            plant(model, step)
        optimizer.step()
    if monitor:
        monitor.close()
    return model


def found(lake: Path, run: str = "npu") -> list[tuple[str, int | None, int | None, str | None, str | None]]:
    with lakeprobe.open(lake) as opened:
        return [(each.rule, each.rank, each.step, each.name, each.point) for each in opened.watch(run)]


def test_every_point_has_the_numbers_of_numpy(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def keep(model: Any, step: int) -> None:
        seen.append({name: parameter.grad.numpy().copy() for name, parameter in model.named_parameters()})
        before.append({name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()})

    before: list[dict[str, Any]] = []
    model = trained(tmp_path / "lake", steps=3, plant=keep, points=settings.POINTS, metrics=settings.METRICS)
    with lakeprobe.open(tmp_path / "lake") as lake:
        rows = lake.sql("SELECT step, name, point, metric, coalesce(value::VARCHAR, text) FROM series").fetchall()
    of = {tuple(row[:4]): row[4] for row in rows}
    weight = "2.weight"
    for step, (gradients, parameters) in enumerate(zip(seen, before, strict=True)):
        for point, array in (("gradient", gradients[weight]), ("gradient_unreduced", gradients[weight]),
                             ("parameter", parameters[weight])):  # fmt: skip
            wide = array.astype(np.float64)
            expected = {"norm": np.sqrt((wide**2).sum()), "mean": wide.mean(), "min": wide.min(), "max": wide.max(),
                        "zeros": (np.abs(wide) < 1e-8).mean(), "nans": 0.0}  # fmt: skip
            for metric, value in expected.items():
                assert float(of[step, weight, point, metric]) == pytest.approx(value, rel=1e-12, abs=1e-15), metric
            assert of[step, weight, point, "shape"] == "[3, 8]"
            assert of[step, weight, point, "dtype"] == "torch.float32"
    assert of[1, weight, "parameter", "digest"] == of[0, weight, "parameter_updated", "digest"]
    assert of[1, weight, "parameter", "digest"] != of[0, weight, "parameter", "digest"]
    first = second = np.zeros((3, 8))
    for step, gradients in enumerate(seen):
        wide = gradients[weight].astype(np.float64)
        first, second = (
            BETAS[0] * first + (1 - BETAS[0]) * wide,
            BETAS[1] * second + (1 - BETAS[1]) * wide**2,
        )
        corrected = np.sqrt(second / (1 - BETAS[1] ** (step + 1))) + EPS
        direction = first / (1 - BETAS[0] ** (step + 1)) / corrected
        assert float(of[step, weight, "update", "norm"]) == pytest.approx(np.linalg.norm(direction), rel=1e-5)
        for point, value in (("moment1", first), ("moment2", second)) if step < 2 else ():
            assert float(of[step + 1, weight, point, "norm"]) == pytest.approx(np.linalg.norm(value), rel=1e-5)
    final = next(parameter for name, parameter in model.named_parameters() if name == weight).detach().double()
    assert float(of[2, weight, "parameter_updated", "norm"]) == pytest.approx(float(final.norm()), rel=1e-12)
    assert {name for _, name, point, _ in of if point == "output"} == {"", "0", "1", "2"}
    assert float(of[0, "learning_rate.0", "logged", "value"]) == RATE


def test_a_training_that_is_monitored_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    bare = trained(None)
    watched = trained(tmp_path / "lake", points=settings.POINTS, metrics=settings.METRICS)
    for one, other in zip(bare.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one, other)
    assert not watched[0]._forward_hooks
    assert not watched[0].weight._backward_hooks


def test_what_was_asked_for_is_measured_and_nothing_else(tmp_path: Path) -> None:
    trained(tmp_path / "lake", steps=9, targets=["2.w*"], points=["parameter"], every=3, start=2)
    with lakeprobe.open(tmp_path / "lake") as lake:
        rows = lake.sql("SELECT DISTINCT step, name FROM series WHERE point <> 'logged' ORDER BY step").fetchall()
        assert rows == [(2, "2.weight"), (5, "2.weight"), (8, "2.weight")]
        assert lake.sql("SELECT count(*) FROM series WHERE name = 'loss'").fetchall() == [(9,)]


def test_a_norm_that_need_not_be_exact(tmp_path: Path) -> None:
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(3, 5000))
    module = torch.nn.Module()
    module.weight = parameter
    with lakeprobe.monitor(module, run="npu", lake=tmp_path / "lake", points=["parameter"]) as monitor:
        for scale in (1.0, 1e25, 1e-50, 0.0):  # float32 cannot square the second, and holds of the third only 1e-25
            with torch.no_grad():
                parameter.mul_(scale)
            monitor.before_step()
            monitor.step()
            if scale == 1e25:
                expected = float(parameter.detach().double().norm())
    with lakeprobe.open(tmp_path / "lake") as lake:
        found = [value for (value,) in lake.sql("SELECT value FROM series ORDER BY step").fetchall()]
    assert found[0] == pytest.approx(np.sqrt(15000), rel=0.02)
    assert found[1] == pytest.approx(expected, rel=1e-12)
    assert found[2] == pytest.approx(expected * 1e-50, rel=1e-5)
    assert found[1] / found[0] == pytest.approx(1e25, rel=1e-6)
    assert found[3] == 0.0


def test_micro_steps_are_numbered(tmp_path: Path) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    with lakeprobe.monitor(model, optimizer, run="npu", lake=tmp_path / "lake", points=["gradient_unreduced"]):
        for _ in range(2):
            for _ in range(3):
                model(torch.randn(4, 6)).sum().backward()
            optimizer.step()
    with lakeprobe.open(tmp_path / "lake") as lake:
        query = "SELECT step, micro_step FROM series WHERE name = '0.bias' ORDER BY ALL"
        assert lake.sql(query).fetchall() == [(step, micro) for step in range(2) for micro in range(3)]


def test_two_models_with_an_optimizer_each(tmp_path: Path) -> None:
    models = [network(), network()]
    optimizers = [torch.optim.Adam(model.parameters()) for model in models]
    norms = {}
    with lakeprobe.monitor(models, optimizers, run="npu", lake=tmp_path / "lake", points=["gradient"]):
        for step in range(3):
            for number, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
                for other in optimizers:
                    other.zero_grad()
                model(torch.randn(4, 6)).square().mean().backward()
                for name, parameter in model.named_parameters():
                    norms[step, f"{number}:{name}"] = float(parameter.grad.double().norm())
                optimizer.step()
    query = "SELECT step, name, value FROM series WHERE point = 'gradient' AND metric = 'norm'"
    with lakeprobe.open(tmp_path / "lake") as lake:
        rows = lake.sql(query).fetchall()
    assert len(rows) == len(norms)
    assert {(step, name): value for step, name, value in rows} == pytest.approx(norms, rel=1e-12)


def nan(model: Any, step: int) -> None:
    if step == 20:
        model[2].weight.grad[0, 0] = float("nan")


def jump(model: Any, step: int) -> None:
    if step == 20:
        model[0].weight.grad *= 100


def dead(model: Any, step: int) -> None:
    if step >= 20:
        model[2].bias.grad.zero_()


def vanishing(model: Any, step: int) -> None:
    model[0].bias.grad *= 0.3**step


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (nan, ("nan", 0, 20, "2.weight", "gradient")),
        (jump, ("jump", 0, 20, "0.weight", "gradient")),
        (dead, ("dead", 0, 20, "2.bias", "gradient")),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_anomaly_is_found_at_its_step(tmp_path: Path, plant: Plant, expected: tuple[Any, ...]) -> None:
    trained(tmp_path / "lake", plant=plant)
    assert found(tmp_path / "lake")[0] == expected


def test_a_gradient_that_vanishes(tmp_path: Path) -> None:
    trained(tmp_path / "lake", plant=vanishing)
    [(rule, _, step, name, point)] = found(tmp_path / "lake")
    assert (rule, name, point) == ("vanishing", "0.bias", "gradient")
    assert step is not None
    assert 10 < step < 20


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_replica_that_leaves_the_others(tmp_path: Path, ranks: int) -> None:
    def leave(model: Any, step: int) -> None:
        if step == 25:
            model[0].weight.grad *= 1.001

    for rank in range(ranks):
        trained(tmp_path / "lake", rank=rank, plant=leave if rank == 1 else None)
    named = [each for each in found(tmp_path / "lake") if each[2] == 25]
    wrong = [0, 1] if ranks == 2 else [1]
    assert sorted(named) == [
        (rule, rank, 25, "0.weight", "gradient") for rule in ("laws", "replicas") for rank in wrong
    ]


def test_gradients_that_are_not_reduced_break_a_law_from_the_first_step_on(tmp_path: Path) -> None:
    def forgotten(model: Any, step: int) -> None:
        model[2].bias.grad *= 2

    def exaggerated(model: Any, step: int) -> None:
        model[0].weight.grad *= 100

    trained(tmp_path / "lake", rank=0)
    trained(tmp_path / "lake", rank=1, plant=forgotten)
    assert {each for each in found(tmp_path / "lake") if each[0] == "laws" and each[2] == 0} == {
        ("laws", rank, 0, "2.bias", "gradient") for rank in (0, 1)
    }
    for rank in (0, 1):
        points = ["gradient_unreduced", "gradient", "parameter"]
        trained(tmp_path / "lake", "long", rank=rank, plant=exaggerated, points=points)
    assert [each for each in found(tmp_path / "lake", "long") if each[0] == "laws"] == [
        ("laws", rank, 0, "0.weight", "gradient") for rank in (0, 1)
    ]


def test_a_gradient_that_explodes(tmp_path: Path) -> None:
    def exploding(model: Any, step: int) -> None:
        model[0].bias.grad *= 1.6**step

    trained(tmp_path / "lake", plant=exploding)
    rules = {(rule, name, point) for rule, _, _, name, point in found(tmp_path / "lake")}
    assert ("exploding", "0.bias", "gradient") in rules


DUMP = {"level": "L0", "extra_info": False}


def test_an_anomaly_starts_a_dump_of_the_next_step(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    told: list[Any] = []
    begin = alarm.dump(model, "npu.anomaly", lake=lake, **DUMP)

    def on_anomaly(anomalies: list[watching.Anomaly], step: int) -> Any:
        told.append((anomalies[0].rule, anomalies[0].step, step))
        return begin(anomalies, step)

    options = {"run": "npu", "lake": lake, "seconds": 0.05, "on_anomaly": on_anomaly, "rules": ["nan"]}
    with lakeprobe.monitor(model, optimizer, **options):
        deadline = time.monotonic() + 60
        step = after = 0
        while after < 3 and time.monotonic() < deadline:
            optimizer.zero_grad()
            model(torch.randn(4, 6)).square().mean().backward()
            if step == 5:
                model[2].weight.grad[0, 0] = float("nan")
            optimizer.step()
            time.sleep(0.02)
            step, after = step + 1, after + bool(told)
    [(rule, found_step, dumped)] = told
    assert (rule, found_step) == ("nan", 5)
    with lakeprobe.open(lake) as opened:
        assert opened.sql("SELECT DISTINCT step FROM ops WHERE run = 'npu.anomaly'").fetchall() == [(dumped,)]
        names = opened.sql("SELECT DISTINCT op FROM ops WHERE run = 'npu.anomaly' ORDER BY op").fetchall()
        assert ("Module.2.Linear.backward.0",) in names


def test_a_clean_run_of_a_thousand_steps_is_quiet(tmp_path: Path) -> None:
    trained(tmp_path / "lake", steps=1000)
    assert found(tmp_path / "lake") == []


def test_two_runs_part_where_the_defect_is(tmp_path: Path) -> None:
    def smaller(model: Any, step: int) -> None:
        if step >= 12:
            model[2].weight.grad *= 1 - 1e-2

    trained(tmp_path / "lake", "gpu")
    trained(tmp_path / "lake", "npu", plant=smaller)
    with lakeprobe.open(tmp_path / "lake") as lake:
        rows = lake.series_drift("gpu", "npu").project("step, name, point").fetchall()
        assert rows[0] == (12, "2.weight", "gradient")
        assert lake.series_drift("gpu", "gpu").fetchall() == []
        with pytest.raises(UsageError, match="no monitored run other; it has gpu, npu"):
            lake.series_drift("gpu", "other")
    said = CliRunner().invoke(app, ["drift", "gpu", "npu", "--lake", str(tmp_path / "lake")])
    assert said.stdout.startswith("npu leaves gpu in step 12 on rank 0: 2.weight, norm of its gradient\n")


def test_the_command(tmp_path: Path) -> None:
    trained(tmp_path / "lake", "npu", plant=jump)
    trained(tmp_path / "lake", "gpu")
    run = CliRunner().invoke
    lake = ["--lake", str(tmp_path / "lake")]
    said = run(app, ["watch", "npu", *lake])
    assert said.exit_code == 1
    assert said.stdout.splitlines()[2].split()[:6] == ["jump", "0", "20", "0.weight", "gradient", "norm"]
    quiet = run(app, ["watch", "gpu", "--follow", *lake])
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert "gpu: nothing found; its monitoring has ended" in quiet.stderr
    shown = run(app, ["watch", "npu", "--show-rule", "nan", *lake])
    assert shown.stdout == watching.load("nan").sql
    listed = run(app, ["ls", *lake])
    assert "monitored" in listed.stdout


@pytest.mark.parametrize(
    "asked", [["first-diff"], ["blame"], ["comm"], ["show", "0.weight"], ["compact"], ["verify"], ["compare", "npu"]]
)
def test_a_question_about_ops_of_a_run_that_was_only_monitored(tmp_path: Path, asked: list[str]) -> None:
    lake = tmp_path / "lake"
    trained(lake, "npu", steps=2)
    place = {"show": ["--run", "npu"]}.get(asked[0], ["npu"])
    said = CliRunner().invoke(app, [*asked, *place, "--lake", str(lake)])
    assert isinstance(said.exception, UsageError)
    assert str(said.exception) == (
        f"{lake} has no ops of the run npu, which was only monitored; see its series: lakeprobe watch npu, "
        "or lakeprobe drift with another monitored run"
    )


@pytest.mark.parametrize(("targets", "is_told"), [(["attention"], True), (["2.weight"], False), ([], False)])
def test_targets_that_fit_nothing_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], targets: list[str], is_told: bool
) -> None:
    """The training goes on: with pipeline stages they may fit on other ranks."""
    trained(tmp_path / "lake", steps=2, targets=targets)
    says = "lakeprobe: the targets of monitor fit no parameter and no module here; give parts of their names"
    assert (says in capsys.readouterr().err) == is_told


def test_a_rule_of_the_user(tmp_path: Path) -> None:
    trained(tmp_path / "lake")
    rule = tmp_path / "large.sql"
    rule.write_text("SELECT rank, step, name, point, metric, value, 'large' AS reason FROM watched WHERE name = 'loss'")
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert len(lake.watch("npu", [str(rule)])) == 30
        for text, says in (
            ("SELECT 1 AS step FROM watched", "the rule large returns no column rank, name"),
            ("SELEKT 1", "the rule large: Parser Error"),
            (f"COPY (FROM watched) TO '{tmp_path}/stolen.csv'", "the rule large"),
            (f"SELECT * FROM read_csv('{rule}')", "the rule large"),
        ):
            rule.write_text(text)
            with pytest.raises(RuleError, match=says):
                lake.watch("npu", [str(rule)])
        with pytest.raises(UsageError, match=r"nothing is not a rule; use one of nan, .*, or the path of a \.sql file"):
            lake.watch("npu", ["nothing"])
        with pytest.raises(UsageError, match="cannot be read"):
            lake.watch("npu", ["missing.sql"])
        with pytest.raises(UsageError, match="the lake has no monitored run other; it has npu"):
            lake.watch("other")
    assert not (tmp_path / "stolen.csv").exists()


def test_a_series_is_replaced_only_if_asked_for(tmp_path: Path) -> None:
    trained(tmp_path / "lake", steps=3)
    with pytest.raises(LakeError, match="has the series of run npu rank 0; choose another name, or replace it"):
        trained(tmp_path / "lake", steps=3)
    trained(tmp_path / "lake", steps=2, replace=True)
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert lake.sql("SELECT DISTINCT step FROM series ORDER BY step").fetchall() == [(0,), (1,)]
        lake.rename("npu", "other")
        lake.note("other", "a note")
        assert lake.sql("SELECT DISTINCT run FROM series").fetchall() == [("other",)]
        lake.rm("other")
        assert lake.sql("SELECT count(*) FROM series").fetchall() == [(0,)]


def test_a_failure_ends_the_monitoring_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(self: SeriesWriter, rows: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SeriesWriter, "put", full)
    bare, watched = trained(None), trained(tmp_path / "lake")
    assert all(map(torch.equal, bare.parameters(), watched.parameters()))
    [line] = capfd.readouterr().err.splitlines()
    assert line == (
        "lakeprobe: [Errno 28] No space left on device; monitoring of run npu ends here, the training goes on"
    )
    with pytest.raises(OSError, match="No space left"):
        trained(tmp_path / "lake", "raised", on_failure="raise")


def test_what_is_logged_and_no_number_is_left_out_and_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = network()
    with lakeprobe.monitor(model, None, run="npu", lake=tmp_path / "lake") as monitor:
        for step in range(3):
            monitor.log("loss", torch.tensor([[1.5]]))
            monitor.log("accuracy", None)
            monitor.log("classes", torch.ones(3))
            monitor.log("accuracy", "high")
            monitor.log(5, step)  # type: ignore[arg-type]
            monitor.step()
    assert capfd.readouterr().err.splitlines() == [
        f"lakeprobe: {name} is a {kind}, not a number or a tensor of one element; the series of run npu leaves it out"
        for name, kind in (("accuracy", "NoneType"), ("classes", "Tensor"))
    ]
    with lakeprobe.open(tmp_path / "lake") as lake:
        logged = lake.sql("SELECT step, name, value FROM series WHERE point = 'logged' ORDER BY ALL").fetchall()
    assert logged == [row for step in range(3) for row in ((step, "5", step), (step, "loss", 1.5))]


def test_what_was_measured_before_a_failure_stays_and_nothing_says_that_the_training_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, given = SeriesWriter.put, []

    def broken(self: SeriesWriter, rows: Any) -> None:
        given.append(rows)
        if len(given) == 4:
            raise ValueError("a defect of ours")
        put(self, rows)

    monkeypatch.setattr(SeriesWriter, "put", broken)
    monitor = lakeprobe.monitor(model := network(), run="npu", lake=tmp_path / "lake", seconds=1000)
    for _ in range(6):
        monitor.log("loss", model(torch.ones(1, 6)).sum())
        monitor.step()
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert lake.sql("SELECT DISTINCT step FROM series ORDER BY ALL").fetchall() == [(0,), (1,), (2,)]
    done = CliRunner().invoke(app, ["watch", "npu", "--lake", str(tmp_path / "lake")])
    assert (done.exit_code, done.stderr) == (0, "npu: nothing found; its monitoring has ended\n")


KILLED = """
import sys, time, torch, lakeprobe
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = lakeprobe.monitor(model, optimizer, run="npu", lake=sys.argv[1], seconds=0.1)
while True:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
"""


def test_a_process_that_is_killed_is_told_and_what_it_published_stays(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    process = subprocess.Popen([sys.executable, "-c", KILLED, lake])
    try:
        deadline = time.monotonic() + 120
        while not watching.ranks(lake, "npu").running and time.monotonic() < deadline:
            time.sleep(0.1)
        assert watching.ranks(lake, "npu") == watching.Ranks(running=(0,), ended=(), dead=())
    finally:
        process.kill()
        process.wait()
    assert watching.ranks(lake, "npu") == watching.Ranks(running=(), ended=(), dead=(0,))
    with lakeprobe.open(lake) as opened:
        steps, last = opened.sql("SELECT count(DISTINCT step), max(step) FROM series").fetchall()[0]
        assert steps == last + 1
    said = CliRunner().invoke(app, ["watch", "npu", "--follow", "--lake", str(tmp_path / "lake")])
    assert said.exit_code == 1
    assert "the process of rank 0 died before its series had ended" in said.stderr
    trained(tmp_path / "lake", steps=2, replace=True)
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert lake.sql("SELECT max(step) FROM series").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"points": "gradient"}, "points should be a list of some of parameter"),
        ({"metrics": ["median"]}, "metrics should be a list of some of norm"),
        ({"targets": "layers"}, "targets should be a list, not 'layers'"),
        ({"every": 0}, "every should be a whole number from 1, not 0"),
        ({"start": -1}, "start should be a whole number from 0, not -1"),
        ({"seconds": 0}, "seconds should be a number above 0, not 0"),
        ({"on_failure": "stop"}, "on_failure should be warn or raise"),
        ({"run": "a/b"}, "cannot name a run"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        lakeprobe.monitor(network(), **{"run": "npu", "lake": tmp_path / "lake"} | options)


@pytest.mark.parametrize(
    ("optimizers", "says"),
    [([], "the list of optimizers is empty"), ([3], "an item of type int, which is not an optimizer")],
)
def test_a_list_without_optimizers_is_refused(tmp_path: Path, optimizers: list[Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        lakeprobe.monitor(network(), optimizers, run="npu", lake=tmp_path / "lake")
    assert not (tmp_path / "lake").exists()
