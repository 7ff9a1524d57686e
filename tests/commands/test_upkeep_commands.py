"""rm, rename and note as commands: they ask, and where nobody can answer they stop."""

from __future__ import annotations

from pathlib import Path

from program import dump_text, lakeprobe, write_dump

from lakeprobe.compare.run import compare
from lakeprobe.lake import layout


def test_they_ask(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    npu, gpu = (write_dump(tmp_path / name, dump_text(add=1.0)) for name in ("npu", "gpu"))
    compare(npu, gpu, lake=lake)
    asked = lakeprobe("rm", "npu", "--lake", lake)
    question = "lakeprobe: remove the run npu (a side of npu_vs_gpu, whose rows stay)? "
    assert (asked.code, asked.line) == (2, question + "stdin is not a terminal; confirm with --yes")
    assert lakeprobe("rename", "npu", "new", "--lake", lake).code == 2
    assert layout.runs(lake) == ["gpu", "npu"]
    renamed = lakeprobe("rename", "npu", "new", "--yes", "--lake", lake)
    assert (renamed.code, renamed.err) == (0, "renamed: the run npu is new\n")
    assert lakeprobe("note", "new", "after the update", "--lake", lake).code == 0
    assert lakeprobe("note", "new", "again", "--lake", lake).code == 2
    assert lakeprobe("note", "new", "--lake", lake).out == "after the update\n"
    listed = lakeprobe("ls", "--lake", lake).out
    assert "after the update" in listed
    removed = lakeprobe("rm", "new", "npu_vs_gpu", "--yes", "--lake", lake)
    assert (removed.code, removed.err) == (0, "removed: the run new\nremoved: the comparison npu_vs_gpu\n")
    assert (layout.runs(lake), layout.comparisons(lake)) == (["gpu"], [])


def test_compacting(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert lakeprobe("ingest", write_dump(tmp_path / "npu", dump_text(add=1.0)), "--lake", lake).code == 0
    listed = lakeprobe("ls", "--lake", lake).out
    compacted = lakeprobe("compact", "npu", "--lake", lake)
    assert (compacted.code, compacted.err) == (0, "npu: 1 unit of 1 step in 7 files, 6 before\n")
    assert lakeprobe("ls", "--lake", lake).out == listed
    split = lakeprobe("compact", "npu", "--split", "--lake", lake)
    assert (split.code, split.err) == (0, "npu: 1 unit of 1 step in 6 files, 7 before\n")
    unknown = lakeprobe("compact", "gpu", "--lake", lake)
    assert (unknown.code, unknown.line) == (2, f"lakeprobe: {lake} has no run gpu; it has npu")
