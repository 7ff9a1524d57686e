"""Makes the pairs of results that the standards are held against msprobe's own code on: the same on every machine."""

from __future__ import annotations

import ml_dtypes
import numpy as np

DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "int32", "bool")
COUNT = 220
APIS = ("gelu", "embedding", "matmul")
"""One API of each level of the benchmark standard."""
WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "float64": "float64"}


def pairs(dtype: str):
    """Yield (reference, device, peer) for each number: both results in `dtype`, the reference in more precision."""
    for number in range(COUNT):
        random = np.random.default_rng([DTYPES.index(dtype), number])
        shape = (int(random.choice([1, 2, 7, 40, 64])),)
        if dtype == "bool":
            reference = random.integers(0, 2, shape).astype(bool)
            device = reference ^ (random.random(shape) < random.choice([0, 0.1]))
            yield reference, device, reference
        elif dtype == "int32":
            reference = random.integers(-50, 50, shape).astype(np.int32)
            device = reference + (random.random(shape) < random.choice([0, 0.2])) * random.integers(1, 3)
            yield reference, device.astype(np.int32), reference
        else:
            yield _floats(random, dtype, shape)


def _floats(random, dtype, shape):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    wide = np.dtype(WIDER.get(dtype, "float32"))
    largest_exponent = {"float8_e4m3fn": 7, "float8_e5m2": 12, "float16": 10}.get(dtype, 30)
    spread = random.choice([0, 3, largest_exponent])
    reference = random.standard_normal(shape) * np.exp2(random.integers(-spread, spread + 1, shape))
    if random.random() < 0.25:
        reference[random.random(shape) < 0.3] *= 1e-8
    if random.random() < 0.2:
        reference[random.random(shape) < 0.3] = random.choice([0.0, -0.0])
    if random.random() < 0.05:
        reference[:] = 0
    reference = reference.astype(wide)
    size = random.choice([0, 1e-8, 1e-7, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1])
    device, peer = (
        _near(random, reference, factor).astype(kind) for factor in (size, size * random.choice([0.1, 0.4, 1, 3]))
    )
    if random.random() < 0.25:
        for array in (reference, device, peer)[: random.integers(1, 4)]:
            array[random.integers(0, shape[0])] = random.choice([np.inf, -np.inf, np.nan])
    return reference, device, peer


def _near(random, reference, factor):
    noise = random.standard_normal(reference.shape)
    return (reference.astype(np.float64) * (1 + factor * noise)).clip(-1e38, 1e38)
