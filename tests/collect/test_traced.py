"""Code that torch reads, transforms or compiles, in a step that is collected: nothing of ours gets into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memory import Memory, bodies, capture

import lakeprobe
from lakeprobe.errors import UsageError

torch = pytest.importorskip("torch")

from torch import _dynamo, nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from torch._higher_order_ops import scan, while_loop  # noqa: E402
from torch._higher_order_ops.map import map as higher_order_map  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch deprecates some of these ways

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Net(nn.Sequential):
    """A class of the user's: torch compiles the method of no other."""

    def forward(self, x: Any) -> Any:
        for part in self:
            x = part(x)
        return x


def net(kind: type[nn.Sequential] = nn.Sequential) -> Any:
    torch.manual_seed(0)
    return kind(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def _dual(model: Any) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(model(forward_ad.make_dual(X, X))).tangent


def _scripted_function(_: Any) -> Any:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.nn.functional.linear(x, x)) * 2

    return torch.jit.script(twice)(X[:, :2])


def _gradient_of_branches(model: Any) -> Any:
    chosen = torch.cond(torch.tensor(True), lambda y: y.sin(), lambda y: y.cos(), (model(X),))
    return torch.autograd.grad(chosen.sum(), model[0].weight)[0]


WAYS: dict[str, Callable[[Any], Any]] = {
    "jit.script": lambda model: torch.jit.script(model)(X),
    "jit.script of a function": _scripted_function,
    "jit.trace": lambda model: torch.jit.trace(model, X)(X),
    "export": lambda model: torch.export.export(model, (X,)).module()(X),
    "export, strict": lambda model: torch.export.export(model, (X,), strict=True).module()(X),
    "make_fx": lambda model: make_fx(model)(X)(X),
    "fx": lambda model: torch.fx.symbolic_trace(model)(X),
    "func.grad": lambda model: torch.func.grad(lambda x: model(x).sum())(X),
    "func.vmap": lambda model: torch.func.vmap(model)(X),
    "func.jvp": lambda model: torch.func.jvp(model, (X,), (X,))[1],
    "func.hessian": lambda model: torch.func.hessian(lambda x: model(x).sum())(X),
    "func.jacrev": lambda model: torch.func.jacrev(model)(X),
    "functional.hvp": lambda model: torch.autograd.functional.hvp(lambda x: model(x).sum(), X, X)[1],
    "forward AD": _dual,
    "cond": _gradient_of_branches,
}


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("way", WAYS)
def test_it_works_gives_the_same_and_what_runs_afterwards_is_recorded(memory: Memory, way: str, level: str) -> None:
    model = net()
    expected = WAYS[way](model)
    watched = capture(memory, model, level=level)
    watched.start()
    found = WAYS[way](model)
    before = set(bodies(memory)) if memory.steps else set()
    model(X).sum().backward()
    watched.close()
    assert torch.equal(found, expected)
    assert watched.recorder.failures == []
    new = [name for name in bodies(memory) if name not in before and ".Linear.forward" in name]
    assert len(new) >= (0 if level == "L1" else 2)
    assert any("linear" in name.lower() for name in bodies(memory))


def test_what_runs_in_a_loop_is_recorded_and_gives_the_same(memory: Memory) -> None:
    def work() -> tuple[Any, Any]:
        _, turned = while_loop(lambda turn, _: turn < 3, lambda turn, y: (turn + 1, y.sin()), (torch.tensor(0), X))
        return turned, scan(lambda carry, y: (carry + y, carry * y.cos()), torch.zeros(4), X)[1]

    alone = work()
    watched = capture(memory, None, level="L1")
    watched.start()
    seen = work()
    watched.close()
    assert all(torch.equal(one, other) for one, other in zip(alone, seen, strict=True))
    ops = bodies(memory)
    assert [name for name in ops if name.startswith("Tensor.sin.")] == [f"Tensor.sin.{n}.forward" for n in range(3)]
    assert [name for name in ops if name.startswith("Tensor.cos.")] == [f"Tensor.cos.{n}.forward" for n in range(2)]
    (last,) = ops["Tensor.sin.2.forward"]["output"]
    assert last["Norm"] == torch.linalg.vector_norm(alone[0]).item()


@pytest.mark.parametrize("operator", ["cond", "map", "scan"])
def test_what_torch_traces_in_a_backward_is_not_recorded(memory: Memory, operator: str) -> None:
    """With risk level ALL, where the tracer's questions about tensors without numbers would be ops."""
    x = X.clone().requires_grad_()
    work = {
        "cond": lambda: torch.cond(torch.tensor(True), lambda y: y.sin(), lambda y: y.cos(), (x,)),
        "map": lambda: higher_order_map(lambda y: y.sin() * 2, x),
        "scan": lambda: scan(lambda carry, y: (carry + y, carry * y.cos()), torch.zeros(4), x)[1],
    }
    watched = capture(memory, None, level="L1", risk_level="ALL")
    watched.start()
    for _ in range(2):
        work[operator]().sum().backward()
        watched.step()
    watched.close()
    assert watched.recorder.failures == []
    first, second, *_ = (step.bodies for step in memory.steps)
    assert [*first] == [*second]
    lines = {line for step in memory.steps for stack in step.stacks.values() for line in stack or ()}
    assert not any("materialize_as_graph" in line for line in lines)


def test_what_make_fx_asks_of_tensors_is_not_recorded(memory: Memory) -> None:
    watched = capture(memory, None, level="L1", risk_level="ALL")
    watched.start()
    torch.relu(X)
    for mode in ("real", "fake", "symbolic"):
        make_fx(lambda x: x.sin().sum(), tracing_mode=mode)(X)
    watched.close()
    assert [*bodies(memory)] == ["Torch.relu.0.forward"]


def test_a_script_module_in_a_model_is_one_op(memory: Memory) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.scripted = torch.jit.script(net())

        def forward(self, x: Any) -> Any:
            return self.scripted(self.first(x))

    torch.manual_seed(0)
    model = Model()
    watched = capture(memory, model, level="mix")
    watched.start()
    model(X).sum().backward()
    watched.close()
    modules = [name for name in bodies(memory) if name.startswith("Module.") and "parameters" not in name]
    assert modules == [
        "Module.first.Linear.forward.0",
        "Module.scripted.Sequential.forward.0",
        "Module.scripted.Sequential.backward.0",
        "Module.first.Linear.backward.0",
    ]
    assert bodies(memory)["Module.scripted.Sequential.forward.0"]["output"][0]["shape"] == [2, 1]
    torch.jit.script(net())(X)  # nothing was left anywhere


# ---- torch.func and forward AD ---------------------------------------------------------------------------------------


def norm(tensor: Any) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64).item())


def numbers(leaves: Any) -> list[Any]:
    """The shape and norm of each tensor, None for what is none."""
    return [leaf and leaf.get("Norm") and (leaf["shape"], leaf["Norm"]) for leaf in leaves or []]


def test_a_gradient_of_torch_func_is_recorded_as_one_of_autograd(memory: Memory) -> None:
    """The ops and numbers are the same. The backward of modules and the gradients of parameters are left out."""
    model = net()
    watched = capture(memory, model, level="mix")
    watched.start()
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    torch.func.grad(lambda given: torch.func.functional_call(model, given, (X,)).square().sum())(parameters)
    watched.step()
    model(X).square().sum().backward()
    watched.close()
    functional, plain = (step.bodies for step in memory.steps)
    left_out = {name for name in plain if name.startswith("Module.") and ".forward." not in name}
    assert left_out
    assert list(functional) == [name for name in plain if name not in left_out]
    for name, body in functional.items():
        for part in ("input_args", "output", "input"):
            assert numbers(body.get(part)) == numbers(plain[name].get(part))
    weight = functional["Module.0.Linear.forward.0"]["parameters"]["weight"]
    assert (weight["Norm"], weight["requires_grad"]) == (pytest.approx(norm(parameters["0.weight"]), rel=1e-6), True)
    assert watched.recorder.failures == []


def test_of_what_is_mapped_the_whole_batch_is_recorded_without_contents(memory: Memory) -> None:
    weight = torch.linspace(0, 1, 6).reshape(2, 3)
    watched = capture(memory, None, level="L1", task="tensor")
    watched.start()
    found = torch.func.vmap(lambda x: torch.matmul(x, weight), in_dims=1)(X)
    watched.close()
    assert torch.equal(found, X.T @ weight)
    made = bodies(memory)["Torch.matmul.0.forward"]
    mapped, whole = made["input_args"]
    assert (mapped["shape"], mapped["layout"], "tensor" in mapped) == ([2, 4], "batched", False)
    assert mapped["Norm"] == pytest.approx(norm(X), rel=1e-6)
    assert (whole["shape"], "layout" in whole, "tensor" in whole) == ([2, 3], False, True)
    assert numbers(made["output"]) == [([4, 3], pytest.approx(norm(found), rel=1e-6))]


def test_primals_are_recorded_in_forward_ad(memory: Memory) -> None:
    model, tangent = net(), X * 7
    watched = capture(memory, model, level="mix")
    watched.start()
    torch.func.jvp(model, (X,), (tangent,))
    watched.step()
    _dual(model)
    watched.step()
    model(X)
    watched.close()
    transformed, dual, plain = (step.bodies for step in memory.steps)
    assert list(transformed) == list(dual) == list(plain)
    for name, body in plain.items():
        for part in ("input_args", "output"):
            assert numbers(transformed[name][part]) == numbers(dual[name][part]) == numbers(body[part])


def test_a_gradient_within_a_recorded_step_leaves_its_modules_alone(memory: Memory) -> None:
    """Backward of the outer graph goes through modules whose forward had a gradient of torch.func between them."""
    model = net()
    watched = capture(memory, model, level="L0")
    watched.start()
    made = model[0](X)
    slope = torch.func.grad(lambda y: y.sin().sum())(made.detach())
    model[2](model[1](made * slope)).sum().backward()
    watched.close()
    assert [name for name in bodies(memory) if ".backward." in name] == [
        "Module.2.Linear.backward.0",
        "Module.1.Tanh.backward.0",
        "Module.0.Linear.backward.0",
    ]


# ---- torch.compile ---------------------------------------------------------------------------------------------------


def compiled(how: str, model: Any, backend: str) -> Any:
    _dynamo.reset()
    counters.clear()
    if how == "method":
        model.compile(backend=backend)
        return model
    if how == "function":
        return torch.compile(lambda x: model(x) * 2, backend=backend)
    if how == "part":
        model[0] = torch.compile(model[0], backend=backend)
        return model
    options = {"fullgraph": {"fullgraph": True}, "dynamic": {"dynamic": True}}.get(how, {})
    return torch.compile(model, backend=backend, **options)


def trained(how: str, backend: str, **options: Any) -> tuple[list[float], list[int], list[Any]]:
    """The losses of nine steps, of which three in the middle are collected; the graphs after each; and breaks."""
    model = net(Net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = compiled(how, model, backend)
    collector = lakeprobe.collect(run if isinstance(run, nn.Module) else model, **options) if options else None
    losses, graphs = [], []
    torch.manual_seed(1)
    for step in range(9):
        if collector is not None and step in (3, 4, 5):
            collector.start()
        loss = run(torch.randn(2, 4)).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if collector is not None and step in (3, 4, 5):
            collector.stop()
            collector.step()
        graphs.append(counters["stats"]["unique_graphs"])
    if collector is not None:
        collector.close()
    return losses, graphs, list(counters["graph_break"].items())


@pytest.mark.sampled
@pytest.mark.parametrize("way", ["eager", "boundary"])
@pytest.mark.parametrize("how", ["module", "fullgraph", "dynamic", "method", "function", "part"])
def test_graphs_and_breaks_are_the_same_as_without_and_so_are_the_losses(tmp_path: Path, how: str, way: str) -> None:
    alone = trained(how, "aot_eager")
    watched = trained(how, "aot_eager", run="npu", lake=tmp_path / "lake", level="mix", compiled=way,
                      on_failure="raise")  # fmt: skip
    assert alone[1] == [1] * 9
    assert watched == alone
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        ops = [name for (name,) in lake.sql("SELECT op FROM ops WHERE step = 1 ORDER BY seq").fetchall()]
    if way == "eager" or how == "function":
        assert "Module.0.Linear.forward.0" in ops  # under the names that it has without compiling
        assert not [name for name in ops if name.startswith("Jit.")]
    else:
        name = "Linear" if how == "part" else "Net"
        assert [op for op in ops if op.startswith("Jit.")] == [f"Jit.{name}.0.forward", f"Jit.{name}.0.backward"]
        assert ("Module.2.Linear.forward.0" in ops) is (how == "part")


def test_with_boundary_inductor_gives_the_same_losses(tmp_path: Path) -> None:
    alone = trained("module", "inductor")
    assert trained("module", "inductor", run="npu", lake=tmp_path / "lake", compiled="boundary") == alone


def test_that_compiled_code_runs_eagerly_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained("module", "eager", run="npu", lake=tmp_path / "lake")
    said = capfd.readouterr().err
    assert said.startswith("lakeprobe: torch.compile is used; what is compiled runs eagerly while it is collected")
    assert said.count("\n") == 1
    trained("module", "eager", run="bound", lake=tmp_path / "lake", compiled="boundary")
    assert capfd.readouterr().err == ""


def test_what_is_compiled_while_a_step_is_collected_is_compiled_afterwards(memory: Memory) -> None:
    _dynamo.reset()
    counters.clear()
    model = net()
    watched = capture(memory, model, level="mix")
    watched.start()
    run = torch.compile(model, backend="eager", fullgraph=True)
    expected = run(X)
    assert counters["stats"]["unique_graphs"] == 0
    watched.close()
    assert torch.equal(run(X), expected)
    assert counters["stats"]["unique_graphs"] == 1
    assert "Functional.linear.1.forward" in bodies(memory)


def test_the_users_own_stance_comes_back(memory: Memory) -> None:
    from torch._dynamo import eval_frame

    with torch.compiler.set_stance("eager_on_recompile"):
        watched = capture(memory, net())
        watched.start()
        assert eval_frame._stance.stance == "force_eager"
        watched.close()
        assert eval_frame._stance.stance == "eager_on_recompile"
    assert eval_frame._stance.stance == "default"


def test_compiled_is_eager_or_boundary(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="collect: compiled should be one of eager, boundary"):
        lakeprobe.collect(run="npu", lake=tmp_path / "lake", compiled="graph")


def test_while_a_cuda_graph_is_captured_nothing_is_read(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = capture(memory)
    watched.start()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    torch.relu(X)
    monkeypatch.undo()
    torch.tanh(X)
    watched.close()
    assert list(bodies(memory)) == ["Torch.tanh.0.forward"]
