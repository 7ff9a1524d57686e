"""Jobs whose cut computes otherwise than the whole: in parts, or with tokens in an order of each rank's own."""

from functools import cache

import pytest

import lakeprobe

pytest.importorskip("torch")

from benchmarks.cuts.jobs import run

CASES = ("whole_ring_flash", "whole_experts", "whole_vocabulary", "ring_flash", "experts+router_not_reduced",
         "vocabulary+not_summed")  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    assert run.make(folder, "statistics", CASES), [file.read_text()[-2000:] for file in folder.glob("*.log")]
    with lakeprobe.open(folder / "lake") as opened:
        yield opened


@pytest.fixture(scope="module")
def compared(lake):
    return cache(lambda case: lake.compare(case, run.golden_of(case), cuts="auto"))


def suspects(result):
    return [row[:2] for row in result.blame().suspects.select("op, why, grade").fetchall() if row[2] == "suspect"]


def test_ring_attention_has_no_finding_and_its_inner_rows_a_reason(lake, compared):
    result = compared("ring_flash")
    assert suspects(result) == []
    rows = result.summary().coverage.rows
    assert rows["compared"] >= 0.98 * sum(rows.values())
    found = lake.sql(
        "SELECT slot, reason IS NULL, source FROM layouts WHERE run = 'ring_flash_whole' "
        "AND op = 'Functional.scaled_dot_product_attention.1.forward' AND slot <> 'input.is_causal' ORDER BY slot"
    ).fetchall()
    assert found == [(f"input.{nth}", False, "golden") for nth in range(3)] + [("output.0", True, "golden")]


def test_a_gradient_that_is_not_summed_over_experts_data_is_the_only_finding(compared):
    result = compared("experts+router_not_reduced")
    rows = result.summary().coverage.rows
    assert rows["compared"] >= 0.98 * sum(rows.values())
    found = suspects(result)
    assert found[0][0] == "Tensor.lerp_.5.forward"
    assert all(op.startswith(("Tensor.lerp_", "Tensor.add", "Tensor.mul_", "Tensor.sqrt")) for op, _ in found)


def test_a_sum_missing_in_a_loss_over_parts_of_the_words_is_named_as_the_loss(compared):
    [(op, why), *_] = suspects(compared("vocabulary+not_summed"))
    assert op == "Functional.cross_entropy.0.forward"
    assert "its output is off by 0.2" in why
