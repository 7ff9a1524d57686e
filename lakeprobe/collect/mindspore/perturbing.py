"""Moves the floating-point parameters of a model by a rounding error, see `lakeprobe.collect.watching.perturbing`."""

from typing import Any

import ml_dtypes
import numpy as np
from mindspore import Tensor
from mindspore.nn import Optimizer

from lakeprobe.collect.watching.perturbing import Float, Noise, pieces

_DTYPES: dict[str, Any] = {
    "Float64": np.float64,
    "Float32": np.float32,
    "Float16": np.float16,
    "BFloat16": ml_dtypes.bfloat16,
}


def perturb(models: Any, perturb: float, seed: int) -> None:
    """Move each parameter of a model or a list of models.

    Includes frozen parameters. Tied parameters are moved once, and settings of the training, such as a rate, stay.
    """
    seen: set[int] = set()
    for index, model in enumerate(models if isinstance(models, (list, tuple)) else [models]):
        seen |= _settings(model)
        for name, parameter in model.parameters_and_names(name_prefix=f"{index}" if index else ""):
            dtype = _DTYPES.get(str(parameter.dtype))
            if dtype is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                _move(parameter, dtype, name, perturb, seed)


def _settings(model: Any) -> set[int]:
    """The parameters in which a cell that trains a network keeps its settings: rates, optimizers' states, a scale."""
    cells = [cell for _, cell in model.cells_and_names()]
    optimizers = [cell for cell in cells if isinstance(cell, Optimizer)]
    trained = {id(parameter) for optimizer in optimizers for parameter in optimizer.parameters}
    training = [cell for cell in cells if any(isinstance(part, Optimizer) for _, part in cell.cells_and_names())]
    own = {id(parameter) for cell in training for _, parameter in cell.parameters_and_names(expand=False)}
    return own - trained


def _move(parameter: Any, dtype: Any, name: str, perturb: float, seed: int) -> None:
    info = ml_dtypes.finfo(dtype)
    noise = Noise(name, Float(float(info.eps), float(info.tiny), float(info.max)), perturb=perturb, seed=seed)
    contents = parameter.asnumpy()
    flat = contents.view(dtype).astype(np.float64).reshape(-1)
    for piece in pieces(flat.size):
        flat[piece] = noise.moved(flat[piece])
    parameter.set_data(Tensor(flat.reshape(contents.shape), parameter.dtype))
