"""Gives every reader damaged and forged files, as many as there is time for. Each must be read or refused in one line.

    python tests/fuzz/readers.py SECONDS [READER...]      (make fuzz SECONDS=600)

What a reader stumbles over is kept in .fuzz/. Seeds are small sound files; damage cuts, doubles, replaces and inserts.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import resource
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "readers"), str(TESTS / "hostile"), str(TESTS / "compare")]
import test_acl  # noqa: E402
import test_damage  # noqa: E402
import test_foreign_tables  # noqa: E402
import test_kernel  # noqa: E402
from checkpoints import ckpt, distributed, safetensors  # noqa: E402
from corpus import pt  # noqa: E402

from lakeprobe.errors import LakeprobeError  # noqa: E402
from lakeprobe.layouts import layout_file  # noqa: E402
from lakeprobe.mapping import compare_json  # noqa: E402
from lakeprobe.mapping import files as mappings  # noqa: E402
from lakeprobe.readers import archive, foreign_tables, merge_config, mindspore_ir, result_tables  # noqa: E402
from lakeprobe.readers.formats import FORMATS  # noqa: E402
from lakeprobe.readers.locate import locate  # noqa: E402
from lakeprobe.readers.source import Source  # noqa: E402
from lakeprobe.tensors import content_hash, read_tensor  # noqa: E402
from lakeprobe.tensors.statistics import measure  # noqa: E402

FAILURES = Path(".fuzz")
SECONDS_EACH = 20
"""That one input may take."""
WHOLE_EVERY = 16
"""Of so many inputs one is looked for as well (`Target.quick`)."""
BYTES = 2 << 30
WORDS = (
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-Infinity", b"1e999", b"true", b"\n", b"\0", b"\xff",
    b"9" * 40, b"-1", b"4294967296", b"18446744073709551615", b'"data": {}', b"\\ud800", b"../", b"<x>", b"</x>", b"'",
    b"\r\n", b"\t", b"=", b"&a *a", b"!!python/object", b"\x80\x02", b"R.", b"K\x00", b"(", b")",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A reader, the files that it is given, the one that is damaged, and how it is called on the folder."""

    files: dict[str, bytes]
    damaged: str
    read: Callable[[Path], object]
    packed: Callable[[bytes], bytes] = bytes
    """What a damaged content is packed into, so that damage is also inside."""

    def quick(self, folder: Path) -> Callable[[], object]:
        """What most inputs are given to: `read`, less what the damage has no part in."""
        return dumps_found(folder) if self.read is read_dumps else lambda: self.read(folder)


def damage(content: bytes, choose: random.Random) -> bytes:
    for _ in range(choose.randint(1, 4)):
        start = choose.randint(0, len(content))
        end = min(len(content), start + choose.choice((0, 1, 1, 2, 8, 40)))
        how = choose.random()
        if how < 0.3:
            instead = choose.choice(WORDS)
        elif how < 0.5:
            instead = bytes(choose.randrange(256) for _ in range(choose.randint(1, 4)))
        elif how < 0.7:
            other = choose.randint(0, len(content))
            instead = content[other : other + choose.choice((1, 8, 60, 400))]
        elif how < 0.8:
            instead = content[start:end] * choose.choice((2, 3, 50))
        elif how < 0.85:
            return content[:start]
        else:
            instead = b""
        content = content[:start] + instead + content[end:]
    return content


# ---- readers ----------------------------------------------------------------------------------------------


def read_dumps(folder: Path) -> None:
    for run in locate(folder).runs:
        for source in run.sources:
            read_source(source)


def read_source(source: Source) -> None:
    def content_of(tensor: Any) -> tuple[str | None, str | None]:
        try:
            path = (source.tensors or Path()) / tensor if isinstance(tensor, str) else None
            return content_hash(read_tensor(path) if path else tensor), None
        except LakeprobeError as error:
            return None, str(error)

    FORMATS[source.format].read(source, content_of, lambda table, batch: batch.validate(full=True))


def dumps_found(folder: Path) -> Callable[[], None]:
    """Reads what was found when the folder was sound: most of the time of a small dump is in looking for it."""
    sources = [source for run in locate(folder).runs for source in run.sources]

    def read() -> None:
        for source in sources:
            read_source(source)

    return read


def read_one_tensor(folder: Path) -> None:
    (path,) = folder.iterdir()
    reference = read_tensor(path)
    content_hash(reference)
    measure(reference)


def read_tables(folder: Path) -> None:
    for table in foreign_tables.gather(locate(folder).tables):
        _, batches = foreign_tables.read(table)
        for batch in batches:
            batch.validate(full=True)


def read_results(folder: Path) -> None:
    for file in result_tables.find([folder]):
        result_tables.texts(file, file.headers)


def read_archive(folder: Path) -> None:
    (path,) = folder.iterdir()
    if archive.is_archive(path):
        with archive.opened(path) as top:
            read_dumps(top)


def read_mapping(folder: Path) -> None:
    mappings.read(cell=folder / "m.yaml", data=folder / "m.yaml")


def read_compare_json(folder: Path) -> None:
    compare_json.read(folder / "compare.json")


def read_layout(folder: Path) -> None:
    layout_file.read(folder / "m.yaml")


def read_merge_config(folder: Path) -> None:
    merge_config.read_config(folder / "m.yaml")


def read_ir(folder: Path) -> None:
    mindspore_ir.frames_by_kernel([folder / "g.ir"])


# ---- seeds ------------------------------------------------------------------------------------------------


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(12, dtype=">f4").reshape(3, 4).T)
    return stream.getvalue()


def _pt() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        pt(Path(folder) / "x.pt", (1, 1), (1, 1))
        return (Path(folder) / "x.pt").read_bytes()


def _checkpoint(name: str, write: Callable[[Path, dict[str, torch.Tensor]], object]) -> bytes:
    """The file `name` of a checkpoint of two parameters that `write` writes."""
    tensors = {"a.weight": torch.ones(2, 3), "a.bias": torch.zeros(2, dtype=torch.bfloat16)}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name, tensors)
        return (Path(folder) / name).read_bytes()


def _state_dict(path: Path, tensors: dict[str, torch.Tensor], is_zip: bool = True) -> None:
    torch.save(tensors, path, _use_new_zipfile_serialization=is_zip)


_legacy = partial(_state_dict, is_zip=False)


def _distributed() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        distributed(Path(folder) / "d", {"w": torch.ones(2, 3)})
        return {path.name: path.read_bytes() for path in (Path(folder) / "d").iterdir()}


def _nodes() -> bytes:
    """The first nodes of an IR of MindSpore."""
    lines = (TESTS / "data/mindspore_ir/graph.ir").read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith(b"subgraph"))
    return b"".join([*lines[first : first + 40], b"}\n"])


def _zip(name: str) -> Callable[[bytes], bytes]:
    """What puts a content into a zip, as the member `name`, beside those of the workbook where it is one of its."""

    def packed(content: bytes) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as whole:
            for other, kept in WORKBOOK.items() if name.startswith("xl/") else ():
                if other != name:
                    whole.writestr(other, kept)
            whole.writestr(name, content)
        return stream.getvalue()

    return packed


def _workbook() -> dict[str, bytes]:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (test_foreign_tables.COMPARE, [1, "a", None, 2.5, True] * 5):
        book.active.append(row[: len(test_foreign_tables.COMPARE)])  # type: ignore[union-attr]
    stream = io.BytesIO()
    book.save(stream)
    with zipfile.ZipFile(stream) as whole:
        return {name: whole.read(name) for name in whole.namelist()}


WORKBOOK = _workbook()


def _tar(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as whole:
        for name, content in files.items():
            info = tarfile.TarInfo(f"d/{name}")
            info.size = len(content)
            whole.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _dump(indent: int | None) -> dict[str, bytes]:
    names = ("dump.json", "stack.json", "construct.json")
    return {name: test_damage.VALID[name, indent] for name in names}


LINES = b"".join(
    json.dumps(line).encode() + b"\n"
    for line in (
        ["Torch_add_0_forward_input.0", 1, [], "torch.float32", [2, 2], [1.0, 0.0, 0.5]],
        ["Torch_add_0_forward_input.1", 1, [], "<class 'int'>", [], [1, 1, 1]],
        ["Torch_add_0_forward_output", 1, [], "torch.float32", [2, 2], [1.0, 0.0, float("nan")]],
        ["Torch_add_0_forward_stack_info", [["a.py", "1", "f", "x"], ["b.py", "2", "g", "y"]]],
    )
)
SAVED = b'{"data": {"x": {"max": 1.0, "min": 0.5, "mean": 0.75, "norm": 2.0, "shape": [2]}}}'
HEADERS = ",".join(test_foreign_tables.COMPARE)
CSV = f"{HEADERS}\n{','.join('1' for _ in test_foreign_tables.COMPARE)}\n".encode()
MSPROBE_HEADERS = (
    "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,Max diff,Min diff,Mean diff,"
    "L2norm diff,NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench l2norm,Result,Err_message"
)
MSPROBE = f"{MSPROBE_HEADERS}\n{','.join(['a'] * 20)}\n".encode()
CELLS = [f'"{cell}"' for cell in test_kernel.STATISTIC]
STATISTICS = f"{','.join(test_kernel.HEADER)}\n{','.join(CELLS)}\n".encode()
YAML = b'Primitive.add: Torch.add\n"a.b": "c.d"\nc.e: f.g\n'
LAYOUT = (
    b"axes: {pp: 2, tp: 2}\ntensors:\n  mlp.weight: {tp: shard 0}\n  hidden: b s[pp] h[tp]\n  x: {tp: partial sum}\n"
)
CONFIG = b"api:\n  - Distributed.all_reduce\n  - Torch.add\ncompare_index:\n  - Max diff\n"
PREFLIGHT = json.dumps({
    "preflight": 1, "framework": "pytorch", "lakeprobe": "0.2.0", "packages": {"torch": "2.13"},
    "settings": {"tf32": True, "threads": 4, "x": None, "y": 2.5, "z": "a text"},
    "weights": {"w": {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": 1.0, "md5": "0" * 8}},
}).encode()  # fmt: skip
OLD = b'{"npu_path": "/tmp", "bench_path": "/tmp", "rank_id": [0], "common": false, "map_dict": {"a": "b"}}'
RESULT = "compare_result_rank0_20260102030405"

TARGETS = {
    "dump.json": Target(_dump(1), "dump.json", read_dumps),
    "dump.json, flat": Target(_dump(None), "dump.json", read_dumps),
    "stack.json": Target(_dump(1), "stack.json", read_dumps),
    "construct.json": Target(_dump(1), "construct.json", read_dumps),
    "debug.json": Target({"debug.json": test_damage.VALID["debug.json", 1]}, "debug.json", read_dumps),
    "SingleSave": Target({"data/x/step0/rank0/x.json": SAVED, "data/x/step0/rank0/x.x.npy": _npy()},
                         "data/x/step0/rank0/x.json", read_dumps),
    ".npy": Target({"x.npy": _npy()}, "x.npy", read_one_tensor),
    ".pt": Target({"x.pt": _pt()}, "x.pt", read_one_tensor),
    "npy folder": Target({"x_float32_0.npy": _npy(), "y.pt": _pt()}, "x_float32_0.npy", read_dumps),
    "ptdbg": Target({"dump.pkl": LINES}, "dump.pkl", read_dumps),
    "kernel dump": Target({"Add.Default_Add-op1.0.0.1700000000000000": test_acl.kernel_file(
        [np.arange(4, dtype=np.float32)], [np.arange(3, dtype=np.int64)])},
        "Add.Default_Add-op1.0.0.1700000000000000", read_dumps),
    "statistic.csv": Target({"rank_0/Net/0/0/statistic.csv": STATISTICS}, "rank_0/Net/0/0/statistic.csv", read_dumps),
    "csv": Target({f"{RESULT}.csv": CSV}, f"{RESULT}.csv", read_tables),
    "csv.gz": Target({f"{RESULT}.csv.gz": CSV}, f"{RESULT}.csv.gz", read_tables, gzip.compress),
    "msprobe's csv": Target({f"{RESULT}.csv": MSPROBE}, f"{RESULT}.csv", read_results),
    "xlsx sheet": Target({f"{RESULT}.xlsx": WORKBOOK["xl/worksheets/sheet1.xml"]}, f"{RESULT}.xlsx", read_tables,
                         _zip("xl/worksheets/sheet1.xml")),
    "xlsx styles": Target({f"{RESULT}.xlsx": WORKBOOK["xl/styles.xml"]}, f"{RESULT}.xlsx", read_tables,
                          _zip("xl/styles.xml")),
    "xlsx": Target({f"{RESULT}.xlsx": _zip("xl/worksheets/sheet1.xml")(WORKBOOK["xl/worksheets/sheet1.xml"])},
                   f"{RESULT}.xlsx", read_tables),
    "tar": Target({"d.tar": _tar(_dump(None))}, "d.tar", read_archive),
    "tar.gz": Target({"d.tar.gz": _tar(_dump(None))}, "d.tar.gz", read_archive, lambda it: gzip.compress(it, 1)),
    "zip": Target({"d.zip": _zip("d/dump.json")(test_damage.VALID["dump.json", None])}, "d.zip", read_archive),
    "mapping": Target({"m.yaml": YAML}, "m.yaml", read_mapping),
    "compare.json": Target({"compare.json": OLD}, "compare.json", read_compare_json),
    "layout file": Target({"m.yaml": LAYOUT}, "m.yaml", read_layout),
    "merge config": Target({"m.yaml": CONFIG}, "m.yaml", read_merge_config),
    "preflight": Target({"preflight.json": PREFLIGHT}, "preflight.json", read_dumps),
    "safetensors": Target({"model.safetensors": _checkpoint("x", safetensors)}, "model.safetensors", read_dumps),
    "state_dict": Target({"model.pt": _checkpoint("x", _state_dict)}, "model.pt", read_dumps),
    "legacy state_dict": Target({"model.pt": _checkpoint("x", _legacy)}, "model.pt", read_dumps),
    "MindSpore checkpoint": Target({"model.ckpt": _checkpoint("x", ckpt)}, "model.ckpt", read_dumps),
    "distributed checkpoint": Target(_distributed(), ".metadata", read_dumps),
    "MindSpore IR": Target({"g.ir": _nodes()}, "g.ir", read_ir),
}  # fmt: skip


# ---- running ----------------------------------------------------------------------------------------------


class TooLongError(BaseException):
    """An input took longer than SECONDS_EACH."""


def _too_long(*_: object) -> None:
    raise TooLongError


def fuzz(name: str, seconds: float, seed: int) -> tuple[int, int, int]:
    """How many inputs were tried, refused, and stumbled over."""
    target, choose = TARGETS[name], random.Random(f"{name} {seed}")
    tried = refused = failed = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as home:
        folder = Path(home) / "d"
        for file, content in target.files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(target.packed(content) if file == target.damaged else content)
        target.read(folder)  # what is sound is read
        quick = target.quick(folder)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            content = target.packed(damage(target.files[target.damaged], choose))
            (folder / target.damaged).write_bytes(content)
            signal.alarm(SECONDS_EACH)
            try:
                if tried % WHOLE_EVERY == 0:
                    target.read(folder)
                else:
                    quick()
            except (Exception, TooLongError) as error:  # noqa: BLE001 the one thing that is looked for
                if isinstance(error, LakeprobeError) and "\n" not in str(error):
                    refused += 1
                    continue
                failed += 1
                FAILURES.mkdir(exist_ok=True)
                (FAILURES / f"{name.replace(' ', '_')}-{seed}-{tried}").write_bytes(content)
                if failed <= 3:
                    traceback.print_exc()
            finally:
                signal.alarm(0)
                tried += 1
    return tried, refused, failed


def main() -> int:
    """Give each reader its share of the time."""
    seconds, names = float(sys.argv[1]), sys.argv[2:] or list(TARGETS)
    signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    seed, stumbled, total = int(time.time()), 0, 0
    for name in names:
        tried, refused, failed = fuzz(name, seconds / len(names), seed)
        print(f"{name:18} {tried:9} inputs, {refused:9} refused, {failed} stumbled over", flush=True)
        stumbled, total = stumbled + failed, total + tried
    print(f"{total} inputs in all, seed {seed}")
    return 1 if stumbled else 0


if __name__ == "__main__":
    sys.exit(main())
