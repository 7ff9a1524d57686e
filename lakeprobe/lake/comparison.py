"""A comparison in the lake: what was compared, by which rule, and where its results are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from lakeprobe.errors import LakeError
from lakeprobe.lake import layout
from lakeprobe.lake.damage import DamagedError, remedy
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.schema import COMPARISON_VERSION

DESCRIPTION_FILE = "comparison.yaml"
RESULTS_FILE, STACKS_FILE = "results.parquet", "stacks.parquet"
SUSPECTS_FILE, PAIRS_FILE = "suspects.parquet", "pairs.parquet"
BATCH = "batch-"
"""Begins the name of a file with the rows of several small pairs, which have the columns step and rank.
It lies in the folder of the first of them."""
ROW_GROUP = 20480
"""Rows in a row group of results: a multiple of DuckDB's vector size, small enough that all cores get work."""


class ComparedUnit(Struct, frozen=True):
    """One pair of units of a comparison: step and rank of target and golden run, and the folder of the results.

    `is_batched`: the files in `folder` have the rows of other pairs, too.
    `is_rounding`: ops round differently in the two runs, so `suspects` tells what differs first.
    `dumped`: as in sql/compare/kind.sql.
    `is_structure`: both dumps name their ops and record no values.
    `cut_off`: for how many of the two units collecting was cut off in the middle of the step.
    """

    step: int
    rank: int
    golden_step: int
    golden_rank: int
    kind: str
    rows: int
    folder: Path
    is_rounding: bool = False
    dumped: str = "ops"
    is_structure: bool = False
    cut_off: int = 0
    is_batched: bool = False

    @property
    def places(self) -> dict[str, int]:
        """Step and rank of both sides, as statements take them."""
        return {name: getattr(self, name) for name in ("step", "rank", "golden_step", "golden_rank")}

    def file(self, name: str) -> Path:
        """Return the path of one of the files with the results."""
        return self.folder / (f"{BATCH}{name}" if self.is_batched else name)


class StoredComparison(Struct, frozen=True):
    """The content of comparison.yaml.

    `unpaired` units have no counterpart. `incomplete` units were cut off. `metrics` are those that only the rule
    defines: columns of results that schemas/data/metrics.yaml does not declare.
    """

    name: str
    folder: Path
    target: str
    golden: str
    rule: str
    units: tuple[ComparedUnit, ...]
    unpaired: tuple[UnitKey, ...]
    incomplete: tuple[UnitKey, ...] = ()
    metrics: tuple[str, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """All thresholds that the rule used. Empty for a comparison of an older release."""
    noise: str | None = None
    """The noise that the comparison was made with."""

    def files(self, name: str) -> list[Path]:
        """Return the paths of all files with the results that have this name."""
        return list(dict.fromkeys(unit.file(name) for unit in self.units))

    @property
    def is_unordered(self) -> bool:
        """Whether the rows are parameters or settings, of which none comes before another."""
        return bool(self.units) and all(unit.dumped in ("parameters", "settings") for unit in self.units)


_UNIT_FIELDS = frozenset(ComparedUnit.__struct_fields__)


def describe(path: Path, described: dict[str, Any]) -> None:
    """Write comparison.yaml into the folder `path`."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(described, Dumper=dumper, sort_keys=False, allow_unicode=True)
    (path / DESCRIPTION_FILE).write_text(text, encoding="utf-8")


def load(lake: Path | Snapshot, name: str) -> StoredComparison:
    """Return the comparison `name`, of this release or an older one.

    Raises UsageError if there is none, and LakeError if it is damaged or a newer release made it.
    """
    folder = layout.comparison_folder(lake, name)
    if folder is None:
        snapshot = layout.snapshot_of(lake)
        raise layout.unknown_run(snapshot, name, kind="comparison")
    from lakeprobe import strict_yaml  # PyYAML, which most processes that use a lake need not import

    path = folder / DESCRIPTION_FILE
    try:
        described = strict_yaml.read_record(path)
        if not isinstance(described, dict):
            raise ValueError("it is not a mapping")
        version = described.get("version", 0)
        if version > COMPARISON_VERSION:
            raise LakeError(
                f"the comparison {name} has the version {version}, this lakeprobe knows {COMPARISON_VERSION}; "
                "compare again, or install a newer lakeprobe"
            )
        units = tuple(_unit(folder, pair) for pair in described["pairs"])
        unpaired, incomplete = (
            tuple(UnitKey(**key) for key in described.get(which, ())) for which in ("unpaired", "incomplete")
        )
        texts = (described["target"], described["golden"], described["rule"]["name"])
        metrics = tuple(described.get("metrics", ()))
        if not all(isinstance(text, str) for text in (*texts, *metrics)):
            raise TypeError("a name is not text")
        thresholds = {str(threshold): float(value) for threshold, value in described.get("thresholds", {}).items()}
        noise = str(described["noise"]) if described.get("noise") is not None else None
        return StoredComparison(name, folder, *texts, units, unpaired, incomplete, metrics, thresholds, noise)
    except OSError as error:
        raise LakeError(f"{path} cannot be read ({error.strerror or error}); {remedy(path)}") from error
    except ValueError as error:
        raise DamagedError(path, str(error)) from error
    except (LookupError, TypeError, AttributeError) as error:
        raise DamagedError(path, "an entry is missing or of another kind") from error


def _unit(folder: Path, pair: Mapping[str, Any]) -> ComparedUnit:
    """Return a pair of the comparison in `folder` as comparison.yaml describes it."""
    batch = pair.get("batch")  # the target of the pair in whose folder the rows are
    step, rank = (batch["step"], batch["rank"]) if batch else (pair["step"], pair["rank"])
    if not all(isinstance(number, int) for number in (step, rank, pair["step"], pair["rank"])):
        raise TypeError("a step or a rank is not a number")
    return ComparedUnit(
        **{key: value for key, value in pair.items() if key in _UNIT_FIELDS},
        folder=folder / f"step={step}" / f"rank={rank}",
        is_batched=bool(batch),
    )


def latest(lake: Path | Snapshot) -> str | None:
    """The comparison that was made last, or None: the folder of a comparison is named after the moment."""
    folders = {name: layout.comparison_folder(lake, name) for name in layout.comparisons(lake)}
    return max(folders, key=lambda name: (folder.name if (folder := folders[name]) else "", name), default=None)
