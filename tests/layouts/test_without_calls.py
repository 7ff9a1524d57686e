"""Runs whose ranks have no calls to merge by: checkpoints, folders of tensors, debug points, and dumps with nothing."""

import json
import re

import numpy as np
import pytest
from program import dump_text, lakeprobe, write_dump

import lakeprobe as package
from lakeprobe.errors import UsageError

NOTHING = json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "data": {}})
POINT = json.dumps({"task": "statistics", "level": "debug", "framework": "pytorch", "data": {"x.0": 1.0}})


def made(folder, kind):
    """A rank of a run of a kind."""
    folder.mkdir(parents=True)
    if kind == "tensors":
        np.save(folder / "x.npy", np.ones(3, np.float32))
    elif kind == "debug":
        (folder / "debug.json").write_text(POINT)
    else:
        write_dump(folder, dump_text(add=1.0) if kind == "calls" else NOTHING)


@pytest.mark.parametrize(
    ("kinds", "ranks"),
    [(("tensors",), "0"), (("debug", "debug"), "0–1"), (("nothing",), "0"), (("calls", "nothing"), "1")],
)
def test_ranks_without_calls_are_not_merged(tmp_path, kinds, ranks):
    for rank, kind in enumerate(kinds):
        made(tmp_path / "cut" / "step3" / f"rank{rank}", kind)
    made(tmp_path / "whole" / "step3" / "rank0", "calls")
    says = (
        f"cut has no call of a module or API on rank {ranks} of step 3, by which ranks are merged; compare it as it "
        "is, as checkpoints, folders of tensors and debug points are"
    )
    with package.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(tmp_path / "cut")
        lake.ingest(tmp_path / "whole")
        with pytest.raises(UsageError, match=f"^{re.escape(says)}$"):
            lake.merge_layout("cut", "made", like="whole")
        assert lake.runs == ["cut", "whole"]
    done = lakeprobe("compare", "cut", "whole", "--cuts", "auto", "--lake", tmp_path / "lake")
    assert (done.code, done.line) == (2, f"lakeprobe: {says}")
