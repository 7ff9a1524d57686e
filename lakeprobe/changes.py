"""The ways in which inputs of an op are changed, and how far its results may then be apart.

The numbers are those of msprobe's free benchmark (docs/ops.md). `lakeprobe/tensors/changes.py` changes and compares
arrays of numpy, `lakeprobe/collect/pytorch/changes.py` tensors on a device.
"""

from __future__ import annotations

from typing import NamedTuple

MODES = ("improve_precision", "add_noise", "bit_noise", "change_value", "no_change", "to_cpu")
"""The ways in which inputs are changed."""
USUAL_MODES = ("no_change", "bit_noise", "add_noise", "improve_precision", "to_cpu")
"""Without change_value: what exchanges elements of the input exchanges elements of most results."""
NOISY = ("add_noise", "bit_noise")
"""The modes whose effect on a result estimates its condition number."""

NOISE = {"bfloat16": 1e-4, "float16": 1e-6, "float32": 1e-8, "float64": 1e-16}
"""What is added to an element. Its root is the least value that counts in a quotient."""
LIMITS = {"float16": 1.002, "bfloat16": 1.004, "float32": 1.0002, "float64": 1.0002}
"""How large the quotient of two results may be."""
CPU_TOLERANCE = {"float32": 2.0**-14, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-14}
"""How far a result may be from that of the CPU."""
BACKWARD_FLOOR = 1e-3
"""The least value that counts in a quotient of gradients."""
SMALL = ("float16", "bfloat16")


class Compared(NamedTuple):
    """How far apart two results are. schemas/perturbations.yaml explains the fields."""

    max_relative: float
    limit: float
    flips_sign: bool
    is_consistent: bool


def judged(
    mode: str, quotient: float, flips_sign: bool, is_within: bool, dtype: str, limit: float | None = None
) -> Compared:
    """Return what the largest `quotient` of two results means.

    `is_within` tells whether the results are the same within the tolerance of the CPU. `limit` replaces the limit of
    the dtype.
    """
    most = 1.0 if mode == "no_change" else limit or LIMITS[dtype]
    is_consistent = is_within if mode == "to_cpu" else quotient <= most and not flips_sign
    return Compared(quotient - 1, most - 1, flips_sign, is_consistent)


def floor_of(dtype: str, *, backward: bool) -> float:
    """Return the least value that counts in a quotient of results."""
    return BACKWARD_FLOOR if backward else NOISE[dtype] ** 0.5
