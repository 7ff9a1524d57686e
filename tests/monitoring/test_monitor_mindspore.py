"""A monitored training of MindSpore: its numbers are numpy's, its bits those of a bare one, and the rules apply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mindspore = pytest.importorskip("mindspore")

from mindspore import Tensor, nn, ops  # noqa: E402
from mindspore.experimental import optim  # noqa: E402

import lakeprobe  # noqa: E402
from lakeprobe import PrecisionDebugger  # noqa: E402
from lakeprobe.errors import UsageError  # noqa: E402

POINTS = (
    "parameter", "parameter_updated", "gradient_unreduced", "gradient", "moment1", "moment2", "agreement", "update",
    "input", "output", "input_gradient", "output_gradient",
)  # fmt: skip
METRICS = ("norm", "mean", "min", "max", "zeros", "nans", "shape", "dtype", "digest", "md5", "signs", "shares")
RATE, BETAS, EPS = 1e-3, (0.9, 0.99), 1e-8
Make = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def dynamic_graph() -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


class Mixer(nn.Cell):
    """Takes two tensors and a number, and gives two."""

    def construct(self, left: Any, factor: float, right: Any) -> Any:
        return left * factor + right, left - right


class Network(nn.Cell):
    """A cell that is called twice, and one of several tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.mixer, self.last = nn.Dense(6, 8), Mixer(), nn.Dense(8, 3)

    def construct(self, x: Any) -> Any:
        hidden = ops.tanh(self.first(x))
        mixed, apart = self.mixer(hidden, 0.5, ops.tanh(self.first(-x)))
        return self.last(mixed + apart)


def network() -> Any:
    mindspore.set_seed(0)
    model = Network()
    draw = np.random.default_rng(0)
    for parameter in model.trainable_params():
        parameter.set_data(Tensor(draw.normal(size=parameter.shape).astype(np.float32) / 3))
    return model


def adam(parameters: Any) -> Any:
    return nn.Adam(parameters, RATE, beta1=BETAS[0], beta2=BETAS[1], eps=EPS)


def trained(
    lake: Path | None, run: str = "npu", steps: int = 3, make: Make = adam,
    plant: Callable[[list[Any], int], None] = lambda *_: None, **options: Any,
) -> Any:  # fmt: skip
    """A model that was trained by value_and_grad, monitored if there is a lake."""
    model = network()
    optimizer = make(model.trainable_params())
    monitor = lakeprobe.monitor(model, optimizer, run=run, lake=lake, **options) if lake else None
    draw = np.random.default_rng(1)
    of = mindspore.value_and_grad(lambda x: ((model(x) - 1) ** 2).mean(), None, optimizer.parameters)
    for step in range(steps):
        loss, gradients = of(Tensor(draw.normal(size=(16, 6)).astype(np.float32)))
        gradients = [Tensor(gradient.asnumpy().copy()) for gradient in gradients]
        plant(gradients, step)
        if monitor:
            monitor.log("loss", loss)
        optimizer(tuple(gradients))
    if monitor:
        monitor.close()
    return model


def rows(lake: Path, run: str = "npu") -> dict[tuple[Any, ...], Any]:
    query = "SELECT step, name, point, metric, coalesce(value::VARCHAR, text) FROM series WHERE run = $run"
    with lakeprobe.open(lake) as opened:
        return {tuple(row[:4]): row[4] for row in opened.sql(query, {"run": run}).fetchall()}


def test_every_point_has_the_numbers_of_numpy(tmp_path: Path) -> None:
    seen: list[Any] = []
    model = trained(
        tmp_path / "lake", points=POINTS, metrics=METRICS,
        plant=lambda gradients, _: seen.append([gradient.asnumpy().copy() for gradient in gradients]),
    )  # fmt: skip
    of = rows(tmp_path / "lake")
    weight, place = "last.weight", 2
    assert [name for name, _ in model.parameters_and_names()][place] == weight
    first = second = np.zeros((3, 8))
    for step, gradients in enumerate(seen):
        wide = gradients[place].astype(np.float64)
        expected = {"norm": np.sqrt((wide**2).sum()), "mean": wide.mean(), "min": wide.min(), "max": wide.max(),
                    "zeros": (np.abs(wide) < 1e-8).mean(), "nans": 0.0}  # fmt: skip
        for point in ("gradient", "gradient_unreduced"):
            for metric, value in expected.items():
                assert float(of[step, weight, point, metric]) == pytest.approx(value, rel=1e-12, abs=1e-15), metric
            assert of[step, weight, point, "shape"] == "[3, 8]"
            assert of[step, weight, point, "dtype"] == "Float32"
        assert float(of[step, weight, "agreement", "value"]) == pytest.approx(
            0.5 + (np.sign(wide) * np.sign(first)).mean() / 2, rel=1e-12
        )
        first = BETAS[0] * first + (1 - BETAS[0]) * wide
        second = BETAS[1] * second + (1 - BETAS[1]) * wide**2
        corrected = np.sqrt(second / (1 - BETAS[1] ** (step + 1))) + EPS
        direction = first / (1 - BETAS[0] ** (step + 1)) / corrected
        assert float(of[step, weight, "update", "norm"]) == pytest.approx(np.linalg.norm(direction), rel=1e-4)
        for point, value in (("moment1", first), ("moment2", second)) if step < 2 else ():
            assert float(of[step + 1, weight, point, "norm"]) == pytest.approx(np.linalg.norm(value), rel=1e-5)
        if step:
            assert (
                of[step, weight, "parameter", "digest"]
                == of[step - 1, weight, "parameter_updated", "digest"]
                != of[step - 1, weight, "parameter", "digest"]
            )
    assert float(of[0, "learning_rate.0", "logged", "value"]) == pytest.approx(RATE)
    final = model.last.weight.asnumpy().astype(np.float64)
    assert float(of[2, weight, "parameter_updated", "norm"]) == pytest.approx(np.linalg.norm(final), rel=1e-12)


def test_gradients_at_the_boundary_of_a_cell(tmp_path: Path) -> None:
    model = network()
    x = Tensor(np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32))
    options = {"points": ["input", "output", "input_gradient", "output_gradient"], "targets": ["mixer", "last"]}
    with lakeprobe.monitor(model, run="npu", lake=tmp_path / "lake", **options) as monitor:
        model(x)  # no gradient comes: left out
        mindspore.value_and_grad(lambda x: (model(x) ** 2).sum(), None, model.trainable_params())(x)
        monitor.step()
    weight = model.last.weight.asnumpy().astype(np.float64)
    hidden = [np.tanh(model.first(each).asnumpy().astype(np.float64)) for each in (x, -x)]
    result = (1.5 * hidden[0]) @ weight.T + model.last.bias.asnumpy()
    inner = 2 * result @ weight
    expected = {
        ("mixer[0]", "input"): hidden[0], ("mixer[2]", "input"): hidden[1],
        ("mixer[0]", "output"): hidden[0] / 2 + hidden[1], ("mixer[1]", "output"): hidden[0] - hidden[1],
        ("last", "output"): result, ("last", "output_gradient"): 2 * result, ("last", "input_gradient"): inner,
        ("mixer[0]", "output_gradient"): inner, ("mixer[1]", "output_gradient"): inner,
        ("mixer[0]", "input_gradient"): 1.5 * inner,
    }  # fmt: skip
    found = {(name, point): float(value) for (_, name, point, _), value in rows(tmp_path / "lake").items()}
    assert found.pop(("mixer[2]", "input_gradient")) < 1e-4
    del found["last", "input"]
    assert found == pytest.approx({key: np.linalg.norm(array) for key, array in expected.items()}, rel=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        adam,
        lambda parameters: nn.AdamWeightDecay(parameters, RATE, *BETAS, eps=EPS),
        lambda parameters: nn.Momentum(parameters, nn.exponential_decay_lr(0.1, 0.9, 9, 1, 1), 0.9),
        lambda parameters: nn.SGD([{"params": parameters[:1], "lr": 0.1}, {"params": parameters[1:]}], 0.01),
        lambda parameters: optim.Adam(parameters, RATE, BETAS, EPS),
    ],
    ids=["Adam", "AdamWeightDecay", "Momentum", "SGD", "experimental.Adam"],
)
def test_a_training_that_is_monitored_is_the_same_to_the_last_bit(tmp_path: Path, make: Make) -> None:
    bare = trained(None, make=make)
    watched = trained(tmp_path / "lake", make=make, points=POINTS, metrics=METRICS)
    for one, other in zip(bare.trainable_params(), watched.trainable_params(), strict=True):
        assert np.array_equal(one.asnumpy(), other.asnumpy())
    rates = {name: float(value) for (step, name, _, _), value in rows(tmp_path / "lake").items()
             if step == 1 and name.startswith("learning_rate")}  # fmt: skip
    expected = {"learning_rate.0": RATE}
    if make(bare.trainable_params()).__class__ is nn.Momentum:
        expected = {"learning_rate.0": 0.09}
    if make(bare.trainable_params()).__class__ is nn.SGD:
        expected = {"learning_rate.0": 0.1, "learning_rate.1": 0.01}
    assert rates == pytest.approx(expected)


def test_the_directions_of_optimizers_that_correct_in_other_ways(tmp_path: Path) -> None:
    gradients: list[Any] = []

    def keep(given: list[Any], step: int) -> None:
        if step < 2:
            gradients.append(given[2].asnumpy().astype(np.float64))

    for run, make in (
        ("decay", lambda parameters: nn.AdamWeightDecay(parameters, RATE, *BETAS, eps=EPS)),
        ("experimental", lambda parameters: optim.Adam(parameters, RATE, BETAS, EPS)),
    ):
        gradients.clear()
        trained(tmp_path / "lake", run, 2, make, keep, points=["update"])
        first = BETAS[0] * (1 - BETAS[0]) * gradients[0] + (1 - BETAS[0]) * gradients[1]
        second = BETAS[1] * (1 - BETAS[1]) * gradients[0] ** 2 + (1 - BETAS[1]) * gradients[1] ** 2
        corrections = (1.0, 1.0) if run == "decay" else (1 - BETAS[0] ** 2, 1 - BETAS[1] ** 2)
        expected = np.linalg.norm(first / corrections[0] / (np.sqrt(second / corrections[1]) + EPS))
        assert float(rows(tmp_path / "lake", run)[1, "last.weight", "update", "norm"]) == pytest.approx(
            expected, rel=1e-4
        )


def test_the_cells_that_train_one_step(tmp_path: Path) -> None:
    model = network()
    optimizer = adam(model.trainable_params())
    cell = nn.TrainOneStepCell(nn.WithLossCell(model, nn.MSELoss()), optimizer)
    with lakeprobe.monitor(
        model, optimizer, run="npu", lake=tmp_path / "lake", points=["gradient", "output"]
    ) as monitor:
        for _ in range(2):
            monitor.log("loss", cell(Tensor(np.ones((2, 6), np.float32)), Tensor(np.ones((2, 3), np.float32))))
    found = rows(tmp_path / "lake")
    assert {name for step, name, point, _ in found if (step, point) == (1, "gradient")} == {
        "first.weight", "first.bias", "last.weight", "last.bias"
    }  # fmt: skip
    assert {name for _, name, point, _ in found if point == "output"} == {"", "first", "mixer[0]", "mixer[1]", "last"}
    assert float(found[2, "loss", "logged", "value"]) < float(found[1, "loss", "logged", "value"])


def test_rules_find_what_is_planted(tmp_path: Path) -> None:
    def plant(gradients: list[Any], step: int) -> None:
        if step == 30:
            gradients[2][0, 0] = float("nan")

    trained(tmp_path / "lake", steps=40, plant=plant)
    trained(tmp_path / "lake", "clean", steps=40)
    with lakeprobe.open(tmp_path / "lake") as lake:
        found = lake.watch("npu")
        assert (found[0].rule, found[0].step, found[0].name) == ("nan", 30, "last.weight")
        assert lake.watch("clean") == []
        assert lake.series_drift("clean", "npu").project("step, name").fetchall()[0] == (30, "last.weight")


def test_an_update_of_the_scripts_own_gives_its_gradients(tmp_path: Path) -> None:
    model = network()
    with lakeprobe.monitor(model, run="npu", lake=tmp_path / "lake") as monitor:
        monitor.before_step([Tensor(np.full(each.shape, 2, np.float32)) for each in model.trainable_params()])
        monitor.step()
    assert float(rows(tmp_path / "lake")[0, "last.bias", "gradient", "norm"]) == pytest.approx(2 * 3**0.5)


def test_grad_probe_watches_the_optimizer(tmp_path: Path) -> None:
    model = network()
    optimizer = adam(model.trainable_params())
    (tmp_path / "config.json").write_text(
        '{"task": "grad_probe", "dump_path": "OUT", "rank": [], "step": [], "level": "L1",'
        ' "grad_probe": {"grad_level": "L2", "param_list": [], "bounds": [-1, 0, 1]}}'.replace("OUT", str(tmp_path))
    )
    debugger = PrecisionDebugger(str(tmp_path / "config.json"), lake=tmp_path / "lake", run="npu")
    debugger.monitor(optimizer)
    gradients = tuple(Tensor(np.full(each.shape, -1, np.float32)) for each in model.trainable_params())
    optimizer(gradients)
    debugger.close()
    found = rows(tmp_path / "lake")
    assert {name for _, name, point, _ in found if point == "gradient"} == {
        parameter.name for parameter in model.trainable_params()
    }
    assert float(found[0, "last.bias", "gradient", "(-inf, -1]"]) == 1


def test_what_mindspore_has_not_is_refused(tmp_path: Path) -> None:
    model = network()
    options = {"run": "npu", "lake": tmp_path / "lake"}
    with pytest.raises(UsageError, match="the point sent is measured in PyTorch only"):
        lakeprobe.monitor(model, points=["sent"], **options)
    with pytest.raises(UsageError, match="Dense is not an optimizer of MindSpore"):
        lakeprobe.monitor(model, nn.Dense(2, 2), **options)
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    with pytest.raises(UsageError, match="only the dynamic graph is monitored"):
        lakeprobe.monitor(model, **options)
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)  # tests of other files run in this process, too
