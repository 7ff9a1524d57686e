"""What ptdbg's interactive shell did, done with lakeprobe on its real files (docs/formats.md)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from program import lakeprobe as run

import lakeprobe
from tests.readers.test_acl import kernel_file, written

PAIR = Path(__file__).parents[1] / "data/ptdbg/pair.tar.xz"


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ptdbg")
    with tarfile.open(PAIR) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.rglob("ptdbg_dump_v2.2/rank0"))


def test_pt_prints_the_statistics_of_a_file(dump: Path, tmp_path: Path) -> None:
    path = next(dump.rglob("*.forward.output.0.npy"), None) or next(dump.rglob("*forward_output*.npy"))
    values = np.load(path)
    assert run("ingest", path, "--lake", tmp_path / "lake").code == 0
    shown = run("show", "tensor", "--lake", tmp_path / "lake").out
    assert str(list(values.shape)) in shown
    assert f"{values.max():.5g}" in shown
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:  # dc: the array itself
        np.testing.assert_array_equal(lake.tensor(path.name, "tensor.0.debug", ""), values)


def test_pk_prints_an_entry(dump: Path, tmp_path: Path) -> None:
    path = next(dump.glob("*.pkl"))
    assert run("ingest", path, "--lake", tmp_path / "lake", "--tensors", "none").code == 0
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        query = "select op, max from tensors where slot = 'output.0' order by row limit 1"
        op, greatest = lake.sql(query).fetchall()[0]
    shown = run("show", op, "--lake", tmp_path / "lake").out
    assert shown.startswith(f"{op}  (step ")
    assert f"{greatest:.5g}" in shown


def test_cn_compares_two_files(dump: Path, tmp_path: Path) -> None:
    path = next(iter(sorted(dump.rglob("*.npy"))))
    changed = np.load(path).copy()
    changed.reshape(-1)[0] += 1
    np.save(tmp_path / "changed.npy", changed)
    differs = run("compare", tmp_path / "changed.npy", path, "--lake", tmp_path / "lake")
    assert "The first op that differs: tensor.0.debug" in differs.out
    np.save(tmp_path / "same.npy", np.load(path))
    equal = run("compare", tmp_path / "same.npy", path, "--lake", tmp_path / "lake")
    assert "Verdict: equal" in equal.out


def test_vc_compares_two_folders(dump: Path, tmp_path: Path) -> None:
    done = run("compare", dump, dump, "--lake", tmp_path / "lake", "--tensors", "link")
    assert "Verdict: equal" in done.out


def test_vc_and_cad_compare_folders_of_kernels_and_dc_gives_the_array(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    for side, output in (("npu", values + 0.5), ("gpu", values)):
        files = {"Add.net_Add-op1.2.7.1670205071724946": kernel_file([values], [output])}
        written(tmp_path / side / "20260101000000/0/net/0/0", files)
    lake = ("--lake", tmp_path / "lake")
    done = run("compare", tmp_path / "npu", tmp_path / "gpu", *lake)
    assert "The first op that differs: Add.net_Add-op1" in done.out
    with lakeprobe.open(tmp_path / "lake") as opened:
        [(op,)] = opened.sql("select op from ops where run = 'npu'").fetchall()
        np.testing.assert_array_equal(opened.tensor("npu", op, "output.0"), values + 0.5)
        errors = opened.sql("select target_name, max_abs_error from results order by target_row").fetchall()
    assert errors == [("Add.net_Add-op1.2.0.input.0", 0.0), ("Add.net_Add-op1.2.0.output.0", 0.5)]
