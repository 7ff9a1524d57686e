"""Gradients at the boundaries of modules: those that full backward hooks tell, and no bit of the training changes."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from memory import Memory, bodies, capture

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent / "programs"))

from torch import Tensor, nn  # noqa: E402
from trial import digest, tried  # noqa: E402

from lakeprobe.collect.pytorch.boundaries import Sums  # noqa: E402


class Outer(nn.Module):
    """A model whose one part is watched."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.first, self.part = nn.Linear(4, 4), part

    def forward(self, x: Tensor) -> Any:
        return self.part(self.first(x))


class Sum(nn.Module):
    """Takes its argument in three places."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sin() * x.cos() + x.exp()


class Two(nn.Module):
    """Gives a result that is used, and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.used(x), self.unused(x)


class Both(nn.Module):
    """Goes on to use what it gives."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.sin()
        return y, y.exp() * 2


class Nested(nn.Module):
    """Takes and gives containers."""

    def forward(self, given: dict[str, Any]) -> list[Any]:
        return [given["x"] * 2, {"y": given["more"][0].tanh()}]


class Packs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Nested()

    def forward(self, x: Tensor) -> Tensor:
        first, rest = self.part({"x": x + 0, "more": [x + 1]})
        return first + rest["y"]


class Attends(nn.Module):
    """Gives a part one tensor three times."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.MultiheadAttention(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x, x, x)[0]


PARTS: dict[str, Callable[[], nn.Module]] = {
    "one place": lambda: nn.Linear(4, 4),
    "three places": Sum,
    "sums after sums": lambda: nn.Sequential(
        Sum(), nn.Tanh(), nn.Sequential(Sum(), nn.Tanh(), Sum()), nn.Tanh(), Sum()
    ),
    "nested parts": lambda: nn.Sequential(nn.Linear(4, 4), Sum(), nn.Sequential(nn.GELU())),
    "the argument itself": nn.Identity,
    "two results": Both,
    "containers": Packs,
    "the same thrice": Attends,
}


def loss_of(result: Any) -> Tensor:
    first, *rest = result if isinstance(result, tuple) else (result,)
    return sum((item.cos().mean() for item in rest), first.square().mean())


def trained(part: str, memory: Memory | None = None, hook: Any = None, level: str = "L0") -> tuple[str, nn.Module]:
    """A hash of loss, gradients and random numbers of a step."""
    torch.manual_seed(0)
    model = Outer(PARTS[part]())
    if hook is not None:
        for name, module in model.named_modules():
            if name:
                module.register_full_backward_hook(lambda *found, name=name: hook(name, *found[1:]))
    watched = None if memory is None else capture(memory, model, level=level)
    if watched is not None:
        watched.start()
    loss = loss_of(model(torch.randn(3, 4)))
    loss.backward()
    if watched is not None:
        watched.close()
        assert watched.recorder.failures == []
    return digest([loss, [parameter.grad for parameter in model.parameters()], torch.get_rng_state()]), model


def norms(gradients: Any) -> list[float | None]:
    return [None if item is None else round(item.double().norm().item(), 5) for item in gradients]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("part", [part for part in PARTS if part not in ("containers", "the same thrice")])
def test_the_gradients_are_those_that_torch_tells_its_hooks(part: str, memory: Memory) -> None:
    told: dict[str, tuple[Any, Any]] = {}

    def hook(name: str, arguments: Any, results: Any) -> None:
        told[name] = norms(results), norms(arguments)

    trained(part, hook=hook)
    trained(part, memory)
    found = {
        name.split(".backward")[0].removeprefix("Module.").rpartition(".")[0]: tuple(
            [None if leaf is None else round(leaf["Norm"], 5) for leaf in body[section]]
            for section in ("input", "output")
        )
        for name, body in bodies(memory).items()
        if ".backward." in name
    }
    for name in (name for name in told if name not in found):
        assert not any(told[name][1]), name
    # Of tensors without a gradient torch's hooks are told too.
    assert found == {name: ([x for x in ins if x], [x for x in outs if x]) for name, (ins, outs) in told.items()}


def test_a_tensor_that_is_given_several_times_has_its_gradient_at_the_first_place(memory: Memory) -> None:
    trained("the same thrice", memory)
    outcome = bodies(memory)["Module.part.part.MultiheadAttention.backward.0"]["output"]
    assert outcome[0]["Norm"] == bodies(memory)["Module.first.Linear.backward.0"]["input"][0]["Norm"]
    assert outcome[1:] == [None, None]


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("part", PARTS)
def test_loss_gradients_and_random_numbers_keep_their_bits(part: str, level: str, memory: Memory) -> None:
    assert trained(part, memory, level=level)[0] == trained(part)[0]


def test_a_result_that_nobody_uses_gets_no_gradient(memory: Memory) -> None:
    model = Outer(Two())
    watched = capture(memory, model, level="mix")
    watched.start()
    model(torch.randn(3, 4))[0].sum().backward()
    watched.close()
    assert model.part.unused.weight.grad is None
    assert bodies(memory)["Module.part.Two.backward.0"]["input"][1] is None
    assert "Module.part.unused.Linear.backward.0" not in bodies(memory)


def test_what_writes_into_its_argument_is_recorded_as_it_trains(memory: Memory) -> None:
    model = Outer(nn.ReLU(inplace=True))
    watched = capture(memory, model, level="mix")
    watched.start()
    model(torch.randn(3, 4)).square().sum().backward()
    watched.close()
    found = bodies(memory)["Module.part.ReLU.backward.0"]
    assert found["output"][0]["Norm"] == bodies(memory)["Functional.relu.0.backward"]["output"][0]["Norm"]
    assert found["output"][0]["Norm"] == bodies(memory)["Module.first.Linear.backward.0"]["input"][0]["Norm"]


LEVELS = [(level, mode) for level in ("L0", "mix") for mode in (("forward",), ("backward",), ("input",), ("output",))]


@pytest.mark.sampled
@pytest.mark.parametrize(("level", "mode"), [("L1", ("all",)), ("L0", ("all",)), ("mix", ("all",)), *LEVELS])
@pytest.mark.parametrize("task", ["statistics", "tensor", "structure"])
def test_no_level_data_mode_or_task_changes_a_bit(level: str, mode: tuple[str, ...], task: str) -> None:
    for name in ("a tensor with three consumers", "writing in place"):
        outcome = tried(name, level, data_mode=mode, task=task)
        assert outcome[:3] == (True, True, True), (name, outcome)


def test_a_sum_takes_the_memory_of_one_that_is_not_needed_any_more() -> None:
    sums = Sums()
    one, other = torch.randn(3, 4), torch.randn(3, 4)
    first, second = sums.of(one, other), sums.of(one, other)
    assert first.data_ptr() != second.data_ptr()
    place = first.data_ptr()
    sums.give_back(first)
    unlike = [sums.of(one.double(), other), sums.of(one.t(), other.t()), sums.of(one[:2], other[:2])]
    assert place not in {total.data_ptr() for total in unlike}
    assert unlike[1].stride() == (1, 4)  # numbers are added in their order in memory
    third = sums.of(other, other)
    assert third.data_ptr() == place
    assert torch.equal(third, other + other)
    assert sums.of(other, other).data_ptr() != place
    sums.give_back(third)
    sums.forget()
    assert not sums._free


class Held(torch.autograd.Function):
    """A node that holds what can be asked for."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, held: Any) -> Tensor:
        ctx.held = held
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0] * 2, None


class Holds(nn.Module):
    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: Tensor) -> Tensor:
        held, self.held = self.held, None
        return Held.apply(x, held)


@pytest.mark.parametrize("backward", [True, False])
def test_a_graph_that_is_let_go_of_is_gone_at_once(backward: bool, memory: Memory) -> None:
    class Thing:
        pass

    thing = Thing()
    known = weakref.ref(thing)
    model = Outer(nn.Sequential(Holds(thing), nn.Linear(4, 4)))
    del thing
    watched = capture(memory, model, level="mix")
    watched.start()
    gc.disable()
    try:
        loss = model(torch.randn(3, 4)).sum()
        if backward:
            loss.backward()
        assert known() is not None
        del loss
        assert known() is None
    finally:
        gc.enable()
        watched.close()


class Pair(NamedTuple):
    """What a module gives."""

    one: Tensor
    other: Tensor


class Swapped(Pair):
    """Is made of its items the other way round."""

    def __new__(cls, one: Tensor, other: Tensor) -> Swapped:
        made = super().__new__(cls, other, one)
        made.note = "swapped"
        return made


class Lone(tuple):  # type: ignore[type-arg]
    """Is made of one item."""

    def __new__(cls, item: Tensor) -> Lone:
        return super().__new__(cls, [item])


class Gives(nn.Module):
    """Gives its argument in a tuple of a class of its own."""

    def __init__(self, made: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.made = made

    def forward(self, x: Tensor) -> Any:
        return self.made(x)


@pytest.mark.parametrize(
    ("made", "kind"),
    [(lambda x: Swapped(x, x * 2), Swapped), (Lone, Lone), (lambda x: torch.max(x, 1), torch.return_types.max)],
)
def test_a_tuple_of_the_programs_own_class_stays_what_it_is(made: Any, kind: type, memory: Memory) -> None:
    model = Outer(Gives(made))
    x = torch.randn(3, 4)
    alone = model(x)
    watched = capture(memory, model, level="L0")
    watched.start()
    seen = model(x)
    watched.close()
    assert watched.recorder.failures == []
    assert type(seen) is kind
    assert [digest(item) for item in seen] == [digest(item) for item in alone]
    assert all(isinstance(item, Tensor) for item in seen)
    assert vars(seen) == vars(alone) if hasattr(alone, "__dict__") else True


class Queries(nn.Module):
    """Gives its own parameter, and its argument."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.weight, x


class Asks(nn.Module):
    """Updates by hand what a part gives it, and looks for gradients there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.part = nn.Linear(4, 4), Queries()

    def train_once(self, x: Tensor) -> list[Any]:
        given = self.first(x)
        given.retain_grad()
        weight, same = self.part(given)
        same.retain_grad()
        (weight * same.square() + given).sum().backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        kinds = [weight is self.part.weight, weight.requires_grad_(False).requires_grad_().is_leaf]
        return [kinds, given.grad, same.grad, self.part.weight, self.first.weight.grad]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_leaf_and_a_tensor_that_retains_its_gradient_come_back_as_themselves(level: str, memory: Memory) -> None:
    def trained(memory: Memory | None) -> list[Any]:
        torch.manual_seed(0)
        model = Asks()
        watched = None if memory is None else capture(memory, model, level=level)
        if watched is not None:
            watched.start()
        seen = model.train_once(torch.randn(3, 4))
        if watched is not None:
            watched.close()
            assert watched.recorder.failures == []
        return seen

    alone, seen = trained(None), trained(memory)
    assert alone[0] == [True, True]
    assert digest(seen) == digest(alone)
    assert "Module.part.Queries.forward.0" in bodies(memory)
    assert "Module.part.Queries.backward.0" not in bodies(memory)
    assert "Module.part.Queries.parameters_grad.0" in bodies(memory)


def test_a_tensor_that_comes_back_keeps_its_attributes(memory: Memory) -> None:
    model = Outer(Gives(lambda x: x))
    watched = capture(memory, model, level="L0")
    watched.start()
    given = model.first(torch.randn(3, 4))
    given.note = "of the program"
    assert model.part(given).note == "of the program"
    watched.close()


def doubled_(gradient: Tensor) -> None:
    gradient.mul_(2)


class Hooked(nn.Module):
    """Has between its parts a hook that writes into the gradient."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.first, self.part = nn.Linear(4, 4), part

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y.register_hook(doubled_)
        return self.part(y)


@pytest.mark.parametrize("part", [nn.Tanh, lambda: nn.Linear(4, 4)], ids=["no parameters", "parameters"])
def test_a_gradient_is_what_it_was_when_it_came_out_of_the_module(
    part: Callable[[], nn.Module], memory: Memory
) -> None:
    torch.manual_seed(0)
    model, told = Hooked(part()), []
    handle = model.part.register_full_backward_hook(lambda _, arguments, __: told.extend(norms(arguments)))
    model(torch.ones(3, 4)).square().mean().backward()
    handle.remove()
    watched = capture(memory, model, level="L0")
    watched.start()
    model(torch.ones(3, 4)).square().mean().backward()
    watched.close()
    name = f"Module.part.{type(model.part).__name__}.backward.0"
    assert [round(leaf["Norm"], 5) for leaf in bodies(memory)[name]["output"]] == told


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_layer_that_would_compute_otherwise_with_hooks_sees_none(level: str, memory: Memory) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)).eval()
    x, padding = torch.randn(4, 33, 64), torch.arange(33).expand(4, 33) >= 20

    @torch.no_grad()
    def evaluated() -> Tensor:
        return model[0](x, src_key_padding_mask=padding)

    alone = evaluated()
    watched = capture(memory, model, level=level)
    watched.start()
    seen = evaluated()
    watched.close()
    assert digest(seen) == digest(alone)
    modules = [name for name in bodies(memory) if name.startswith("Module.")]
    names = [f"Module.0.layers.{index}.TransformerEncoderLayer.forward.0" for index in range(2)]
    assert modules == [*names, "Module.0.TransformerEncoder.forward.0"]
