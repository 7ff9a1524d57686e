"""What counts as the true cause, and where in an answer it stands."""

from dataclasses import replace

import pytest

from benchmarks.truth.planted import Cause, Defect, Model

pytest.importorskip("torch")

from benchmarks.truth import report, run, runs
from benchmarks.truth.count import Case, Named, forget, place_of
from benchmarks.truth.defects import inside, within

NORM = "Module.layers.1.norm.LayerNorm.forward.0"


def defect(*causes, step=0):
    return Defect("planted", "argument", causes, lambda training: None, step)


@pytest.mark.parametrize(
    ("op", "module", "is_cause"),
    [
        ("Functional.layer_norm.3.forward", NORM, True),
        (NORM, "Module.layers.1.Layer.forward.0", True),
        ("Functional.layer_norm.3.backward", NORM.replace("forward", "backward"), False),
        ("Functional.layer_norm.3.forward", NORM.replace("layers.1", "layers.11"), False),
        ("Functional.linear.3.forward", NORM, False),
        ("Module.layers.1.Layer.forward.0", None, False),
        ("Functional.layer_norm.3.forward", None, False),
    ],
)
def test_a_leaf_module_or_the_op_in_it_is_the_cause(op, module, is_cause):
    assert defect(*inside("layers.1.norm", "layer_norm")).is_named(op, module) == is_cause


def test_naming_a_module_of_many_ops_is_not_enough():
    planted = defect(*within("layers.1", "__add__"))
    assert planted.is_named("Tensor.__add__.4.forward", "Module.layers.1.attention.Attention.forward.0")
    assert not planted.is_named("Module.layers.1.Layer.forward.0", "Module.Net.forward.0")


def test_a_cause_on_one_rank_is_no_cause_on_another():
    planted = defect(Cause("linear", rank=2))
    assert planted.is_named("Functional.linear.0.forward", None, rank=2)
    assert not planted.is_named("Functional.linear.0.forward", None, rank=1)


def test_the_place_is_that_of_the_first_true_cause_in_the_right_step():
    named = [
        Named(0, 0, "Functional.linear.0.forward", "Module.a.Linear.forward.0"),
        Named(0, 0, "Functional.layer_norm.0.forward", NORM),
        Named(1, 0, "Functional.layer_norm.0.forward", NORM),
    ]
    causes = inside("layers.1.norm", "layer_norm")
    assert place_of(defect(*causes), named) == 2
    assert place_of(defect(*causes, step=1), named) == 3
    assert place_of(defect(*causes, step=2), named) is None


def case(command, kind="argument", places=0, place=None, repeat=False):
    named = tuple(Named(0, 0, f"op.{n}", None) for n in range(places))
    return Case("run", kind, command, repeat, named, place, 0.1)


@pytest.mark.parametrize(
    ("places", "place", "outcome"),
    [(1, 1, "first"), (4, 3, "three"), (5, 4, "wrong"), (2, None, "wrong"), (0, None, "silent")],
)
def test_an_outcome_says_where_the_cause_stands(places, place, outcome):
    assert case("blame", places=places, place=place).outcome == outcome


def test_an_equal_run_of_which_an_op_is_named_is_an_alarm():
    assert case("blame", kind=None, places=1).outcome == "alarm"
    assert case("blame", kind=None).outcome == "quiet"


def counted(cases, model="encoder", noise="npu", method="statistics"):
    return [(method, model, noise, one) for one in cases]


def test_the_table_counts_by_noise_and_method():
    found = counted(
        [
            *(case(command, places=1, place=1) for command in ("compare", "first-diff", "blame")),
            *(case(command, places=3, place=2) for command in ("compare", "first-diff", "blame")),
            *(case(command, kind=None, places=command == "blame") for command in ("compare", "first-diff", "blame")),
        ]
    )
    assert report.table(found).splitlines()[2] == (
        "| as between two chips: 1e-6 and 2e-7 | statistics | 2 | 1 (50 %; 9 to 91), 2 in three "
        "| 1 (50 %; 9 to 91), 2 in three | 1 (50 %; 9 to 91), 2 in three | 1 | 0, 0, 1 |"
    )


def test_the_extent_names_models_once_for_all_noises_that_they_had():
    found = [
        one
        for model, noise in (
            ("vit", "npu"),
            ("encoder", "npu"),
            ("vit", "clean"),
            ("encoder", "clean"),
            ("vit", "bf16"),
        )
        for one in counted([case("blame"), case("compare")], model, noise)
    ]
    assert report.extent(found) == (
        "- `clean`, `npu`, statistics, 2 models: encoder, vit\n- `bf16`, statistics, 1 models: vit\n"
    )


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_an_interval_is_that_of_wilson(hits, total, low, high):
    # the last is the example of R. G. Newcombe, Statistics in Medicine 17 (1998), table I
    assert report.interval(hits, total) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_a_larger_sample_has_the_smaller_one_in_it():
    model = Model(lambda: None, tuple(replace(defect(), name=f"d{n}") for n in range(9)))
    [small, large, other] = [
        runs.wanted(
            runs.parser(None).parse_args(["work", "statistics", "encoder", "npu", "--sample", *options]), model, "npu"
        )
        for options in (["3"], ["5"], ["5", "--seed", "1"])
    ]
    assert small[:2] == ["equal", "repeat"]
    assert (len(small), len(large)) == (5, 7)
    assert large[: len(small)] == small
    assert set(other) != set(large)


def test_a_miss_says_what_was_named():
    cases = [case("blame", places=1), case("first-diff", places=1), case("compare", places=1, place=1)]
    assert report.misses(counted(cases)) == (
        "- `npu`, statistics, encoder, argument, `run`: wrong, `op.0` in step 0 (`blame`, `first-diff`)\n"
    )


def test_the_tables_go_between_the_marks_of_the_page(tmp_path):
    page = tmp_path / "accuracy.md"
    page.write_text(f"above\n{run.BEGIN}old\n{run.END}below\n")
    for _ in range(2):
        run.write_page(page, "| a |\n")
    text = page.read_text()
    assert text.startswith(f"above\n{run.BEGIN}")
    assert text.endswith(f"{run.END}below\n")
    assert text.count("| a |") == 1
    assert "old" not in text


def test_forgetting_takes_answers_away_and_leaves_runs(tmp_path):
    for kept in ("lake/comparisons/comparison=c_x", "lake/noise/noise=repeat", "lake/run=golden"):
        (tmp_path / kept).mkdir(parents=True)
    for file in ("counts.json", "golden.json"):
        (tmp_path / file).touch()
    forget(tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "golden.json", "lake", "lake/run=golden",
    ]  # fmt: skip
