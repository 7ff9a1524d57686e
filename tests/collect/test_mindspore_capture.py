"""What a capture of MindSpore promises beside equality with msprobe: it disturbs nothing, and its numbers are right."""

import gc
import zlib
from collections import UserDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from memory import Memory, bodies, capture, tensors

from lakeprobe.collect import frameworks
from lakeprobe.collect.watching.capture import Capture
from lakeprobe.errors import OverflowFoundError, UsageError

mindspore = pytest.importorskip("mindspore")

import mindspore_models as models  # noqa: E402
from mindspore import Parameter, Tensor, mint, nn, ops  # noqa: E402
from mindspore.common import api  # noqa: E402
from mindspore.ops.operations import _inner_ops  # noqa: E402

from lakeprobe.collect.mindspore.functions import places  # noqa: E402
from lakeprobe.collect.mindspore.tensors import statistics, xor  # noqa: E402
from lakeprobe.collect.watching.values import MOST_MEMBERS, wide  # noqa: E402


@pytest.fixture(autouse=True)
def dynamic_graph() -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def primitives(model: Any) -> list[Any]:
    parts = [cell for _, cell in model.cells_and_names()]
    return [value for cell in parts for value in vars(cell).values() if isinstance(value, ops.Primitive)]


def trained(model: Any, watched: Capture | None = None) -> list[float]:
    """The loss and the sums of the gradients of one step."""
    parameters = list(model.trainable_params())
    if watched is not None:
        watched.start(model)
    loss, gradients = mindspore.value_and_grad(lambda x: model(x).sum(), None, parameters)(ones(2, 4))
    if watched is not None:
        watched.close()
        assert watched.recorder.failures == []
    return [float(value.asnumpy().sum()) for value in (loss, *gradients)]


# ---- the framework -------------------------------------------------------------------------------------------------


def test_the_framework_is_that_of_the_model() -> None:
    model = models.Plain()
    assert frameworks.name_of(model) == frameworks.name_of([model, model]) == "mindspore"


def test_graph_mode_is_refused_with_what_to_do_instead(memory: Memory) -> None:
    watched = capture(memory)
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    with pytest.raises(UsageError, match=r"only the dynamic graph is collected.*lakeprobe ingest"):
        watched.start()
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    assert not watched.recorder.running
    watched.start()
    watched.close()


def test_core_is_refused_because_no_api_of_mindspore_has_a_risk(memory: Memory) -> None:
    model = models.Plain()
    with pytest.raises(UsageError, match="risk_level CORE"):
        capture(memory, model, risk_level="CORE")


# ---- a repeat ------------------------------------------------------------------------------------------------------


def perturbed(dtype: Any = mindspore.float32, **options: Any) -> dict[str, Any]:
    """The parameters of a model, with one that is frozen and one that is tied, when its run has begun."""
    mindspore.set_seed(3)
    model = nn.SequentialCell(nn.Dense(40, 40, dtype=dtype), nn.Dense(40, 40, dtype=dtype))
    model[1].weight = model[0].weight
    model[0].weight.set_data(Tensor(np.random.default_rng(0).standard_normal((40, 40)), dtype))
    model[1].bias.set_data(Tensor(np.full(40, 0.3), dtype))
    model[1].bias.requires_grad = False
    watched = capture(Memory(), model, **options)
    watched.start()
    watched.close()
    return {name: parameter.astype(mindspore.float64).asnumpy() for name, parameter in model.parameters_and_names()}


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (mindspore.float64, 1e-7),
        (mindspore.float32, 1.07e-7),
        (mindspore.float16, 2**-11 * 1.12),
        (mindspore.bfloat16, 2**-8 * 1.12),
    ],
)
def test_parameters_are_moved_by_a_rounding_once(dtype: Any, size: float) -> None:
    before, after = perturbed(dtype), perturbed(dtype, perturb=1e-7, perturb_seed=1)
    name = next(name for name in before if name.endswith("weight"))
    frozen = [name for name in before if name.endswith("bias")][-1]
    change = (after[name] / before[name] - 1)[np.abs(before[name]) > 1e-3]
    assert change.std() == pytest.approx(size, rel=0.1)
    assert (after[frozen] != before[frozen]).any()


def test_the_seed_of_a_repeat_decides_its_bits_and_random_numbers_are_left_alone() -> None:
    def draw() -> Any:
        return ops.standard_normal((4,)).asnumpy().tolist()

    first, drawn = perturbed(perturb=1e-7, perturb_seed=1), draw()
    again, other = perturbed(perturb=1e-7, perturb_seed=1), perturbed(perturb=1e-7, perturb_seed=2)
    assert [name for name in first if not np.array_equal(first[name], again[name])] == []
    assert any(not np.array_equal(first[name], other[name]) for name in first)
    perturbed()
    assert draw() == drawn


@pytest.mark.parametrize("scale", [None, 1024.0])
def test_what_a_training_sets_for_itself_is_not_moved(scale: float | None) -> None:
    def values(cell: nn.Cell) -> dict[str, Any]:
        return {parameter.name: parameter.asnumpy().copy() for parameter in cell.get_parameters()}

    network = nn.SequentialCell(nn.Dense(8, 8), nn.Dense(8, 4))
    network[1].bias.set_data(Tensor(np.full(4, 0.3), mindspore.float32))
    network[1].bias.requires_grad = False
    optimizer = nn.Adam(network.trainable_params(), 1e-3)
    scales = () if scale is None else (Tensor(scale),)
    training = (nn.TrainOneStepWithLossScaleCell if scales else nn.TrainOneStepCell)(
        nn.WithLossCell(network, nn.MSELoss()), optimizer, *scales
    )
    before, model = values(training), values(network)
    watched = capture(Memory(), training, perturb=1e-7, perturb_seed=1)
    watched.start()
    watched.close()
    moved = {name for name, value in values(training).items() if not np.array_equal(value, before[name])}
    assert moved == {name for name, value in model.items() if value.any()}


# ---- nothing is disturbed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_stop_leaves_mindspore_and_the_model_as_they_were(memory: Memory, level: str) -> None:
    model = models.Plain()
    functions = [(place.owner, place.attribute, vars(place.owner).get(place.attribute)) for place in places()]
    others = [nn.Cell.__call__, api._JitExecutor.__call__, api._PyNativeExecutor.grad]
    kinds = [type(value) for value in primitives(model)]
    watched = capture(memory, model, level=level)
    watched.start(model)
    watched.start(model)
    model(Tensor([[1, 2]], mindspore.int32))
    watched.stop()
    watched.stop()
    before = len(bodies(memory))
    assert before > 5
    assert [(owner, name, vars(owner).get(name)) for owner, name, _ in functions] == functions
    assert [nn.Cell.__call__, api._JitExecutor.__call__, api._PyNativeExecutor.grad] == others
    assert [type(value) for value in primitives(model)] == kinds
    assert len(kinds) > 10
    for _, cell in model.cells_and_names():
        assert not cell._forward_hook
        assert not cell._forward_pre_hook
    for parameter in model.get_parameters():
        assert not parameter.hooks()
    model(Tensor([[1, 2]], mindspore.int32))
    watched.close()
    assert len(bodies(memory)) == before


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_an_exception_stops_nothing(memory: Memory, level: str) -> None:
    class Failing(nn.Cell):
        def construct(self, x: Any) -> Any:
            raise ValueError("on purpose")

    class Model(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Dense(4, 4)
            self.failing = Failing()
            self.last = nn.Dense(4, 4)

        def construct(self, x: Any) -> Any:
            y = self.first(x)
            with pytest.raises((ValueError, TypeError)):
                ops.softmax(y, axis="no axis")
            with pytest.raises(ValueError, match="on purpose"):
                self.failing(y)
            return ops.softmax(self.last(y))

    model = Model()
    trained(model, capture(memory, model, level=level))
    found, parents = bodies(memory), memory.steps[-1].parents
    if level != "L0":
        assert set(found["Functional.softmax.0.forward"]) == {"input_args", "input_kwargs"}
        assert set(found["Functional.softmax.1.forward"]) == {"input_args", "input_kwargs", "output"}
        assert "Functional.softmax.1.backward" in found
        assert "output" in found["Primitive.matmul.MatMul.1.forward"]
    if level != "L1":
        assert set(found["Cell.failing.Failing.forward.0"]) == {"input_args", "input_kwargs"}
        assert "output" in found["Cell.last.Dense.forward.0"]
        assert set(found["Cell.last.Dense.parameters_grad.0"]) == {"weight", "bias"}
    if level == "mix":
        assert parents["Primitive.matmul.MatMul.1.forward"] == "Cell.last.Dense.forward.0"
        assert parents["Functional.softmax.1.forward"] is None


class Pair(NamedTuple):
    left: Any
    right: Any


class Writing(nn.Cell):
    """Writes into parameters and tensors, and gives a named tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(ones(4), name="weight")
        self.counts = Parameter(ones(4, 4), name="counts", requires_grad=False)
        self.norm = nn.BatchNorm1d(4)

    def construct(self, x: Any) -> Any:
        ops.assign_add(self.counts, ones(4, 4))
        ops.scatter_add(self.counts, Tensor([0, 1], mindspore.int32), ones(2, 4))
        ops.index_add(self.counts, Tensor([2], mindspore.int32), ones(1, 4), 0)
        y = x * self.weight
        y += 1.0
        y *= x
        y[0] = 0.5
        return Pair(self.norm(y), y)


class Whole(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.part = Writing()

    def construct(self, x: Any) -> Any:
        pair = self.part(x)
        return pair.left + pair.right


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_training_that_writes_in_place_is_the_same_when_watched(memory: Memory, level: str) -> None:
    alone, watched = Whole(), Whole()
    assert trained(alone) == trained(watched, capture(memory, watched, level=level))
    for left, right in zip(alone.get_parameters(), watched.get_parameters(), strict=True):
        assert (left.asnumpy() == right.asnumpy()).all(), left.name
    assert watched.part.counts.asnumpy()[0, 0] == 3


def test_what_a_step_put_into_the_graph_does_not_stay_in_memory(memory: Memory) -> None:
    def nodes() -> int:
        gc.collect()
        kinds = (_inner_ops.CellBackwardHook, ops.HookBackward)
        return sum(isinstance(thing, kinds) for thing in gc.get_objects())

    before = nodes()
    models.train("plain", lambda model: capture(memory, model, level="mix"))
    assert nodes() <= before


def test_what_jit_compiles_is_one_op_and_compiles_as_it_does_alone(memory: Memory) -> None:
    @mindspore.jit
    def compiled(x: Any) -> Any:
        return ops.softmax(ops.matmul(x, x))

    alone = compiled(ones(3, 3)).asnumpy()
    watched = capture(memory, level="L1")
    watched.start()
    ops.relu(ones(2))
    seen = compiled(ones(3, 3)).asnumpy()
    ops.relu(ones(2))
    watched.close()
    assert (seen == alone).all()
    assert list(bodies(memory)) == ["Functional.relu.0.forward", "Jit.compiled.0.forward", "Functional.relu.1.forward"]


def test_an_optimizer_says_its_settings(memory: Memory) -> None:
    model = nn.Dense(3, 2)
    groups = [{"params": [model.weight], "lr": 0.5}, {"params": [model.bias]}]
    momentum = nn.Momentum(groups, 1e-3, 0.9, weight_decay=0.1)
    adam = nn.AdamWeightDecay(model.trainable_params(), nn.PolynomialDecayLR(0.1, 0.01, 4, 1.0), beta1=0.8)
    watched = capture(memory, level="L1")
    watched.start()
    for optimizer in (momentum, adam):
        optimizer((ones(2, 3), ones(2)))
    watched.close()
    assert watched.recorder.failures == []
    said = {
        op: {
            name: [each["value"] for each in leaf] if isinstance(leaf, list) else leaf["value"]
            for name, leaf in kwargs.items()
        }
        for op, kwargs in (
            (op, body["input_kwargs"]) for op, body in bodies(memory).items() if op.startswith("Optimizer")
        )
    }
    assert said == {
        "Optimizer.Momentum.0.forward": {
            "learning_rate": [0.5, 0.001], "momentum": 0.9, "weight_decay": 0.1, "loss_scale": 1.0,
            "use_nesterov": False,
        },
        "Optimizer.AdamWeightDecay.0.forward": {"beta1": 0.8, "beta2": 0.999, "eps": 1e-6, "weight_decay": 0.0},
    }  # fmt: skip
    assert [op.split(".")[0] for op in bodies(memory)] == ["Optimizer", "Jit"] * 2


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_model_that_jit_compiles_as_a_whole_compiles_when_watched(memory: Memory, level: str) -> None:
    model = nn.SequentialCell(nn.Dense(4, 4), nn.LayerNorm((4,)))

    def whole(x: Any) -> Any:
        return model(x).sum()

    watched = capture(memory, model, level=level)
    watched.start(model)
    seen = mindspore.jit(whole)(ones(2, 4)).asnumpy()
    model(ones(2, 4))
    watched.close()
    assert seen == pytest.approx(whole(ones(2, 4)).asnumpy(), abs=1e-5)
    found = list(bodies(memory))
    assert ("Jit.whole.0.forward" in found) == (level != "L0")
    assert ("Cell.0.Dense.forward.0" in found) == (level != "L1")


# ---- numbers -------------------------------------------------------------------------------------------------------


def kernels(tensor: Any) -> list[float]:
    """What msprobe asks of MindSpore's kernels on the CPU."""
    return [measure(tensor).asnumpy().item() for measure in (mint.max, mint.min, mint.mean, ops.norm)]


@pytest.mark.parametrize(("dtype", "spread"), [(np.float32, 0.0), (np.float32, 4.0), (np.float16, 1.0)])
def test_statistics_are_those_of_the_kernels_to_the_last_bit(dtype: Any, spread: float) -> None:
    random = np.random.default_rng(3)
    for size in (1, 2, 7, 64, 1000, 4096, 50_000):
        array = random.standard_normal(size) * np.exp(spread * random.standard_normal(size))
        array[-1] -= array.astype(dtype).astype(np.float64).sum()  # the mean of a gradient is near 0
        array = array.astype(dtype)
        assert list(map(repr, statistics(array))) == list(map(repr, kernels(Tensor(array)))), size


@pytest.mark.parametrize(
    "values",
    [[1, np.nan, 3], [np.nan, 1, 2], [0.0, -0.0], [-0.0, 0.0], [1, np.inf], [np.inf, -np.inf], [-np.inf, np.nan, 0]],
)
def test_statistics_of_what_is_no_number_or_has_no_sign(values: list[float]) -> None:
    array = np.array(values, np.float32)
    assert list(map(repr, statistics(array))) == list(map(repr, kernels(Tensor(array))))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64, np.float64])
def test_whole_numbers_and_float64_are_measured_as_float32(dtype: Any) -> None:
    array = (np.random.default_rng(5).standard_normal(300) * 100).astype(dtype)
    assert list(statistics(array)) == kernels(Tensor(array).to(mindspore.float32))


def test_statistics_of_large_tensors_are_close() -> None:
    array = np.random.default_rng(7).standard_normal(1_000_003).astype(np.float32)
    assert statistics(array) == pytest.approx(kernels(Tensor(array)), rel=1e-6)


def test_wide_statistics_are_those_of_float64_and_count_what_is_no_number() -> None:
    half = np.full(1_000_000, 100, np.float16)
    assert statistics(half)[3] == np.inf  # 1e5 is more than float16 holds
    assert wide(half) == (100.0, 1e5, 0, 0, 0, 0)
    odd = np.array([np.nan, np.inf, np.inf, -np.inf, 0.0, -0.0, 3.0], np.float32)
    assert list(map(repr, wide(odd) or ())) == ["nan", "nan", "1", "2", "1", "2"]
    assert wide(np.array([1, np.inf], np.float32)) == (np.inf, np.inf, 0, 1, 0, 0)
    assert wide(np.zeros((0, 3), np.float32)) is None


def test_leaves_of_all_kinds(memory: Memory) -> None:
    bfloat = Tensor(np.array([1, 2], np.float32)).astype(mindspore.bfloat16)
    whole = Tensor(3, mindspore.int32)
    truths = Tensor(np.array([True, False]))
    imaginary = Tensor(np.array([3 + 4j], np.complex64))
    value = [bfloat, whole, truths, imaginary, Tensor(np.zeros((0, 2), np.float32)), np.float32(1.5), None]
    value += [
        {"dtype": mindspore.float32, "at": slice(1, None), "all": ...},
        np.array([1.0, 3.0]),
        Pair(1, "x"),
        nn.ReLU(),
    ]
    watched = capture(memory, task="tensor")
    watched.save("point", value, backward=False)
    watched.close()
    assert watched.recorder.failures == []

    def tensor(dtype: str, shape: list[int], *numbers: Any) -> dict[str, Any]:
        names = ("Max", "Min", "Mean", "Norm")
        leaf = {"type": "mindspore.Tensor", "dtype": dtype, "shape": shape}
        return leaf | dict(zip(names, numbers, strict=True))

    (body,) = bodies(memory).values()
    kept = {leaf.pop("data_name"): leaf.pop("tensor") for leaf in list(tensors(body))}
    widths = [leaf.pop("wide", None) for leaf in body if isinstance(leaf, dict)]
    assert widths[0] == (1.5, pytest.approx(5**0.5), 0, 0, 0, 0)
    assert widths[2] == (0.5, 1.0, 0, 0, 0, 1)
    assert widths[3] == (5.0, 5.0, 0, 0, 0, 0)
    assert widths[4] is None
    assert body == [
        tensor("BFloat16", [2], 2.0, 1.0, 1.5, 2.234375),
        tensor("Int32", [], 3, 3, 3, 3),
        tensor("Bool", [2], True, False, None, None),
        tensor("Complex64", [1], 5.0, 5.0, 5.0, 5.0),
        tensor("Float32", [0, 2], None, None, None, None),
        {"type": "float32", "value": 1.5},
        None,
        {
            "dtype": {"type": "mindspore.dtype", "value": "Float32"},
            "at": {"type": "slice", "value": [1, None, None]},
            "all": {"type": "ellipsis", "value": "..."},
        },
        {
            "type": "numpy.ndarray", "dtype": "float64", "shape": [2],
            "Max": 3.0, "Min": 1.0, "Mean": 2.0, "Norm": pytest.approx(10**0.5),
        },
        {"left": {"type": "int", "value": 1}, "right": {"type": "str", "value": "x"}},
        None,
    ]  # fmt: skip
    assert {name: (array.dtype.name, array.tolist()) for name, array in kept.items()} == {
        "point.0.debug.0.npy": ("float32", [1, 2]),
        "point.0.debug.1.npy": ("int32", 3),
        "point.0.debug.2.npy": ("bool", [True, False]),
        "point.0.debug.3.npy": ("complex64", [3 + 4j]),
        "point.0.debug.4.npy": ("float32", []),
        "point.0.debug.8.npy": ("float64", [1.0, 3.0]),
    }


class Kept:
    """Keeps a tensor in an attribute."""

    def __init__(self, x: Tensor) -> None:
        self.x, self.name = x, "kept"


def test_tensors_in_objects_are_recorded(memory: Memory) -> None:
    watched = capture(memory, nn.Identity(), level="debug")
    watched.save("x", [UserDict(x=ones(2), n=5), Kept(ones(2)), nn.ReLU(), {1}, {ones(2)}], backward=False)
    watched.close()
    by_name, kept, *others = bodies(memory)["x.0.debug"]
    assert [by_name["x"]["Max"], by_name["n"]["value"]] == [1, 5]
    assert {name: leaf["Max"] for name, leaf in kept.items()} == {"x": 1}
    assert others == [None, None, {"type": "builtins.set"}]
    assert memory.notes == [
        "1 value could not be recorded, the first: a set: UnseenError: its tensors are in no attribute"
    ]


def test_an_op_has_no_more_members_than_are_read(memory: Memory) -> None:
    watched = capture(memory, nn.Identity(), level="debug")
    watched.save("x", {"few": [1, 2], "many": [*range(100_001)], "none": 1}, backward=False)
    watched.close()
    recorded = bodies(memory)["x.0.debug"]
    assert [leaf["value"] for leaf in recorded["few"]] == [1, 2]
    assert recorded["many"][-1] == {"type": "builtins.list"}
    assert len(recorded["many"]) == MOST_MEMBERS - 3
    assert recorded["none"] == {"type": "builtins.dict"}
    (note,) = memory.notes
    assert note.startswith(
        "2 values could not be recorded, the first: a list: TooManyError: only the first 24000 members"
    )


class Queries(nn.Cell):
    """Gives its own parameter, and another result."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(ones(4), name="weight")

    def construct(self, x: Tensor) -> Any:
        return self.weight, x * 3


class Asks(nn.Cell):
    """Keeps what its part gives."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.part = nn.Dense(4, 4, weight_init="ones", bias_init="ones"), Queries()

    def construct(self, x: Tensor) -> Tensor:
        self.given, y = self.part(self.first(x))
        return (self.given * y).sum()


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_parameter_that_a_cell_gives_is_itself(memory: Memory, level: str) -> None:
    seen = []
    for watch in (False, True):
        model = Asks()
        watched = capture(memory, model, level=level)
        if watch:
            watched.start(model)
        loss, gradients = mindspore.value_and_grad(model, None, model.trainable_params())(ones(2, 4))
        assert model.given is model.part.weight
        seen.append([loss.asnumpy().tobytes(), *(gradient.asnumpy().tobytes() for gradient in gradients)])
        watched.close()
        assert watched.recorder.failures == []
    assert seen[0] == seen[1]
    backward = bodies(memory)["Cell.part.Queries.backward.0"]
    assert backward["input"][0] is None
    assert backward["input"][1]["Max"] == 1
    assert backward["output"][0]["Max"] == 3


def test_kept_contents_do_not_change_with_the_tensor(memory: Memory) -> None:
    watched = capture(memory, task="tensor")
    watched.start()
    value = ones(3)
    ops.relu(value)
    value += 1
    watched.close()
    leaf = bodies(memory)["Functional.relu.0.forward"]["input_args"][0]
    assert leaf["tensor"].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        leaf["tensor"][0] = 2


@pytest.mark.parametrize("mode", ["md5", "xor"])
def test_digests_are_of_the_bytes(memory: Memory, mode: Any) -> None:
    array = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    watched = capture(memory, summary_mode=mode)
    watched.start()
    ops.relu(Tensor(array).T)
    watched.close()
    leaf = bodies(memory)["Functional.relu.0.forward"]["input_args"][0]
    if mode == "md5":
        assert leaf["md5"] == f"{zlib.crc32(array.T.tobytes()):08x}"
        assert leaf["Max"] == array.max()
    else:
        data = array.T.tobytes() + bytes(4)
        assert leaf["md5"] == f"0x{np.bitwise_xor.reduce(np.frombuffer(data, np.uint64)):016x}"
        assert "Max" not in leaf
    assert xor(np.float32(2.5) + np.zeros((), np.float32)) == 2.5


# ---- what the settings ask for ---------------------------------------------------------------------------------------


def test_saved_points_get_their_gradients(memory: Memory) -> None:
    weight = Parameter(ones(3, 4), name="weight")
    watched = capture(memory, level="debug")

    def loss(x: Any) -> Any:
        y = ops.matmul(x, weight)
        watched.save("y", {"y": [y, 1]})
        watched.save("y", y)
        return (y * y).sum()

    mindspore.value_and_grad(loss, None, [weight])(ones(2, 3))
    watched.close()
    found = bodies(memory)
    assert list(found) == ["y.0.debug", "y_grad.0.debug", "y.1.debug", "y_grad.1.debug"]
    assert found["y.0.debug"]["y"][0]["Max"] == 3
    assert found["y_grad.0.debug"]["y"][0]["Max"] == 6
    assert found["y_grad.0.debug"]["y"][1] is None


def test_steps_and_ranks_are_chosen(memory: Memory) -> None:
    watched = capture(memory, step=(0, 2), rank=(1,))
    for _ in range(3):
        watched.start(rank=1)
        ops.relu(ones(2))
        watched.stop()
        watched.step()
    watched.start(rank=0)
    ops.relu(ones(2))
    watched.close()
    assert [(step.number, step.rank, list(step.bodies)) for step in memory.steps] == [
        (0, 1, ["Functional.relu.0.forward"]),
        (2, 1, ["Functional.relu.0.forward"]),
    ]


class Root(nn.Cell):
    """Its gradient is inf at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(Tensor([0.0, 1.0, 2.0, 3.0]), name="weight")
        self.root = ops.Sqrt()

    def construct(self, x: Any) -> Any:
        return self.root(x * self.weight)


@pytest.mark.parametrize(
    ("level", "born"),
    [("L0", "Cell.0.Root.backward.0"), ("L1", "Primitive.root.Sqrt.0.backward")],
)
def test_overflow_check_ends_the_training_where_inf_is_born(memory: Memory, level: str, born: str) -> None:
    model = nn.SequentialCell(Root())
    watched = capture(memory, model, level=level, task="overflow_check")
    watched.start(model)
    with pytest.raises(OverflowFoundError, match=born):
        mindspore.value_and_grad(lambda x: model(x).sum(), 0, list(model.trainable_params()))(ones(2, 4))
    watched.close()
    assert list(bodies(memory)) == [born]


def test_several_models_are_told_apart_by_their_place(memory: Memory) -> None:
    first, second = nn.SequentialCell(nn.Dense(4, 4)), nn.SequentialCell(nn.Dense(4, 4))
    watched = capture(memory, [first, second], level="L0")
    watched.start()
    second(first(ones(1, 4)))
    watched.close()
    assert list(bodies(memory)) == ["Cell.0.0.Dense.forward.0", "Cell.1.0.Dense.forward.0"]


def test_an_asynchronous_collective_is_waited_for_and_says_so(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process has no other rank, so calls of the same signature take the place of the framework's."""
    waited: list[str] = []

    class Handle:
        def wait(self) -> None:
            waited.append("wait")

    monkeypatch.setattr(
        mint.distributed,
        "all_reduce",
        lambda tensor, op="sum", group=None, async_op=False: Handle() if async_op else None,
    )
    watched = capture(memory)
    watched.start()
    mint.distributed.all_reduce(ones(2))
    mint.distributed.all_reduce(ones(2), async_op=True)
    watched.close()
    assert waited == ["wait"]
    calls = {name: op.get("waited_for") for name, op in bodies(memory).items() if "all_reduce" in name}
    assert calls == {"MintDistributed.all_reduce.0.forward": None, "MintDistributed.all_reduce.1.forward": True}
