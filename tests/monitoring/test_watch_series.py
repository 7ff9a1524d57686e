"""The rules of sql/watch on made series: clean ones of many kinds, and planted anomalies."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lakeprobe.analysis import watch as watching

STEPS = 1000
RULES = ("nan", "turbulence", "jump", "dead", "vanishing", "exploding", "drifting", "rising", "between")


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


def ask(series: dict[str, np.ndarray], point: str = "gradient") -> set[tuple[str, int, str]]:
    """Return rule, step and name of what the rules find in `series` of one point and rank."""
    return ask_points({(name, point): values for name, values in series.items()})


def ask_points(series: dict[tuple[str, str], np.ndarray]) -> set[tuple[str, int, str]]:
    """Return rule, step and name of what the rules find in series by name and point, of one rank."""
    names, points = zip(*series, strict=True)
    held = pa.table(
        {
            "rank": np.zeros(STEPS * len(names), dtype=np.int32),
            "step": np.tile(np.arange(STEPS, dtype=np.int32), len(names)),
            "micro_step": np.zeros(STEPS * len(names), dtype=np.int32),
            "name": np.repeat(names, STEPS),
            "point": np.repeat(points, STEPS),
            "value": np.concatenate(list(series.values())).astype(float),
        }
    )
    found = set()
    with duckdb.connect() as connection:
        connection.register("held", held)
        connection.execute(
            "CREATE TABLE watched AS FROM held "
            "SELECT *, if(point = 'logged', 'value', 'norm') AS metric, false AS skipped"
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
    for name in ("flat", "clipped"):
        values = clean(seed)[name].copy()
        values[500:] *= np.exp(1e-3 * np.arange(STEPS - 500))
        for others in ({}, clean(seed + 1)):
            found = {(rule, each, step) for rule, step, each in ask({**others, "planted": values})}
            assert {(rule, each) for rule, each, _ in found} == {("rising", "planted")}
            assert all(abs(step - 500) <= 100 for *_, step in found)


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


def parameters(seed: int) -> dict[str, np.ndarray]:
    """Return norms of parameters as an optimizer moves them, by kind: shape (STEPS,), float64."""
    random = np.random.default_rng(seed)
    step = np.arange(STEPS)
    moved = np.convolve(random.standard_normal(STEPS + 9), np.ones(10) / 10, "valid")  # momentum
    return {
        "settling": np.exp(np.cumsum(5e-3 * np.exp(-step / 100) + 2e-4 * moved)),
        "growing": np.exp(np.cumsum(6e-4 + 2e-4 * moved)),
        "accelerating": np.exp(np.cumsum(2e-3 * (step / STEPS) ** 3 + 2e-4 * moved)),
        "decaying": np.exp(np.cumsum(-1e-4 + 5e-5 * moved)),
        "through_zero": np.hypot(1e-3, (step - 640) / 400 + 1e-3 * np.cumsum(moved)),
        "restless": np.exp(np.cumsum(2e-3 * moved)),
        "frozen_at_first": np.exp(np.cumsum(np.where(step < 500, 0, 1e-3 + 2e-4 * moved))),
    }


@pytest.mark.parametrize("seed", range(3))
def test_no_clean_parameter_drifts(seed: int) -> None:
    assert ask(parameters(seed), "parameter") == set()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pace", [1e-3, -1e-3])
def test_a_parameter_that_drifts_by_a_thousandth_a_step_is_told_at_its_step(seed: int, pace: float) -> None:
    series = {name: parameters(seed)[name] for name in ("settling", "growing", "accelerating", "decaying")}
    for values in series.values():
        values[600:] *= np.exp(pace * (np.arange(600, STEPS) - 599))
    found = ask(series, "parameter")
    assert {(rule, name) for rule, _, name in found} == {("drifting", name) for name in series}
    assert {step for _, step, _ in found} <= {599, 600, 601}


def test_a_learning_rate_that_begins_again_explains_a_pace() -> None:
    step = np.arange(STEPS)
    rate = (1 + np.cos(np.pi * (step % 400) / 400)) / 2
    series = {("weight", "parameter"): np.exp(np.cumsum(2e-3 * rate)), ("learning_rate.0", "logged"): 1e-3 * rate}
    assert ask_points(series) == set()
    del series["learning_rate.0", "logged"]
    assert {(rule, name) for rule, _, name in ask_points(series)} == {("drifting", "weight")}


def test_what_changes_a_tensor_between_two_points_of_a_step_is_told_at_its_step() -> None:
    clip, noise = (clean(seed)["flat"] for seed in (1, 2))
    moving = np.exp(np.cumsum(1e-4 * (noise - 1)))
    series = {}
    for name in "abcde":
        series[name, "gradient_unreduced"], series[name, "gradient"] = noise, noise * clip
        series[name, "parameter_updated"], series[name, "parameter"] = moving, np.concatenate([[1.0], moving[:-1]])
    assert ask_points(series) == set()
    series["b", "gradient"] = series["b", "gradient"] * np.where(np.arange(STEPS) < 600, 1, 1.001)
    series["c", "parameter"] = series["c", "parameter"] * np.where(np.arange(STEPS) < 700, 1, 1.001)
    assert ask_points(series) == {("between", 600, "b"), ("between", 700, "c")}
    series["a", "gradient"] = noise * clean(3)["flat"]  # clipped by itself from the first step on
    assert ask_points(series) == {("between", 600, "b"), ("between", 700, "c")}


def test_a_gradient_that_is_always_zero_is_dead_if_its_module_is() -> None:
    zero, noise = np.zeros(STEPS), clean(0)["flat"]
    series = {"critic.weight": noise, "critic.bias": zero, "layer.weight": zero, "layer.bias": zero}
    assert ask(series) == {("dead", 0, "layer.weight"), ("dead", 0, "layer.bias")}
