"""Writes the first difference as text for the terminal: the origins, then what each rank shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeprobe import output
from lakeprobe.analysis.verdict import Verdict
from lakeprobe.lake.connection import records
from lakeprobe.reports.verdict_text import nothing_stands_out, verdict_lines
from lakeprobe.shown import unbroken

if TYPE_CHECKING:
    from lakeprobe.analysis.first_difference import FirstDifference

Record = dict[str, Any]

_WITHOUT_FINDING = {
    Verdict.EQUAL: "no difference",
    Verdict.EQUAL_WITHIN_NOISE: "no difference beyond noise",
    Verdict.DIFFERENT: "different since an earlier step",
}
"""What the table of ranks says of a rank on which no op stands out."""
_MOST_ORIGINS = 3
"""The most origins that are shown in full."""
_MOST_GROUPS = 24
"""The most groups of ranks in the table of ranks."""

_SOURCES = {
    "this op": "its inputs agree, its outputs do not",
    "an argument": "an argument differs (a value, dtype, shape or requires_grad); what came before agrees",
    "no recorded op": "an input differs, but everything recorded before it agrees: no recorded op made the change",
    "an op of one run": "NaN or inf came in on one side only, and an op without counterpart made that",
    "float noise": "an input differs, and what was recorded before it differs within float noise",
    "communication": "what this rank sent agrees, what it received does not",
    "only in target": "only the target has it",
    "only in golden": "only golden has it",
}
_BESIDE_NOISE = {
    "an argument": "an argument differs (a value, dtype, shape or requires_grad); what came before may be rounding",
    "no recorded op": "an input differs, and what was recorded before may be rounding: no recorded op made the change",
}
"""What _SOURCES says, where values that were recorded before differ, too."""
_REWIRED = "an input comes from another op than in golden, or in one run from none that was recorded"
_MAKERS = {"equal": "agrees", "noise": "differs by noise", "different": "differs, too"}
"""How the output of the op that made an input differs, in words."""
_UNSEEN = ("unrecorded", "inside", "unreadable")
"""Outcomes of leaves that were not compared although both runs have the op."""
_REASONS = {
    "overwritten": "overwritten by a nested call",
    "not arrived": "recorded before the data arrived",
    "late digest": "with a digest that may be of later contents",
}


def first_difference_text(found: FirstDifference) -> str:
    """Return the answer: how much was compared, and the op at which the two sides begin to differ."""
    lines = [*verdict_lines(found.coverage), "", origins_text(found)]
    return output.folded("\n".join(lines))


def origins_text(found: FirstDifference) -> str:
    """Return a block per origin of the earliest step, a table of its ranks, and what was set aside."""
    ranks = unbroken(records(found.ranks))
    differing = [rank for rank in ranks if rank["finding"] is not None]
    if not differing:
        steps = {rank["step"] for rank in ranks}
        answer = _no_difference(found, ranks) if found.coverage.rows["compared"] else ""
        return answer + _flips(found, steps) + _set_aside(found, steps)
    step = differing[0]["step"]
    here = [rank for rank in ranks if rank["step"] == step]
    leaves = defaultdict(list)
    for leaf in unbroken(records(found.leaves)):
        leaves[leaf["step"], leaf["rank"]].append(leaf)
    several = {rank["rank"] for rank in ranks} != {0}
    origins = [rank for rank in here if rank["source"] is not None]
    shown = (origins or [rank for rank in here if rank["finding"] is not None])[:_MOST_ORIGINS]
    blocks = [_block(rank, leaves[step, rank["rank"]], several) for rank in shown]
    if len(origins) > len(shown):
        blocks.append(
            f"… and {len(origins) - len(shown)} more ranks with an unexplained first difference: see the table\n"
        )
    if len(here) > 1:
        blocks.append(_table(here))
    later = sorted({rank["step"] for rank in differing} - {step})
    if later:
        blocks.append(f"Later steps that differ too: {output.few_ranges(later)} (choose one with --step)\n")
    blocks += [_flips(found, {step}), _set_aside(found, {step})]
    return "\n".join(block for block in blocks if block)


def _no_difference(found: FirstDifference, ranks: Sequence[Record]) -> str:
    where = f" in {len(ranks)} (step, rank)" if found.coverage.is_whole and len(ranks) > 1 else " in what was compared"
    if found.threshold is not None:
        return f"No leaf is off by more than {found.threshold:g}{where}.\n"
    if any(rank["noise_op"] for rank in ranks):
        return "\n".join(nothing_stands_out(found.coverage, where)) + "\n"
    return f"No difference beyond float noise{where}.\n"


def with_leaves(found: FirstDifference) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of `ranks`, each row with the lists of its `inputs` and `outputs`."""
    sides: dict[tuple[int, int, str], list[Record]] = defaultdict(list)
    for leaf in records(found.leaves):
        sides[leaf.pop("step"), leaf.pop("rank"), leaf.pop("side")].append(leaf)
    rows = [
        [*rank.values(), *(sides[rank["step"], rank["rank"], side] for side in ("input", "output"))]
        for rank in records(found.ranks)
    ]
    return [*found.ranks.columns, "inputs", "outputs"], rows


def _block(rank: Record, leaves: Sequence[Record], several: bool) -> str:
    where = f"rank {rank['rank']}, " if several else ""
    lines = [f"First difference: {where}{rank['op']} (step {rank['step']})"]
    if rank["golden_op"] not in (None, rank["op"]):
        lines.append(f"  in golden: {rank['golden_op']}")
    if rank["source"] is None:
        lines.append(f"  explained by {_explained(rank)}, which began on rank {rank['origin']}")
    else:
        lines.append(f"  {_began(rank, leaves)}")
        lines += _traced(leaves)
    if rank["source"] in ("communication", "no recorded op") and rank["absent"]:
        lines.append(f"  it may have come from ranks that were not dumped: {output.few_ranges(rank['absent'])}")
    lines += [f"  {line}" for line in _leaf_lines(leaves)]
    lines += [f"  {line}" for line in noise_lines(rank, leaves)]
    if rank["first_paired"]:
        lines.append(f"  the first op with a counterpart that differs: {rank['first_paired']}")
    if rank["module"]:
        lines.append(f"  in {rank['module']}")
    if rank["code"]:
        lines.append(f"  at {rank['code']}")
    if rank["communication"]:
        lines.append(f"  {_MOMENTS[rank['communication']]}")
    return "\n".join(lines) + "\n"


def noise_lines(rank: Record, leaves: Sequence[Record]) -> list[str]:
    """Describe why a rank's first difference stands out of rounding noise, the next op, and where the noise begins.

    `leaves` are those of its op.
    """
    if rank["evidence"] is None:
        return []
    # the rows of a softmax sum to one, so its norm says little and sql/noise/shifts.sql looks at its mean
    statistic = "mean" if "softmax" in rank["op"].lower() else "norm"
    lines = [_EVIDENCE[rank["evidence"]].format(statistic=statistic)]
    if rank["evidence"] == "made" and any(leaf["side"] == "input" and leaf["difference"] == "noise" for leaf in leaves):
        lines = ["its inputs agree, and its output is off by more than any rounding"]
    if rank["evidence"] == "added" and rank["beyond"] is not None:
        lines = [f"its output is {rank['beyond']:.2g} times as far off as rounding explains ({_floor(rank)})"]
    if rank["floor"] == "law":
        far = f"{rank['beyond']:.2g} times as far as rounding explains"
        lines = [f"its output breaks a law of totals that golden's obeys, {far}"]
    elif rank["evidence"] == "shift" and rank["beyond"] is not None:
        off = f"{rank['beyond']:.2g} times as far off as others of its kind ({_floor(rank)})"
        lines = [f"the {statistic} of its output is {off}"]
    if rank["next_op"]:
        lines.append(f"next in line: {rank['next_op']}")
    if rank["noise_op"]:
        lines.append(f"rounding noise begins before it, at {rank['noise_op']}")
    return lines


def _floor(rank: Record) -> str:
    if rank["floor"] == "kind":
        return f"measured on {rank['members']} other calls of its kind"
    return _FLOORS[rank["floor"]]


_EVIDENCE = {
    "argument": "rounding does not change arguments",
    "missing": "rounding neither adds nor drops ops",
    "wiring": "rounding does not change which op an input comes from",
    "source": "rounding does not change values that no op computed",
    "zeros": "some of its output is 0, and none of golden's is",
    "stopped": "a gradient is all zeros in one run, and not in the other",
    "nonfinite": "before it no op that both runs have has NaN or inf on one side only",
    "made": "its inputs agree to the last bit, and its output does not",
    "added": "its output is off by more than rounding explains",
    "shift": "the {statistic} of its output is off by more than rounding explains",
}
_FLOORS = {
    "bits": "nothing else rounds differently",
    "rounding": "measured on ops that round in the same way, because few are of its kind",
    "repeat": "measured on repeats of golden",
}

_MOMENTS = {
    "before": "before the rank's first communication op",
    "during": "between the rank's first and last communication op",
    "after": "after the rank's last communication op",
}


def source_text(rank: Record) -> str:
    """Return how the difference of a rank began, on which it did."""
    source = rank["source"]
    if rank["evidence"] == "wiring":
        return _REWIRED
    return _BESIDE_NOISE.get(source, _SOURCES[source]) if rank["noise_op"] else _SOURCES[source]


def _began(rank: Record, leaves: Sequence[Record]) -> str:
    """Return how a difference began. Of inputs that could not be compared nobody knows whether they agree."""
    source = rank["source"]
    inputs = [leaf["difference"] for leaf in leaves if leaf["side"] == "input"]
    if source == "this op" and not inputs:
        return "what it gives differs"
    if source == "this op" and "different" in inputs:
        return "its inputs differ, too, but do not explain its outputs"
    if source == "this op" and not set(inputs).isdisjoint(_UNSEEN):
        return "what was compared of its inputs agrees, its outputs do not"
    return source_text(rank)


def _traced(leaves: Sequence[Record]) -> list[str]:
    lines = []
    for leaf in leaves:
        if leaf["is_traced"] and leaf["source_op"]:
            made = _MAKERS.get(leaf["source_difference"], "was not compared")
            lines.append(f"  in golden, {leaf['slot']} comes from {leaf['source_op']}, whose output {made}")
        elif leaf["is_traced"]:
            lines.append(
                f"  in golden, {leaf['slot']} comes from no recorded op: data, a weight or an unrecorded tensor"
            )
    return lines


def _leaf_lines(leaves: Sequence[Record]) -> list[str]:
    """Return a line for each leaf that differs, and one line with the names of those that agree."""
    equal = [leaf["slot"] for leaf in leaves if leaf["difference"] == "equal"]
    differing = [leaf for leaf in leaves if leaf["slot"] not in equal]
    width = max((len(leaf["slot"]) for leaf in differing), default=0)
    lines = []
    for leaf in differing:
        error = "" if leaf["error"] is None else f", error {leaf['error']:.3g}"
        sides = against(leaf["target"], leaf["golden"])
        lines.append(f"{leaf['slot'].ljust(width)}  {leaf['doubtful'] or leaf['difference']}{error}: {sides}")
    return [*lines, f"equal: {', '.join(equal)}"] if equal else lines


def against(target: str, golden: str) -> str:
    """Return both sides of a leaf. If both are the same kind of tensor, its shape and dtype appear once.

    Tensors may have one text and differ: in their elements, or in the mean or norm of integers, which no tool shows.
    """
    if target == golden and "]" in target:
        return f"{target} on both sides, with other elements"
    known, blank, number = golden.rpartition(" ")
    is_same_kind = "]" in known and target.startswith(known + blank)
    return f"{target} against {number if is_same_kind else golden}"


def _explained(rank: Record) -> str:
    by = f" ({rank['explained_by_op']})" if rank["explained_by_op"] else ""
    return f"rank {rank['explained_by']}{by} through {rank['through']}"


def _table(ranks: Sequence[Record]) -> str:
    """Return the table of ranks, grouped by what differs first; the line below says what brought the difference."""
    groups: dict[tuple[str, str], list[int]] = {}
    for rank in ranks:
        op = str(rank["op"] or _WITHOUT_FINDING.get(rank["verdict"], rank["verdict"]))
        brought = "" if rank["explained_by"] is None else f"from rank {rank['explained_by']} through {rank['through']}"
        groups.setdefault((op, brought), []).append(rank["rank"])
    rows = []
    for (op, brought), numbers in list(groups.items())[:_MOST_GROUPS]:
        rows += [(output.few_ranges(numbers), op), *([("", brought)] if brought else [])]
    table = output.aligned(("ranks", "first difference, and its way here"), rows)
    if len(groups) > _MOST_GROUPS:
        table += f"… and {len(groups) - _MOST_GROUPS} more groups of ranks: --format csv has every rank\n"
    return table


def _flips(found: FirstDifference, steps: set[int]) -> str:
    flips = [flip for flip in unbroken(records(found.flips)) if flip["step"] in steps]
    if not flips:
        return ""
    first, more = flips[0], f" and {len(flips) - 1} more" if len(flips) > 1 else ""
    return (
        f"Rounding alone flipped the decision of {first['op']}{more}: "
        f"it chose between values that differ by less than {first['margin']:.1g} of its largest input.\n"
    )


def _set_aside(found: FirstDifference, steps: set[int]) -> str:
    totals: dict[str, int] = defaultdict(int)
    for step, _, reason, leaves in found.set_aside.fetchall():
        if step in steps:
            totals[reason] += leaves
    if not totals:
        return ""
    counts = ", ".join(f"{number} {_REASONS[reason]}" for reason, number in totals.items())
    return f"Records that differ but were set aside, because they do not show what an op computed: {counts}.\n"
