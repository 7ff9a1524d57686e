"""Transfers of torch.distributed that are made before a monitor works, while it does, or while steps are collected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import distributed  # noqa: E402

from lakeprobe.collect.pytorch.collectives import Collectives  # noqa: E402
from lakeprobe.collect.watching.places import Replacements  # noqa: E402
from lakeprobe.monitoring.meter import Meter  # noqa: E402
from lakeprobe.monitoring.pytorch.communication import Communication  # noqa: E402


@pytest.fixture
def group() -> Iterator[None]:
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def is_known(transfer: distributed.P2POp) -> bool:
    """Whether torch tells by this transfer's function that it sends."""
    return transfer.op is distributed.distributed_c10d.isend


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("is_collected", [False, True])
def test_torch_knows_a_transfer_whenever_it_was_made(is_collected: bool) -> None:
    def made() -> distributed.P2POp:
        return distributed.P2POp(distributed.isend, torch.zeros(1), 0)

    transfers = [made()]
    communication = Communication(Meter.__new__(Meter), lambda function: function)
    replaced = Replacements()
    try:
        transfers.append(made())
        assert [is_known(one) for one in transfers] == [True, True]
        if is_collected:
            Collectives(None, replaced).start()
            transfers.append(made())
            assert [is_known(one) for one in transfers] == [True, True, True]
            replaced.remove()
            assert [is_known(one) for one in transfers] == [True, True, True]
    finally:
        replaced.remove()
        communication.remove()
    assert [is_known(one) for one in transfers] == [True] * len(transfers)
    assert "op" not in vars(distributed.P2POp)
