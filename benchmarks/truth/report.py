"""The counts as tables: how often the planted cause is named first, and how often an alarm is false."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import sqrt
from pathlib import Path

from benchmarks.truth.count import COMMANDS, Case, read_cases

NOISE_TEXTS = {
    "clean": "none",
    "weights": "parameters off by 1e-7",
    "ulp": "rounding of 2e-7 and 6e-8",
    "threads": "sums in another order",
    "f64": "products in float64",
    "npu": "as between two chips: 1e-6 and 2e-7",
    "tf32": "products of tf32 inputs",
    "bf16": "model in bfloat16",
}
_METHOD_TEXTS = {"statistics": "statistics", "tensor": "tensors"}

Found = tuple[str, str, str, Case]
"""Method, model, noise and a case."""


def read(work: Path) -> list[Found]:
    """All cases under `work`, which has METHOD/MODEL_NOISE/counts.json."""
    found = []
    for file in sorted(work.glob("*/*/counts.json")):
        model, _, noise = file.parent.name.rpartition("_")
        found += [(file.parent.parent.name, model, noise, case) for case in read_cases(file)]
    return found


def table(found: Iterable[Found]) -> str:
    """A row per noise and what was collected: in what share of runs each command names the cause first.

    In brackets: how often it is among the first three, where that is more often.
    """
    groups: dict[tuple[str, str, bool], list[Case]] = defaultdict(list)
    for method, _, noise, case in found:
        groups[noise, method, case.repeat].append(case)
    lines = [
        "| noise | collected | planted | "
        + " | ".join(f"`{name}` first" for name in COMMANDS)
        + " | equal runs | alarms |",
        "|---|---|---|" + "---|" * len(COMMANDS) + "---|---|",
    ]
    order = {noise: place for place, noise in enumerate(NOISE_TEXTS)}
    for noise, method, repeat in sorted(groups, key=lambda key: (order[key[0]], key[1], key[2])):
        cases = groups[noise, method, repeat]
        collected = _METHOD_TEXTS[method] + (" and a repeat" if repeat else "")
        lines.append(f"| {NOISE_TEXTS[noise]} | {collected} | {' | '.join(_cells(cases))} |")
    return "\n".join(lines) + "\n"


def _cells(cases: list[Case]) -> Iterator[str]:
    planted = [case for case in cases if case.kind is not None]
    equal = [case for case in cases if case.kind is None]
    yield str(len(planted) // len(COMMANDS))
    for command in COMMANDS:
        yield _share(Counter(case.outcome for case in planted if case.command == command))
    yield str(len(equal) // len(COMMANDS))
    alarms = Counter(case.command for case in equal if case.outcome == "alarm")
    yield ", ".join(str(alarms[command]) for command in COMMANDS)


def _share(outcomes: Counter[str]) -> str:
    total = outcomes.total()
    if total == 0:
        return "–"
    first = outcomes["first"]
    among = first + outcomes["three"]
    low, high = interval(first, total)
    text = f"{first} ({100 * first / total:.0f} %; {100 * low:.0f} to {100 * high:.0f})"
    return text if among == first else f"{text}, {among} in three"


def interval(hits: int, total: int) -> tuple[float, float]:
    """Between what shares the true one lies with 95 % confidence.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    z = 1.96
    share = hits / total
    middle = share + z**2 / (2 * total)
    half = z * sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
    return max(0.0, (middle - half) / (1 + z**2 / total)), min(1.0, (middle + half) / (1 + z**2 / total))


def kinds(found: Iterable[Found]) -> str:
    """A row per kind of defect: in how many runs each command names the cause first, over all noises."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for _, _, _, case in found:
        if case.kind is not None:
            groups[case.kind].append(case)
    lines = ["| kind | planted | " + " | ".join(f"`{name}` first" for name in COMMANDS) + " |"]
    lines.append("|---|---|" + "---|" * len(COMMANDS))
    for kind, cases in sorted(groups.items()):
        shares = [_share(Counter(case.outcome for case in cases if case.command == name)) for name in COMMANDS]
        lines.append(f"| {kind} | {len(cases) // len(COMMANDS)} | {' | '.join(shares)} |")
    return "\n".join(lines) + "\n"


def extent(found: Iterable[Found]) -> str:
    """What was counted: the models of each method and noise, once where they are the same."""
    models: dict[tuple[str, str], set[str]] = defaultdict(set)
    for method, model, noise, _ in found:
        models[method, noise].add(model)
    noises: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for method, noise in sorted(models, key=lambda key: (key[0], list(NOISE_TEXTS).index(key[1]))):
        noises[method, tuple(sorted(models[method, noise]))].append(f"`{noise}`")
    lines = [
        f"- {', '.join(under)}, {_METHOD_TEXTS[method]}, {len(names)} models: {', '.join(names)}"
        for (method, names), under in noises.items()
    ]
    return "\n".join(lines) + "\n"


def misses(found: Iterable[Found]) -> str:
    """A line per run in which a command does not name the cause first, or names an op where nothing is planted."""
    lines: dict[str, list[str]] = defaultdict(list)
    for method, model, noise, case in found:
        if case.outcome in ("first", "quiet"):
            continue
        with_repeat = " and a repeat" if case.repeat else ""
        planted = f"{case.kind}, `{case.run}`" if case.kind else "equal run"
        named = f"`{case.named[0].op}` in step {case.named[0].step}" if case.named else "nothing"
        line = f"- `{noise}`, {_METHOD_TEXTS[method]}{with_repeat}, {model}, {planted}: {case.outcome}, {named}"
        lines[line].append(f"`{case.command}`")
    return "\n".join(f"{line} ({', '.join(commands)})" for line, commands in lines.items()) + "\n"
