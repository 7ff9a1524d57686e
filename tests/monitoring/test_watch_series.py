"""The rules of sql/watch on made series: clean ones of many kinds, and planted anomalies."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lakeprobe.analysis import watch as watching

STEPS = 1000
RULES = ("nan", "turbulence", "jump", "dead", "vanishing", "exploding", "rising")


def clean(seed: int) -> dict[str, np.ndarray]:
    """Return series of trainings in which nothing is wrong, by kind: shape (STEPS,), float64."""
    random = np.random.default_rng(seed)
    step = np.arange(STEPS)
    noise = np.exp(0.2 * random.standard_normal(STEPS))
    idle = random.random(STEPS) < 0.7
    idle[-5:] = [False, True, True, True, True]
    ramp = np.minimum(step / 100, 1)
    return {
        "flat": noise,
        "warm_up": ramp,
        "warm_up_noisy": ramp * noise,
        "quadratic_start": ramp**2 * noise,
        "begins_at_zero": np.where(step < 30, 0, noise),
        "cosine": (1 + np.cos(np.pi * step / STEPS)) / 2,
        "restarts": (1 + np.cos(np.pi * (step % 250) / 250)) / 2,
        "every_other_step": np.where(step % 2, noise, 0),
        "freezing": np.where(step // 50 % 2, noise, 0),
        "sparse_expert": np.where(idle, 0, noise),
        "heavy_tails": np.exp(random.standard_normal(STEPS)),
        "student": np.abs(random.standard_t(3, STEPS)),
        "single_number": np.abs(random.standard_normal(STEPS)),
        "gradual_loss": 8 * np.exp(-step / 300) * noise + 1,
        "power_law": 10 / (1 + step) ** 0.5,
        "adversarial": 1 + 0.8 * np.sin(step / 7) + 0.1 * noise,
        "accumulation": (1 + step % 4) * noise,
        "clipped": np.minimum(noise, 1),
        "loss_scale": 2.0 ** (10 + step // 200 - (step % 200 == 100)),
        "slow_growth": 1 + step / 200,
        "through_zero": np.minimum(np.abs(step - 243.3) / 50, 1) ** 1.5,
        "long_quadratic_start": ((1 + step) / STEPS) ** 2 * noise,
        "long_cubic_start": ((1 + step) / STEPS) ** 3 * noise,
    }


def ask(series: dict[str, np.ndarray]) -> set[tuple[str, int, str]]:
    """Return rule, step and name of what the rules find in `series`, gradients of one rank."""
    names = list(series)
    held = pa.table(
        {
            "rank": np.zeros(STEPS * len(names), dtype=np.int32),
            "step": np.tile(np.arange(STEPS, dtype=np.int32), len(names)),
            "micro_step": np.zeros(STEPS * len(names), dtype=np.int32),
            "name": np.repeat(names, STEPS),
            "value": np.concatenate([series[name] for name in names]).astype(float),
        }
    )
    found = set()
    with duckdb.connect() as connection:
        connection.register("held", held)
        connection.execute(
            "CREATE TABLE watched AS SELECT *, 'gradient' AS point, 'norm' AS metric, false AS skipped FROM held"
        )
        for rule in RULES:
            answer = connection.sql(watching.load(rule).sql).project("step, name").fetchall()
            found |= {(rule, step, name) for step, name in answer}
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_clean_series_alarms(seed: int) -> None:
    assert ask(clean(seed)) == set()


def test_each_planted_anomaly_is_found_at_its_step() -> None:
    def planted() -> np.ndarray:
        return clean(7)["flat"].copy()

    series = {name: planted() for name in ("nan", "spike", "dead", "fallen", "lasting")}
    series["nan"][500] = math.nan
    series["spike"][500] *= 100
    series["dead"][500:] = 0
    series["fallen"][500:] *= 1e-3
    series["lasting"][500:] *= 40
    found = ask(series)
    first = {name: min((step, rule) for rule, step, each in found if each == name) for name in series}
    assert {name: step for name, (step, _) in first.items()} == dict.fromkeys(series, 500)
    assert {name: {rule for rule, step, each in found if each == name and step == 500} for name in series} == {
        "nan": {"nan"},
        "spike": {"jump"},
        "dead": {"dead"},
        "fallen": {"jump"},
        "lasting": {"jump", "turbulence"},
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_value_500_times_too_large_is_a_jump_in_heavy_tails(seed: int) -> None:
    series = {name: clean(seed)[name].copy() for name in ("heavy_tails", "student")}
    for values in series.values():
        values[500] = 500 * np.median(values)
    assert ask(series) >= {("jump", 500, name) for name in series}


@pytest.mark.parametrize("seed", range(3))
def test_what_begins_to_grow_by_a_thousandth_a_step_is_told_within_a_hundred_steps(seed: int) -> None:
    series = {name: clean(seed)[name].copy() for name in ("flat", "clipped")}
    for values in series.values():
        values[500:] *= np.exp(1e-3 * np.arange(STEPS - 500))
    found = ask(series)
    assert {(rule, name) for rule, _, name in found} == {("rising", "flat"), ("rising", "clipped")}
    assert {step for _, step, _ in found} <= {500, 600}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["warm_up_noisy", "quadratic_start", "long_quadratic_start"])
def test_one_large_value_above_a_warm_up_is_a_jump_and_does_not_explode(kind: str, seed: int) -> None:
    series = clean(seed)[kind].copy()
    series[500] *= 100
    assert ask({kind: series}) == {("jump", 500, kind)}


@pytest.mark.parametrize("rate", [1.1, 1.6])
def test_a_gradient_that_grows_without_end_explodes(rate: float) -> None:
    series = clean(0)["warm_up_noisy"].copy()
    series[500:] *= np.minimum(rate ** np.arange(STEPS - 500), 1e30)
    [step] = [step for rule, step, _ in ask({"a": series}) if rule == "exploding"]
    limit = 500 + math.log(1e3 * series[:10].max() / np.median(series[400:500])) / math.log(rate)
    assert abs(step - limit) < 10
