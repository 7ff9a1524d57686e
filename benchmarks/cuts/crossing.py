"""Two tensor parallel ranks in MindSpore against the whole model in PyTorch: the same weights and the same batch.

    python -m benchmarks.cuts.crossing FOLDER whole                 # PyTorch
    python -m benchmarks.cuts.crossing FOLDER ranks [DEFECT]        # MindSpore, in an environment of its own

MindSpore's CPU backend has no collectives between processes here, so the two processes exchange their parts over a pipe
of the program's own. DEFECT is other_half (rank 1 has the columns of rank 0) or no_sum (a partial sum is not added up).
"""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any

import numpy as np

import lakeprobe

WIDTH, HIDDEN, BATCH, LAYERS, RANKS = 12, 24, 6, 2, 2


def weights() -> dict[str, np.ndarray[Any, Any]]:
    """The weights of the whole model."""
    generator = np.random.default_rng(4)
    found = {}
    for layer in range(LAYERS):
        for name, shape in {"up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}.items():
            found[f"layers.{layer}.{name}.weight"] = (generator.standard_normal(shape) * 0.3).astype(np.float32)
    return found


def batch() -> np.ndarray[Any, Any]:
    """What the model is given."""
    return np.random.default_rng(5).standard_normal((BATCH, WIDTH)).astype(np.float32)


def whole(lake: Path) -> None:
    """Train the whole model for one step in PyTorch."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.down(functional.relu(self.up(x)))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    model = Model()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights().items()})
    with lakeprobe.collect(model, run="pytorch", lake=lake, level="mix", task="tensor", replace=True) as collector:
        (model(torch.from_numpy(batch())) ** 2).mean().backward()
        collector.step()


def rank(number: int, pipe: Any, lake: Path, defect: str) -> None:  # noqa: C901 MindSpore is imported in it
    """Train what one rank has for one step in MindSpore."""
    import os

    os.environ["RANK"] = os.environ["RANK_ID"] = str(number)
    import mindspore
    from mindspore import Parameter, Tensor, nn, ops
    from mindspore.common._grad_function import _Function

    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)

    def added(part: Tensor) -> Tensor:
        own = part.asnumpy()
        pipe.send(own)
        parts = [own, pipe.recv()]
        return Tensor(parts[number] + parts[1 - number])

    class Sum(_Function):  # type: ignore[misc]
        """Adds up the ranks' results; the gradient goes back as it is."""

        @staticmethod
        def forward(context: Any, x: Tensor) -> Tensor:
            return added(x)

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> Tensor:
            return gradient

    class Copy(_Function):  # type: ignore[misc]
        """Gives on what all ranks have; the gradients are added up."""

        @staticmethod
        def forward(context: Any, x: Tensor) -> Tensor:
            return Tensor(x.asnumpy())

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> Tensor:
            return added(gradient)

    class Product(nn.Cell):
        def __init__(self, name: str, part: np.ndarray[Any, Any]) -> None:
            super().__init__()
            self.weight = Parameter(Tensor(np.ascontiguousarray(part)), name=name)

        def construct(self, x: Tensor) -> Tensor:
            return ops.dense(x, self.weight)

    class Layer(nn.Cell):
        def __init__(self, layer: int) -> None:
            super().__init__()
            own = {name: weights()[f"layers.{layer}.{name}.weight"] for name in ("up", "down")}
            wrong = number == 1 and defect == "other_half" and layer == 1
            self.skips = defect == "no_sum" and layer == 1
            self.up = Product(f"layers.{layer}.up.weight", np.split(own["up"], RANKS)[number])
            self.down = Product(f"layers.{layer}.down.weight", np.split(own["down"], RANKS, 1)[0 if wrong else number])

        def construct(self, x: Tensor) -> Tensor:
            made = self.down(ops.relu(self.up(Copy.apply(x))))
            return x + (made if self.skips else Sum.apply(made))

    class Model(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.CellList([Layer(layer) for layer in range(LAYERS)])

        def construct(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    model = Model()
    parameters = model.trainable_params()

    def forward(x: Tensor) -> Tensor:
        return (model(x) ** 2).mean()

    gradients = mindspore.value_and_grad(forward, None, parameters)
    name = f"mindspore{'+' * bool(defect)}{defect}"
    with lakeprobe.collect(model, run=name, lake=lake, level="mix", task="tensor", replace=True) as collector:
        gradients(Tensor(batch()))
        collector.step()


def main(arguments: list[str]) -> int:
    """Make the whole run or the ranks'; 0 if all went well."""
    folder, what, *defect = arguments
    lake = Path(folder) / "lake"
    if what == "whole":
        whole(lake)
        return 0
    context = multiprocessing.get_context("spawn")
    ends = context.Pipe()
    given = defect[0] if defect else ""
    processes = [context.Process(target=rank, args=(number, ends[number], lake, given)) for number in range(RANKS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return max(abs(process.exitcode or 0) for process in processes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
