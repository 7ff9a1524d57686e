"""How far a shard is from golden's slice."""

import math

import numpy as np
import pytest

from lakeprobe.layouts import shards
from lakeprobe.tensors.reference import dtype_name


def reference(folder, array):
    file = folder / f"{len(list(folder.iterdir()))}.bin"
    file.write_bytes(array.tobytes())
    return {
        "file": str(file), "offset": 0, "length": array.nbytes, "dtype": dtype_name(array.dtype),
        "shape": list(array.shape), "strides": None,
    }  # fmt: skip


@pytest.mark.parametrize(("own", "distance"), [
    ([-math.inf, math.nan, 3.0, 4.0], 0.0),
    ([-math.inf, math.nan, 3.0, 9.0], 1.0),
    ([-math.inf, math.nan, 3.0, math.nan], math.inf),
    ([-math.inf, 1.0, 3.0, 4.0], math.inf),
    ([math.inf, math.nan, 3.0, 4.0], math.inf),
])  # fmt: skip
def test_nan_and_inf_are_no_difference_where_golden_has_them(tmp_path, own, distance):
    ours, theirs = (reference(tmp_path, np.array(each)) for each in (own, [-math.inf, math.nan, 3.0, 4.0]))
    assert shards._difference(ours, theirs, [range(4)], 1.0) == distance
