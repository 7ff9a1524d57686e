"""Makes a training run repeatable: seeds MindSpore's random numbers and selects its algorithms."""

import os

import mindspore


def seed(number: int, *, deterministic: bool) -> None:
    """Seed MindSpore on every device. `deterministic` turns deterministic algorithms on or off."""
    mindspore.set_seed(number)
    mindspore.set_context(deterministic="ON" if deterministic else "OFF")
    if deterministic:
        os.environ["HCCL_DETERMINISTIC"] = "true"
