"""A capture of MindSpore against msprobe 26.2.0: its real dumps (LAKEPROBE_DUMPS), and its dumps of the same training.

Names, order, bodies, parents and contents must be equal, numbers bit by bit. What msprobe gets wrong is named below.
On a processor whose kernels round unlike those of the machine that dumped, numbers of the real dumps must be close.
"""

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msprobe_runs
import numpy as np
import pytest
from memory import Memory, Step, plain, tensors
from real_dumps import DUMPS, needs_dumps

from lakeprobe.collect import frameworks
from lakeprobe.collect.session import Collector
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.watching.capture import Capture
from lakeprobe.compare.run import compare
from lakeprobe.session import Lake

mindspore = pytest.importorskip("mindspore")

import mindspore_models as models  # noqa: E402
from mindspore import Tensor, nn, ops  # noqa: E402

CROSS = DUMPS / "C_cross"
SCRIPTS = DUMPS.parent / "scripts"
"""What trained the models of the real dumps."""
REAL = [
    ("ms", "L0", "statistics"),
    ("ms", "L0", "tensor"),
    ("ms", "L1", "statistics"),
    ("ms", "L1", "tensor"),
    ("ms", "mix", "statistics"),
    ("ms", "mix", "tensor"),
    ("msmint", "L1", "statistics"),
]
"""Flavour of the model, level and task of the real dumps."""

RUNS = [
    ("odd", "L0", "statistics", "statistics"),
    ("odd", "L1", "statistics", "md5"),
    ("odd", "mix", "tensor", "statistics"),
    ("odd", "mix", "structure", "statistics"),
    ("odd", "mix", "statistics", "statistics", 'data_mode=["forward"]'),
    ("odd", "mix", "statistics", "statistics", 'data_mode=["backward", "output"]'),
    ("odd", "L1", "statistics", "statistics", 'data_mode=["input"]'),
    ("plain", "mix", "statistics", "statistics", 'list=["gelu", "layer_norm"]'),
    ("plain", "mix", "statistics", "statistics", 'list=["Cell.blocks.1.first.Dense.forward.0"]'),
    ("plain", "L0", "statistics", "statistics", 'list=["norm"]'),
    ("plain", "mix", "statistics", "statistics", 'tensor_list=["gelu", "norm"]'),
    ("plain", "mix", "statistics", "statistics", "extra_info=false"),
    ("plain", "mix", "statistics", "statistics", "batches=2"),
    ("plain", "L1", "statistics", "statistics", "step=[1]"),
    ("plain", "L1", "statistics", "statistics", 'scope=["Functional.gelu.0.forward", "Functional.gelu.1.forward"]'),
    (
        "plain", "L0", "statistics", "statistics",
        'scope=["Cell.blocks.0.norm.LayerNorm.forward.0", "Cell.blocks.1.first.Dense.forward.0"]',
    ),
]  # fmt: skip

with_msprobe = pytest.mark.skipif(importlib.util.find_spec("msprobe") is None, reason="msprobe is not installed")


# ---- the real dumps --------------------------------------------------------------------------------------------------


@needs_dumps
@pytest.mark.parametrize(("flavour", "level", "task"), REAL)
def test_the_real_dumps_are_met(flavour: str, level: Any, task: Any, rounds_as_dumped: bool) -> None:
    memory = Memory()
    folder = CROSS / f"{flavour}_{level}_{'stat' if task == 'statistics' else task}" / "golden"
    watched, losses = language_model(
        flavour, lambda model: frameworks.capture(model, Settings(level=level, task=task), memory)
    )
    expected = json.loads((folder / "run.json").read_text())["losses"]
    assert losses == expected if rounds_as_dumped else losses == pytest.approx(expected, rel=1e-6)
    assert watched.recorder.failures == []
    compared = 0
    for step in memory.steps:
        for dump in folder.glob(f"step{step.number}/*"):
            assert_equal(step, dump, tolerance=0.0 if rounds_as_dumped else 1e-5)
            compared += 1
    assert compared == (2 if task == "statistics" else 1)  # of the dumps of tensors, only the first step is there


@needs_dumps
def test_a_collected_run_does_not_differ_from_msprobes_in_the_lake(tmp_path: Path, rounds_as_dumped: bool) -> None:
    lake = tmp_path / "lake"
    language_model("ms", lambda model: Collector(model, Settings(level="mix"), run="ours", lake=lake))
    report = compare("ours", CROSS / "ms_mix_stat" / "golden", lake=lake, name="same")
    assert [pair.kind for pair in report.pairs] == ["statistics", "statistics"]
    with Lake(lake) as opened:
        assert opened.sql("SELECT DISTINCT framework FROM dumps").fetchall() == [("mindspore",)]
        found = opened.sql("SELECT outcome, difference, verdict, count(*) FROM results GROUP BY ALL").fetchall()
    if rounds_as_dumped:
        assert sorted(found) == [("compared", "equal", "pass", 2103), ("skipped", None, "skipped", 12)]
    rows = {outcome: sum(count for kind, *_, count in found if kind == outcome) for outcome, *_ in found}
    assert rows == {"compared": 2103, "skipped": 12}  # settings of the optimizer in two steps


@pytest.fixture(scope="module")
def rounds_as_dumped() -> bool:
    """Whether kernels of this processor give what they gave where the real dumps were made, bit by bit.

    A gradient of the first layer tells, of a training that nothing watches: all kernels of the model lead to it.
    """
    model = language_model_of("ms")
    gradients = gradients_of(model)(*next(batches()))[1]
    names = [parameter.name for parameter in model.trainable_params()]
    (dumped,) = (CROSS / "ms_L0_tensor" / "golden").glob("step0/*/dump_tensor_data/*tok_emb*.parameters_grad.*.npy")
    here = gradients[names.index("tok_emb.embedding_table")].asnumpy()
    np.testing.assert_allclose(here, np.load(dumped), rtol=1e-4, atol=1e-6)
    return bool(here.tobytes() == np.load(dumped).tobytes())


def language_model_of(flavour: str) -> Any:
    """The model of SCRIPTS/ms_lm_dump.py."""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    spec = importlib.util.spec_from_file_location("lm_model_ms", SCRIPTS / "lm_model_ms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kind = "mint" if flavour == "msmint" else "nn"
    return module.load_torch_npz(module.TinyLM(128, 16, 4, 32, 2, 8, kind, "none", 1, ""), CROSS / "weights.npz")


def gradients_of(model: Any) -> Callable[[Any, Any], Any]:
    """What gives the model's loss, and the gradients of its parameters."""

    def forward(tokens: Any, labels: Any) -> Any:
        logits = model(tokens)
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    return cast(Callable[[Any, Any], Any], mindspore.value_and_grad(forward, None, list(model.trainable_params())))


def batches() -> Iterator[tuple[Any, Any]]:
    """Tokens and labels of two steps."""
    for tokens in np.load(CROSS / "weights.npz.ids.npz")["ids"][:2].astype(np.int32):
        yield Tensor(tokens[:, :-1]), Tensor(tokens[:, 1:])


def language_model(flavour: str, watch: Callable[[Any], Any]) -> tuple[Any, list[float]]:
    """Two steps of the training of SCRIPTS/ms_lm_dump.py. Gives what watched, and the losses."""
    model = language_model_of(flavour)
    optimizer = nn.SGD(list(model.trainable_params()), learning_rate=1e-2, momentum=0.9)
    gradients = gradients_of(model)
    watched = watch(model)
    losses = []
    for tokens, labels in batches():
        watched.start(model)
        loss, of_parameters = gradients(tokens, labels)
        optimizer(of_parameters)
        watched.stop()
        watched.step()
        losses.append(float(loss.asnumpy()))
    watched.close()
    return watched, losses


# ---- the same training -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Path]:
    """msprobe's dump of each run."""
    return msprobe_runs.dumps_of(models.__file__, RUNS, tmp_path_factory)


@with_msprobe
@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_equal(run: tuple[str, ...], dumps: dict[tuple[str, ...], Path]) -> None:
    name, level, task, summary_mode, *keys = run
    chosen = msprobe_runs.options(keys)
    batches = chosen.pop("batches", 1)
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in chosen.items()}
    memory = Memory()
    captures = []

    def watch(model: Any) -> Capture:
        captures.append(
            frameworks.capture(model, Settings(level=level, task=task, summary_mode=summary_mode, **lists), memory)
        )
        return captures[0]

    losses = models.train(name, watch, batches=batches)
    assert losses == json.loads((dumps[run] / "losses.json").read_text()), "watching changed the training"
    assert captures[0].recorder.failures == []
    assert len(memory.steps) == (1 if "step" in chosen else 2)
    for step in memory.steps:
        (folder,) = dumps[run].glob(f"step{step.number}/*")
        assert_equal(step, folder, chosen.get("scope", [""])[-1])


def assert_equal(ours: Step, folder: Path, end_of_range: str = "", *, tolerance: float = 0.0) -> None:
    """A step is what msprobe's folder of it has, and the attributes of primitives, which msprobe does not record.

    msprobe leaves out the results of the op that ends a range. tolerance is what numbers may differ by.
    """
    files = ("dump.json", "construct.json", "stack.json")
    dump, construct, grouped = (
        json.loads((folder / file).read_text()) if (folder / file).exists() else {} for file in files
    )
    stacks = {name: lines for names, lines in grouped.values() for name in names}
    if dump["task"] == "structure":
        assert set(ours.bodies) == set(construct)
    else:
        # msprobe records no settings of optimizers
        bodies = {name: body for name, body in ours.bodies.items() if not name.startswith("Optimizer.")}
        assert list(bodies) == list(dump["data"])
        for name, body in bodies.items():
            theirs = dump["data"][name]
            if name == end_of_range:
                assert set(theirs) == {"input_args", "input_kwargs"}
            known = theirs if name == end_of_range else body.keys() - {"attributes"}
            seen = {key: body[key] for key in body if key in known}
            assert_same(seen, theirs, name, tolerance)
    for name, parent in ours.parents.items():
        if name.startswith("Optimizer."):
            continue
        if "parameters_grad" not in name:
            assert construct.get(name) == parent, name
        assert (name in stacks) == (ours.stacks[name] is not None), name
        if name in stacks:
            assert _last_call(ours.stacks[name]) == _last_call(stacks[name]), name
    for leaf in tensors(list(ours.bodies.values())):
        theirs = np.load(folder / "dump_tensor_data" / leaf["data_name"])
        assert (theirs.dtype, theirs.shape) == (leaf["tensor"].dtype, leaf["tensor"].shape)
        if not tolerance:
            assert theirs.tobytes() == leaf["tensor"].tobytes(), leaf["data_name"]
        np.testing.assert_allclose(leaf["tensor"], theirs, tolerance, tolerance, err_msg=leaf["data_name"])


def assert_same(ours: Any, theirs: Any, name: str, tolerance: float) -> None:
    """Two bodies are the same: bit by bit, or, with a tolerance, but for their floats."""
    if not tolerance:
        assert plain(ours) == plain(theirs), name
    elif isinstance(theirs, dict):
        ours = {key: ours[key] for key in ours if key not in ("tensor", "wide")}
        assert list(ours) == list(theirs), name
        for key in theirs.keys() - {"md5"}:
            assert_same(ours[key], theirs[key], f"{name}.{key}", tolerance)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), name
        for mine, other in zip(ours, theirs, strict=True):
            assert_same(mine, other, name, tolerance)
    elif isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=name)
    else:
        assert plain(ours) == plain(theirs), name


def _last_call(stack: Any) -> list[str]:
    """The innermost lines of the model's code: where a file lies, and MindSpore's frames in between, may differ."""
    names = ("lm_model_ms.py", "mindspore_models.py")
    return [line.split("/")[-1] for line in stack if any(name in line for name in names)][:2]
