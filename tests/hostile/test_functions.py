"""Every table function and pragma of the installed DuckDB was looked at, for what it opens, runs or changes.

A release that nobody has looked at yet, and that has a new one, is skipped here and named: somebody has to say what the
new function can do.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.errors import RuleError
from lakeprobe.lake import connection as connections
from lakeprobe.lake import guard

LOOKED_AT = ("2.0.0", "2.0.1")
"""The releases of DuckDB whose functions are all below."""


def names(text: str) -> list[str]:
    return text.split()


READING = names("""
glob parquet_bloom_probe parquet_file_metadata parquet_full_metadata parquet_kv_metadata parquet_metadata
parquet_page_index parquet_scan parquet_schema read_blob read_csv read_csv_auto read_duckdb read_json read_json_auto
read_json_objects read_json_objects_auto read_ndjson read_ndjson_auto read_ndjson_objects read_parquet
read_single_csv_file read_single_json_file read_single_parquet_file read_text sniff_csv
""")
"""What opens files or lists folders: queries may, rules may not."""
REFUSED = names("""
add_grammar_extension create_external_resource deregister_external_resource destroy_external_resource
duckdb_external_resources json_execute_serialized_sql register_external_resource register_external_resource_type
remove_grammar_extension
""")
"""What runs statements or functions that no plan shows."""
SETTING = ["disable_logging", "disable_profiling", "enable_logging", "enable_profiling"]
"""What changes settings, which are locked for queries and rules."""
INERT = names("""
arrow_scan arrow_scan_dumb checkpoint duckdb_approx_database_count duckdb_available_metrics duckdb_columns
duckdb_connection_count duckdb_constraints duckdb_coordinate_systems duckdb_databases duckdb_dependencies
duckdb_dialects duckdb_eviction_queues duckdb_extension_repositories duckdb_extensions duckdb_external_file_cache
duckdb_external_resource_types duckdb_functions duckdb_grammar_extensions duckdb_indexes duckdb_keywords
duckdb_live_query_metrics duckdb_log_contexts duckdb_logs duckdb_logs_parsed duckdb_memory duckdb_optimizers
duckdb_prepared_statements duckdb_profiling_settings duckdb_schemas duckdb_secret_type_parameters duckdb_secret_types
duckdb_secrets duckdb_sequences duckdb_settings duckdb_table_sample duckdb_tables duckdb_temporary_files
duckdb_triggers duckdb_types duckdb_variables duckdb_views force_checkpoint generate_series histogram histogram_values
icu_calendar_names json_each json_tree pandas_scan pg_timezone_names pragma_collations pragma_database_size
pragma_metadata_info pragma_platform pragma_show pragma_storage_info pragma_table_info pragma_user_agent
pragma_version python_arrow_scan python_map_function query query_table range repeat repeat_row seq_scan summary
test_all_types test_vector_types truncate_duckdb_logs unnest which_secret
""")
"""What is computed, or tells about the database in memory. The statement in query() is in the plan; scans of pointers
take no number that a statement could write."""


def installed(kinds: str) -> set[str]:
    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE regexp_matches(function_type, $kinds)"
    with duckdb.connect() as connection:
        return {name for (name,) in connection.execute(query, {"kinds": kinds}).fetchall()}


def test_every_table_function_was_looked_at() -> None:
    new = installed("^table") - {*READING, *REFUSED, *SETTING, *INERT}
    if new and duckdb.__version__ not in LOOKED_AT:
        pytest.skip(f"DuckDB {duckdb.__version__} is newer than {LOOKED_AT[-1]}; say what these can do: {sorted(new)}")
    assert new == set()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "secret.csv").write_text("word\nhunter2\n")
    return tmp_path / "secret.csv"


@pytest.mark.parametrize("name", READING)
def test_no_rule_opens_a_file(file: Path, name: str) -> None:
    with connections.connect(1) as connection:
        connections.lock(connection)
        more = ", 'word', 1" if name == "parquet_bloom_probe" else ""
        with pytest.raises(RuleError, match="Permission Error"):
            rules.run(connection, Rule("r", "rule", f"SELECT * FROM {name}('{file}'{more})"))


CALLS = {
    "create_external_resource": "'t'",
    "destroy_external_resource": "'query', 'SELECT 1'",
    "duckdb_external_resources": "discover => true",
    "json_execute_serialized_sql": "json_serialize_sql('SELECT 1')",
    "register_external_resource": "'t', 'n', MAP {'a': 'b'}",
    "register_external_resource_type": "'t', kind => 'x', create_function => 'query'",
    "deregister_external_resource": "'t'",
}


@pytest.mark.parametrize("name", [*REFUSED, *SETTING])
def test_no_query_runs_what_is_not_shown(name: str) -> None:
    if name not in installed("^table"):
        pytest.skip("not in this DuckDB")
    with connections.connect(1) as connection:
        guard.lock(connection)
        with pytest.raises(RuleError) as caught:
            guard.run(connection, f"FROM {name}({CALLS.get(name, '')})")
    if name in CALLS:
        assert "might write a file" in str(caught.value)


def test_no_pragma_runs_in_a_query_or_a_rule() -> None:
    for name in installed("^pragma"):
        with connections.connect(1) as connection:
            for run in (guard.run, lambda at, sql: rules.run(at, Rule("r", "rule", sql))):
                for statement in (f"PRAGMA {name}", f"PRAGMA {name}('x')"):
                    with pytest.raises(
                        (RuleError, duckdb.Error), match=r"might write|a rule may|Catalog|Binder|Parser"
                    ):
                        run(connection, statement)
