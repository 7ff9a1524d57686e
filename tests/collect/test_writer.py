"""Writing batches: nobody waits without need, and nothing is lost or torn when something fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import pytest
from test_unit_sink import add, leaf, notes, rows, violations

import lakeprobe
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing import unit_sink
from lakeprobe.collect.writing.unit_sink import OPS_PER_BATCH, UnitSink
from lakeprobe.collect.writing.writer import Batch, Writer
from lakeprobe.journals import journal, recovery
from lakeprobe.journals.journal import Head, Journal
from lakeprobe.tensors.content import array_hash

HEAD = Head(
    run="npu", step=0, rank=0, framework="pytorch", task="tensor", level="L1", source="", head={}, replace=False,
    version="0",
)  # fmt: skip

OURS = str(Path(lakeprobe.__file__).parent)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(Journal(tmp_path, HEAD))
    yield writer
    writer.close()


@pytest.fixture
def press_ctrl_c() -> Iterator[Callable[[], None]]:
    """Sends SIGINT in a moment. A job in the background, as CI may be, would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    yield timer.start
    timer.join()
    signal.signal(signal.SIGINT, before)


def batch_of(*tensors: np.ndarray[Any, Any], text: str = "") -> Batch:
    batch = Batch()
    batch.ops = [msgspec.msgpack.encode([text, [batch.placeholder_of(tensor) for tensor in tensors]])]
    return batch


def written(writer: Writer) -> list[Any]:
    records = journal.batches(writer.folder / "journal")
    return [msgspec.msgpack.decode(op) for batch in records for op in batch.ops]


def blocked(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """From here on a journal is written only once the event is set."""
    go_on = threading.Event()
    write = Journal.write

    def wait_and_write(self: Journal, record: Head | journal.Batch) -> None:
        assert go_on.wait(30)
        write(self, record)

    monkeypatch.setattr(Journal, "write", wait_and_write)
    return go_on


def test_who_brings_a_batch_goes_on_and_waits_only_with_the_next_one(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = blocked(monkeypatch)
    writer.write(batch_of(np.ones(3)))
    threading.Timer(0.2, go_on.set).start()
    started = time.monotonic()
    writer.write(batch_of(np.zeros(3)))
    assert time.monotonic() - started > 0.1
    writer.wait()
    assert len(written(writer)) == 2


def test_ops_name_the_contents_of_their_tensors(writer: Writer) -> None:
    one, other = np.ones(3), np.zeros((2, 2), np.float16)
    stand_in = Batch().placeholder_of(one)
    writer.write(batch_of(one, other, one))
    writer.write(batch_of(np.ones(3), text=stand_in[:-1]))
    writer.wait()
    first, second = array_hash(one), array_hash(other)
    assert written(writer) == [["", [first, second, first]], [stand_in[:-1], [first]]]
    records = list(journal.batches(writer.folder / "journal"))
    assert [[row["content"] for row in record.contents] for record in records] == [[first, second], []]
    assert [path.name for path in (writer.folder / "unit").iterdir()] == ["values-0.parquet"]


def test_a_batch_that_is_written_is_let_go_of(writer: Writer) -> None:
    tensor = np.ones(1 << 20)
    alive = weakref.ref(tensor)
    writer.write(batch_of(tensor))
    del tensor
    writer.wait()
    deadline = time.monotonic() + 10
    while alive() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive() is None


def test_an_error_is_raised_where_the_next_batch_comes(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "write", full)
    writer.write(batch_of(np.ones(3)))
    with pytest.raises(OSError, match="No space left"):
        writer.write(batch_of(np.zeros(3)))
    writer.wait()  # it is said once


def test_closing_raises_an_error_and_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    writer = Writer(Journal(tmp_path, HEAD))
    monkeypatch.setattr(Journal, "write", full)
    writer.write(batch_of(np.ones(3)))
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    assert writer._thread is not None
    assert not writer._thread.is_alive()
    with journal.taken(writer.folder, wait=False) as path:
        assert path is not None


def test_a_batch_without_tensors_is_written_at_once(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threading.active_count()
    writer.write(batch_of(text="first"))
    assert written(writer) == [["first", []]]
    writer.write(batch_of(np.ones(3)))
    writer.write(batch_of(text="last"))  # not before the one that the thread writes
    assert [text for text, _ in written(writer)] == ["first", "", "last"]
    assert threading.active_count() == threads + 1

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "write", full)
    writer.write(batch_of())
    with pytest.raises(OSError, match="No space left"):
        writer.wait()
    writer.wait()  # it is said once


def test_ctrl_c_in_the_middle_of_a_write_leaves_the_journal_whole(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Torn:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: memoryview) -> int:
            self.file.write(data[: len(data) // 2])
            raise KeyboardInterrupt

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    writer.write(batch_of(text="first"))
    with monkeypatch.context() as patched:
        patched.setattr(writer._journal, "_file", Torn(writer._journal._file))
        with pytest.raises(KeyboardInterrupt):
            writer.write(batch_of(text="torn"))
    writer.write(batch_of(text="last"))
    assert [text for text, _ in written(writer)] == ["first", "last"]


def test_ctrl_c_while_waiting_loses_nothing(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, press_ctrl_c: Callable[[], None]
) -> None:
    go_on = blocked(monkeypatch)
    writer.write(batch_of(np.ones(3)))
    press_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        writer.wait()
    go_on.set()
    writer.wait()
    assert len(written(writer)) == 1


# ---- processes --------------------------------------------------------------------------------------------


def sink_with_tensors(lake: Path, count: int) -> UnitSink:
    sink = UnitSink(lake, "npu", Settings())
    sink.begin(0, 0)
    for number in range(count):
        add(sink, f"Torch.add.{number}.forward", {"output": [leaf(np.full(1000, number), f"{number}.pt")]})
    return sink


def test_what_is_gathered_when_ctrl_c_comes_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, press_ctrl_c: Callable[[], None]
) -> None:
    lake = tmp_path / "lake"
    sink = sink_with_tensors(lake, OPS_PER_BATCH - 1)
    sink._wait()
    go_on = blocked(monkeypatch)
    add(sink, "Torch.add.last.forward", {"output": [leaf(np.zeros(1000), "last.pt")]})  # the thread begins to write it
    add(sink, "Torch.mul.0.forward", {"output": []})
    press_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        sink.end()
    go_on.set()
    add(sink, "Torch.mul.1.forward", {"output": []})
    sink.close()
    assert len(rows(lake, "ops", "npu")) == OPS_PER_BATCH + 2


class Interrupts:
    """Raises KeyboardInterrupt at the call or return in front of which Python looks for signals a `number`-th time."""

    def __init__(self, number: int) -> None:
        self.left = number

    def during(self, call: Callable[[], None]) -> bool:
        """Run `call`, and return whether it was interrupted."""
        sys.setprofile(self._see)
        try:
            call()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(OURS):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_an_interrupt_anywhere_loses_no_other_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    monkeypatch.setattr(unit_sink, "OPS_PER_BATCH", 2)
    monkeypatch.setattr(UnitSink, "_request_build", lambda *_: None)
    arrays = [np.full(3, number) for number in range(6)]
    names = [f"Torch.add.{number}.forward" for number in range(6)]
    stacks = [(f"line {number}",) for number in range(6)]
    sink = UnitSink(tmp_path / "lake", "npu", Settings(task=task))
    numbers = 0
    interrupts = Interrupts(0)
    while interrupts.left <= 0:  # until no interrupt comes any more
        numbers += 1
        interrupts = Interrupts(numbers)
        sink.begin(numbers, 0)
        lost = []
        for name, array, stack in zip(names, arrays, stacks, strict=True):
            body = {"output": [leaf(array if task == "tensor" else None, "a.pt")]}
            if interrupts.during(lambda: sink.add(name, body, parent=None, stack=stack)):  # noqa: B023
                lost.append(name)
        if interrupts.during(sink.end):
            sink.end()
        assert sink._writer is not None
        batches = list(journal.batches(sink._writer.folder / "journal"))
        ops = [msgspec.msgpack.decode(op, type=journal.Op) for batch in batches for op in batch.ops]
        frames = [frames for batch in batches for frames in batch.stacks]
        found = [op.op for op in ops]
        assert [name for name in names if name in found or name not in lost] == found, numbers
        assert batches[-1].ended
        for op in ops:
            number = names.index(op.op)
            assert op.stack is not None
            assert tuple(frames[op.stack]) == stacks[number], numbers
            if task == "tensor":
                assert op.body["output"][0]["tensor"] == array_hash(arrays[number]), numbers
    assert numbers > 100
    sink.close()


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_end_that_is_interrupted_is_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    sink = sink_with_tensors(lake, 1)
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sink.end()
    sink.begin(1, 0)
    sink.close()
    assert notes(lake, "npu") == []


def test_what_close_says_of_a_step_whose_ops_never_came_to_the_disk_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    sink = sink_with_tensors(lake, 2)
    sink.end()
    sink.begin(1, 0)
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "write", interrupted)
        for end in (lambda: add(sink, "Torch.add.0.forward", {"output": []}), sink.close):
            with pytest.raises(KeyboardInterrupt):
                end()
    sink.close()  # says nothing of units that are gone
    with lakeprobe.open(lake) as opened:
        assert opened.sql("SELECT step FROM dumps").fetchall() == [(0,)]


def killed_while_writing(lake: str) -> None:
    """Two batches; the process is killed when the values of the second are on the disk, all but the end of the file."""
    from lakeprobe.lake import values

    sink = sink_with_tensors(Path(lake), 2)
    sink.end()
    values.ValuesWriter.close = lambda self: (self._file.flush(), os.kill(os.getpid(), signal.SIGKILL))  # type: ignore
    add(sink, "Torch.add.2.forward", {"output": [leaf(np.full(1000, 2), "2.pt")]})
    sink.end()


def left_open(lake: str) -> None:
    """The program ends, and what is to run at exit closes the sink."""
    import atexit

    sink = sink_with_tensors(Path(lake), 2)

    def close() -> None:
        sink.end()
        sink.close()

    atexit.register(close)


def run(program: Callable[[str], None], lake: Path) -> int:
    return subprocess.run([sys.executable, __file__, program.__name__, str(lake)], timeout=60, check=False).returncode


def test_a_record_names_no_tensors_that_are_not_whole_on_the_disk(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert run(killed_while_writing, lake) == -signal.SIGKILL
    recovery.recover(lake)
    assert len(rows(lake, "ops", "npu")) == len(rows(lake, "contents", "npu")) == 2
    assert notes(lake, "npu") == []  # it was killed after the end of what the first batch ended
    assert violations(lake) == []


def test_a_program_that_ends_without_closing_ends(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert run(left_open, lake) == 0
    assert len(rows(lake, "contents", "npu")) == 2


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # multi-threaded, and forks: what we test
def test_a_forked_process_leaves_the_unit_to_its_parent(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    sink = sink_with_tensors(lake, 2)
    read, write = os.pipe()
    child = os.fork()
    if not child:  # as a worker that loads data, which outlives the collecting
        code = 1
        try:
            add(sink, "Torch.mul.0.forward", {"output": []})
            sink.end()
            sink.finish()
            sink.close()
            os.close(write)
            os.read(read, 1)
            code = 0
        finally:
            os._exit(code)
    os.close(read)
    add(sink, "Torch.sub.0.forward", {"output": []})
    sink.end()
    sink.close()  # would wait for the child, if the child could write to the process that makes units
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    assert [row[2] for row in rows(lake, "ops", "npu")] == [
        "Torch.add.0.forward", "Torch.add.1.forward", "Torch.sub.0.forward",
    ]  # fmt: skip
    assert violations(lake) == []


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
