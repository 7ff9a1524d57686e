"""FSDP2 (fully_shard) on two ranks: collected without a change to the training. Run as a program, it is one of them.

python test_fsdp.py RANK PORT WHO FOLDER
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jobs
import pytest

import lakeprobe

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.fsdp", reason="this torch has no FSDP")

from torch import Tensor, distributed, nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:
    pytest.skip("this torch has no FSDP2", allow_module_level=True)

RANKS = 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 128)
        self.down = nn.Linear(128, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def made() -> tuple[nn.Module, Callable[[], float]]:
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (RANKS,))
    model = nn.Sequential(Block(), Block(), nn.Linear(64, 4))
    for part in model:
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(distributed.get_rank())

    def train() -> float:
        loss = model(torch.randn(80, 64)).square().mean()  # more elements than are measured by torch alone
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return model, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return jobs.watched_as_unwatched(__file__, RANKS, tmp_path_factory.mktemp("fsdp"))


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with lakeprobe.open(folder / "lake", create=True) as lake:
        found: list[tuple[Any, ...]] = lake.sql(query).fetchall()
        return found


def test_every_rank_is_in_the_lake_with_all_its_modules(folder: Path) -> None:
    units = rows(folder, "SELECT step, rank, complete FROM dumps WHERE run = 'ours' ORDER BY ALL")
    assert units == [(step, rank, True) for step in range(jobs.STEPS) for rank in range(RANKS)]
    names = "list(DISTINCT op ORDER BY op) FILTER (op LIKE 'Module%forward%')"
    found = rows(folder, f"SELECT {names} FROM ops WHERE run = 'ours' GROUP BY step, rank")
    parts = [
        f"{block}.{part}" for block in (0, 1) for part in ("FSDPBlock", "down.Linear", "norm.LayerNorm", "up.Linear")
    ]
    assert found == [([f"Module.{name}.forward.0" for name in [*parts, "2.FSDPLinear"]],)] * 4


def test_gradients_of_parameters_are_those_before_they_are_spread(folder: Path) -> None:
    query = "SELECT name, shape, norm FROM tensors WHERE run = 'ours' AND role = 'parameters_grad' AND step = 0"
    of_rank = [rows(folder, f"{query} AND rank = {rank} ORDER BY name") for rank in range(RANKS)]
    assert len(of_rank[0]) == 12
    assert ("Module.0.up.Linear.parameters_grad.0.weight", [128, 64]) in [row[:2] for row in of_rank[0]]
    assert [row[:2] for row in of_rank[0]] == [row[:2] for row in of_rank[1]]
    assert [row[2] for row in of_rank[0]] != [row[2] for row in of_rank[1]]


def test_a_sharded_tensor_says_what_this_rank_holds_and_where_the_rest_is(folder: Path) -> None:
    query = (
        "SELECT DISTINCT shape, extra FROM tensors WHERE run = 'ours' AND type LIKE '%.DTensor' "
        "AND name LIKE 'Tensor.add_.2.forward.input.0'"
    )
    ((shape, extra),) = rows(folder, query)
    assert shape == [64, 64]  # half of up.weight
    kept = json.loads(extra)
    assert (kept["device_mesh"], kept["placements"]) == ([0, 1], [{"Shard": {"dim": 0}}])


def test_what_fsdp_does_to_gather_parameters_and_to_spread_gradients_is_not_recorded(folder: Path) -> None:
    query = "SELECT DISTINCT api_type, api FROM ops WHERE run = 'ours' AND (api_type = 'Distributed' OR api = 'narrow')"
    assert rows(folder, query) == []


def test_it_is_what_msprobe_records(folder: Path) -> None:
    # msprobe records where FSDP narrows new memory to gather parameters into it.
    jobs.assert_equal_to_msprobe(__file__, RANKS, folder, but="Tensor.narrow.")


if __name__ == "__main__":
    jobs.main(made, RANKS)
