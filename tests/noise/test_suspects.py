"""The planted cause stands out of rounding noise, and equal runs are quiet: by compare, first-diff and blame alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from noisy_network import WIDTH, Array, Network, Recorder
from sampling import seeds
from typer.testing import CliRunner

import lakeprobe
from lakeprobe.analysis.verdict import Verdict
from lakeprobe.cli import app
from lakeprobe.compare import noise
from lakeprobe.reports import first_difference_text as first_difference_module
from lakeprobe.reports.blame_text import blame_text
from lakeprobe.reports.first_difference_text import first_difference_text
from lakeprobe.session import ComparisonResult, Lake

pytestmark = pytest.mark.sampled  # each rule has its cases in tests/sql, too


@pytest.fixture(autouse=True)
def evidence_that_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask in every comparison also for the evidence that it is said not to have: there is none."""
    create = noise._create

    def ask(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
        create(connection, name, name if query == "no_evidence" else query)
        if query == "no_evidence":
            assert connection.table(f"noise_{name}").fetchall() == []

    monkeypatch.setattr(noise, "_create", ask)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakeprobe.open(tmp_path / "lake", create=True) as opened:
        yield opened


def compared(lake: Lake, target: Network, golden: Network | None = None, **options: Any) -> ComparisonResult:
    folder = lake.path.parent
    if "golden" not in lake.runs:
        lake.ingest((golden or Network()).dump(folder / "golden"), run="golden")
    name = f"target{len(lake.runs)}"
    lake.ingest(target.dump(folder / name), run=name)
    return lake.compare(name, "golden", name=f"pair_{name}", **options)


def named(result: ComparisonResult, **options: Any) -> tuple[str | None, str | None, str | None]:
    """The op that compare, first-diff and blame name first; None where they name none."""
    beyond = result.summary().beyond_noise
    first = result.first_difference(**options).origins.project("op").fetchall()
    suspects = result.blame(**options).suspects.filter("grade = 'suspect'").project("op").fetchall()
    return (
        beyond[0].op if beyond else None,
        first[0][0] if first else None,
        suspects[0][0] if suspects else None,
    )


def one_element(weights: dict[str, Array]) -> None:
    weights["w3"][5, 7] += 1e-2


def transposed(weights: dict[str, Array]) -> None:
    weights["w3"] = weights["w3"].T.copy()


def off_by(op: str, change: Callable[[Array], Array]) -> Callable[[str, Array], Array]:
    return lambda name, output: change(output) if name == op else output


def one_lost(output: Array) -> Array:
    output = output.copy()
    output[3, 5] = 0.0 if abs(output[3, 5]) > 0.3 else 1.5
    return output


TWO = {"gelu.1.forward": 1 + 0.003 * np.where(np.arange(WIDTH) % 2, 1, -1), "gelu.4.forward": 3.0}

PLANTED = {
    "argument": (Network(eps={3: 1e-3}), "Functional.layer_norm.3.forward", "argument"),
    "an argument without much effect": (Network(eps={3: 1.2e-5}), "Functional.layer_norm.3.forward", "argument"),
    "missing": (Network(without_gelu=2), "Functional.gelu.2.forward", "missing"),
    "wiring": (Network(residual_from={3: "norm"}), "Functional.add.3.forward", "wiring"),
    "one element of a weight": (Network(weights=one_element), "Functional.linear.3.forward", "source"),
    "a weight of the same statistics": (Network(weights=transposed), "Functional.linear.3.forward", "made"),
    "the batch": (Network(batch=lambda batch: batch + 0.03), "Functional.layer_norm.0.forward", "source"),
    "a kernel": (
        Network(kernel=off_by("linear.2.forward", lambda output: output * 1.001)),
        "Functional.linear.2.forward", "added",
    ),
    "one element of a kernel": (
        Network(kernel=off_by("gelu.3.forward", one_lost)), "Functional.gelu.3.forward", "added",
    ),
    "a kernel backwards": (
        Network(kernel=off_by("linear.3.backward", lambda output: output * 1.01)),
        "Functional.linear.3.backward", "added",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANTED)
@pytest.mark.parametrize("seed", [None, *seeds(5, 2)])
def test_the_planted_cause_is_named(lake: Lake, case: str, seed: int | None) -> None:
    network, op, evidence = PLANTED[case]
    network.seed = seed
    result = compared(lake, network)
    assert named(result) == (op, op, op)
    if seed is not None:
        found = lake.sql("SELECT evidence, nth FROM suspects WHERE op = $op ORDER BY nth", {"op": op}).fetchall()
        assert found[0] == (evidence, 1)


def test_an_input_of_another_op_is_said_to_be_one(lake: Lake) -> None:
    result = compared(lake, Network(residual_from={3: "norm"}, seed=seeds(5, 1)[0]))
    said = " ".join(first_difference_text(result.first_difference()).split())
    assert "an input comes from another op than in golden" in said
    assert "no recorded op made the change" not in said
    [why, *_] = [row[0] for row in result.blame().suspects.order("nth").project("why").fetchall()]
    assert "in golden that is the output of" in why
    assert "no recorded op" not in why


@pytest.mark.parametrize(("difference", "words"), [("different", "do not explain"), ("noise", "its inputs agree")])
def test_inputs_that_differ_are_not_said_to_agree(difference: str, words: str) -> None:
    rank = {"source": "this op", "evidence": "law", "noise_op": None}
    assert words in first_difference_module._began(rank, [{"side": "input", "difference": difference}])


@pytest.mark.parametrize(("seed", "are_measured"), [(None, False), (5, True)])
def test_errors_are_measured_only_where_ops_round_differently(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, seed: int | None, are_measured: bool
) -> None:
    made: set[str] = set()
    create = noise._create

    def noted(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
        made.add(query)
        create(connection, name, query)

    monkeypatch.setattr(noise, "_create", noted)
    compared(lake, Network(eps={3: 1e-3}, seed=seed))
    assert {name in made for name in noise.BEYOND_ROUNDING} == {are_measured}
    assert {name in made for name in noise.BEYOND_ROUNDING.values()} == {not are_measured}


@pytest.mark.parametrize("seed", seeds(5, 6))
def test_equal_runs_are_quiet(lake: Lake, seed: int) -> None:
    result = compared(lake, Network(seed=seed))
    assert named(result) == (None, None, None)
    assert result.summary().verdict is Verdict.EQUAL_WITHIN_NOISE
    assert "No op stands out of rounding noise." in str(result)
    assert not result.summary().coverage.has_warnings


def test_a_norm_shows_what_elements_round_more_than(lake: Lake) -> None:
    """A product off by a thousandth stands out by its norm where elements round by as much."""
    coarse = {"matmul": 2e-3, "other": 1e-6}
    result = compared(lake, Network(seed=5, kernel=off_by("linear.3.forward", lambda out: out * 1.002), **coarse))
    assert named(result) == ("Functional.linear.3.forward",) * 3
    [(evidence, score, members)] = lake.sql("SELECT evidence, score, members FROM suspects WHERE nth = 1").fetchall()
    assert (evidence, members) == ("shift", 5)
    assert score >= 3
    assert "times as far off as others of its kind" in " ".join(
        first_difference_text(result.first_difference()).split()
    )
    for seed in seeds(6, 6):
        assert named(compared(lake, Network(seed=seed, **coarse))) == (None, None, None)


def test_a_sum_that_loses_a_part_of_its_total_breaks_a_law(lake: Lake) -> None:
    """What is wrong in every element of a sum by less than its terms err shows in the mean."""
    coarse = {"matmul": 2e-3, "other": 1e-5}
    result = compared(lake, Network(seed=5, kernel=off_by("add.3.forward", lambda out: out + 1e-3), **coarse))
    assert named(result) == ("Functional.add.3.forward",) * 3
    assert lake.sql("SELECT evidence, floor FROM suspects WHERE nth = 1").fetchall() == [("shift", "law")]
    said = " ".join(first_difference_text(result.first_difference()).split())
    assert "its output breaks a law of totals that golden's obeys, " in said
    assert "its kind" not in said


def test_a_factor_common_to_all_elements_hides_no_error_behind_it(lake: Lake) -> None:
    """Products of inputs cut to fewer bits are smaller as a whole; an activation off by 3 % stands out of that."""
    cut = {"matmul": 1e-4, "other": 1e-6, "cut": 1e-3}
    rough = 1 + 0.03 * np.random.default_rng(1).normal(size=(32, 48))
    planted = Network(seed=5, kernel=off_by("gelu.3.forward", lambda output: output * rough), **cut)
    assert named(compared(lake, planted)) == ("Functional.gelu.3.forward",) * 3
    for seed in seeds(6, 3):
        assert named(compared(lake, Network(seed=seed, **cut))) == (None, None, None)


def test_a_value_that_is_turned_is_no_other_wire(lake: Lake) -> None:
    """In layer 1 the half that is not negated has the extremes of the target, which alone seem to be their maker's."""
    golden, target = Network(turned=True), Network(seed=1, turned=True, matmul=0.03)
    compared(lake, target, golden)
    found = lake.sql("SELECT DISTINCT op, evidence FROM suspects WHERE evidence NOT IN ('added', 'shift')").fetchall()
    assert found == [("Functional.linear.0.forward", "made")]  # no chip rounds by 3 %


@pytest.mark.parametrize("coarse", [1e-6, 1e-3])
def test_gradients_that_were_kept(lake: Lake, coarse: float) -> None:
    result = compared(lake, Network(seed=5, kept=0.3, matmul=coarse))
    assert named(result) == ("Module.layers.5.Layer.parameters_grad",) * 3


@pytest.mark.parametrize("is_golden", [False, True], ids=["target", "golden"])
def test_gradients_that_are_zeros_in_one_run(lake: Lake, is_golden: bool) -> None:
    """The op first in line is that of the last layer, as the backward pass goes."""
    layers = ((), (1, 2)) if is_golden else ((1, 2), ())
    result = compared(lake, Network(seed=5, detached=layers[0]), Network(detached=layers[1]))
    assert named(result) == ("Module.layers.2.Layer.parameters_grad",) * 3
    assert result.first_difference().ranks.project("evidence").fetchall() == [("stopped",)]


def test_digests_between_chips_name_no_op(lake: Lake) -> None:
    result = compared(lake, Network(seed=5, digests=True), golden=Network(digests=True))
    assert named(result) == (None, None, None)
    assert result.summary().verdict is Verdict.DIFFERENT
    for text in (str(result), first_difference_text(result.first_difference())):
        assert "No op stands out: digests differ wherever ops compute, as between two chips." in text
    flawed = Network(seed=6, digests=True, eps={3: 1e-3})
    assert named(compared(lake, flawed)) == ("Functional.layer_norm.3.forward",) * 3


def test_digests_on_one_chip_name_the_op(lake: Lake) -> None:
    flawed = Network(digests=True, kernel=off_by("linear.2.forward", lambda output: output * 1.001))
    assert named(compared(lake, flawed, golden=Network(digests=True))) == ("Functional.linear.2.forward",) * 3


def test_a_decision_that_flips_is_told_with_its_margin(lake: Lake) -> None:
    result = compared(lake, Network(seed=5, tie=1e-8), golden=Network(tie=1e-8))
    assert named(result) == (None, None, None)
    found = result.first_difference()
    [(op, error, margin)] = found.flips.project("op, error_in, margin").fetchall()
    assert op == "Torch.argmax.0.forward"
    assert margin == 2 * error
    assert 1e-8 < margin < 1e-5
    text = " ".join(first_difference_text(found).split())
    assert (
        f"Rounding alone flipped the decision of {op}: it chose between values that differ by less than {margin:.1g}"
        in text
    )
    assert not lake.compare("golden", "golden", name="same").first_difference().flips.fetchall()


def test_what_is_trained_in_one_run_only_is_told(lake: Lake) -> None:
    result = compared(lake, Network(seed=5, frozen=3))
    assert named(result) == ("Functional.linear.3.forward",) * 3
    assert "requires_grad false against" in " ".join(str(result).split())
    [(why,)] = result.blame(most=1).suspects.project("why").fetchall()
    assert why.startswith("its argument input.1 is ")
    assert "requires_grad false against" in why


def test_blame_stays_in_its_step(lake: Lake) -> None:
    for name, network in (("golden", Network()), ("target", Network(seed=5, eps={3: 1e-3}))):
        for step in (0, 1):
            network.dump(lake.path.parent / name, step)
        lake.ingest(lake.path.parent / name, run=name)
    found = lake.compare("target", "golden").blame()
    assert found.suspects.project("step, op").fetchall() == [(0, "Functional.layer_norm.3.forward")]


def test_a_step_after_one_that_differs_is_not_equal(lake: Lake) -> None:
    """No op of it stands out, but noise is no measure of what came of the step before."""
    steps = {"golden": [Network(), Network()]}
    steps["target"] = [Network(seed=5, eps={3: 1e-3}), Network(seed=5, weights=trained_apart)]
    for name, networks in steps.items():
        for step, network in enumerate(networks):
            network.dump(lake.path.parent / name, step)
        lake.ingest(lake.path.parent / name, run=name)
    result = lake.compare("target", "golden")
    first, later = (result.first_difference(steps=[step]) for step in (0, 1))
    assert (first.coverage.differs_since, later.coverage.differs_since) == (None, 0)
    assert not later.differs
    assert not later.is_equal
    assert later.coverage.has_warnings
    assert later.ranks.project("op, verdict").fetchall() == [(None, "different")]
    assert "; what came before may be rounding" in first_difference_text(first)
    text = first_difference_text(later)
    assert text.startswith(
        f"Verdict: different\n  compared: all {later.coverage.target_rows} rows of both sides; off since step 0: "
    )
    assert "No op stands out here: the difference comes of step 0, where it begins." in text
    assert "off since step 0" in blame_text(result.blame(step=1))


def trained_apart(weights: dict[str, Array]) -> None:
    """What rounding makes of weights in some steps."""
    draw = np.random.default_rng(3)
    for weight in weights.values():
        weight *= 1 + 1e-5 * draw.normal(size=weight.shape)


def far_apart(weights: dict[str, Array]) -> None:
    """What another batch in an earlier step makes of weights."""
    draw = np.random.default_rng(3)
    for weight in weights.values():
        weight *= 1 + 0.03 * draw.normal(size=weight.shape)


@pytest.mark.parametrize(
    ("target", "step", "op"),
    [
        (Network(seed=5, weights=trained_apart), 10, None),
        (Network(seed=5, weights=trained_apart, eps={3: 1e-3}), 10, "Functional.layer_norm.3.forward"),
        (Network(seed=5, weights=far_apart), 10, "Functional.linear.0.forward"),
        (Network(seed=5, weights=far_apart, eps={3: 1e-3}), 10, "Functional.layer_norm.3.forward"),
        (Network(seed=5), 10, None),
        (Network(seed=5, weights=one_element), 10, "Functional.linear.3.forward"),
    ],
)
def test_weights_of_a_run_recorded_from_a_later_step_on(lake: Lake, target: Network, step: int, op: str | None) -> None:
    """They have been trained apart, unless most are equal to the last bit. Far apart is no noise if nothing else is."""
    for name, network in (("golden", Network()), ("target", target)):
        lake.ingest(network.dump(lake.path.parent / name, step), run=name)
    assert named(lake.compare("target", "golden")) == (op, op, op)


def trained_otherwise(weights: dict[str, Array]) -> None:
    """What another optimizer makes of weights in one step."""
    draw = np.random.default_rng(3)
    for weight in weights.values():
        weight *= 1 + 5e-4 * draw.normal(size=weight.shape)


@pytest.mark.parametrize(
    ("before", "op"), [(Network(), "Functional.linear.0.forward"), (Network(seed=5), None)], ids=["equal", "rounded"]
)
def test_other_weights_behind_a_step_with_equal_gradients_are_no_rounding(
    lake: Lake, before: Network, op: str | None
) -> None:
    """So it is where an optimizer was compiled, or not recorded."""
    for name, steps in (("golden", (Network(), Network())), ("target", (before, Network(weights=trained_otherwise)))):
        for step, network in enumerate(steps):
            network.dump(lake.path.parent / name, step)
        lake.ingest(lake.path.parent / name, run=name)
    result = lake.compare("target", "golden")
    assert named(result) == (op, op, op)
    verdict = Verdict.DIFFERENT if op else Verdict.EQUAL_WITHIN_NOISE
    assert result.summary().verdict is verdict
    assert {found.step for found in result.summary().beyond_noise} == ({1} if op else set())


def moved(factor: float = 1, decay: float = 0, scatter: float = 0) -> Callable[[dict[str, Array]], None]:
    """A step of an optimizer: how far it goes, how much of a weight it takes off, and what noise of gradients does."""

    def step(weights: dict[str, Array]) -> None:
        gradients, noise = np.random.default_rng(3), np.random.default_rng(4)
        for weight in weights.values():
            update = 1e-3 * gradients.normal(size=weight.shape)
            weight -= update * (factor + scatter * noise.normal(size=weight.shape)) + decay * weight

    return step


@pytest.mark.parametrize(
    ("step", "op"),
    [
        (moved(), None),
        (moved(scatter=0.3), None),
        (moved(factor=1.2, scatter=0.1), "Functional.linear.0.forward"),
        (moved(factor=0.0), "Functional.linear.0.forward"),
        (moved(decay=2e-3), "Functional.linear.0.forward"),
    ],
    ids=["the same", "of rounded gradients", "further", "skipped", "with decay"],
)
def test_weights_that_the_optimizer_moved_otherwise(lake: Lake, step: Any, op: str | None) -> None:
    """Behind a step with rounded gradients, where weights differ by less than noise may make of them."""
    golden, target = (Network(), Network(weights=moved())), (Network(seed=5), Network(seed=6, weights=step))
    for name, steps in (("golden", golden), ("target", target)):
        for number, network in enumerate(steps):
            network.dump(lake.path.parent / name, number)
        lake.ingest(lake.path.parent / name, run=name)
    result = lake.compare("target", "golden")
    assert named(result) == (op, op, op)
    assert {found.step for found in result.summary().beyond_noise} == ({1} if op else set())


def test_a_mask_hides_no_difference(lake: Lake) -> None:
    wrong = Network(seed=5, mask=-1e9, kernel=off_by("gelu.2.forward", lambda output: output * 1.01))
    result = compared(lake, wrong, golden=Network(mask=-1e9))
    assert named(result) == ("Functional.gelu.2.forward",) * 3


def test_masked_runs_are_quiet(lake: Lake) -> None:
    for mask in (-10000.0, -1e9, -3e38):
        root = lake.path.parent / f"lake{mask}"
        with lakeprobe.open(root / "lake", create=True) as other:
            assert named(compared(other, Network(seed=7, mask=mask), golden=Network(mask=mask))) == (None, None, None)


def test_what_one_run_did_not_record_is_no_change(lake: Lake) -> None:
    result = compared(lake, Network(seed=5, without_inputs=True))
    assert named(result)[2] is None
    assert not lake.sql("FROM suspects WHERE evidence = 'argument'").fetchall()


def test_repeats_take_out_what_they_show_too(lake: Lake) -> None:
    flawed = Network(seed=5, kernel=off_by("linear.2.forward", lambda output: output * 1.001))
    result = compared(lake, flawed)
    assert named(result) == ("Functional.linear.2.forward",) * 3
    again = Network(seed=8, kernel=off_by("linear.2.forward", lambda output: output * 1.0011))
    lake.ingest(again.dump(lake.path.parent / "again"), run="again")
    report = lake.measure_noise("golden", "again", name="chip")
    assert (report.golden, report.comparisons) == ("golden", ("chip_again",))
    assert lake.sql("SELECT count(*), max(repeats) FROM noise WHERE noise = 'chip'").fetchall() == [(report.tensors, 1)]
    assert named(result, noise="chip")[1:] == (None, None)
    quiet = lake.compare("target1", "golden", name="quiet", noise="chip")
    assert named(quiet) == (None, None, None)
    other = Network(seed=9, eps={4: 1e-3}, kernel=off_by("linear.2.forward", lambda output: output * 1.0009))
    assert named(compared(lake, other, noise="chip")) == ("Functional.layer_norm.4.forward",) * 3
    again = "lakeprobe compare target1 golden --name pair_target1 --noise chip"
    for command, comparison, hints in (
        ("first-diff", "pair_target1", 1),
        ("blame", "pair_target1", 1),
        ("first-diff", "quiet", 0),
    ):
        ended = CliRunner().invoke(app, [command, comparison, "--noise", "chip", "--lake", str(lake.path)])
        assert ended.stderr.count(again) == ended.stderr.count("was compared without the noise chip") == hints


def test_a_repeat_on_the_chip_of_the_target_is_a_better_golden(lake: Lake) -> None:
    """It rounds exactly as the target does, so an equal target equals it to the last bit, and a small defect shows."""
    lake.ingest(Network().dump(lake.path.parent / "golden"), run="golden")
    lake.ingest(Network(seed=5).dump(lake.path.parent / "repeat"), run="repeat")
    lake.measure_noise("golden", "repeat", name="chip")
    quiet = compared(lake, Network(seed=5), noise="chip")
    assert named(quiet) == (None, None, None)
    assert quiet.summary().verdict is Verdict.EQUAL_WITHIN_NOISE
    small = Network(seed=5, kernel=off_by("gelu.2.forward", lambda output: output * 1.00003))
    assert named(compared(lake, small, noise="chip")) == ("Functional.gelu.2.forward",) * 3


@pytest.mark.parametrize(
    ("setting", "first"),
    [
        ("certain_score = 5", "Functional.gelu.1.forward"),
        ("certain_score = 11", "Functional.gelu.4.forward"),
        ("outstanding_score = 1e9", None),
    ],
)
def test_a_rule_says_what_stands_out(lake: Lake, tmp_path: Path, setting: str, first: str | None) -> None:
    """Of two kernels that are off, the later one by more, the earlier one goes first where it is certain."""
    rule = tmp_path / "rule.sql"
    rule.write_text(f"SET VARIABLE {setting};")
    flawed = Network(seed=5, kernel=lambda op, output: output * TWO.get(op, 1.0))
    assert named(compared(lake, flawed, rule=str(rule)))[0] == first


@pytest.mark.parametrize(("kind", "first"), [("matmul", "linear"), ("other", "layer_norm")])
def test_a_rule_says_how_coarse_a_chip_is(lake: Lake, tmp_path: Path, kind: str, first: str) -> None:
    """What is off by more than the coarsest chip, though its inputs agree, is not rounding."""
    rule = tmp_path / "rule.sql"
    rule.write_text(f"SET VARIABLE coarsest_{kind} = 1e-7;")
    rounding = {"matmul": 0.0, "other": 0.0} | {kind: 1e-5}
    assert named(compared(lake, Network(seed=5, **rounding))) == (None, None, None)
    assert named(compared(lake, Network(seed=5, **rounding), rule=str(rule))) == (f"Functional.{first}.0.forward",) * 3


def test_a_repeat_of_blame(lake: Lake) -> None:
    flawed = Network(seed=5, kernel=off_by("linear.2.forward", lambda output: output * 1.001))
    result = compared(lake, flawed)
    compared(lake, Network(seed=8, kernel=off_by("linear.2.forward", lambda output: output * 1.0011)))
    assert not result.blame(repeat="target2").suspects.filter("grade = 'suspect'").fetchall()


def test_a_noise_that_is_not_there(lake: Lake) -> None:
    compared(lake, Network(seed=5))
    runner = CliRunner()
    for command in (["first-diff", "pair_target1"], ["blame", "pair_target1"], ["compare", "target1", "golden"]):
        ended = runner.invoke(app, [*command, "--noise", "chip", "--lake", str(lake.path)])
        assert "has no noise chip" in str(ended.exception)


def test_the_error_is_that_of_the_elements(lake: Lake) -> None:
    """Held against the noise that was put in: a matrix product of equal inputs is off by what its kernel adds."""
    for seed in seeds(20, 10):
        compared(lake, Network(seed=seed, matmul=1e-4, other=0.0))
    found = lake.sql(
        "SELECT median(error) FROM results WHERE target_name = 'Functional.linear.0.forward.output.0'"
    ).fetchall()[0][0]
    assert np.log10(found) == pytest.approx(-4, abs=0.4)


def what_is_left(recorder: Recorder, hidden: Array, wanted: float = 1.0) -> None:
    """Shares that sum to one, what is left of one, and the error of their sum with it."""
    shares = recorder.op("softmax", 0, [hidden], np.exp(hidden) / np.exp(hidden).sum(1, keepdims=True), 2e-7)
    total = recorder.op("sum", 0, [shares], shares.astype(np.float32).sum(1).astype(np.float64), 0.0)
    left = recorder.op("__rsub__", 0, [total], 1 - total, 0.0)
    left = recorder.op("__rmul__", 0, [left], 3 * left, 0.0)
    drawn = recorder.op("__add__", 0, [shares, left], shares + left[:, None], 0.0)
    goal = np.abs(np.random.default_rng(2).normal(size=hidden.shape)) * wanted
    recorder.op("mse_loss", 0, [drawn, goal], np.mean((drawn - goal) ** 2, keepdims=True), 2e-7)


def test_what_is_left_of_terms_that_cancel_is_rounding(lake: Lake) -> None:
    """It differs by its own size, though no statistic of the terms differs, and tells nothing of a larger tensor."""
    golden = Network(head=what_is_left)
    for seed in seeds(5, 8):
        assert named(compared(lake, Network(seed=seed, head=what_is_left), golden)) == (None, None, None)
    other = Network(seed=5, head=partial(what_is_left, wanted=0.8))
    assert named(compared(lake, other, golden)) == ("Functional.mse_loss.0.forward",) * 3


def mostly_flat(recorder: Recorder, hidden: Array) -> None:
    """An exponential of which only small elements of the gradient are left, which err by as much as the large ones."""
    given = np.where(np.arange(hidden.shape[1]) < 24, -60.0, -np.abs(hidden))
    made = recorder.op("exp", 0, [given], np.exp(given), 2e-7)
    gradient = np.where(np.arange(hidden.shape[1]) < 24, 1.0, 0.001) * np.random.default_rng(2).normal(
        size=hidden.shape
    )
    if recorder.rounding is not None:
        gradient += 2e-7 * recorder.rounding.normal(size=hidden.shape)
    recorder.op("exp", 0, [gradient], gradient * made, 2e-7, back=True)


def test_a_gradient_of_which_little_is_left_errs_by_what_came_in(lake: Lake) -> None:
    for seed in seeds(5, 6):
        result = compared(lake, Network(seed=seed, head=mostly_flat), Network(head=mostly_flat))
        assert named(result) == (None, None, None)


def without_gradient(recorder: Recorder, hidden: Array) -> None:
    """A module whose ops are not recorded gives a weight its norm: where it is one number, its gradient is rounding."""
    weight = hidden[:, :1]
    recorder.op("conv1d", 0, [hidden, weight], hidden * weight, 1e-6)
    gradient = hidden[:, 1:2]
    left = 1e-9 * np.random.default_rng(recorder.network.seed).normal(size=weight.shape)
    recorder.module("weight._WeightNorm", [weight], [weight])
    recorder.module("weight._WeightNorm", [gradient], [gradient, left], back=True)


def test_a_module_without_recorded_ops_may_leave_nothing_of_a_gradient(lake: Lake) -> None:
    golden = Network(head=without_gradient)
    for seed in seeds(5, 3):
        assert named(compared(lake, Network(seed=seed, head=without_gradient), golden)) == (None, None, None)


def cut_by_a_module(recorder: Recorder, hidden: Array, rows: int = 32) -> None:
    """A module gives so many rows of what an op in it made, and backwards an op behind it does."""
    recorder.op("relu", 0, [hidden], np.maximum(hidden, 0), 0.0)
    recorder.parents["Functional.relu.0.forward"] = "Module.skip.Skip.forward.0"
    recorder.module("skip.Skip", [hidden], [hidden[:rows]])
    recorder.op("sum", 0, [hidden[:rows]], hidden[:rows].sum(1), 2e-7)
    recorder.op("sum", 0, [hidden[:, 0]], hidden[:rows], 0.0, back=True)


def test_a_module_forwards_comes_before_an_op_backwards(lake: Lake) -> None:
    result = compared(lake, Network(seed=5, head=partial(cut_by_a_module, rows=16)), Network(head=cut_by_a_module))
    assert named(result) == ("Module.skip.Skip.forward.0",) * 3


def tagged(recorder: Recorder, hidden: Array, first: int = 0) -> None:
    """A mask of the rows, and tags by which scores are picked; `first`: the first tag."""
    rows = np.arange(len(hidden))
    recorder.whole("ne", [rows], rows % 4 > 0)
    tags = (rows % 4 > 0).astype(np.int64)
    tags[:2] = first, 0
    recorder.whole("gather", [hidden, tags], hidden[rows, tags])


def test_tags_are_data_though_a_mask_has_as_many_ones(lake: Lake) -> None:
    golden = Network(head=tagged)
    assert named(compared(lake, Network(seed=5, head=tagged), golden)) == (None, None, None)
    other = Network(seed=5, head=partial(tagged, first=1))
    assert named(compared(lake, other, golden)) == ("Torch.gather.0.forward",) * 3


def of_lengths(recorder: Recorder, hidden: Array, longest: int = 40) -> None:
    """A comparison of which rounding decides one place, and one with lengths that are data."""
    even = np.linspace(1.0, 2.0, len(hidden))
    scores = recorder.op("softplus", 0, [even], even, 2e-7)
    recorder.whole("gt", [scores], scores > even.astype(np.float32))
    lengths = np.array([longest, 30, 20])
    recorder.whole("lt", [np.arange(48)[None], lengths[:, None]], np.arange(48)[None] < lengths[:, None])


def test_lengths_are_no_choice_that_rounding_flipped(lake: Lake) -> None:
    golden = Network(head=of_lengths)
    assert named(compared(lake, Network(seed=5, head=of_lengths), golden)) == (None, None, None)
    other = Network(seed=5, head=partial(of_lengths, longest=39))
    assert named(compared(lake, other, golden)) == ("Torch.lt.0.forward",) * 3


def next_to_nothing(recorder: Recorder, hidden: Array) -> None:
    """Rows of which the elements cancel, and their sums."""
    both = recorder.op("mul", 0, [hidden], np.concatenate([hidden, -hidden], axis=1), 2e-7)
    recorder.op("sum", 0, [both], both.sum(1), 0.0)


def test_a_sum_over_elements_that_cancel_is_rounding(lake: Lake) -> None:
    for seed in seeds(5, 3):
        result = compared(lake, Network(seed=seed, head=next_to_nothing), Network(head=next_to_nothing))
        assert named(result) == (None, None, None)
