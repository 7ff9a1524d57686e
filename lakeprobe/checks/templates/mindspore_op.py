"""Runs one op as it was called in a training, and says whether its results are right.

Each result is compared with the op in higher precision on the same device. Its error is counted in units of what
rounding explains: the result's own last place, and how far the reference moves when its inputs are moved by a rounding.
Needs mindspore and numpy. The arguments are in the .npz file beside this script.

    python SCRIPT [--device cpu|gpu:0|ascend:0]         exit code 0: right, 1: wrong
"""

import argparse
import inspect
import sys
from pathlib import Path
from typing import Any

import mindspore
import mindspore.mint.nn.functional
import numpy as np
from mindspore import Tensor, ops

from lakeprobe.checks.mindspore.references import install

CALL: dict[str, Any] = {}
"""The call: the function, its arguments with {"tensor": NAME} for arrays of the .npz file, and limits of its errors."""

WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "complex64": "complex128"}
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
LEAST_EXPONENT = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}
DRAWS = 4


def function_of(name: str) -> Any:
    """The function of a dotted name, mindspore.ops.gelu and the like, or a primitive made with its attributes."""
    found: Any = mindspore
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, mindspore.ops.Primitive):
        known = CALL["attributes"] or {}
        signature = inspect.signature(found.__init__)  # type: ignore[misc]
        wanted = [parameter for parameter in signature.parameters if parameter != "self"]
        missing = [parameter for parameter in wanted if parameter not in known]
        if missing:
            sys.exit(f"the dump does not have the attributes of the primitive: {', '.join(missing)}")
        return found(**{parameter: attribute(known[parameter]) for parameter in wanted})
    if not callable(found) or isinstance(found, type):
        sys.exit(f"MindSpore {mindspore.__version__} has no op {name}")
    return found


def attribute(value: Any) -> Any:
    """What a primitive is made with."""
    return getattr(mindspore, value["dtype"]) if isinstance(value, dict) else tuples(value)


def plain(stored: np.ndarray, dtype: str) -> np.ndarray:
    """An array of the .npz file; bfloat16, which numpy lacks, is there as whole numbers and becomes float32."""
    return (stored.astype(np.uint32) << 16).view(np.float32).reshape(stored.shape) if dtype == "bfloat16" else stored


class Run:
    """One run of the call: as it was, or in higher precision, there perhaps with its inputs moved by a rounding."""

    def __init__(self, arrays: dict[str, np.ndarray], raised: bool = False, draw: int | None = None) -> None:
        self.raised = raised and not CALL["keeps_dtype"]
        self.random = None if draw is None else np.random.default_rng(CALL["seed"] + draw)
        self.tensors = {name: self.tensor(name, stored) for name, stored in arrays.items()}

    def tensor(self, name: str, stored: np.ndarray) -> Tensor:
        """An array as this run takes it."""
        dtype = CALL["dtypes"][name] or stored.dtype.name
        array = plain(stored, dtype)
        if not self.raised or dtype not in WIDER:
            return Tensor(array).astype(mindspore.bfloat16) if dtype == "bfloat16" else Tensor(array)
        array = array.astype(WIDER[dtype])
        if self.random is not None and dtype in EPS:
            array = array * (1 + EPS[dtype] / 2 * self.random.standard_normal(array.shape)).astype(array.dtype)
        return Tensor(array)

    def results(self) -> dict[str, Tensor]:
        """The results by name, those of the backward as "gradient of NAME"."""
        mindspore.set_seed(CALL["seed"])
        output = self.called(self.tensors)
        results = {f"output.{place or 0}": tensor for place, tensor in tensors_of(output)}
        if not results:  # the shape of a tensor, for one
            numbers = output if isinstance(output, (tuple, list)) else (output,)
            return {f"output.{place}": Tensor(number) for place, number in enumerate(numbers)}
        fitting = [self.tensors[name] for name in CALL["gradients"]]
        first = next(iter(results))
        fitting = [gradient for gradient in fitting if gradient.shape == results[first].shape]
        names = [name for name in inputs_of(CALL) if "Float" in str(self.tensors[name].dtype)]
        if not names or not fitting:
            return results

        def of_inputs(*given: Tensor) -> Tensor:
            output = self.called(self.tensors | dict(zip(names, given, strict=True)))
            return next(tensor for _, tensor in tensors_of(output))

        gradient_of = ops.GradOperation(get_all=True, sens_param=True)(of_inputs)
        found = gradient_of(*(self.tensors[name] for name in names), fitting[0].astype(results[first].dtype))
        return results | {f"gradient of {name}": tensor for name, tensor in zip(names, found, strict=True)}

    def called(self, tensors: dict[str, Tensor]) -> Any:
        """Call the function; tuples take the place of lists if it refuses these."""
        function = function_of(CALL["function"])
        positional = [self.value_of(value, tensors) for value in CALL["positional"]]
        named = {key: self.value_of(value, tensors) for key, value in CALL["named"].items()}
        try:
            return function(*positional, **named)
        except TypeError:
            return function(*map(tuples, positional), **{key: tuples(value) for key, value in named.items()})

    def value_of(self, value: Any, tensors: dict[str, Tensor]) -> Any:
        """An argument as the op takes it."""
        if isinstance(value, list):
            return [self.value_of(member, tensors) for member in value]
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return tensors[value["tensor"]]
        if "slice" in value:
            return slice(*value["slice"])
        if "dtype" in value:
            dtype: str = value["dtype"]
            return getattr(mindspore, WIDER.get(dtype, dtype) if self.raised else dtype)
        return {key: self.value_of(member, tensors) for key, member in value.items()}


def tuples(value: Any) -> Any:
    """`value` with tuples for lists."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def tensors_of(value: Any, place: str = "") -> Any:
    """The tensors in a result, each with its place."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, (list, tuple)):
        for number, member in enumerate(value):
            yield from tensors_of(member, f"{place}.{number}".lstrip("."))


def inputs_of(value: Any) -> list[str]:
    """The names of the tensors in the arguments of the call, in their order."""
    if isinstance(value, dict) and "positional" in value:
        return inputs_of([value["positional"], value["named"]])
    if isinstance(value, dict) and isinstance(value.get("tensor"), str):
        return [value["tensor"]]
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for member in members for name in inputs_of(member)]


def numbers(tensor: Tensor) -> np.ndarray:
    """A tensor as float64."""
    tensor = tensor.astype(mindspore.float32) if tensor.dtype == mindspore.bfloat16 else tensor
    wide: np.ndarray = tensor.asnumpy().astype(np.float64)
    return wide


def judged(name: str, result: Tensor, exact: Tensor, moved: list[Tensor], limits: dict[str, float]) -> dict[str, Any]:
    """The errors of a result, and its verdict."""
    dtype = str(result.dtype).lower()
    row: dict[str, Any] = {"result": name, "dtype": dtype, "shape": list(result.shape)}
    device, wide = numbers(result), numbers(exact)
    if device.size == 0 or dtype not in EPS:
        return row | {"verdict": "right" if np.array_equal(device, wide) else "WRONG"}
    narrow = numbers(exact.astype(result.dtype))
    with np.errstate(all="ignore"):
        same = np.isfinite(device) & np.isfinite(narrow)
        same |= (np.isnan(device) & np.isnan(narrow)) | (np.isinf(device) & (device == narrow))
        zeros = (device == 0) & (wide == 0) & (np.signbit(device) != np.signbit(wide))
        row |= {"not finite": int((~same).sum()), "signed zeros": int(zeros.sum())}
        finite = np.isfinite(device) & np.isfinite(wide)
        if not finite.any():
            return row | {"verdict": "WRONG" if row["not finite"] else "right"}
        error, size = np.abs(device - wide)[finite], np.abs(wide)[finite]
        least = LEAST_EXPONENT[dtype]
        place = np.exp2(np.maximum(np.floor(np.log2(np.where(size > 0, size, 2.0**least))), least)) * EPS[dtype]
        spread = np.sqrt(np.mean([np.square((numbers(other) - wide)[finite]) for other in moved], axis=0))
        unit = place + np.where(np.isfinite(spread), spread, 0.0)
        scale = float(np.sqrt(np.mean(np.square(unit))))
    row |= {
        "largest error": float(error.max()),
        "ULP": float((error / place).max()),
        "typical / rounding": float(np.sqrt(np.mean(np.square(error)))) / scale if scale else 0.0,
        "largest / rounding": float((error / (unit + scale)).max()),
    }
    bounds = {
        "not finite": 0, "signed zeros": limits["most_signed_zeros"], "ULP": limits["most_ulp"],
        "typical / rounding": limits["most_typical"], "largest / rounding": limits["most_largest"],
    }  # fmt: skip
    wrong = [f"{what} > {bound:g}" for what, bound in bounds.items() if row[what] > bound]
    return row | {"verdict": f"WRONG: {', '.join(wrong)}" if wrong else "right"}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a text."""
    headers = [*dict.fromkeys(header for row in rows for header in row if header != "verdict"), "verdict"]
    cells = [[cell(row.get(header, "")) for header in headers] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    lines = [[text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in (headers, *cells)]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def cell(value: Any) -> str:
    """A value as a text."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> int:
    """Run, compare and print. Returns the exit code."""
    parser = argparse.ArgumentParser(description=f"{CALL['op']}, run again")
    parser.add_argument("--device", default="cpu", help="where to run the op: cpu, gpu:0, ascend:0")
    install()
    kind, _, number = parser.parse_args().device.partition(":")
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.set_device("Ascend" if kind in ("ascend", "npu") else kind.upper(), int(number or 0))
    with np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False) as file:
        arrays = dict(file)
    results, again = Run(arrays).results(), Run(arrays).results()
    exact = Run(arrays, raised=True).results()
    moved = [Run(arrays, raised=True, draw=draw).results() for draw in range(DRAWS)]
    rows = [
        judged(name, result, exact[name], [other[name] for other in moved], CALL["limits"][name.startswith("gradient")])
        for name, result in results.items()
        if name in exact  # some kernels leave a result unwritten, such as two of BatchNorm's
    ]
    for row in rows:
        if not np.array_equal(numbers(results[row["result"]]), numbers(again[row["result"]]), equal_nan=True):
            row["verdict"] += ", not the same twice"
    print(f"{CALL['op']} on {kind}, MindSpore {mindspore.__version__}")
    print(table(rows))
    return int(any(row["verdict"].startswith("WRONG") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
