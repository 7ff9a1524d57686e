"""Fuzzy matching: the same op under the same module, call numbers and classes apart."""

from __future__ import annotations

import csv
import gzip
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_dumps import DUMPS, needs_dumps
from sampling import examples

from lakeprobe import resources
from lakeprobe.ingest.run import ingest
from lakeprobe.lake import layout
from lakeprobe.lake.connection import connect, set_variable
from lakeprobe.readers import names

Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Op:
    """An op as the matching sees it: name, op of the enclosing module, shape and element type of its one input."""

    name: str
    parent: str | None = None
    shape: tuple[int, ...] | None = (4,)
    dtype: str = "torch.float32"


def api(name: str, direction: str = "forward", parent: str | None = None, shape: tuple[int, ...] = (4,)) -> Op:
    """The op of the call `name`, such as Torch.add.0."""
    return Op(f"{name}.{direction}", parent, shape)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = connect(1)
    yield connection
    connection.close()


OPS = pa.schema(
    [("seq", pa.int32()), ("part", pa.string()), ("op", pa.string()), ("op_kind", pa.string()),
     ("api_type", pa.string()), ("api", pa.string()), ("module_class", pa.string()), ("direction", pa.string()),
     ("call", pa.int32()), ("stem", pa.string()), ("call_number", pa.int32()), ("parent", pa.string())]
)  # fmt: skip
LEAVES = pa.schema(
    [("seq", pa.int32()), ("slot", pa.string()), ("repeat", pa.int32()), ("kind", pa.string()), ("dtype", pa.string()),
     ("shape", pa.list_(pa.int64()))]
)  # fmt: skip


def load(connection: duckdb.DuckDBPyConnection, side: str, ops: Sequence[Op]) -> None:
    """Make `ops` the ops and leaves of `side`."""
    parsed = [names.parse(op.name) for op in ops]
    rows = [
        (seq, "", op.name, *name, name.call, op.parent) for seq, (op, name) in enumerate(zip(ops, parsed, strict=True))
    ]
    leaves = [(seq, "input.0", 0, "tensor", op.dtype, op.shape) for seq, op in enumerate(ops) if op.shape is not None]
    for table, schema, values in (("ops", OPS, rows), ("leaves", LEAVES, leaves)):
        made = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema)
        connection.register("made", made)
        connection.execute(f"CREATE OR REPLACE TABLE {side}_{table} AS FROM made")
        connection.unregister("made")


def matched(connection: duckdb.DuckDBPyConnection) -> Pairs:
    """The op pairs of what is loaded, as places in the two dumps, in the target's order."""
    renamed = "SELECT seq, part, stem, parent, call_number FROM target_ops"
    connection.execute(f"CREATE OR REPLACE TABLE renamed_ops AS {renamed}")
    rows = connection.execute(resources.sql("match/fuzzy")).fetchall()
    assert {matched_by for _, _, matched_by in rows} <= {"fuzzy"}
    return sorted((target, golden) for target, golden, _ in rows)


def match(connection: duckdb.DuckDBPyConnection, target: Sequence[Op], golden: Sequence[Op]) -> list[tuple[str, str]]:
    """The names of the ops that pair, in the target's order."""
    load(connection, "target", target)
    load(connection, "golden", golden)
    return [(target[ours].name, golden[theirs].name) for ours, theirs in matched(connection)]


def same(ops: Iterable[Op]) -> list[tuple[str, str]]:
    return [(op.name, op.name) for op in ops]


BLOCK = "Module.layers.{}.Block.forward.0"


def layers(count: int) -> list[Op]:
    """Layers of equal calls without modules, as an L1 dump has them."""
    ops = []
    for layer in range(count):
        ops += [api(f"Functional.linear.{2 * layer}", shape=(8, 4)), api(f"Functional.gelu.{layer}", shape=(8, 16))]
        ops += [api(f"Functional.linear.{2 * layer + 1}", shape=(8, 16)), api(f"Tensor.add.{layer}", shape=(8, 4))]
    return ops


def renumbered(ops: Iterable[Op]) -> list[Op]:
    """The forward calls `ops` with their numbers without a gap."""
    return numbered((op.name.rsplit(".", 2)[0], op.parent, op.shape or (), "forward") for op in ops)


# by hand


def test_an_extra_call_moves_none_that_follows(connection: duckdb.DuckDBPyConnection) -> None:
    """The layers are equal, so that only their neighbours tell the calls of one name apart."""
    golden = layers(6)
    target = [*golden[:12], api("Tensor.add.3", shape=(8, 4))]
    target += [replace(op, name=f"Tensor.add.{int(op.name.split('.')[2]) + 1}.forward") if "add" in op.name else op
               for op in golden[12:]]  # fmt: skip
    expected = same(golden[:12]) + [
        (ours.name, theirs.name) for ours, theirs in zip(target[13:], golden[12:], strict=True)
    ]
    assert match(connection, target, golden) == expected
    assert match(connection, golden, target) == [(theirs, ours) for ours, theirs in expected]


def test_a_call_of_another_shape_goes_without_counterpart(connection: duckdb.DuckDBPyConnection) -> None:
    target = [api("Torch.add.0", shape=(9,)), api("Torch.add.1"), api("Torch.add.2")]
    golden = [api("Torch.add.0"), api("Torch.add.1")]
    assert match(connection, target, golden) == [
        ("Torch.add.1.forward", "Torch.add.0.forward"), ("Torch.add.2.forward", "Torch.add.1.forward"),
    ]  # fmt: skip


def test_other_shapes_throughout_pair_in_order(connection: duckdb.DuckDBPyConnection) -> None:
    golden = layers(3)
    target = [replace(op, shape=(2, *(op.shape or ()))) for op in golden]
    assert match(connection, target, golden) == same(golden)
    target = [replace(op, dtype="torch.bfloat16") for op in golden]
    assert match(connection, target, golden) == same(golden)


def test_a_changed_shape_between_aligned_neighbours(connection: duckdb.DuckDBPyConnection) -> None:
    golden = [api(f"Torch.add.{call}", shape=(call,)) for call in range(5)]
    target = [*golden[:2], replace(golden[2], shape=(77,)), *golden[3:]]
    assert match(connection, target, golden) == same(golden)


def test_spellings_of_an_element_type_are_one(connection: duckdb.DuckDBPyConnection) -> None:
    """The second call of the target has golden's element type under MindSpore's name, the first has not."""
    golden = [Op("Torch.add.0.forward", dtype="torch.float32")]
    target = [Op("Torch.add.0.forward", dtype="Int64"), Op("Torch.add.1.forward", dtype="Float32")]
    assert match(connection, target, golden) == [("Torch.add.1.forward", "Torch.add.0.forward")]


def test_an_extra_and_a_missing_call_do_not_make_up_for_each_other(connection: duckdb.DuckDBPyConnection) -> None:
    """As many sums on both sides, but those of the layers between are not each other's next."""
    golden = layers(8)
    kept = [op for op in golden if op.name != "Tensor.add.1.forward"]
    place = kept.index(api("Tensor.add.6", shape=(8, 4)))
    target = renumbered([*kept[:place], api("Tensor.add.99", shape=(8, 4)), *kept[place:]])
    expected = [(ours.name, theirs.name) for ours, theirs in zip(target[:place], kept[:place], strict=True)]
    found = match(connection, target, golden)
    assert found[:place] == expected
    assert ("Tensor.add.7.forward", "Tensor.add.7.forward") in found
    assert "Tensor.add.1.forward" not in {theirs for _, theirs in found}


def test_an_extra_call_where_all_shapes_differ(connection: duckdb.DuckDBPyConnection) -> None:
    golden = layers(6)
    kept = [op for op in golden if op.name != "Tensor.add.2.forward"]
    target = [replace(op, shape=(2, *(op.shape or ()))) for op in renumbered(kept)]
    expected = [(ours.name, theirs.name) for ours, theirs in zip(target, kept, strict=True)]
    assert match(connection, target, golden) == expected


def test_signatures_come_before_order(connection: duckdb.DuckDBPyConnection) -> None:
    golden = [api(f"Torch.add.{call}") for call in range(3)]
    target = [api("Torch.add.0", shape=(9,)), api("Torch.add.1"), api("Torch.add.2")]
    first, second = ("Torch.add.1.forward", "Torch.add.0.forward"), ("Torch.add.2.forward", "Torch.add.1.forward")
    assert match(connection, target, golden) == [first, second]
    assert match(connection, [*target, api("Torch.add.3")], golden[:2]) == [first, second]


def test_order_counts_from_the_nearest_anchor(connection: duckdb.DuckDBPyConnection) -> None:
    target = [api("Torch.f.0", shape=(1,)), api("Torch.log.0"),
              api("Torch.f.1", shape=(2,)), api("Torch.f.2", shape=(2,))]  # fmt: skip
    golden = [api("Torch.log.0"), api("Torch.f.0", shape=(3,))]
    assert match(connection, target, golden) == [
        ("Torch.log.0.forward", "Torch.log.0.forward"), ("Torch.f.1.forward", "Torch.f.0.forward"),
    ]  # fmt: skip


def test_backward_ops_of_different_modules_do_not_pair(connection: duckdb.DuckDBPyConnection) -> None:
    forward = api("Torch.f.0", parent="Module.a.A.forward.0")
    target, golden = (api("Torch.f.0", "backward", f"Module.{path}.A.backward.0") for path in ("a", "b"))
    assert match(connection, [forward, target], [forward, golden]) == same([forward])


def test_classes_may_differ(connection: duckdb.DuckDBPyConnection) -> None:
    target = [
        api("Functional.linear.0", parent="Module.fc.FusedLinear.forward.0"),
        Op("Module.fc.FusedLinear.forward.0", parent="Module.mlp.FusedMLP.forward.0"),
        Op("Module.fc.FusedLinear.parameters_grad"),
        Op("Module.fc.FusedLinear.backward.3"),
    ]
    golden = [
        api("Functional.linear.7", parent="Module.fc.Linear.forward.0"),
        Op("Module.fc.Linear.forward.2", parent="Module.mlp.MLP.forward.1"),
        Op("Module.fc.Linear.parameters_grad.0"),
        Op("Module.fc.Linear.backward.0"),
    ]
    assert match(connection, target, golden) == [
        (ours.name, theirs.name) for ours, theirs in zip(target, golden, strict=True)
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (api("Torch.add.0"), api("Torch.add.0", "backward")),
        (api("Torch.add.0"), api("Tensor.add.0")),
        (api("Torch.add.0"), api("Torch.sub.0")),
        (api("Torch.add.0", parent=BLOCK.format(0)), api("Torch.add.0", parent=BLOCK.format(1))),
        (Op("Module.a.b.Linear.forward.0"), Op("Module.a.c.Linear.forward.0")),
        (Op("Module.a.Linear.forward.0"), Op("Cell.a.Linear.forward.0")),
        (Op("Module.a.Linear.parameters_grad"), Op("Module.a.Linear.backward.0")),
        (Op("loss.x.debug"), Op("loss.y.debug")),
    ],
)
def test_what_is_not_the_same_op_does_not_pair(connection: duckdb.DuckDBPyConnection, ours: Op, theirs: Op) -> None:
    inside = api("Torch.log.0", parent=BLOCK.format(5))  # so that both sides know their modules
    assert match(connection, [inside, ours], [inside, theirs]) == same([inside])
    assert match(connection, [inside, ours], [inside, ours]) == same([inside, ours])


def test_modules_count_only_where_both_sides_have_them(connection: duckdb.DuckDBPyConnection) -> None:
    golden = layers(2)
    target = [replace(op, parent=BLOCK.format(place // 4)) for place, op in enumerate(golden)]
    assert match(connection, target, golden) == same(golden)


def test_a_module_keeps_its_calls_to_itself(connection: duckdb.DuckDBPyConnection) -> None:
    """The dropout that block 0 has twice in the target does not take the one of block 1."""
    golden = [api(f"Functional.dropout.{block}", parent=BLOCK.format(block)) for block in range(2)]
    target = [api(f"Functional.dropout.{call}", parent=BLOCK.format(block)) for call, block in enumerate((0, 0, 1))]
    assert match(connection, target, golden) == [
        ("Functional.dropout.0.forward", "Functional.dropout.0.forward"),
        ("Functional.dropout.2.forward", "Functional.dropout.1.forward"),
    ]


def test_a_recomputation_goes_without_counterpart(connection: duckdb.DuckDBPyConnection) -> None:
    """Reentrant checkpointing numbers the backward call after the recomputed forward call."""
    golden = [api("Torch.f.0"), api("Torch.f.1"), api("Torch.loss.0"),
              api("Torch.loss.0", "backward"), api("Torch.f.1", "backward"), api("Torch.f.0", "backward")]  # fmt: skip
    target = [*golden[:4], api("Torch.f.2"), api("Torch.f.2", "backward"),
              api("Torch.f.3"), api("Torch.f.3", "backward")]  # fmt: skip
    assert match(connection, target, golden) == [
        *same(golden[:4]),
        ("Torch.f.2.backward", "Torch.f.1.backward"),
        ("Torch.f.3.backward", "Torch.f.0.backward"),
    ]


def test_backward_goes_with_its_forward(connection: duckdb.DuckDBPyConnection) -> None:
    forward = [api(f"Functional.linear.{call}") for call in range(3)]
    golden = [*forward, *(api(f"Functional.linear.{call}", "backward") for call in (2, 1, 0))]
    target = [*forward, *(api(f"Functional.linear.{call}", "backward") for call in (1, 2, 0))]
    assert match(connection, target, golden) == same(target)


def test_an_extra_call_keeps_its_backward(connection: duckdb.DuckDBPyConnection) -> None:
    """In order alone, the extra call's backward, the first of its name, would take its neighbour's counterpart."""
    golden = [api("Torch.add.0"), api("Torch.log.0"), api("Torch.log.0", "backward"), api("Torch.add.0", "backward")]
    target = [api("Torch.add.0"), api("Torch.add.1"), api("Torch.log.0"), api("Torch.log.0", "backward"),
              api("Torch.add.1", "backward"), api("Torch.add.0", "backward")]  # fmt: skip
    assert match(connection, target, golden) == same(golden)


def test_backward_without_forward_pairs_in_order(connection: duckdb.DuckDBPyConnection) -> None:
    target, golden = ([api(f"Torch.bw.{call}", "backward") for call in calls] for calls in ((3, 1, 7), (0, 1, 2)))
    assert match(connection, target, golden) == [
        (ours.name, theirs.name) for ours, theirs in zip(target, golden, strict=True)
    ]


def test_moved_ops_pair_all_the_same(connection: duckdb.DuckDBPyConnection) -> None:
    golden = [api(f"Torch.f{name}.0") for name in range(6)]
    target = [golden[5], *golden[:5]]
    assert sorted(match(connection, target, golden)) == same(golden)


def test_names_come_from_renamed_ops(connection: duckdb.DuckDBPyConnection) -> None:
    load(connection, "target", [api("Mint.dense.0", parent="Cell.fc.Dense.forward.0")])
    load(connection, "golden", [api("Functional.linear.4", parent="Module.fc.Linear.forward.0")])
    assert matched(connection) == []
    connection.execute(
        "CREATE OR REPLACE TABLE renamed_ops AS SELECT 0 AS seq, '' AS part, 'Functional.linear.forward' AS stem, "
        "'Module.fc.Dense.forward.0' AS parent, 0 AS call_number"
    )
    assert connection.execute(resources.sql("match/fuzzy")).fetchall() == [(0, 0, "fuzzy")]


def test_empty_sides_and_ops_without_tensors(connection: duckdb.DuckDBPyConnection) -> None:
    bare = [replace(op, shape=None) for op in layers(1)]
    assert match(connection, [], []) == []
    assert match(connection, bare, []) == []
    assert match(connection, [], bare) == []
    assert match(connection, bare, bare) == same(bare)


# laws

Call = tuple[str, str | None, tuple[int, ...], str]
"""API, op of the enclosing module, shape of the input, direction."""

CALLS = st.lists(
    st.tuples(
        st.sampled_from(["Torch.add", "Torch.mul", "Functional.linear"]),
        st.sampled_from([None, *(BLOCK.format(block) for block in range(2))]),
        st.sampled_from([(1,), (2,)]),
        st.sampled_from(["forward", "forward", "backward"]),
    ),
    max_size=14,
)


def numbered(calls: Iterable[Call]) -> list[Op]:
    """Ops with their call numbers, counted by name and direction."""
    count: Counter[tuple[str, str]] = Counter()
    ops = []
    for name, parent, shape, direction in calls:
        ops.append(api(f"{name}.{count[name, direction]}", direction, parent, shape))
        count[name, direction] += 1
    return ops


def key(op: Op) -> tuple[str, str | None]:
    """What must be equal of two ops that pair."""
    return names.parse(op.name).stem, op.parent


def forward_of(op: Op) -> str:
    return op.name.replace(".backward", ".forward")


@given(CALLS, CALLS)
@settings(max_examples=examples(150), deadline=None)
def test_laws(connection: duckdb.DuckDBPyConnection, ours: list[Call], theirs: list[Call]) -> None:
    target, golden = numbered(ours), numbered(theirs)
    if not any(op.parent for op in target) or not any(op.parent for op in golden):
        target, golden = ([replace(op, parent=None) for op in ops] for ops in (target, golden))
    load(connection, "target", target)
    load(connection, "golden", golden)
    pairs = matched(connection)
    assert all(most == 1 for side in zip(*pairs, strict=True) for most in Counter(side).values())
    assert all(key(target[mine]) == key(golden[yours]) for mine, yours in pairs)
    by_name = {target[mine].name: golden[yours].name for mine, yours in pairs}
    golden_names = {op.name for op in golden}
    linked = set()
    for place, op in enumerate(target):
        forward = by_name.get(forward_of(op), "") if op.name.endswith("backward") else ""
        backward = forward.replace(".forward", ".backward")
        if backward in golden_names and key(op) == key(next(other for other in golden if other.name == backward)):
            assert by_name[op.name] == backward
            linked.add(place)
    for one in {key(op) for op in target}:
        own = [pair for pair in pairs if key(target[pair[0]]) == one and pair[0] not in linked]
        assert [yours for _, yours in own] == sorted(yours for _, yours in own)
        if one[0].endswith("forward"):
            assert_nothing_left_between(own, [key(op) == one for op in target], [key(op) == one for op in golden])


def assert_nothing_left_between(pairs: Pairs, ours: list[bool], theirs: list[bool]) -> None:
    """Between two pairs that are neighbours, at most one side has a call left."""
    edges = [(-1, -1), *pairs, (len(ours), len(theirs))]
    for (after, behind), (before, ahead) in itertools.pairwise(edges):
        assert not (any(ours[after + 1 : before]) and any(theirs[behind + 1 : ahead]))


@given(CALLS)
@settings(max_examples=examples(50), deadline=None)
def test_a_run_pairs_with_itself(connection: duckdb.DuckDBPyConnection, calls: list[Call]) -> None:
    ops = numbered(calls)
    assert match(connection, ops, ops) == same(ops)
    exact = connection.execute(resources.sql("match/exact")).fetchall()
    assert {(ours, theirs) for ours, theirs, _ in exact} == set(matched(connection))


@given(CALLS, st.sets(st.integers(0, 13)))
@settings(max_examples=examples(100), deadline=None)
def test_missing_calls_move_no_other(
    connection: duckdb.DuckDBPyConnection, calls: list[Call], missing: set[int]
) -> None:
    """Every call has a shape of its own, so that the truth is known."""
    golden = [replace(op, shape=(place,)) for place, op in enumerate(numbered(calls)) if "forward" in op.name]
    kept = [op for place, op in enumerate(golden) if place not in missing]
    target = renumbered(kept)
    assert match(connection, target, golden) == [
        (ours.name, theirs.name) for ours, theirs in zip(target, kept, strict=True)
    ]


# at scale


@pytest.mark.parametrize("shape", ["[4]", "[seq % 1000]"])
def test_time_does_not_grow_with_the_square(connection: duckdb.DuckDBPyConnection, shape: str) -> None:
    """30 000 calls of one name against every second of them: by pairs of them it would be half a billion steps."""
    for side, step in (("target", 2), ("golden", 1)):
        load(connection, side, [])
        connection.execute(
            f"INSERT INTO {side}_ops SELECT seq, '', 'Torch.add.' || seq || '.forward', 'api', 'Torch', 'add', NULL, "
            f"'forward', seq, 'Torch.add.forward', seq, NULL FROM range(0, 30000, {step}) AS calls (seq)"
        )
        connection.execute(
            f"INSERT INTO {side}_leaves SELECT seq, 'input.0', 0, 'tensor', 'torch.float32', {shape} FROM {side}_ops"
        )
    start = time.process_time()
    assert len(matched(connection)) == 15_000
    assert time.process_time() - start < 10


# real dumps


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("fuzzy") / "lake"
    for level in ("L1_stat", "mix_stat"):
        for variant in ("golden", "extra_op", "recompute"):
            dump = DUMPS / "A_pt_lm" / level / variant / "step0"
            ingest(dump, lake=lake, run=f"{level}_{variant}", tensors="none")
    return lake


def load_unit(connection: duckdb.DuckDBPyConnection, side: str, lake: Path, run: str) -> list[tuple[str, str]]:
    """Make the unit of `run` the ops and leaves of `side`; its ops as (name, name without call number)."""
    (unit,) = layout.units(lake, run)
    set_variable(connection, f"{side}_unit", str(layout.unit_folder(lake, unit)))
    for table in ("ops", "leaves"):
        query = f"FROM unit_{table}(getvariable('{side}_unit'))"
        connection.execute(f"CREATE OR REPLACE TABLE {side}_{table} AS {query}")
    return connection.execute(f"SELECT op, stem FROM {side}_ops ORDER BY seq").fetchall()


@needs_dumps
@pytest.mark.parametrize("level", ["L1_stat", "mix_stat"])
def test_a_real_extra_op(connection: duckdb.DuckDBPyConnection, lake: Path, level: str) -> None:
    """The target computes x + c * relu(x) once, as its eighth sum: three calls and their backward calls are extra."""
    target = load_unit(connection, "target", lake, f"{level}_extra_op")
    golden = load_unit(connection, "golden", lake, f"{level}_golden")
    extra = {"Functional.relu.0", "Tensor.__rmul__.0", "Tensor.__add__.7"}
    kept = [place for place, (name, _) in enumerate(target) if name.rsplit(".", 1)[0] not in extra]
    assert [target[place][1] for place in kept] == [stem for _, stem in golden]
    assert matched(connection) == [(place, theirs) for theirs, place in enumerate(kept)]


@needs_dumps
@pytest.mark.parametrize("level", ["L1_stat", "mix_stat"])
def test_a_real_recomputation(connection: duckdb.DuckDBPyConnection, lake: Path, level: str) -> None:
    """All blocks are computed again on the way back: those forward calls are extra, nothing else is."""
    target = load_unit(connection, "target", lake, f"{level}_recompute")
    golden = load_unit(connection, "golden", lake, f"{level}_golden")
    back = [place for place, (_, stem) in enumerate(target) if stem.endswith(".backward")]
    again = {place for place in range(back[0], back[-1]) if target[place][1].endswith(".forward")}
    kept = [place for place in range(len(target)) if place not in again]
    assert [target[place][1] for place in kept] == [stem for _, stem in golden]
    assert matched(connection) == [(place, theirs) for theirs, place in enumerate(kept)]


REMOVE = """
    CREATE OR REPLACE TABLE target_ops AS
    SELECT * REPLACE (dense_rank() OVER (PARTITION BY api_type, api, module_class ORDER BY call) - 1 AS call)
    FROM golden_ops
    WHERE op_kind <> 'api' OR concat_ws('.', api_type, api, call) NOT IN (SELECT unnest(?))
"""
"""Calls gone from the run, forward and backward, and those after them numbered on without a gap."""


@needs_dumps
@pytest.mark.parametrize("level", ["L1_stat", "mix_stat"])
@pytest.mark.parametrize("seed", range(6))
def test_removed_real_calls(connection: duckdb.DuckDBPyConnection, lake: Path, level: str, seed: int) -> None:
    """Ops of the names that lost a call may take a like call's place between the same neighbours; no other does."""
    golden = load_unit(connection, "golden", lake, f"{level}_golden")
    calls = sorted(
        {name.rsplit(".", 1)[0] for name, stem in golden if stem.endswith(".forward") and "Module" not in name}
    )
    gone = random.Random(seed).sample(calls, 5)
    connection.execute(REMOVE, [gone])
    connection.execute("CREATE OR REPLACE TABLE target_leaves AS FROM golden_leaves")
    kept = connection.execute("SELECT seq FROM target_ops").fetchall()
    pairs = matched(connection)
    assert [ours for ours, _ in pairs] == sorted(seq for (seq,) in kept)
    lost = {name.rsplit(".", 1)[0] for name in gone}
    wrong = {golden[ours][0] for ours, theirs in pairs if ours != theirs}
    assert {name.rsplit(".", 2)[0] for name in wrong} <= lost
    assert len(wrong) <= 4 * len(gone)


FUZZY_TABLES = sorted(DUMPS.glob("*/*tensor*/peer_out_*_fm/compare_result*.csv.gz"))


@needs_dumps
@pytest.mark.parametrize("path", FUZZY_TABLES, ids=lambda path: str(path.parent.relative_to(DUMPS)))
def test_pairs_of_msprobe(connection: duckdb.DuckDBPyConnection, tmp_path: Path, path: Path) -> None:
    """Where msprobe's fuzzy match works, with tensors, its pairs are ours."""
    variant, step = path.parent.name.removeprefix("peer_out_").removesuffix("_fm").rsplit("_", 1)
    for side, folder in (("target", variant), ("golden", "golden")):
        ingest(path.parent.parent / folder / step, lake=tmp_path / "lake", run=side, tensors="none")
        load_unit(connection, side, tmp_path / "lake", side)
        query = f"SELECT op || '.' || slot, seq FROM {side}_leaves JOIN {side}_ops USING (seq)"
        connection.execute(f"CREATE OR REPLACE TABLE {side}_rows AS {query}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [(row["NPU Name"], row["Bench Name"]) for row in csv.DictReader(file) if row["Bench Name"] != "N/A"]
    ours, theirs = (dict(connection.execute(f"FROM {side}_rows").fetchall()) for side in ("target", "golden"))
    expected = {(ours[name], theirs[counterpart]) for name, counterpart in rows}
    assert len(expected) > 50
    assert expected <= set(matched(connection))
