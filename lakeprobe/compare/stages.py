"""The stages of a comparison that a rule can read or replace, and how each becomes a table.

While the rule runs, the stages that it names, and all that they need, are views. Other stages are created when their
turn comes. Each result that a comparison uses is computed once, into a table of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.lake.connection import parsed

if TYPE_CHECKING:
    import duckdb

Pending = dict[str, "Stage"]
"""The stages that are not defined yet, by name."""

SEARCHED = ("pairs_searched", "verdicts_searched", "left_over")
"""The stages that use a search for a mapping. A search runs if the rule names one of them."""

SEARCHES = {"match_layer": ("layer_scopes", "match_layer"), "match_fuzzy": ("match_fuzzy",)}
"""The slow ways to pair ops, with the stages of each. They exist only where a rule names them, and run once."""

WITH_STACKS = ("target_stacks", "golden_stacks", "match_layer", "layer_scopes")
"""What call stacks are read by: they are loaded where the rule names one of these."""


class Case(Struct, frozen=True):
    """What decides which stages a comparison has: its rule, and whether names are mapped."""

    rule: Rule
    is_mapped: bool


def _always(case: Case) -> bool:
    return True


def _mapped(case: Case) -> bool:
    return case.is_mapped


def _not_mapped(case: Case) -> bool:
    return not case.is_mapped


def _named(*names: str) -> Callable[[Case], bool]:
    return lambda case: rules.mentions(case.rule, names)


class Stage(Struct, frozen=True):
    """A stage: its name, the file with its SQL, the stages that it reads, and the condition under which it exists."""

    name: str
    sql: str
    needs: tuple[str, ...] = ()
    when: Callable[[Case], bool] = _always


STAGES = (
    Stage("renamed_ops", "match/renamed_ops", when=_mapped),
    Stage("renamed_ops", "match/unchanged_ops", when=_not_mapped),
    Stage("match_data", "match/data", when=_mapped),
    Stage("match_exact", "match/exact"),
    Stage("match_renamed", "match/renamed", ("renamed_ops",)),
    Stage("layer_scopes", "match/layer_scopes", when=_named("match_layer")),
    Stage("match_layer", "match/layer", ("layer_scopes",), _named("match_layer")),
    Stage("match_fuzzy", "match/fuzzy", ("renamed_ops",), _named("match_fuzzy")),
    Stage("match_parameters", "match/parameters", ("renamed_ops",), _named("match_parameters")),
    Stage("op_pairs", "match/exact"),
    Stage("pairs_default", "match/slots_mapped", ("op_pairs", "match_data"), _mapped),
    Stage("pairs_default", "match/slots", ("op_pairs",), _not_mapped),
    Stage("pairs_searched", "match/searched", ("pairs_default",)),
    Stage("pairs", "match/slots_mapped", ("op_pairs", "match_data"), _mapped),
    Stage("pairs", "match/slots", ("op_pairs",), _not_mapped),
    Stage("paired", "compare/paired"),
    Stage("left_over", "match/left_over", when=_named(*SEARCHED)),
    Stage("metrics_statistics", "metrics/statistics", ("paired",)),
    Stage("metrics_tensor", "metrics/tensor", ("paired",)),
    Stage("metrics_default", "metrics/default", ("metrics_statistics", "metrics_tensor")),
    Stage("metrics", "metrics/default", ("metrics_statistics", "metrics_tensor")),
    Stage("differences", "judge/difference", ("paired", "metrics")),
    Stage("verdicts_default", "judge/verdicts", ("paired", "metrics", "differences")),
    Stage("verdicts_searched", "judge/searched", ("verdicts_default", "left_over")),
    Stage(
        "verdicts_parameters", "judge/parameters", ("paired", "metrics", "differences"), _named("verdicts_parameters")
    ),
    Stage("verdicts_settings", "judge/settings", ("paired", "metrics", "differences"), _named("verdicts_settings")),
    Stage("verdicts", "judge/verdicts", ("paired", "metrics", "differences")),
)
"""All stages. A rule may replace op_pairs, pairs, metrics and verdicts. Stages of one name exclude each other."""


def define(connection: duckdb.DuckDBPyConnection, case: Case) -> Pending:
    """Define the stages that the rule names as views, each with what it needs. Returns the other stages."""
    pending = {stage.name: stage for stage in STAGES if stage.when(case)}
    for name in [name for name in pending if name in rules.names(case.rule)]:
        _define(connection, pending, name)
    return pending


def _define(connection: duckdb.DuckDBPyConnection, pending: Pending, name: str) -> None:
    """Define the stage `name` as a view, after those that it reads. A stage that exists already stays."""
    stage = pending.pop(name, None)
    if stage is None:
        return
    for need in stage.needs:
        _define(connection, pending, need)
    connection.execute(parsed(connection, f"CREATE VIEW {name} AS {resources.sql(stage.sql)}"))


def materialize(connection: duckdb.DuckDBPyConnection, rule: Rule, pending: Pending, name: str) -> None:
    """Create the table `name` from the view of that name, bundled or of the rule, or else from the pending stage.

    Raises RuleError for a view that breaks the contract.
    """
    stage = pending.pop(name, None)
    if stage is not None:
        for need in stage.needs:
            _define(connection, pending, need)
        connection.execute(parsed(connection, f"CREATE TEMP TABLE {name} AS {resources.sql(stage.sql)}"))
        return
    if name in rules.CONTRACT:
        rules.check_contract(connection, rule, name)
    connection.execute(f"CREATE TEMP TABLE {name} AS FROM {name}")
    connection.execute(f"DROP VIEW memory.main.{name}")
