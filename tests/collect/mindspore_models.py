"""Small MindSpore models and one training run of each, the same whoever watches. Run as a program, msprobe watches.

python mindspore_models.py RUNS.json, where each run is [FOLDER, NAME, LEVEL, TASK, SUMMARY_MODE, KEY=JSON …]
"""

import sys
from collections.abc import Callable
from typing import Any

import mindspore
import msprobe_runs
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops


class Block(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((width,))
        self.first = nn.Dense(width, 2 * width)
        self.act = nn.GELU()
        self.last = mint.nn.Linear(2 * width, width)
        self.drop = nn.Dropout(p=0.0)

    def construct(self, x: Tensor) -> Tensor:
        return x + self.drop(self.last(self.act(self.first(self.norm(x)))))


class Plain(nn.Cell):
    """A few blocks between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.blocks = nn.CellList([Block(8) for _ in range(2)])
        self.head = nn.Dense(8, 32, has_bias=False)

    def construct(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Pieces(nn.Cell):
    """Takes and gives nested containers."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(8, 8)

    def construct(self, pair: Any, scale: float = 1.0, extra: Any = None) -> Any:
        first, rest = pair
        y = self.dense(first) * scale + rest[0] + extra["shift"]
        return y, [y[0], (y.sum(), None)]


class Odd(nn.Cell):
    """What plain models do not do: writing in place, a part called twice, tied weights, many dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.twice = nn.Dense(8, 8)
        self.pieces = Pieces()
        self.frozen = nn.Dense(8, 8)
        self.unused = nn.Dense(3, 3)
        self.steps = Parameter(Tensor(np.zeros(3, np.float32)), name="steps", requires_grad=False)
        self.gather = ops.Gather()
        self.add = ops.AssignAdd()
        for parameter in self.frozen.get_parameters():
            parameter.requires_grad = False

    def construct(self, tokens: Tensor) -> Tensor:
        x = self.twice(self.twice(self.embed(tokens)))
        y = 1 - ops.relu(x * 2)
        y = y + ops.arange(0, 8).to(mindspore.float32) / 7 + 2**-3
        y += 1.5
        made, rest = self.pieces(
            (y, [x]), scale=0.5, extra={"shift": y.astype(mindspore.float16), "kind": slice(1, None)}
        )
        half = ops.mul(y.to(mindspore.float16), 3)
        wide = ops.add(y.to(mindspore.float64), half.to(mindspore.float64))
        mask = ops.greater(y, 0.0)
        counts = ops.cumsum(tokens, axis=1)
        empty = ops.relu(Tensor(np.zeros((0, 3), np.float32)))
        values, order = ops.sort(made, axis=-1)
        self.add(self.steps, Tensor(np.ones(3, np.float32)))
        picked = self.gather(values, Tensor([0, 1], mindspore.int32), 1)
        total = ops.sum(wide.to(mindspore.float32)) + counts.sum() * 0 + ops.cast(mask, mindspore.float32).sum()
        total = total + empty.shape[0] + ops.norm(picked) + order.sum() * 0 + rest[1][0]
        logits = ops.matmul(self.frozen(values), self.embed.embedding_table.swapaxes(0, 1))
        return logits + total * 1e-3


MODELS: dict[str, Callable[[], nn.Cell]] = {"plain": Plain, "odd": Odd}


def train(name: str, watch: Callable[[nn.Cell], Any], steps: int = 2, batches: int = 1) -> list[float]:
    """Trains a model; `watch` gives what has start, stop and step, as a capture has. Gives the losses."""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.set_seed(7)
    random = np.random.default_rng(7)
    model = MODELS[name]()
    for parameter in model.get_parameters():
        # Small, so that no gradient is subnormal: some threads of MindSpore flush those to zero, and others do not.
        parameter.set_data(Tensor(0.3 * random.standard_normal(parameter.shape).astype(np.float32)))
    parameters = list(model.trainable_params())
    watcher = watch(model)

    def loss_of(tokens: Tensor) -> Tensor:
        logits = model(tokens[:, :-1])
        return ops.cross_entropy(logits.reshape(-1, 32), tokens[:, 1:].reshape(-1))

    gradients_of = mindspore.value_and_grad(loss_of, None, parameters)
    losses = []
    for _ in range(steps):
        batch = [Tensor(random.integers(0, 32, (2, 6)).astype(np.int32)) for _ in range(batches)]
        watcher.start(model)
        for tokens in batch:
            loss, gradients = gradients_of(tokens)
            losses.append(float(loss.asnumpy()))
        watcher.stop()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.set_data(parameter - 0.01 * gradient)
        watcher.step()
    return losses


def main(file: str) -> None:
    """Makes the runs with msprobe watching."""
    if hasattr(mint, "norm"):  # it has no kernel on the CPU; without it msprobe takes ops.norm
        del mint.norm
    from msprobe.mindspore import PrecisionDebugger

    msprobe_runs.make(file, PrecisionDebugger, train)


if __name__ == "__main__":
    main(sys.argv[1])
