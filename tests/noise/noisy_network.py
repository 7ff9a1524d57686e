"""A network in numpy whose every op rounds in its own way, and its dump: a model to plant defects in."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LAYERS, BATCH, WIDTH = 6, 32, 48


@dataclass
class Network:
    """What can be planted: another argument, weight, batch, wire or kernel. `seed`: of the rounding; None: none.

    `digests`: md5 in place of statistics. `kept`: how much of an older gradient is left in those of the parameters.
    `detached`: layers whose weight gets nothing but zeros as its gradient.
    `tie`: an argmax behind the last layer chooses between two values that are so far apart.
    `turned`: of each product one half is negated and takes the other's place, by an op that is not recorded.
    `cut`: how much smaller all products are, as where their inputs are cut to fewer bits.
    `head`: what is computed of the last layer.
    """

    seed: int | None = None
    matmul: float = 1e-6
    other: float = 2e-7
    eps: dict[int, float] = field(default_factory=dict)
    residual_from: dict[int, str] = field(default_factory=dict)
    without_gelu: int | None = None
    mask: float | None = None
    weights: Callable[[dict[str, Array]], None] = lambda weights: None
    batch: Callable[[Array], Array] = lambda batch: batch
    kernel: Callable[[str, Array], Array] = lambda op, output: output
    without_inputs: bool = False
    frozen: int | None = None
    digests: bool = False
    kept: float = 0.0
    detached: tuple[int, ...] = ()
    tie: float | None = None
    cut: float = 0.0
    turned: bool = False
    head: Callable[[Recorder, Array], None] = lambda recorder, hidden: None

    def dump(self, folder: Path, step: int = 0) -> Path:
        """Write the dump of one forward and backward pass."""
        recorder = Recorder(self)
        recorder.run()
        where = folder / f"step{step}" / "rank0"
        where.mkdir(parents=True)
        head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
        (where / "dump.json").write_text(json.dumps({**head, "data": recorder.data}, indent=1))
        (where / "stack.json").write_text("{}")
        (where / "construct.json").write_text(json.dumps(recorder.parents))
        return folder


class Recorder:
    """The ops of a network, as they are computed."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.rounding = None if network.seed is None else np.random.default_rng(network.seed)
        self.data: dict[str, Any] = {}
        self.parents: dict[str, str | None] = {}
        self.calls: dict[str, int] = {}

    def run(self) -> None:
        draw = np.random.default_rng(1)
        weights = {f"w{layer}": draw.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH) for layer in range(LAYERS)}
        batch = self.network.batch(draw.normal(size=(BATCH, WIDTH)))
        self.network.weights(weights)
        hidden, taken = batch, []
        for layer in range(LAYERS):
            hidden, steps = self._layer(layer, hidden, weights[f"w{layer}"])
            taken.append(steps)
        self.network.head(self, hidden)
        if self.network.tie is not None:
            self._choose(self.network.tie)
        gradient = hidden / hidden.size
        for layer in reversed(range(LAYERS)):
            gradient = self._back(layer, gradient, weights[f"w{layer}"], taken[layer])

    def _layer(self, layer: int, hidden: Array, weight: Array) -> tuple[Array, tuple[Array, ...]]:
        eps = self.network.eps.get(layer, 1e-5)
        spread = hidden.std(axis=1, keepdims=True)
        normal = (hidden - hidden.mean(axis=1, keepdims=True)) / np.sqrt(spread**2 + eps)
        normal = self.op("layer_norm", layer, [hidden], normal, self.network.other, eps=eps)
        trained = () if self.network.frozen == layer else (1,)
        product = self.op("linear", layer, [normal, weight], normal @ weight, self.network.matmul, trained=trained)
        if self.network.turned:
            product = np.concatenate([-product[:, WIDTH // 2 :], product[:, : WIDTH // 2]], axis=1)
        active = product
        if self.network.without_gelu != layer:
            active = self.op("gelu", layer, [product], product / (1 + np.exp(-1.7 * product)), self.network.other)
        if self.network.mask is not None:
            hide = np.where(np.arange(WIDTH) < WIDTH // 4, self.network.mask, 0.0)
            masked = self.op("masked_add", layer, [active, np.tile(hide, (BATCH, 1))], active + hide, 0.0)
            active = self.op("clamp", layer, [masked], np.maximum(masked, -50.0), 0.0)
        other = {"input": hidden, "norm": normal}[self.network.residual_from.get(layer, "input")]
        return self.op("add", layer, [other, active], other + active, self.network.other), (normal, product)

    def _back(self, layer: int, gradient: Array, weight: Array, taken: tuple[Array, ...]) -> Array:
        slope = 1 / (1 + np.exp(-1.7 * taken[1]))
        through = self.op("gelu", layer, [gradient], gradient * slope, self.network.other, back=True)
        back = self.op("linear", layer, [through], through @ weight.T, self.network.matmul, back=True)
        self._keep(layer, taken[0].T @ through)
        return self.op("layer_norm", layer, [back], back - back.mean(), self.network.other, back=True) + gradient

    def _choose(self, tie: float) -> None:
        """An op that rounds, and an argmax of what it gives."""
        even = np.linspace(0.0, 1.0, WIDTH).reshape(1, WIDTH).repeat(BATCH, 0)
        even[:, 0] = even[:, -1] + tie
        scores = self.op("softplus", 0, [even], even, self.network.other)
        self.whole("argmax", [scores], scores.argmax(axis=1))

    def _keep(self, layer: int, gradient: Array) -> None:
        """The gradient of a layer's weight, rounded as products are, beside what is left of an older one."""
        if self.rounding is not None:
            gradient = gradient * (1 + self.network.matmul * self.rounding.normal(size=gradient.shape))
        older = np.random.default_rng(layer).normal(size=gradient.shape) * np.abs(gradient).mean()
        value = gradient * (layer not in self.network.detached) + self.network.kept * older
        self.data[f"Module.layers.{layer}.Layer.parameters_grad"] = {"weight": [self._leaf(value)]}
        self.parents[f"Module.layers.{layer}.Layer.parameters_grad"] = None

    def op(
        self,
        api: str,
        layer: int,
        inputs: list[Array],
        output: Array,
        rounding: float,
        back: bool = False,
        trained: tuple[int, ...] = (),
        **scalars: float,
    ) -> Array:
        """Record an op that rounds its result by `rounding`."""
        direction = "backward" if back else "forward"
        name = f"Functional.{api}.{layer if back else self._call(api)}.{direction}"
        if self.rounding is not None:
            output = output * (1 + rounding * self.rounding.normal(size=output.shape))
            output = output * (1 - self.network.cut) if api == "linear" else output
        output = self.network.kernel(f"{api}.{layer}.{direction}", output).astype(np.float32).astype(np.float64)
        leaves = (
            []
            if self.network.without_inputs
            else [self._leaf(value, place in trained) for place, value in enumerate(inputs)]
        )
        body = (
            {"input": leaves}
            if back
            else {"input_args": leaves, "input_kwargs": {k: {"type": "float", "value": v} for k, v in scalars.items()}}
        )
        self.data[name] = {**body, "output": [self._leaf(output)]}
        self.parents[name] = None if back else f"Module.layers.{layer}.Layer.forward.0"
        return output

    def module(self, name: str, inputs: list[Array], outputs: list[Array], back: bool = False) -> None:
        """Record a module of which no op is recorded."""
        op = f"Module.{name}.{'backward' if back else 'forward'}.0"
        taken = {"input": self._leaves(inputs)} if back else {"input_args": self._leaves(inputs), "input_kwargs": {}}
        self.data[op] = {**taken, "output": self._leaves(outputs)}
        self.parents[op] = None

    def whole(self, api: str, inputs: list[Any], output: Any) -> None:
        """Record an op that takes or gives whole numbers."""
        op = f"Torch.{api}.{self._call(api)}.forward"
        self.data[op] = {"input_args": self._leaves(inputs), "input_kwargs": {}, "output": self._leaves([output])}
        self.parents[op] = None

    def _leaves(self, values: list[Any]) -> list[dict[str, Any]]:
        return [self._leaf(value) for value in values]

    def _leaf(self, value: Array, is_trained: bool = False) -> dict[str, Any]:
        leaf = _leaf(value, is_trained)
        if not self.network.digests:
            return leaf
        digest = f"{zlib.crc32(value.astype(np.float32).tobytes()):08x}"
        return {key: leaf[key] for key in ("type", "dtype", "shape", "requires_grad")} | {"md5": digest}

    def _call(self, api: str) -> int:
        self.calls[api] = self.calls.get(api, -1) + 1
        return self.calls[api]


def _leaf(value: Array, is_trained: bool = False) -> dict[str, Any]:
    narrow = value.astype(np.float32)
    with np.errstate(over="ignore"):  # the norm of a mask
        norm = float(np.float32(np.linalg.norm(narrow.astype(np.float64))))
    return {
        "type": "torch.Tensor",
        "dtype": {"i": "torch.int64", "b": "torch.bool"}.get(value.dtype.kind, "torch.float32"),
        "shape": list(value.shape),
        "Max": float(narrow.max()),
        "Min": float(narrow.min()),
        "Mean": float(np.float32(narrow.mean(dtype=np.float64))),
        "Norm": norm,
        "requires_grad": is_trained,
    }
