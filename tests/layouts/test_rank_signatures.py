"""Signatures tell ranks with equal tensors from ranks with others: sql/layouts/*_signatures.sql and experts.sql."""

import duckdb
import pytest

from lakeprobe import resources

COLUMNS = "run, step, rank, row, op, slot, role, kind, dtype, shape, content, digest, max, min, mean, norm"
ASKED = {"run": "r", "step": 1}


@pytest.fixture
def connection():
    with duckdb.connect() as opened:
        opened.execute(
            "CREATE TABLE ops AS SELECT 'r' AS run, 1 AS step, rank, 'module' AS kind, 'experts.0.fc' AS api, "
            "op FROM range(5) AS ranks (rank), (VALUES ('a.forward.0'), ('b.forward.0')) AS ops (op)"
        )
        opened.execute(f"CREATE TABLE tensors ({COLUMNS.replace(',', ' VARCHAR,')} VARCHAR)")
        for column, kind in {"step": "INTEGER", "rank": "INTEGER", "row": "INTEGER", "shape": "INTEGER[]"}.items():
            opened.execute(f"ALTER TABLE tensors ALTER {column} TYPE {kind}")
        yield opened


def fill(connection, rows):
    """Fill tensors with rows of rank, row, op, role, dtype and what else tells tensors apart."""
    for rank, row, op, role, dtype, values in rows:
        given = {"run": "r", "step": 1, "rank": rank, "row": row, "op": op, "slot": "x", "role": role, "kind": "tensor",
                 "dtype": dtype, "shape": [2, 2]} | values  # fmt: skip
        connection.execute(f"INSERT INTO tensors ({', '.join(given)}) VALUES ({', '.join('?' for _ in given)})",
                           list(given.values()))  # fmt: skip


@pytest.mark.parametrize("statement", ["parameter_signatures", "experts"])
@pytest.mark.parametrize("value", ["norm", "max", "digest", "content"])
def test_ranks_with_other_parameters_have_other_signatures(connection, statement, value):
    """Also where two parameters have equal values: the hashes of equal values must not cancel out."""
    fill(connection, [
        (rank, row, op, "parameters", "float32", {value: held[row]})
        for rank, held in enumerate(["11", "22", "12", "21", "11"])
        for row, op in enumerate(["a.forward.0", "b.forward.0"])
    ])  # fmt: skip
    found = dict(connection.execute(resources.sql(f"layouts/{statement}"), ASKED).fetchall())
    assert found[0] == found[4]
    assert len(set(found.values())) == 4


def test_data_is_the_first_integers_or_else_the_first_input(connection):
    def given(rank, row, top, dtype="int64", role="input", op="a.forward.0", **rest):
        return rank, row, op, role, dtype, {"max": top, **rest}

    fill(connection, [
        given(0, 0, "9", "float32"), given(0, 2, "2"), given(0, 1, "1"),
        given(1, 7, "1", "Int32"),
        given(2, 1, "1", "float32"), given(2, 2, "2", "float32"),
        given(3, 0, "1", role="output"), given(3, 1, "1", shape=[2]), given(3, 2, "1", op="Distributed.send.0.forward"),
        given(3, 3, "1", op="a.backward.0"), given(3, 4, "2", "float32"),
    ])  # fmt: skip
    found = dict(connection.execute(resources.sql("layouts/data_signatures"), ASKED).fetchall())
    assert found[0] == found[1] == found[2]
    assert found[3] != found[0]
