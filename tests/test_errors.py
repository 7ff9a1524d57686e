"""An unknown name: what is like it is proposed, and what there is is listed, but not all of very many."""

from __future__ import annotations

from lakeprobe.errors import unknown


def test_an_unknown_name() -> None:
    assert str(unknown("./lake", "run", "xpu", [])) == "./lake has no run xpu, nor any other"
    assert str(unknown("./lake", "run", "xpu", ["gpu", "npu"], "ingest it first")) == (
        "./lake has no run xpu; it has gpu, npu; ingest it first"
    )
    runs = [f"run_{number}" for number in range(100)]
    said = str(unknown("./lake", "run", "rnu_77", runs))
    assert said.startswith("./lake has no run rnu_77; did you mean run_77? It has run_0, run_1, ")
    assert said.endswith(", run_11 and 88 more: lakeprobe ls")
