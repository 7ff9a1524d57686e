"""Warnings of the training are shown as if nobody watched: once, and none about hooks of ours."""

from __future__ import annotations

import warnings

import pytest
from memory import Memory

from lakeprobe.collect import frameworks
from lakeprobe.collect.settings import Settings

torch = pytest.importorskip("torch")


def test_a_warning_that_is_shown_once_is_not_shown_again_in_each_step() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    watched = frameworks.capture(model, Settings(level="mix"), Memory())
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        before = list(warnings.filters)
        for _ in range(3):
            watched.start()
            model(torch.randn(5, 4)).sum().backward()
            warnings.warn("of the training", UserWarning, stacklevel=1)
            watched.stop()
            watched.step()
        assert warnings.filters == before
    watched.close()
    assert [str(warning.message) for warning in shown] == ["of the training"]
