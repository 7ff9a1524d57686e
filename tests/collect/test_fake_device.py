"""What is done with tensors of a device, on one that is made up: its memory is the CPU's, and waits for it are seen.

A wait is a call that gives Python a number or the host a copy. All work belongs in the stream that is current, since in
any other it may read what is not there yet: nothing here may choose one.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from lakeprobe.collect.pytorch import tensors  # noqa: E402

WAITS = ("item", "tolist", "cpu", "__bool__", "__int__", "__float__", "numpy")
waited: list[str] = []


class OnDevice(torch.Tensor):
    """A tensor of the device."""

    @property
    def is_cpu(self) -> bool:
        return False

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in WAITS:
            waited.append(name)
        result = super().__torch_function__(function, types, args, kwargs or {})
        return result.as_subclass(torch.Tensor) if name == "cpu" else result


@pytest.fixture(autouse=True)
def nothing_waited() -> None:
    waited.clear()


@pytest.fixture(autouse=True)
def no_stream_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("work belongs in the stream that is current, or it may read what is not there yet")

    for name in ("set_stream", "stream", "Stream"):
        monkeypatch.setattr(torch.cuda, name, refuse)


def on_device(values: list[Any], dtype: Any) -> tuple[Any, Any]:
    tensor = torch.tensor(values, dtype=dtype)
    return tensor, tensor.as_subclass(OnDevice)


@pytest.mark.parametrize(
    ("values", "dtype", "waits"),
    [
        ([1.0, -2.0, 3.5], "float32", 2),  # its four numbers at once, and how many zeros there are
        ([1.0, 2.0, 3.5], "float32", 1),  # none of which is zero
        ([1.0, 2.0, 3.5], "bfloat16", 3),  # its four numbers at once, and mean and norm in float32
        ([1, 0, 3], "int64", 5),
        ([True, False, True], "bool", 3),
    ],
)
def test_the_numbers_are_those_of_the_cpu_and_few_waits_bring_them(values: Any, dtype: str, waits: int) -> None:
    host, device = on_device(values, getattr(torch, dtype))
    there = tensors.Tensors().measure(device)
    assert len(waited) == waits, waited
    here = tensors.Tensors().measure(host)
    assert there[0] == here[0]
    assert there[1] == tuple(None if number is None else pytest.approx(number, rel=1e-6) for number in here[1])


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_counted_there(odd: float) -> None:
    host, device = on_device([1.0, odd, 0.0], torch.float32)
    there, here = (tensors.Tensors().measure(tensor) for tensor in (device, host))
    assert repr(there) == repr(here)
    assert there[1] is not None
    assert sum(there[1][2:5]) == 1


def test_a_copy_is_the_hosts_own_and_made_before_the_training_goes_on() -> None:
    _, device = on_device([1.0, 2.0], torch.float32)
    kept = tensors.Tensors().copy(device)
    device.mul_(3)
    assert kept is not None
    assert kept.tolist() == [1.0, 2.0]
    assert waited == ["cpu"]
    assert not kept.flags.writeable


def test_what_lies_on_a_device_is_measured_each_time() -> None:
    """A sum that tells whether it changed would be a wait as well."""
    _, device = on_device([1.0, 2.0] * 5000, torch.float32)
    measure = tensors.Tensors().measure
    assert measure(device)[0][0] == 2.0
    device.data[0] = 7.0
    assert measure(device)[0][0] == 7.0
