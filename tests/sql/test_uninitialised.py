"""judge/uninitialised: whose memory is not judged."""

from __future__ import annotations

import pytest

from lakeprobe import resources
from lakeprobe.lake.connection import connect


@pytest.fixture(scope="module")
def slots() -> dict[tuple[str, str], list[str | None]]:
    """The slots that are not judged, by API and role."""
    found: dict[tuple[str, str], list[str | None]] = {}
    with connect(threads=1) as connection:
        for api, role, slot in connection.sql(resources.sql("judge/uninitialised")).fetchall():
            found.setdefault((api, role), []).append(slot)
    return found


def test_what_a_collective_receives_into_is_not_judged_by_position_or_by_name(
    slots: dict[tuple[str, str], list[str | None]],
) -> None:
    names = {
        "recv": "tensor", "irecv": "tensor", "all_gather": "tensor_list", "all_gather_into_tensor": "output_tensor",
        "all_gather_single": "output_tensor", "_all_gather_base": "output_tensor", "reduce_scatter": "output",
        "reduce_scatter_tensor": "output", "reduce_scatter_single": "output", "_reduce_scatter_base": "output",
        "all_to_all": "output_tensor_list", "all_to_all_single": "output",
    }  # fmt: skip
    assert {api: slots[api, "input"] for api in names} == {
        api: ["input.0", f"input.{name}"] for api, name in names.items()
    }
    # These read what they write to, and what one rank of a broadcast has is sent.
    assert not {(api, "input") for api in ("all_reduce", "reduce", "send", "isend", "broadcast")} & slots.keys()


def test_scatter_and_gather_of_tensors_are_judged(slots: dict[tuple[str, str], list[str | None]]) -> None:
    assert (slots["scatter", "input"], slots["gather", "input"]) == (["input.tensor"], ["input.gather_list"])
