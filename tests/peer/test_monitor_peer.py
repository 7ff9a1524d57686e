"""The numbers of our monitor against those of msprobe's, of the same training with the same configuration."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import lakeprobe
from tests.peer.monitored_training import CONFIG

MSPROBE = Path(os.environ.get("MSPROBE") or shutil.which("msprobe") or "msprobe")
pytestmark = pytest.mark.skipif(not MSPROBE.is_file(), reason="msprobe is not there (MSPROBE names the program)")

TRAINING = Path(__file__).with_name("monitored_training.py")
Cells = dict[tuple[str, ...], str]


def cells(folder: Path) -> Cells:
    """The cells of all files, by prefix, chunk, name, step, micro step and metric."""
    found = {}
    for file in folder.rglob("*.csv"):
        with file.open(encoding="utf-8") as opened:
            for row in csv.DictReader(opened):
                key = [file.stem.rpartition("_")[0]]
                key += [row.pop(part, "") for part in ("vpp_stage", "name", "step", "micro_step")]
                found.update({(*key, metric): value for metric, value in row.items()})
    return found


def test_every_number_is_msprobes(tmp_path: Path) -> None:
    said = {}
    for who, python in (("msprobe", MSPROBE.with_name("python")), ("lakeprobe", Path(sys.executable))):
        folder = tmp_path / who
        folder.mkdir()
        (folder / "monitor_config.json").write_text(json.dumps(CONFIG))
        command = [python, TRAINING, who, folder]
        said[who] = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    if said["msprobe"].split()[0] != said["lakeprobe"].split()[0]:
        pytest.skip("msprobe has another torch")
    assert said["msprobe"] == said["lakeprobe"]
    with lakeprobe.open(tmp_path / "lakeprobe" / "lake") as lake:
        lake.export_series("monitor_output", tmp_path / "out", digits=20, steps_in_file=100)
    theirs, ours = cells(tmp_path / "msprobe"), cells(tmp_path / "out")
    differ = [
        (key, value, ours.get(key)) for key, value in theirs.items() if not is_known(key, theirs) and not is_equal(
            value, ours.get(key), tolerance(key), float(theirs[*key[:-1], "norm"]) if key[-1] == "mean" else 0.0
        )
    ]  # fmt: skip
    assert differ == []
    assert set(ours) <= set(theirs)
    assert len({key[0] for key in ours}) == 13


def is_known(key: tuple[str, ...], theirs: Cells) -> bool:
    """What differs, and should: see docs/monitor.md."""
    prefix, _, _, step, _, metric = key
    is_no_tensor = theirs.get((*key[:-1], "dtype")) == "nan"
    is_of_agreement = prefix == "other" and (step == "0" or metric in ("zeros", "nans", "shape", "dtype"))
    return is_no_tensor or is_of_agreement or prefix == "linear_hook"


def tolerance(key: tuple[str, ...]) -> float:
    """msprobe computes the agreement of signs, in the file other, in float32."""
    return 1e-6 if key[0] == "other" else 1e-12


def is_equal(theirs: str, ours: str | None, tolerance: float, scale: float) -> bool:
    if ours is None or theirs == ours:
        return theirs == ours
    try:
        return math.isclose(float(theirs), float(ours), rel_tol=tolerance, abs_tol=1e-12 * scale)
    except ValueError:
        return False
