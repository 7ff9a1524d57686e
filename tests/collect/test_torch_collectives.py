"""Communication as a capture records it, on two processes with gloo. Run as a program, it is one of them."""

import json
import os
import socket
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from memory import Memory

import lakeprobe
from lakeprobe.collect import frameworks
from lakeprobe.collect.settings import Settings

torch = pytest.importorskip("torch")

import torch.distributed._functional_collectives as functional  # noqa: E402
from torch import distributed, nn  # noqa: E402

PAIR = {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": f"{zlib.crc32(b'[0, 1]'):08x}"}


def train(rank: int) -> dict[str, Any]:
    """Two steps of what a process does: collectives by hand, then DistributedDataParallel. Gives the ops' bodies."""
    torch.manual_seed(0)
    x = torch.full((100, 100), float(rank + 1))
    y = torch.zeros(4)
    pair = distributed.new_group([0, 1])
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    memory = Memory()
    watched = frameworks.capture(model, Settings(level="mix"), memory)
    watched.start()
    # An op before and after, on the same memory: what the collective wrote must be seen.
    torch.relu(x)
    distributed.all_reduce(x, op=distributed.ReduceOp.SUM, group=pair)
    torch.relu(x)
    work = distributed.irecv(y, 1 - rank) if rank else distributed.isend(y + 7, 1 - rank)
    work.wait()
    with pytest.raises((RuntimeError, ValueError)):
        distributed.broadcast(y, src=99)
    late = distributed.all_reduce(y, async_op=True)
    late.wait()
    model(torch.full((3, 4), float(rank))).sum().backward()
    # The same sum as before, so only measuring again shows that the collective wrote.
    even = torch.full((32,), 2.0) if rank else torch.tensor([1.0, 3.0]).repeat(16)
    torch.relu(even)
    distributed.broadcast(even, src=0)
    # Receive buffers by name, in memory that holds something else.
    distributed.broadcast(tensor=torch.full((2,), 5.0 + rank), group=pair, group_src=1, async_op=False)
    gather = "all_gather_single" if hasattr(distributed, "all_gather_single") else "all_gather_into_tensor"
    scatter = "reduce_scatter_single" if hasattr(distributed, "reduce_scatter_single") else "reduce_scatter_tensor"
    getattr(distributed, gather)(output_tensor=torch.full((4,), 9.0), input_tensor=torch.full((2,), 1.0 + rank))
    getattr(distributed, scatter)(output=torch.full((1,), 9.0), input=torch.full((2,), 1.0 + rank))
    torch.tanh(functional.all_reduce(torch.full((4,), 1.0 + rank), "sum", pair))
    watched.stop()
    watched.close()
    step = memory.steps[0]
    assert step.rank == rank
    assert watched.recorder.failures == []
    assert distributed.all_reduce is distributed.distributed_c10d.all_reduce
    assert Path(lakeprobe.__file__).parent not in Path(distributed.all_reduce.__code__.co_filename).parents
    assert "lakeprobe" not in repr(distributed.Work.wait)
    return step.bodies


def main(rank: str, port: str, file: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    distributed.init_process_group("gloo", rank=int(rank), world_size=2)
    Path(file).write_text(json.dumps(train(int(rank))))
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The bodies of both processes' ops."""
    if not distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    files = [tmp_path_factory.mktemp("ranks") / f"{rank}.json" for rank in range(2)]
    commands = [[sys.executable, __file__, str(rank), port, str(file)] for rank, file in enumerate(files)]
    checkout = Path(__file__).parents[2]
    processes = [subprocess.Popen(command, cwd=checkout, stderr=subprocess.PIPE, text=True) for command in commands]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(said)
    return [json.loads(file.read_text()) for file in files]


def test_the_results_of_a_collective_are_its_arguments_afterwards(ranks: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(ranks):
        call = found["Distributed.all_reduce.0.forward"]
        assert call["input_args"][0]["Max"] == rank + 1
        assert call["input_kwargs"]["group"] == PAIR
        assert call["input_kwargs"]["op"] == {"type": "torch.distributed.ReduceOp", "value": "RedOpType.SUM"}
        assert [leaf.get("Max") for leaf in call["output"]] == [3, None, None]
        assert found["Torch.relu.0.forward"]["input_args"][0]["Max"] == rank + 1
        assert found["Torch.relu.1.forward"]["input_args"][0]["Max"] == 3


def test_asynchronous_results_are_those_after_waiting(ranks: list[dict[str, Any]]) -> None:
    received = ranks[1]["Distributed.irecv.0.forward"]
    assert received["input_args"][0] is None
    assert received["output"][0]["Max"] == 7
    assert ranks[0]["Distributed.isend.0.forward"]["input_args"][0]["Max"] == 7
    assert ranks[0]["Distributed.isend.0.forward"]["output"][0] is None
    for found, sent in zip(ranks, ("isend", "irecv"), strict=True):
        assert found["Distributed.all_reduce.1.forward"]["output"][0]["Max"] == 7
        waited_for = {name for name, op in found.items() if op.get("waited_for")}
        assert waited_for == {"Distributed.all_reduce.1.forward", f"Distributed.{sent}.0.forward"}


def test_a_tensor_that_is_not_there_yet_is_waited_for(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        [taken] = rank["Torch.tanh.0.forward"]["input_args"]
        assert taken["type"] == "torch.distributed._functional_collectives.AsyncCollectiveTensor"
        assert [taken[name] for name in ("Max", "Min", "Mean", "Norm")] == [3.0, 3.0, 3.0, 6.0]


def test_what_a_collective_writes_is_measured_though_its_sum_is_that_of_before(ranks: list[dict[str, Any]]) -> None:
    assert ranks[1]["Torch.relu.2.forward"]["input_args"][0]["Max"] == 2.0
    assert ranks[1]["Distributed.broadcast.1.forward"]["output"][0]["Max"] == 3.0


def test_what_a_rank_of_a_broadcast_had_before_it_received_is_null(ranks: list[dict[str, Any]]) -> None:
    sent, received = (found["Distributed.broadcast.1.forward"]["input_args"][0] for found in ranks)
    assert (sent["Max"], received) == (3.0, None)
    received, sent = (found["Distributed.broadcast.2.forward"]["input_kwargs"]["tensor"] for found in ranks)
    assert (sent["Max"], received) == (6.0, None)
    assert [found["Distributed.broadcast.2.forward"]["output"][0]["Max"] for found in ranks] == [6.0, 6.0]


def test_buffers_that_are_given_by_name_are_null_before_the_call(ranks: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(ranks):
        gathered, scattered = (
            next(body for name, body in found.items() if name.startswith(f"Distributed.{kind}_"))
            for kind in ("all_gather", "reduce_scatter")
        )
        assert gathered["input_kwargs"]["output_tensor"] is None
        assert gathered["input_kwargs"]["input_tensor"]["Max"] == rank + 1
        assert [leaf["Max"] for leaf in gathered["output"]] == [2.0, rank + 1]
        assert scattered["input_kwargs"]["output"] is None
        assert scattered["output"][0]["Max"] == 3.0


def test_a_collective_that_fails_keeps_its_inputs(ranks: list[dict[str, Any]]) -> None:
    for found in ranks:
        assert set(found["Distributed.broadcast.0.forward"]) == {"input_args", "input_kwargs"}


def test_data_parallel_modules_have_their_names_and_gradients(ranks: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(ranks):
        (leaf,) = found["Module.module.0.Linear.forward.0"]["input_args"]
        assert leaf["Max"] == rank
        assert set(found["Module.module.0.Linear.parameters_grad.0"]) == {"weight", "bias"}
        assert "Module.module.1.ReLU.backward.0" in found


if __name__ == "__main__":
    main(*sys.argv[1:])
