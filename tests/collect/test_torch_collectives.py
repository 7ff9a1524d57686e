"""Communication as a capture records it, on two processes with gloo. Run as a program, it is one of them."""

import json
import os
import socket
import subprocess
import sys
import time
import zlib
from importlib.util import find_spec
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


def arrive(rank: int) -> dict[str, Any]:
    """One step in which results arrive in every way, or nobody looks whether they have. Gives the ops' bodies."""
    coalescing = distributed.distributed_c10d._coalescing_manager
    memory = Memory()
    watched = frameworks.capture(None, Settings(level="L1"), memory)
    made_before = transfers(rank)
    watched.start()
    distributed.all_reduce(large(rank), async_op=True).get_future().wait()
    changed = distributed.all_reduce(large(rank), async_op=True).get_future().then(lambda done: done.value()[0].zero_())
    assert changed.wait().count_nonzero() == 0
    polled = distributed.all_reduce(large(rank), async_op=True)
    while not polled.is_completed():
        time.sleep(0.001)
    with coalescing():
        distributed.all_reduce(large(rank))
        distributed.all_reduce(large(rank))
    with coalescing(async_ops=True) as coalesced:
        distributed.all_reduce(large(rank))
    coalesced.wait()
    left = distributed.all_reduce(large(rank), async_op=True)
    with coalescing(async_ops=True) as left_coalesced:
        distributed.all_reduce(large(rank))
    distributed.all_reduce_coalesced([large(rank)], async_op=True).wait()
    distributed.all_gather_coalesced([[torch.full((2,), 9.0)] for _ in range(2)], [torch.full((2,), 1.0 + rank)])
    exchange(made_before)
    made_in_step = transfers(rank)
    watched.stop()
    exchange(made_in_step)
    left.wait()
    left_coalesced.wait()
    watched.close()
    assert watched.recorder.failures == []
    assert "lakeprobe" not in repr((torch._C.Future.then, distributed.ProcessGroup.allreduce_coalesced))
    assert "op" not in vars(distributed.P2POp)
    return memory.steps[0].bodies


def pipe(rank: int) -> dict[str, Any]:
    """The first step of a pipeline of two stages, with four microbatches. Gives the ops' bodies."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.manual_seed(0)
    stage = PipelineStage(nn.Linear(8, 8), rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    memory = Memory()
    watched = frameworks.capture(stage.submod, Settings(level="L1"), memory)
    watched.start()
    if rank:
        schedule.step(target=torch.zeros(8, 8))
    else:
        schedule.step(torch.ones(8, 8))
    watched.close()
    assert watched.recorder.failures == []
    return memory.steps[0].bodies


def large(rank: int) -> Any:
    """A tensor that takes a while. The sum of both ranks' is 3."""
    return torch.full((1_000_000,), 1.0 + rank)


def transfers(rank: int) -> list[Any]:
    sent = distributed.P2POp(distributed.isend, torch.full((4,), 1.0 + rank), 1 - rank)
    return [sent, distributed.P2POp(distributed.irecv, torch.full((4,), 9.0), 1 - rank)]


def exchange(made: list[Any]) -> None:
    for work in distributed.batch_isend_irecv(made):
        work.wait()


WORK = (train, arrive, *([pipe] if find_spec("torch.distributed.pipelining") else []))


def main(rank: str, port: str, file: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    distributed.init_process_group("gloo", rank=int(rank), world_size=2)
    Path(file).write_text(json.dumps([work(int(rank)) for work in WORK]))
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The bodies of both processes' ops, of each work."""
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


@pytest.fixture
def ranks(both: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [trained for trained, *_ in both]


@pytest.fixture
def arrivals(both: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [arrived for _, arrived, *_ in both]


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


def test_results_are_recorded_when_the_program_sees_that_they_have_arrived(arrivals: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(arrivals):
        for number in range(6):
            call = found[f"Distributed.all_reduce.{number}.forward"]
            assert call["input_args"][0]["Max"] == rank + 1
            assert (number, call["output"][0]["Max"], call["output"][0]["Min"]) == (number, 3.0, 3.0)
            assert call["waited_for"] is True
        [[summed], _] = found["Distributed.all_reduce_coalesced.0.forward"]["output"]
        assert summed["Max"] == summed["Min"] == 3.0
        gathered = found["Distributed.all_gather_coalesced.0.forward"]
        assert gathered["input_args"][0] is None
        assert [leaf["Max"] for [leaf] in gathered["output"][0]] == [1.0, 2.0]


def test_results_that_nobody_waited_for_are_not_recorded(arrivals: list[dict[str, Any]]) -> None:
    for found in arrivals:
        for number in (6, 7):
            call = found[f"Distributed.all_reduce.{number}.forward"]
            assert (call["output"][0]["dtype"], call["output"][0]["shape"]) == ("torch.float32", [1_000_000])
            assert [call["output"][0][name] for name in ("Max", "Min", "Mean", "Norm")] == [None] * 4
            assert call["waited_for"] is False


def test_transfers_work_in_a_step_and_after_it_and_what_is_received_is_not_read_before(
    arrivals: list[dict[str, Any]],
) -> None:
    for rank, found in enumerate(arrivals):
        call = found["Distributed.batch_isend_irecv.0.forward"]
        [[sent, received]] = call["input_args"]
        assert (sent["op"], sent["tensor"]["Max"]) == ("isend", rank + 1)
        assert (received["op"], received["tensor"]["shape"]) == ("irecv", [4])
        assert [received["tensor"][name] for name in ("Max", "Min", "Mean", "Norm")] == [None] * 4
        [[_, received]] = call["output"]
        assert received["tensor"]["Max"] == 2 - rank


@pytest.mark.skipif(pipe not in WORK, reason="this torch has no pipelines")
def test_what_a_pipeline_runs_to_learn_shapes_is_not_recorded(both: list[list[dict[str, Any]]]) -> None:
    for *_, found in both:
        microbatches = [f"Functional.linear.{number}.forward" for number in range(4)]
        assert [name for name in found if name.startswith("Functional.linear.") and "forward" in name] == microbatches


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
