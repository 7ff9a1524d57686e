"""A sample of the calls that change a lake, each struck once (`make faults` strikes them all)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sampling import examples

HERE = Path(__file__).parent
SAMPLE = examples(48)

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None, reason="needs a C compiler, on Linux"
)


def test_a_sample_of_all_calls(tmp_path: Path) -> None:
    library = tmp_path / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "shim.c", "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, HERE / "points.py", "--sample", str(SAMPLE)],
        env=os.environ | {"LD_PRELOAD": str(library), "FAULTS_FOLDER": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"{SAMPLE} of ")
    assert done.stdout.splitlines()[-1].endswith(" cases, 0 wrong")
