"""A tensor is measured where it lies, or as an array: the numbers are the same."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from lakeprobe.monitoring.pytorch import tensors  # noqa: E402
from lakeprobe.monitoring.settings import Settings  # noqa: E402
from lakeprobe.tensors import summary  # noqa: E402

PLAIN = torch.arange(-6.0, 6.0).reshape(3, 4)
TENSORS = {
    "numbers": PLAIN,
    "a parameter": torch.nn.Parameter(PLAIN / 3),
    "many": torch.linspace(-1, 1, 100_001),
    "NaN and inf": torch.tensor([1.0, torch.nan, torch.inf, -0.0]),
    "transposed": PLAIN.T,
    "every other": PLAIN[:, ::2],
    "one number in many places": torch.tensor(0.1).expand(5),
    "a view with the sign changed": torch._neg_view(PLAIN),
    "no dimension": torch.tensor(0.3),
    "empty": torch.zeros(0, 3),
    "zeros without memory": torch._efficientzerotensor((3,)),
    "bfloat16": PLAIN.bfloat16(),
    "integers": torch.arange(5),
    "sparse": torch.eye(3).to_sparse(),
}


@pytest.mark.skipif(not summary.is_native, reason="there are no functions in C")
@pytest.mark.parametrize("metrics", [("norm",), ("norm", "shape", "dtype"), ("mean", "min", "max", "nans"), ("zeros",)])
@pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS)
def test_a_tensor_has_the_same_numbers_in_place(
    tensor: Any, metrics: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(metrics=metrics, exact=True)

    def measured() -> tuple[list[str], dict[str, str]]:
        found, texts, _, size = tensors.measured(tensor, frozenset(metrics), settings, 1.0)
        assert size == tensor.numel()
        return sorted(f"{metric} {float(number)!r}" for metric, number in found.items()), dict(texts)

    in_place = measured()
    monkeypatch.setattr(tensors, "_is_plain", lambda _: False)
    assert measured() == in_place
