"""Which rows a search paired wrongly, by contents: python -m benchmarks.truth.pairs.check LAKE TARGET GOLDEN.

Both runs are of one model with equal weights, collected with task=tensor. Then a pair is right if the two tensors
have the same values in some order; masks may be written with different large numbers.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy

import lakeprobe
from lakeprobe.lake import layout
from lakeprobe.lake.connection import connect
from lakeprobe.lake.layout import UnitKey
from lakeprobe.tensors.reference import TensorReference, open_tensor

MASKED = 9e3
"""Numbers of this size and more are a mask's."""


def contents(lake: Path, run: str) -> dict[int, numpy.ndarray[Any, Any]]:
    """The sorted values of the tensors of step 0 and rank 0 of a run, by row."""
    folder = str(layout.unit_folder(lake, UnitKey(run, 0, 0)))
    connection = connect()
    query = f"""
        SELECT row, {{'file': if(file LIKE '/%', file, '{folder}/' || file),
            'offset': "offset", 'length': length,
            'dtype': c.dtype, 'shape': c.shape, 'strides': strides}}
        FROM read_parquet('{folder}/tensors.parquet')
        JOIN read_parquet('{folder}/contents.parquet') AS c USING (content)
    """
    found = {}
    for row, reference in connection.execute(query).fetchall():
        values = numpy.asarray(open_tensor(TensorReference.of(reference))).astype("f8").ravel()
        found[row] = numpy.sort(numpy.clip(values, -MASKED, MASKED))
    connection.close()
    return found


def same(ours: numpy.ndarray[Any, Any], theirs: numpy.ndarray[Any, Any]) -> bool:
    """Whether two sorted tensors have the same values, but for rounding."""
    if ours.shape != theirs.shape:
        return False
    scale = max(numpy.abs(ours).max(initial=0), numpy.abs(theirs).max(initial=0))
    return bool(numpy.allclose(ours, theirs, rtol=1e-3, atol=1e-4 * scale + 1e-7))


def main() -> None:
    """Print how golden's rows ended, and each wrong pair."""
    lake, target, golden = sys.argv[1:4]
    verbose = "-v" in sys.argv
    path = Path(lake)
    ours, theirs = contents(path, target), contents(path, golden)
    with lakeprobe.open(path, create=True) as opened:
        result = opened.compare(target, golden)
        relation = result.rows
        rows = [dict(zip(relation.columns, values, strict=True)) for values in relation.fetchall()]
    kept = [row for row in rows if row["golden_name"]]
    paired = [row for row in kept if row["target_name"]]
    wrong = [
        row for row in paired
        if row["target_row"] in ours and row["golden_row"] in theirs
        and not same(ours[row["target_row"]], theirs[row["golden_row"]])
    ]  # fmt: skip
    ended = Counter(row["outcome"] for row in kept)
    share = 1 - ended["unmatched"] / len(kept)
    differ = [row for row in rows if row["difference"] == "different"]
    print(
        f"{path.parent.name} {target} against {golden}: {len(kept)} rows of golden, {len(paired)} paired, "
        f"{dict(ended)}: {share:.1%}; {len(wrong)} wrong, {len(differ)} different"
    )
    if verbose:
        for row in wrong:
            print("  wrong", row["target_name"], row["golden_name"], row["target_shape"], row["golden_shape"])
        for row in differ:
            print(
                "  different",
                row["target_name"],
                row["golden_name"],
                row["target_norm"],
                row["golden_norm"],
                row["target_max"],
                row["golden_max"],
            )
        for row in kept:
            if row["outcome"] == "unmatched":
                print("  left", row["golden_name"], row["golden_shape"], row["golden_value"])


if __name__ == "__main__":
    main()
