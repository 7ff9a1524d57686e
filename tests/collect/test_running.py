"""lakeprobe run: a script that knows nothing of it is collected from, and trains to the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakeprobe

pytest.importorskip("torch")

CHECKOUT = Path(__file__).parents[2]
SCRIPT = """
import sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(2, 4)).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
sys.exit(int(sys.argv[1]))
"""


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    environment.pop("LAKEPROBE_LAKE", None)
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def configured(folder: Path, **keys: object) -> None:
    (folder / "script.py").write_text(SCRIPT)
    (folder / "config.json").write_text(json.dumps({"dump_path": "./dumps/npu", "level": "mix", **keys}))


RUN = (sys.executable, "-m", "lakeprobe", "run", "--config", "config.json", "--")


def test_a_script_is_collected_from_without_a_change(tmp_path: Path) -> None:
    configured(tmp_path, step=[0, 2])
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stderr.write('the user has one too\\n')")
    alone = ran(tmp_path, sys.executable, "script.py", "0")
    environment = str(tmp_path)
    done = ran(tmp_path, "env", f"PYTHONPATH={environment}:{CHECKOUT}", *RUN, sys.executable, "script.py", "0")
    assert (done.returncode, done.stdout) == (0, alone.stdout), done.stderr
    assert "the user has one too" in done.stderr
    with lakeprobe.open(tmp_path / "dumps" / "lake", create=True) as lake:
        assert lake.sql("SELECT run, step, complete FROM dumps ORDER BY step").fetchall() == [
            ("npu", 0, True), ("npu", 2, True),
        ]  # fmt: skip
        ops = [op for (op,) in lake.sql("SELECT op FROM ops WHERE step = 0 ORDER BY seq").fetchall()]
    assert ops[:2] == ["Functional.linear.0.forward", "Module.0.Linear.forward.0"]
    assert "Module.2.Linear.backward.0" in ops


def test_the_exit_code_is_the_scripts(tmp_path: Path) -> None:
    configured(tmp_path, level="L1")
    assert ran(tmp_path, *RUN, sys.executable, "script.py", "7").returncode == 7


def test_a_mistake_is_told_before_the_script_runs(tmp_path: Path) -> None:
    configured(tmp_path, levle="L1")
    done = ran(tmp_path, *RUN, sys.executable, "script.py", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lakeprobe: config.json: there is no key levle; did you mean level?\n"
    configured(tmp_path)
    done = ran(tmp_path, *RUN, "no-such-program")
    assert (done.returncode, done.stderr) == (
        2,
        "lakeprobe: no-such-program cannot be run: No such file or directory\n",
    )


def test_a_process_without_torch_does_not_notice(tmp_path: Path) -> None:
    configured(tmp_path)
    code = "import sys; print([name for name in sys.modules if 'lakeprobe' in name])"
    done = ran(tmp_path, *RUN, sys.executable, "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
