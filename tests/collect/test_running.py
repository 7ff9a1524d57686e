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
import importlib.util, sys
importlib.util.find_spec("torch")  # as libraries do that can work without it
import torch
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


PREPARING = """
import multiprocessing, subprocess, sys

def prepared(number):
    import torch
    return torch.nn.AvgPool1d(2)(torch.full((1, 4), float(number)))

class Prepared:
    def __len__(self):
        return 2
    def __getitem__(self, number):
        return prepared(number)

HELPER = "import torch; print(torch.nn.Flatten()(torch.ones(2, 2, 2)).shape)"

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # which imports torch before the training does
        pool.map(prepared, range(2))
        pool.close()
        pool.join()
    import torch
    subprocess.run([sys.executable, "-c", HELPER], check=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):  # the workers of the second epoch are forked from a process that collects
        for batch in torch.utils.data.DataLoader(Prepared(), num_workers=1, multiprocessing_context="fork"):
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    print("trained")
"""
RANK = """
import torch, torch.distributed as distributed
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Prepared(Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, number):
        return nn.Flatten(0)(torch.ones(4, 1))

if __name__ == "__main__":
    distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Prepared(), num_workers=1, multiprocessing_context="fork"):
        model(batch).sum().backward()
        optimizer.step()
    distributed.destroy_process_group()
"""
JOINING = """
import sys, torch, torch.distributed as distributed
from torch import nn

def join(rank):
    nn.Flatten()(torch.ones(1, 2))  # not yet a rank
    store = distributed.FileStore(sys.argv[1], 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    model = nn.Sequential(nn.Linear(2, 1))
    model(torch.ones(1, 2)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model(torch.ones(1, 2))
    distributed.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.start_processes(join, nprocs=1, start_method="fork")
"""


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    environment.pop("LAKEPROBE_LAKE", None)
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def configured(folder: Path, **keys: object) -> None:
    (folder / "script.py").write_text(SCRIPT)
    (folder / "config.json").write_text(json.dumps({"dump_path": "./dumps/npu", "level": "mix", **keys}))


def units(folder: Path) -> list[tuple[object, ...]]:
    with lakeprobe.open(folder / "dumps" / "lake", create=True) as lake:
        return lake.sql("SELECT step, rank, complete FROM dumps ORDER BY ALL").fetchall()


def modules(folder: Path, step: int = 0) -> list[str]:
    """The modules whose forward was recorded in a step."""
    with lakeprobe.open(folder / "dumps" / "lake") as lake:
        ops = lake.sql(f"SELECT op FROM ops WHERE step = {step} ORDER BY rank, seq").fetchall()
    return [op for (op,) in ops if op.startswith("Module.") and ".forward." in op]


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


def test_processes_that_prepare_data_leave_the_run_to_the_training(tmp_path: Path) -> None:
    configured(tmp_path)
    (tmp_path / "script.py").write_text(PREPARING)
    done = ran(tmp_path, *RUN, sys.executable, "script.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "torch.Size([2, 4])\ntrained\n"
    assert units(tmp_path) == [(step, 0, True) for step in range(4)]
    assert [modules(tmp_path, step) for step in range(4)] == [["Module.0.Linear.forward.0"]] * 4


def test_ranks_behind_a_wrapper_and_a_launcher_are_collected_from_without_their_workers(tmp_path: Path) -> None:
    configured(tmp_path)
    (tmp_path / "script.py").write_text(RANK)
    launcher = f"{sys.executable} -m torch.distributed.run --nproc-per-node 2 script.py"
    done = ran(tmp_path, *RUN, "bash", "-c", f"MASTER_PORT=0 {launcher}; exit $?")
    assert done.returncode == 0, done.stderr
    assert "lakeprobe" not in done.stderr
    assert units(tmp_path) == [(0, 0, True), (0, 1, True)]
    assert "Module.module.Linear.forward.0" in modules(tmp_path)


def test_a_process_that_joins_a_group_of_processes_is_a_rank_from_then_on(tmp_path: Path) -> None:
    configured(tmp_path)
    (tmp_path / "script.py").write_text(JOINING)
    done = ran(tmp_path, *RUN, sys.executable, "script.py", "store")
    assert (done.returncode, [line for line in done.stderr.splitlines() if "lakeprobe" in line]) == (0, [])
    assert units(tmp_path)[0] == (0, 0, True)
    assert modules(tmp_path) == ["Module.0.Linear.forward.0"]


def test_a_training_whose_run_exists_is_told_and_goes_on(tmp_path: Path) -> None:
    configured(tmp_path)
    launcher = (
        "import subprocess, sys, torch\nfor _ in 'ab': subprocess.run([sys.executable, *sys.argv[1:]], check=True)"
    )
    words = ("-c", launcher, "script.py", "0")  # a wrapper with torch, as accelerate launch
    done = ran(tmp_path, *RUN, sys.executable, *words)
    losses = done.stdout.splitlines()
    assert (done.returncode, len(losses), losses[:3]) == (0, 6, losses[3:])
    assert done.stderr == (
        f"lakeprobe: {tmp_path}/dumps/lake has run npu step 0 rank 0 already; collect into another run, "
        "remove this one with lakeprobe rm, or replace it (replace=True in Python); lakeprobe run collects nothing "
        "from here on, the training goes on\n"
    )
    assert units(tmp_path) == [(step, 0, True) for step in range(3)]


def test_a_training_that_collects_by_itself_does_so(tmp_path: Path) -> None:
    configured(tmp_path)
    collecting = "lakeprobe.collect(model, run='own', lake='own').start()"
    own = "import lakeprobe\n" + SCRIPT.replace("for step", f"{collecting}\nfor step")
    (tmp_path / "script.py").write_text(own)
    done = ran(tmp_path, *RUN, sys.executable, "script.py", "0")
    assert done.returncode == 0
    assert done.stderr == (
        "lakeprobe: another capture is running in this process: stop it first; lakeprobe run collects nothing from "
        "here on, the training goes on\n"
    )
    with lakeprobe.open(tmp_path / "own") as lake:
        assert lake.sql("SELECT run FROM dumps").fetchall() == [("own",)]


def test_a_training_without_modules_is_told_that_nothing_was_collected(tmp_path: Path) -> None:
    configured(tmp_path)
    code = "import torch; w = torch.ones(1, requires_grad=True); w.sum().backward(); torch.optim.SGD([w], lr=1).step()"
    done = ran(tmp_path, *RUN, sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (
        0,
        "lakeprobe: nothing was collected: an optimizer stepped, but no module was called\n",
    )


def test_gradients_are_measured_at_task_grad_probe(tmp_path: Path) -> None:
    configured(tmp_path, task="grad_probe", level=None)
    done = ran(tmp_path, *RUN, sys.executable, "script.py", "0")
    assert (done.returncode, done.stderr) == (0, "")
    with lakeprobe.open(tmp_path / "dumps" / "lake") as lake:
        assert lake.sql("SELECT DISTINCT step, name FROM series WHERE metric = 'norm' ORDER BY ALL").fetchall() == [
            (step, name) for step in range(3) for name in ("0.bias", "0.weight", "2.bias", "2.weight")
        ]


def test_a_preflight_is_packed_by_the_training_and_not_by_a_helper(tmp_path: Path) -> None:
    configured(tmp_path)
    helper = "import torch; torch.nn.ReLU()(torch.ones(1))"
    prepare = (
        f"import os, subprocess\nsubprocess.run([sys.executable, '-c', '{helper}'], check=True)\n"
        "assert not os.path.exists('start')"
    )
    (tmp_path / "script.py").write_text(SCRIPT.replace("torch.manual_seed", f"{prepare}\ntorch.manual_seed"))
    pack = (sys.executable, "-m", "lakeprobe", "preflight", "pack", "-o", "start", "--")
    done = ran(tmp_path, *pack, sys.executable, "script.py", "0")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((tmp_path / "start" / "rank0" / "preflight.json").read_text())
    assert sorted(found["weights"]) == ["0.bias", "0.weight", "2.bias", "2.weight"]


def test_a_preflight_that_cannot_be_written_does_not_end_the_training(tmp_path: Path) -> None:
    configured(tmp_path)
    (tmp_path / "taken").write_text("a file")
    pack = (sys.executable, "-m", "lakeprobe", "preflight", "pack", "-o", "taken/start", "--")
    done = ran(tmp_path, *pack, sys.executable, "script.py", "7")
    assert (done.returncode, len(done.stdout.splitlines())) == (7, 3)
    reason = f"lakeprobe: {tmp_path}/taken/start/rank0: Not a directory; nothing was written"
    assert done.stderr.splitlines() == [
        f"{reason}; no preflight is packed, the training goes on",
        "taken/start was not written: the command called no module of torch, or a line above says why",
    ]
    done = ran(tmp_path, *pack[:-1])
    assert (done.returncode, done.stderr) == (3, f"{reason}\n")
