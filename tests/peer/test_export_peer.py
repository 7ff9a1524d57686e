"""What we export is what msprobe wrote: every real dump comes out as it went in, and msprobe reads ours as its own."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from real_dumps import DUMPS, needs_dumps

from lakeprobe.export import export
from lakeprobe.ingest import ingest
from lakeprobe.readers import debug, dump
from lakeprobe.readers.locate import Located, locate
from lakeprobe.tensors import content_hash, read_tensor

MSPROBE = Path(os.environ.get("MSPROBE") or shutil.which("msprobe") or "msprobe")
TENSORS = "dump_tensor_data"
PAIRS = {  # target, golden, file
    "tensors": ("A_pt_lm/L1_tensor/bf16", "A_pt_lm/L1_tensor/golden", "dump.json"),
    "points": ("D_debug_save/pt_tensor/ln_eps", "D_debug_save/pt_tensor/golden", "debug.json"),
}

needs_msprobe = pytest.mark.skipif(not MSPROBE.is_file(), reason="msprobe is not there (MSPROBE names the program)")


def runs() -> list[Located]:
    """The runs of msprobe's dumps."""
    if not DUMPS.is_dir():
        return []
    formats = (dump.NAME, debug.NAME)
    return [run for run in locate(DUMPS).runs if all(source.format in formats for source in run.sources)]


def exact(value: Any) -> str:
    """JSON text that tells 1, 1.0, true, NaN and null apart, but not the order of keys."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.sampled
@pytest.mark.parametrize("run", runs(), ids=lambda run: str(run.root.relative_to(DUMPS)))
def test_every_dump_comes_out_as_it_went_in(run: Located, tmp_path: Path) -> None:
    ingest(run.root, lake=tmp_path / "lake", run="run", tensors="link")
    export(tmp_path / "lake", "run", tmp_path / "out")
    for source in run.sources:
        exported = tmp_path / "out" / source.part / f"step{source.step}" / f"rank{source.rank}"
        for name in (dump.DUMP_FILE, debug.DEBUG_FILE, dump.STACK_FILE, dump.CONSTRUCT_FILE):
            original = source.folder / name
            assert (exported / name).exists() == original.exists(), name
            if original.exists():
                before, after = (json.loads(path.read_text() or '"no byte"') for path in (original, exported / name))
                assert exact(after) == exact(before), name
                assert list(after.get("data", after)) == list(before.get("data", before)) or name == dump.STACK_FILE
        for path in (exported / TENSORS).glob("*"):
            assert content_hash(read_tensor(path)) == content_hash(read_tensor(source.folder / TENSORS / path.name))
        text = "".join(path.read_text() for path in source.files)
        written = {path.name for path in (exported / TENSORS).glob("*")}
        named = [path for path in (source.folder / TENSORS).glob("*") if f'"{path.name}"' in text]
        assert {path.name for path in named if path.suffix in (".pt", ".npy")} == written


def compared(target: Path, golden: Path, folder: Path) -> str:
    """msprobe's own table of two dumps."""
    command = [MSPROBE, "compare", "-tp", target, "-gp", golden, "-o", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    [table] = folder.glob("*compare_result*.csv")
    assert done.returncode == 0, done.stdout
    return table.read_text()


@needs_msprobe
@needs_dumps
@pytest.mark.parametrize("pair", PAIRS)
def test_msprobe_compares_our_files_as_its_own(pair: str, tmp_path: Path) -> None:
    *sides, file = PAIRS[pair]
    originals, exports = [], []
    for name, side in zip(("target", "golden"), sides, strict=True):
        [original] = (DUMPS / side).glob(f"step0/*/{file}")
        ingest(original.parent, lake=tmp_path / "lake", run=name)
        export(tmp_path / "lake", name, tmp_path / name)
        originals.append(original)
        exports.append(tmp_path / name / "step0" / "rank0" / file)
    assert compared(*exports, tmp_path / "ours") == compared(*originals, tmp_path / "theirs")


LOAD = """
import sys, torch
from pathlib import Path
ours, theirs = map(Path, sys.argv[1:])
for path in ours.glob("*.pt"):
    after, before = (torch.load(folder / path.name, weights_only=True) for folder in (ours, theirs))
    assert (after.dtype, after.shape) == (before.dtype, before.shape), path
    pair = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (after, before) if tensor.numel()]
    assert not pair or torch.equal(*pair), path
    print(before.dtype)
"""


@needs_msprobe
@needs_dumps
def test_torch_loads_our_files(tmp_path: Path) -> None:
    """Of every dtype that the dumps have, as torch.load(weights_only=True) does it."""
    [original] = (DUMPS / "A_variants" / "fancy_tensor_mix").glob("step0/*")
    ingest(original, lake=tmp_path / "lake", run="run")
    export(tmp_path / "lake", "run", tmp_path / "out")
    folders = tmp_path / "out" / "step0" / "rank0" / TENSORS, original / TENSORS
    done = subprocess.run([MSPROBE.with_name("python"), "-c", LOAD, *folders], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"torch.bfloat16", "torch.float8_e4m3fn", "torch.complex64", "torch.bool"} <= set(done.stdout.split())


@needs_msprobe
@needs_dumps
def test_msprobe_compares_what_ptdbg_dumped(tmp_path: Path) -> None:
    """The old tool's dumps become such that today's msprobe reads; it finds the layer norm that the truth names."""
    for name in ("ln_eps", "golden"):
        ingest(DUMPS / "F_ptdbg_legacy" / "all" / name, lake=tmp_path / "lake", run=name)
        export(tmp_path / "lake", name, tmp_path / name)
    rank = Path("step0", "rank1", "dump.json")
    table = compared(tmp_path / "ln_eps" / rank, tmp_path / "golden" / rank, tmp_path / "table")
    rows = list(csv.DictReader(table.splitlines()))
    compared_rows = [row for row in rows if row["MaxAbsErr"] not in ("N/A", "unsupported")]
    different = [row["NPU Name"] for row in compared_rows if float(row["MaxAbsErr"]) > 0]
    assert different[0] == "Torch.layer_norm.3.forward.output.0"
    assert 300 < len(compared_rows) < len(rows)  # the others are null: ptdbg leaves out integers and scalars


@needs_msprobe
@needs_dumps
def test_msprobe_draws_our_files(tmp_path: Path) -> None:
    """Its viewer's builder takes an exported mix dump, and makes the same database of it as of the original."""
    [original] = (DUMPS / "A_pt_lm" / "mix_stat" / "golden").glob("step0/*")
    ingest(original, lake=tmp_path / "lake", run="run")
    export(tmp_path / "lake", "run", tmp_path / "out")
    shutil.copytree(original, tmp_path / "original" / "rank0")
    for name, folder in (("ours", tmp_path / "out" / "step0" / "rank0"), ("theirs", tmp_path / "original" / "rank0")):
        command = [MSPROBE, "graph_visualize", "-tp", folder, "-o", tmp_path / name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout
    assert nodes(tmp_path / "ours") == nodes(tmp_path / "theirs") != []


def nodes(folder: Path) -> list[tuple[Any, ...]]:
    """The nodes in a database of the viewer."""
    import sqlite3

    [path] = folder.glob("*.vis.db")
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT * FROM tb_nodes ORDER BY 1").fetchall()
