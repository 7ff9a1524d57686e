"""The first difference: on small jobs whose ranks really talk, and against happens-before in plain Python."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

import lakeprobe
from lakeprobe.analysis.first_difference import FirstDifference, explain
from lakeprobe.errors import UsageError
from lakeprobe.lake.connection import connect
from lakeprobe.output import few_ranges, ranges
from lakeprobe.reports.diff_analyze import diff_analyze
from lakeprobe.reports.first_difference_text import first_difference_text, with_leaves
from lakeprobe.session import Lake

# A small job: every rank holds one number, and records what it does with it as msprobe would.


@dataclass
class Job:
    """A job of `world` ranks; `defects` adds to what the n-th computation of a rank gives."""

    world: int
    defects: dict[tuple[int, int], float] = field(default_factory=dict)
    values: list[float] = field(default_factory=list)
    data: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = [1.0 + rank for rank in range(self.world)]
        self.data = [{} for _ in range(self.world)]

    def compute(self, *ranks: int, times: int = 1) -> None:
        for rank in ranks or range(self.world):
            for _ in range(times):
                before = self.values[rank]
                call = self._calls(rank, "Torch.mul")
                self.values[rank] = before * 1.25 + self.defects.get((rank, call), 0.0)
                self._record(rank, "Torch.mul", [before], {}, [self.values[rank]])

    def all_reduce(self, *members: int) -> None:
        total = sum(self.values[rank] for rank in members)
        for rank in members:
            keywords = {"group": group(members)}
            self._record(rank, "Distributed.all_reduce", [self.values[rank]], keywords, [total, group(members)])
            self.values[rank] = total

    def broadcast(self, source: int, *members: int) -> None:
        value = self.values[source]
        for rank in members:
            keywords = {"src": source, "group": group(members)}
            output = [value, source, group(members)]
            self._record(rank, "Distributed.broadcast", [self.values[rank]], keywords, output)
            self.values[rank] = value

    def reduce(self, root: int, *members: int) -> None:
        total = sum(self.values[rank] for rank in members)
        for rank in members:
            mine = self.values[rank]
            got = total if rank == root else mine
            keywords = {"dst": root, "group": group(members)}
            self._record(rank, "Distributed.reduce", [mine], keywords, [got, root, group(members)])
            self.values[rank] = got

    def send(self, source: int, destination: int) -> None:
        value = self.values[source]
        self._record(source, "Distributed.send", [value, destination], {}, [value, destination])
        self._record(destination, "Distributed.recv", [None, source], {}, [value, source])
        self.values[destination] = value

    def _calls(self, rank: int, api: str) -> int:
        return sum(name.startswith(f"{api}.") for name in self.data[rank])

    def _record(self, rank: int, api: str, args: list[Any], keywords: dict[str, Any], output: list[Any]) -> None:
        self.data[rank][f"{api}.{self._calls(rank, api)}.forward"] = {
            "input_args": [leaf(value) for value in args],
            "input_kwargs": {key: leaf(value) for key, value in keywords.items()},
            "output": [leaf(value) for value in output],
        }

    def write(self, folder: Path, ranks: range | None = None) -> Path:
        for rank in ranks or range(self.world):
            place = folder / "step0" / f"rank{rank}"
            place.mkdir(parents=True)
            head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
            (place / "dump.json").write_text(json.dumps({**head, "data": self.data[rank]}, indent=1))
            frames = ["File /job/train.py, line 7, in step, \n x = x * 1.25"]
            (place / "stack.json").write_text(json.dumps({"0": [list(self.data[rank]), frames]}, indent=1))
            (place / "construct.json").write_text("{}")
        return folder


def group(members: tuple[int, ...]) -> dict[str, Any]:
    return {"type": "torch.ProcessGroup", "group_ranks": list(members), "group_id": "-".join(map(str, members))}


def leaf(value: Any) -> Any:
    if isinstance(value, float):
        return {
            "type": "torch.Tensor", "dtype": "torch.float32", "shape": [4],
            "Max": value, "Min": value, "Mean": value, "Norm": 2 * abs(value), "requires_grad": False,
        }  # fmt: skip
    return {"type": "int", "value": value} if isinstance(value, int) else value


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakeprobe.open(tmp_path / "lake", create=True) as opened:
        yield opened


Program = Callable[[Job], None]


def first(
    lake: Lake, program: Program, defects: dict[tuple[int, int], float], world: int = 3, ranks: range | None = None,
    **options: Any,
) -> FirstDifference:  # fmt: skip
    """The first difference of `program` with and without the defects."""
    paths = []
    for name, planted in (("target", defects), ("golden", {})):
        job = Job(world, planted)
        program(job)
        paths.append(job.write(lake.path.parent / name, ranks))
    return lake.compare(*paths).first_difference(**options)


def told(found: FirstDifference) -> dict[int, tuple[Any, ...]]:
    """By rank: op, the rank on which it began, how, and what explains it."""
    rows = found.ranks.project("rank, op, origin, source, explained_by, through").fetchall()
    return {rank: tuple(rest) for rank, *rest in rows}


NOTHING = (None, None, None, None, None)


def test_a_chain_over_three_ranks(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute(times=2)
        job.send(0, 1)
        job.compute()
        job.send(1, 2)
        job.compute()

    assert told(first(lake, program, {(0, 1): 0.5})) == {
        0: ("Torch.mul.1.forward", 0, "this op", None, None),
        1: ("Distributed.recv.0.forward", 0, None, 0, "Distributed.recv.0.forward"),
        2: ("Distributed.recv.0.forward", 0, None, 1, "Distributed.recv.0.forward"),
    }


def test_what_was_sent_before_does_not_carry(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.send(0, 1)
        job.compute(times=2)

    assert told(first(lake, program, {(0, 1): 0.5, (1, 2): 0.5}, world=2)) == {
        0: ("Torch.mul.1.forward", 0, "this op", None, None),
        1: ("Torch.mul.2.forward", 1, "this op", None, None),
    }


def test_a_broadcast_carries_only_from_its_root(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.broadcast(0, 0, 1, 2)
        job.compute()

    # rank 1's defect is gone with the broadcast; rank 2's comes after
    assert told(first(lake, program, {(1, 0): 0.5, (2, 1): 0.25})) == {
        0: NOTHING,
        1: ("Torch.mul.0.forward", 1, "this op", None, None),
        2: ("Torch.mul.1.forward", 2, "this op", None, None),
    }


def test_a_reduce_carries_only_to_its_root(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.reduce(2, 0, 1, 2)
        job.compute()

    assert told(first(lake, program, {(1, 0): 0.5, (0, 1): 0.25})) == {
        0: ("Torch.mul.1.forward", 0, "this op", None, None),
        1: ("Torch.mul.0.forward", 1, "this op", None, None),
        2: ("Distributed.reduce.0.forward", 1, None, 1, "Distributed.reduce.0.forward"),
    }


def test_independent_origins_stand_in_a_stable_order(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute(times=2)
        job.all_reduce(0, 1)
        job.all_reduce(2, 3)

    found = first(lake, program, {(1, 1): 0.5, (2, 0): 0.25}, world=4)
    assert found.origins.project("rank, explains").fetchall() == [(2, 1), (1, 1)]
    assert {rank: row[1] for rank, row in told(found).items()} == {0: 1, 1: 1, 2: 2, 3: 2}


def test_an_all_reduce_whose_result_is_altered_on_one_rank(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.all_reduce(0, 1, 2)
        if job.defects:
            job.data[1]["Distributed.all_reduce.0.forward"]["output"][0] = leaf(99.0)

    found = told(first(lake, program, {(7, 7): 1.0}))
    assert found[1] == ("Distributed.all_reduce.0.forward", 1, "communication", None, None)
    assert found[0] == found[2] == NOTHING


def test_a_change_that_no_recorded_op_made(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        if job.defects:
            job.values[1] += 0.5
        job.compute()
        job.all_reduce(0, 1, 2)

    found = first(lake, program, {(7, 7): 1.0})
    assert told(found)[1] == ("Torch.mul.1.forward", 1, "no recorded op", None, None)
    assert told(found)[0][1] == told(found)[2][1] == 1
    assert found.leaves.filter("is_traced").project("rank, slot, source_op").fetchall() == [
        (1, "input.0", "Torch.mul.0.forward")
    ]
    text = " ".join(first_difference_text(found).split())
    assert "no recorded op made the change" in text
    assert "in golden, input.0 comes from Torch.mul.0.forward, whose output agrees" in text


def test_rank_zero_is_a_rank_like_any_other(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.send(0, 1)

    found = told(first(lake, program, {(0, 0): 0.5}, world=2))
    assert found[0] == ("Torch.mul.0.forward", 0, "this op", None, None)
    assert found[1][1:] == (0, None, 0, "Distributed.recv.0.forward")


def test_ranks_that_were_not_dumped_are_named(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.all_reduce(0, 1, 2)
        job.compute()

    found = first(lake, program, {(2, 0): 0.5}, ranks=range(2))
    rows = found.ranks.project("rank, op, source, absent").fetchall()
    assert rows == [(rank, "Distributed.all_reduce.0.forward", "communication", [2]) for rank in (0, 1)]
    assert "it may have come from ranks that were not dumped: 2" in first_difference_text(found)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_inf_differ(lake: Lake, value: float) -> None:
    def program(job: Job) -> None:
        job.compute(times=2)
        job.all_reduce(0, 1, 2)

    found = first(lake, program, {(1, 1): value})
    assert found.origins.project("rank, op, output_error").fetchall() == [(1, "Torch.mul.1.forward", float("inf"))]
    assert told(found)[0][1] == 1


def test_the_same_nan_on_both_sides_is_none(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.values[0] = float("nan")
        job.compute()

    assert first(lake, program, {(7, 7): 1.0}).is_equal


def test_ops_without_counterpart(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        if job.defects:
            job._record(1, "Torch.relu", [job.values[1]], {}, [job.values[1]])
        else:
            job._record(2, "Torch.sin", [job.values[2]], {}, [job.values[2]])
        job.compute()

    found = first(lake, program, {(1, 1): 0.5})
    assert found.ranks.project("rank, finding, op, source, first_paired").order("rank").fetchall() == [
        (0, None, None, None, None),
        (1, "only in target", "Torch.relu.0.forward", "only in target", "Torch.mul.1.forward"),
        (2, "only in golden", "Torch.sin.0.forward", "only in golden", None),
    ]
    stored = lake.comparison("target_vs_golden")
    assert diff_analyze(stored.stored, found)["rank_2"] == [
        {"op_name": "Torch.sin.0.forward", "data_info": {"input": {}, "output": {}}, "stack_info": None}
    ]
    assert told(stored.first_difference(paired=True)) == {
        0: NOTHING,
        1: ("Torch.mul.1.forward", 1, "this op", None, None),
        2: NOTHING,
    }


def test_leaves_without_counterpart_in_an_op_that_has_one(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute(times=2)
        record = job.data[0]["Torch.mul.1.forward"]
        if job.defects:
            record["output"].append(leaf(7.0))
        else:
            record["input_args"].append(leaf(3.0))

    found = first(lake, program, {(9, 9): 1.0}, world=1, paired=True)
    assert told(found) == {0: ("Torch.mul.1.forward", 0, "an argument", None, None)}
    assert found.leaves.filter("difference = 'unmatched'").project("slot").fetchall() == [("output.1",), ("input.1",)]


def test_noise_and_thresholds(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute(times=3)

    found = first(lake, program, {(0, 0): 1.25 * 2e-7, (0, 1): 1e-3, (0, 2): 1.0}, world=1)
    assert found.origins.project("op").fetchall() == [("Torch.mul.1.forward",)]
    result = lake.comparison("target_vs_golden")
    named = {
        threshold: result.first_difference(threshold=threshold).origins.project("op").fetchall()
        for threshold in (0, 1e-5, 0.1, 10)
    }
    assert named == {
        0: [("Torch.mul.0.forward",)],
        1e-5: [("Torch.mul.1.forward",)],
        0.1: [("Torch.mul.2.forward",)],
        10: [],
    }


@pytest.mark.parametrize(("defect", "moment"), [(0, "before"), (1, "during"), (2, "after")])
def test_before_during_and_after_communication(lake: Lake, defect: int, moment: str) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.all_reduce(0, 1)
        job.compute()
        job.all_reduce(0, 1)
        job.compute()

    found = first(lake, program, {(1, defect): 0.5}, world=2)
    assert found.origins.project("rank, communication").fetchall() == [(1, moment)]


def test_without_communication_there_is_no_moment(lake: Lake) -> None:
    found = first(lake, lambda job: job.compute(), {(0, 0): 0.5}, world=1)
    assert found.ranks.project("op, communication").fetchall() == [("Torch.mul.0.forward", None)]


def test_shown_ranks_are_explained_by_all(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.all_reduce(0, 1, 2)

    found = first(lake, program, {(1, 0): 0.5}, ranks=None)
    shown = lake.comparison("target_vs_golden").first_difference(ranks=[2], steps=[0])
    assert told(shown) == {2: told(found)[2]}
    assert told(shown)[2][3] == 1
    assert "explained by rank 1 (Torch.mul.0.forward)" in first_difference_text(shown)
    assert {rank for (rank,) in shown.leaves.project("rank").fetchall()} == {2}


def test_what_does_not_exist(lake: Lake) -> None:
    first(lake, lambda job: job.compute(), {}, world=2)
    result = lake.comparison("target_vs_golden")
    with pytest.raises(UsageError, match=r"no rank 5; it has 0, 1"):
        result.first_difference(ranks=[0, 5])
    with pytest.raises(UsageError, match=r"no step 3; it has 0"):
        result.first_difference(steps=[3])
    for threshold in (-1.0, float("nan")):
        with pytest.raises(UsageError, match="is not a threshold; give a number"):
            result.first_difference(threshold=threshold)


def test_equal_runs(lake: Lake) -> None:
    found = first(lake, lambda job: job.compute(), {}, world=2)
    assert found.is_equal
    assert first_difference_text(found).splitlines() == [
        "Verdict: equal",
        "  compared: all 4 rows of both sides; none differs",
        "",
        "No difference beyond float noise in 2 (step, rank).",
    ]


def test_the_text_answers_first(lake: Lake) -> None:
    def program(job: Job) -> None:
        job.compute()
        job.all_reduce(*range(8))

    lines = first_difference_text(first(lake, program, {(3, 0): 0.5}, world=8)).splitlines()
    assert lines[0] == "Verdict: different"
    assert lines[3] == "First difference: rank 3, Torch.mul.0.forward (step 0)"
    assert "  at File /job/train.py, line 7, in step, x = x * 1.25" in lines
    brought = next(place for place, line in enumerate(lines) if line.strip().startswith("from rank 3 through"))
    grouped = lines[brought - 1].split("  ")[0]
    assert grouped == "0–2, 4–7"


def test_json_has_both_sides(lake: Lake) -> None:
    columns, rows = with_leaves(first(lake, lambda job: job.compute(), {(0, 0): 0.5}, world=1))
    [row] = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [leaf["slot"] for leaf in row["inputs"]] == ["input.0"]
    assert [(leaf["slot"], leaf["max_diff"]) for leaf in row["outputs"]] == [("output.0", 0.5)]


@pytest.mark.parametrize(("numbers", "short"), [([], ""), ([3], "3"), ([4, 0, 1, 2, 6], "0–2, 4, 6"), ([1, 2], "1–2")])
def test_ranges(numbers: list[int], short: str) -> None:
    assert ranges(numbers) == short
    assert few_ranges(numbers) == short


def test_many_ranges_are_cut_off() -> None:
    assert few_ranges(range(0, 256, 2)) == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 and 117 more"
    assert few_ranges(range(300)) == "0–299"


# What explains what: the SQL against a search over all events of a random job.


@dataclass(frozen=True)
class Transfer:
    """One rank's part in a meeting."""

    rank: int
    seq: int
    kind: str
    peer: int | None
    meeting: str
    gives: bool
    takes: bool
    asynchronous: bool = False


RULES: dict[str, tuple[Callable[[bool], bool], Callable[[bool], bool]]] = {
    "all_reduce": (lambda _: True, lambda _: True),
    "broadcast": (lambda is_root: is_root, lambda is_root: not is_root),
    "scatter": (lambda is_root: is_root, lambda is_root: not is_root),
    "reduce": (lambda _: True, lambda is_root: is_root),
    "gather": (lambda _: True, lambda is_root: is_root),
    "barrier": (lambda _: False, lambda _: False),
}
"""By kind: whether a rank gives, and whether it takes, by whether it is the root."""


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[int], list[Transfer], dict[int, tuple[int, bool]]]:
    """How many ops each rank has, its transfers, and its first difference: place, and whether in the input."""
    world = draw(st.integers(2, 5))
    places = [0] * world
    transfers = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from([*RULES, "compute", "compute", "send"]))
        if kind == "compute":
            places[draw(st.integers(0, world - 1))] += 1
            continue
        members = draw(st.permutations(range(world)))[: 2 if kind == "send" else draw(st.integers(2, world))]
        root = members[0]
        for rank in members:
            if kind == "send":
                its_kind, peer = ("send", members[1]) if rank == root else ("recv", root)
                gives, takes = rank == root, rank != root
            else:
                its_kind, peer = kind, None if kind in ("all_reduce", "barrier") else root
                gives, takes = (rule(rank == root) for rule in RULES[kind])
            transfers.append(Transfer(rank, places[rank], its_kind, peer, str(number), gives, takes))
            places[rank] += 1
    differing = {
        rank: (draw(st.integers(0, places[rank] - 1)), draw(st.booleans()))
        for rank in range(world)
        if places[rank] and draw(st.booleans())
    }
    return places, transfers, differing


def reached(places: list[int], transfers: list[Transfer], start: tuple[int, int, bool]) -> set[tuple[int, int, bool]]:
    """Every event that `start` happened before: (rank, place, whether it is the op's input)."""
    found, waiting = set(), deque([start])
    while waiting:
        rank, place, is_input = waiting.popleft()
        after = [(rank, place, False)] if is_input else [(rank, place + 1, True)] if place + 1 < places[rank] else []
        if is_input:
            given = {one.meeting for one in transfers if (one.rank, one.seq, one.gives) == (rank, place, True)}
            after += [(one.rank, one.seq, False) for one in transfers if one.meeting in given and one.takes]
        for event in after:
            if event not in found:
                found.add(event)
                waiting.append(event)
    return found


def explained(
    places: list[int], transfers: list[Transfer], differing: dict[int, tuple[int, bool]]
) -> tuple[dict[int, int], set[int]]:
    """What the SQL says: the origin of each rank that differs, and the ranks that are stranded."""
    partners: dict[str, set[int]] = {}
    for one in transfers:
        partners.setdefault(one.meeting, set()).add(one.rank)
    with connect() as connection:
        connection.execute("CREATE TABLE firsts (step INTEGER, rank INTEGER, moment DOUBLE)")
        connection.execute(
            "CREATE TABLE transfers (step INTEGER, rank INTEGER, seq INTEGER, slot VARCHAR, kind VARCHAR, "
            "peer INTEGER, meeting VARCHAR, asynchronous BOOLEAN, partners INTEGER, is_waited_for BOOLEAN)"
        )
        for rank, (place, is_input) in differing.items():
            connection.execute("INSERT INTO firsts VALUES (0, ?, ?)", [rank, place if is_input else place + 0.25])
        for one in transfers:
            others = len(partners[one.meeting] - {one.rank})
            connection.execute(
                "INSERT INTO transfers VALUES (0, ?, ?, NULL, ?, ?, ?, ?, ?, false)",
                [one.rank, one.seq, one.kind, one.peer, one.meeting, one.asynchronous, others],
            )
        explain(connection)
        origins = connection.execute("SELECT rank, origin FROM origins SEMI JOIN firsts USING (rank)").fetchall()
        stranded = connection.execute("SELECT rank FROM stranded").fetchall()
    return dict(origins), {rank for (rank,) in stranded}


@settings(max_examples=examples(150))
@given(jobs())
def test_explained_is_happens_before(
    job: tuple[list[int], list[Transfer], dict[int, tuple[int, bool]]],
) -> None:
    places, transfers, differing = job
    events = {rank: (rank, *event) for rank, event in differing.items()}
    after = {rank: reached(places, transfers, event) for rank, event in events.items()}
    origins, stranded = explained(places, transfers, differing)
    roots = {rank for rank in differing if not any(events[rank] in after[other] for other in differing)}
    assert {rank for rank, origin in origins.items() if rank == origin} == roots
    assert set(origins) == set(differing)
    assert not stranded
    for rank, origin in origins.items():
        assert origin in roots
        assert rank == origin or events[rank] in after[origin]


def exchange(*, asynchronous: bool) -> list[Transfer]:
    """Two ranks that first post a receive, then send; in the record the data come before they were sent."""
    return [
        Transfer(0, 1, "recv", 1, "1 → 0", gives=False, takes=True, asynchronous=asynchronous),
        Transfer(0, 2, "send", 1, "0 → 1", gives=True, takes=False),
        Transfer(1, 1, "recv", 0, "0 → 1", gives=False, takes=True, asynchronous=asynchronous),
        Transfer(1, 2, "send", 0, "1 → 0", gives=True, takes=False),
    ]


def test_a_receive_that_is_posted_early_does_not_explain_what_was_sent_before() -> None:
    # rank 0 sends what differs; rank 1 shows it in the op behind its exchange
    origins, stranded = explained([4, 4], exchange(asynchronous=True), {0: (2, True), 1: (3, True)})
    assert origins == {0: 0, 1: 0}
    assert not stranded


def test_ranks_that_explain_each_other_are_not_lost() -> None:
    # a record that cannot be: both receives wait, so each rank's data come before the other sent them
    origins, stranded = explained([4, 4], exchange(asynchronous=False), {0: (2, True), 1: (2, True)})
    assert origins == {}
    assert stranded == {0, 1}


def test_a_long_chain_ends() -> None:
    world = 300
    transfers = []
    for rank in range(world - 1):
        transfers += [
            Transfer(rank, 5, "send", rank + 1, str(rank), gives=True, takes=False),
            Transfer(rank + 1, 4, "recv", rank, str(rank), gives=False, takes=True),
        ]
    origins, stranded = explained([6] * world, transfers, dict.fromkeys(range(world), (4, False)))
    assert origins == dict.fromkeys(range(world), 0)
    assert not stranded


def test_inputs_that_could_not_be_compared_are_not_said_to_agree(tmp_path: Path) -> None:
    def tensor(norm: float | None) -> dict[str, Any]:
        numbers = dict.fromkeys(("Max", "Min", "Mean", "Norm"), norm)
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], **numbers, "requires_grad": False}

    for run, output in (("npu", 2.0), ("gpu", 3.0)):
        op = {"input_args": [tensor(1.0), tensor(None)], "input_kwargs": {}, "output": [tensor(output)]}
        head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
        (tmp_path / run).mkdir()
        (tmp_path / run / "dump.json").write_text(json.dumps({**head, "data": {"Torch.add.0.forward": op}}))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(tmp_path / "npu", tmp_path / "gpu")
        found = first_difference_text(result.first_difference())
        causes = result.blame().suspects.project("why").fetchall()
    assert "  what was compared of its inputs agrees, its outputs do not\n" in found
    assert causes == [
        ("what was compared of its inputs agrees (error 0), its output is off by 0.67",)
    ]  # the mean, by norm / √n
