"""Memory that nobody has written to, as a capture records it: it is no difference between two runs."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from memory import Memory, bodies, capture

import lakeprobe

torch = pytest.importorskip("torch")

from torch import distributed, nn  # noqa: E402

from lakeprobe.collect.pytorch.collectives import ONLY_WRITTEN  # noqa: E402

VALUES = torch.arange(1.0, 9.0).reshape(2, 4)


@pytest.fixture
def memory() -> Memory:
    return Memory()


def trained(lake: Path, run: str, held: float, bias: float = 1.0) -> None:
    """A step of a program that gets memory in which another one has left `held`."""
    new = torch.full((2, 2), held)
    with lakeprobe.collect(run=run, lake=lake):
        torch.addmm(torch.full((2, 2), bias), VALUES, VALUES.T, out=new)
        torch.topk(VALUES, 1, out=(torch.full((2, 1), held), torch.full((2, 1), int(held))))


def test_what_held_memory_before_a_result_was_written_to_it_is_no_difference(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    trained(lake, "golden", held=5.0)
    trained(lake, "same", held=7.0)
    trained(lake, "other", held=5.0, bias=2.0)
    with lakeprobe.open(lake) as opened:
        found = {run: opened.compare(run, "golden") for run in ("same", "other")}
        query = "SELECT target_name, difference, verdict FROM results WHERE comparison = ? AND difference <> 'equal'"
        differ = {run: opened.sql(f"{query} ORDER BY row", [found[run].name]).fetchall() for run in found}
    names = ("Torch.addmm.0.forward.input.out", "Torch.topk.0.forward.input.out.0", "Torch.topk.0.forward.input.out.1")
    assert differ["same"] == [(name, "different", "skipped") for name in names]
    assert [name for name, *_ in differ["other"]] == [
        f"Torch.addmm.0.forward.{slot}" for slot in ("input.0", "output.0")
    ]
    assert [str(comparison.verdict) for comparison in found.values()] == ["equal", "different"]


@pytest.mark.parametrize("name", sorted(ONLY_WRITTEN))
def test_the_buffer_of_a_collective_is_known_by_its_name(name: str) -> None:
    if not hasattr(distributed.distributed_c10d, name):
        pytest.skip("this torch has no such collective")
    position, keyword = ONLY_WRITTEN[name]
    parameters = list(inspect.signature(getattr(distributed.distributed_c10d, name)).parameters)
    assert parameters[position] == keyword


def test_a_causal_bias_is_what_the_mask_is_made_from(memory: Memory) -> None:
    bias = pytest.importorskip("torch.nn.attention.bias", reason="this torch has no causal bias")
    query, key = torch.ones(1, 4, 8), torch.ones(1, 6, 8)
    watched = capture(memory)
    watched.start()
    nn.functional.scaled_dot_product_attention(query, key, key, attn_mask=bias.causal_lower_right(4, 6))
    watched.close()
    call = bodies(memory)["Functional.scaled_dot_product_attention.0.forward"]
    assert call["input_kwargs"] == {
        "attn_mask": {"type": "torch.nn.attention.bias.CausalBias", "value": ["LOWER_RIGHT", 4, 6]}
    }
    assert watched.recorder.failures == []


def test_functions_of_newer_releases_are_recorded_also_at_risk_level_core(memory: Memory) -> None:
    if not hasattr(nn.functional, "rms_norm"):
        pytest.skip("this torch has no rms_norm")
    watched = capture(memory, risk_level="CORE")
    watched.start()
    nn.RMSNorm(4, eps=0.5)(VALUES)
    watched.close()
    call = bodies(memory)["Functional.rms_norm.0.forward"]
    assert call["input_args"][3] == {"type": "float", "value": 0.5}
