"""Makes a training run repeatable: MindSpore's random numbers and its choice of algorithms."""

import os

import mindspore


def seed(number: int, *, deterministic: bool) -> None:
    """Seed MindSpore on every device; with `deterministic` also ask for deterministic algorithms."""
    mindspore.set_seed(number)
    mindspore.set_context(deterministic="ON" if deterministic else "OFF")
    if deterministic:
        os.environ["HCCL_DETERMINISTIC"] = "true"
