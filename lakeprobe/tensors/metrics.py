"""Measures how far target tensors are from golden ones: which pairs, in which pieces, on which threads.

The arithmetic is in `kernel`. Here a pair is cut into pieces of fixed size that any thread may take, and their results
become metrics. Pieces do not depend on the number of threads, so results do not either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from lakeprobe.errors import TensorError
from lakeprobe.tensors.blocks import flatten_pair, piece_elements, read_blocks, split, squeezed
from lakeprobe.tensors.kernel import BLOCK, Partial, Scratch, measure_block, merge, new_scratch
from lakeprobe.tensors.reference import (
    TensorReference,
    is_contiguous,
    numpy_dtype,
    opened,
)

#: Elements of a contiguous pair that a thread takes at once.
_PIECE = 8 * BLOCK
# The largest norm that counts as zero: float64's epsilon, as in msprobe.
_NORM_FLOOR = float(np.finfo(np.float64).eps)
_TEXT_KINDS = "SUmM"


class TensorMetrics(Struct, frozen=True):
    """How far a target tensor is from the golden one. Fields that a status does not set are None.

    `status` is one of
    - 'measured': all fields except `detail` (`cosine` is None if exactly one side is zero).
    - 'scalar': one element. Sets all fields except `cosine`, `euclidean_distance`, the ratios and `detail`.
    - 'empty': a side has no elements. Sets only `equal`.
    - 'shape': different shapes after dropping axes of extent 1. Sets only `equal`, to False.
    - 'nonfinite': NaN or inf at different places, or inf of different sign. Sets only `equal`, to False.
    - 'text': strings or times. Sets only `equal`.
    - 'unreadable': sets only `detail`, the message that says why.

    NaN and inf at the same places on both sides count as zeros. `cosine`, the errors and the ratios are rounded to 12
    decimals, and a cosine above 0.9999 to 6. `euclidean_distance`, `golden_norm` (L2) and `golden_max_abs` are not
    rounded. Relative errors are |n - b| / |b|, in float32 if both dtypes are floats of at most 32 bits, else in
    float64. If b is 0, the precision's epsilon is added to both. The ratios are the shares of elements with a relative
    error below 0.001 and 0.005. `equal` compares values: dtypes may differ, -0.0 equals 0.0 and NaN equals NaN.
    Integers are subtracted exactly. Against a float they are converted to float64. Formulas: msprobe 26.2.
    """

    status: str
    cosine: float | None = None
    euclidean_distance: float | None = None
    max_abs_error: float | None = None
    max_relative_error: float | None = None
    one_thousandth_ratio: float | None = None
    five_thousandths_ratio: float | None = None
    equal: bool | None = None
    golden_norm: float | None = None
    golden_max_abs: float | None = None
    detail: str | None = None


class _Piece(NamedTuple):
    """A part of the pair with number `pair`. Both sides have the same shape."""

    pair: int
    target: TensorReference
    golden: TensorReference


class _Outcome(NamedTuple):
    """The result of a piece: sums, or the message that says why there are none."""

    partial: Partial | None
    message: str | None


def measure(target: TensorReference, golden: TensorReference, threads: int = 1) -> TensorMetrics:
    """Return the metrics of one pair. Raises TensorError if a side cannot be read or does not fit its file."""
    metrics = measure_pairs([target], [golden], threads)[0]
    if metrics.status == "unreadable":
        raise TensorError(str(metrics.detail))
    return metrics


def measure_pairs(
    targets: Sequence[TensorReference], goldens: Sequence[TensorReference], threads: int
) -> list[TensorMetrics]:
    """Return the metrics of each (target, golden), in order. A pair that cannot be read has the status 'unreadable'.

    Large pairs are spread over the threads. Small ones go to one thread each. A thread holds a few MB of buffers, and
    64 MiB more while it gathers tensors with different orders in memory.
    """
    pairs = list(zip(targets, goldens, strict=True))
    settled = [_settle(target, golden) for target, golden in pairs]
    pieces = [
        _Piece(number, *sides)
        for number, (pair, early) in enumerate(zip(pairs, settled, strict=True))
        if early is None
        for sides in _cut(*pair)
    ]
    outcomes: list[list[_Outcome]] = [[] for _ in pairs]
    for piece, outcome in zip(pieces, _measure_pieces(pieces, threads), strict=True):
        outcomes[piece.pair].append(outcome)
    return [early or _conclude(found) for early, found in zip(settled, outcomes, strict=True)]


def _settle(target: TensorReference, golden: TensorReference) -> TensorMetrics | None:
    """Return the metrics of pairs that need no arithmetic, and None for others."""
    try:
        kinds = numpy_dtype(target.dtype).kind, numpy_dtype(golden.dtype).kind
        same_shape = squeezed(target).shape == squeezed(golden).shape
        if 0 in target.shape or 0 in golden.shape:
            return TensorMetrics("empty", equal=same_shape)
        if not same_shape:
            return TensorMetrics("shape", equal=False)
        if any(kind in _TEXT_KINDS for kind in kinds):
            return TensorMetrics("text", equal=_equal_texts(target, golden))
    except TensorError as error:
        return TensorMetrics("unreadable", detail=str(error))
    return None


def _equal_texts(target: TensorReference, golden: TensorReference) -> bool:
    with opened(target) as target_file, opened(golden) as golden_file:
        return all(
            _equal_text_block(*blocks)
            for pair in _cut(target, golden)
            for blocks in zip(_fresh_blocks(target_file, pair[0]), _fresh_blocks(golden_file, pair[1]), strict=True)
        )


def _fresh_blocks(descriptor: int, reference: TensorReference) -> Iterator[NDArray[Any]]:
    size = 4096
    raw = np.empty(size * numpy_dtype(reference.dtype).itemsize, np.uint8)
    return read_blocks(descriptor, reference, size, raw)


def _equal_text_block(target: NDArray[Any], golden: NDArray[Any]) -> bool:
    """Return whether all elements are equal. Elements of different kinds are never equal. NaT equals NaT."""
    if target.dtype.kind != golden.dtype.kind:
        return False
    times = target.dtype.kind in "mM"
    return bool(np.array_equal(target, golden, equal_nan=times))


def _cut(target: TensorReference, golden: TensorReference) -> Iterator[tuple[TensorReference, TensorReference]]:
    """Return pieces of a pair of equal squeezed shape. They are flat if both sides have the same order in memory."""
    flat_target, flat_golden = flatten_pair(target, golden)
    limit = _PIECE
    if not (is_contiguous(flat_target) and is_contiguous(flat_golden)):
        limit = piece_elements(target, golden)
    return zip(split(flat_target, limit), split(flat_golden, limit), strict=True)


def _measure_pieces(pieces: list[_Piece], threads: int) -> list[_Outcome]:
    """Return the outcome of each piece. The threads take pieces from one queue until it is empty."""
    outcomes: list[_Outcome] = [_Outcome(None, None)] * len(pieces)
    # next() on a list's iterator is atomic, so the iterator is the queue.
    queue = iter(list(enumerate(pieces)))

    def drain() -> None:
        scratches: dict[tuple[str, str], Scratch] = {}
        with np.errstate(all="ignore"):
            for number, piece in queue:
                outcomes[number] = _measure_piece(piece, scratches)

    workers = min(threads, len(pieces))
    if workers <= 1:
        drain()
        return outcomes
    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(drain) for _ in range(workers)]:
            future.result()
    return outcomes


def _measure_piece(piece: _Piece, scratches: dict[tuple[str, str], Scratch]) -> _Outcome:
    target, golden = piece.target, piece.golden
    dtypes = target.dtype, golden.dtype
    if dtypes not in scratches:
        # Keep one at a time: a thread gets pairs of many dtypes, mostly in runs.
        scratches.clear()
        scratches[dtypes] = new_scratch(*map(numpy_dtype, dtypes))
    scratch = scratches[dtypes]
    try:
        with opened(target) as target_file, opened(golden) as golden_file:
            blocks = zip(
                read_blocks(target_file, target, BLOCK, scratch.stored[0]),
                read_blocks(golden_file, golden, BLOCK, scratch.stored[1]),
                strict=True,
            )
            return _Outcome(merge(measure_block(scratch, *block) for block in blocks), None)
    except TensorError as error:
        return _Outcome(None, str(error))


def _conclude(outcomes: list[_Outcome]) -> TensorMetrics:
    """Return the metrics from the outcomes of all pieces of a pair."""
    for outcome in outcomes:
        if outcome.message is not None:
            return TensorMetrics("unreadable", detail=outcome.message)
    total = merge(outcome.partial for outcome in outcomes if outcome.partial is not None)
    if total.mismatched:
        return TensorMetrics("nonfinite", equal=False)
    scalar = TensorMetrics(
        "scalar",
        max_abs_error=_rounded(total.max_difference),
        max_relative_error=_rounded(total.max_relative),
        equal=not total.differing,
        golden_norm=sqrt(total.golden_squares),
        golden_max_abs=total.max_golden,
    )
    if total.elements == 1:
        return scalar
    return TensorMetrics(
        "measured",
        cosine=_cosine(total),
        euclidean_distance=sqrt(total.difference_squares),
        max_abs_error=scalar.max_abs_error,
        max_relative_error=scalar.max_relative_error,
        one_thousandth_ratio=_rounded(total.below_one_thousandth / total.elements),
        five_thousandths_ratio=_rounded(total.below_five_thousandths / total.elements),
        equal=scalar.equal,
        golden_norm=scalar.golden_norm,
        golden_max_abs=scalar.golden_max_abs,
    )


def _cosine(total: Partial) -> float | None:
    """Return Re<n, b> / (‖n‖‖b‖). 1.0 if both norms are zero, None if exactly one is or a square overflowed."""
    norms = sqrt(total.target_squares), sqrt(total.golden_squares)
    zeros = sum(norm <= _NORM_FLOOR for norm in norms)
    if zeros == 2:
        return 1.0
    if zeros == 1 or not all(map(isfinite, (*norms, total.product))):
        return None
    cosine = _rounded(total.product / norms[0] / norms[1])
    return round(cosine, 6) if cosine > 0.9999 else cosine


def _rounded(number: float) -> float:
    """Return the number rounded to 12 decimals, so that anything smaller than 5e-13 becomes 0."""
    return float(f"{number:.12f}")
