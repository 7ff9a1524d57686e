"""Tensor parallelism by hand: two pairs of ranks that share layers, and data parallelism between the pairs.

python test_tensor_parallel.py RANK PORT WHO FOLDER is one of the four ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jobs
import pytest

import lakeprobe

torch = pytest.importorskip("torch")

from torch import Tensor, distributed, nn  # noqa: E402

RANKS = 4
WIDTH = 16


class ToPair(torch.autograd.Function):
    """Gives each rank of a group the same input; the gradients come together."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.contiguous()
        distributed.all_reduce(gradient, group=ctx.group)
        return gradient, None


class FromPair(torch.autograd.Function):
    """Adds up what the ranks of a group have; each gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        x = x.clone()
        distributed.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class ColumnLinear(nn.Module):
    """Half of the outputs."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.group = group
        whole = nn.Linear(WIDTH, 2 * WIDTH)
        self.weight = nn.Parameter(whole.weight.detach().chunk(2, 0)[distributed.get_rank(group)].clone())
        self.bias = nn.Parameter(whole.bias.detach().chunk(2)[distributed.get_rank(group)].clone())

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(ToPair.apply(x, self.group), self.weight, self.bias)


class RowLinear(nn.Module):
    """Half of the inputs."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.group = group
        whole = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.weight = nn.Parameter(whole.weight.detach().chunk(2, 1)[distributed.get_rank(group)].clone())

    def forward(self, x: Tensor) -> Tensor:
        return FromPair.apply(nn.functional.linear(x, self.weight), self.group)


class Block(nn.Module):
    def __init__(self, group: Any) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = ColumnLinear(group)
        self.down = RowLinear(group)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def made() -> tuple[nn.Module, Callable[[], float]]:
    rank = distributed.get_rank()
    pairs = [distributed.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    replicas = [distributed.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    torch.manual_seed(0)
    model = nn.Sequential(Block(pairs[rank // 2]), Block(pairs[rank // 2]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank // 2)

    def train() -> float:
        loss = model(torch.randn(4, WIDTH)).square().mean()
        loss.backward()
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad, distributed.ReduceOp.SUM, group=replicas[rank % 2])
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return model, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return jobs.watched_as_unwatched(__file__, RANKS, tmp_path_factory.mktemp("pairs"))


def test_every_rank_is_in_the_lake(folder: Path) -> None:
    with lakeprobe.open(folder / "lake", create=True) as lake:
        found = lake.sql("SELECT step, rank, complete FROM dumps WHERE run = 'ours' ORDER BY ALL").fetchall()
    assert found == [(step, rank, True) for step in range(jobs.STEPS) for rank in range(RANKS)]


def test_collectives_have_their_groups_in_the_order_of_forward_and_backward(folder: Path) -> None:
    query = (
        "SELECT rank, list(o.parent ORDER BY o.seq), list(t.extra->'group_ranks' ORDER BY o.seq) "
        "FROM ops o JOIN tensors t USING (run, step, rank, seq) "
        "WHERE run = 'ours' AND step = 0 AND o.op LIKE 'Distributed.all_reduce%' AND t.name LIKE '%.input.group' "
        "GROUP BY rank ORDER BY rank"
    )
    with lakeprobe.open(folder / "lake", create=True) as lake:
        found = lake.sql(query).fetchall()
    assert len(found) == RANKS
    for rank, parents, groups in found:
        pair, replicas = f"[{rank // 2 * 2},{rank // 2 * 2 + 1}]", f"[{rank % 2},{rank % 2 + 2}]"
        assert [group.replace(" ", "") for group in groups] == [pair] * 4 + [replicas] * 10
        # Forward is added up in each row-parallel part, backward in front of each column-parallel one, the last first.
        assert parents[:4] == [
            "Module.0.down.RowLinear.forward.0",
            "Module.1.down.RowLinear.forward.0",
            "Module.1.up.ColumnLinear.backward.0",
            "Module.0.up.ColumnLinear.backward.0",
        ]
        assert parents[4:] == [None] * 10


def test_gradients_of_each_half_are_recorded(folder: Path) -> None:
    query = (
        "SELECT name, shape FROM tensors WHERE run = 'ours' AND step = 1 AND rank = 3 AND role = 'parameters_grad' "
        "AND op LIKE 'Module.0.%' ORDER BY name"
    )
    with lakeprobe.open(folder / "lake", create=True) as lake:
        found = lake.sql(query).fetchall()
    assert found == [
        ("Module.0.down.RowLinear.parameters_grad.0.weight", [WIDTH, WIDTH]),
        ("Module.0.norm.LayerNorm.parameters_grad.0.bias", [WIDTH]),
        ("Module.0.norm.LayerNorm.parameters_grad.0.weight", [WIDTH]),
        ("Module.0.up.ColumnLinear.parameters_grad.0.bias", [WIDTH]),
        ("Module.0.up.ColumnLinear.parameters_grad.0.weight", [WIDTH, WIDTH]),
    ]


def test_what_was_collected_keeps_the_laws_of_collectives(folder: Path) -> None:
    with lakeprobe.open(folder / "lake", create=True) as lake:
        found = lake.communication("ours")
        assert found.broken.fetchall() == []
        assert found.laws.fetchall() != []


def test_it_is_what_msprobe_records(folder: Path) -> None:
    jobs.assert_equal_to_msprobe(__file__, RANKS, folder, but="none")


if __name__ == "__main__":
    jobs.main(made, RANKS)
