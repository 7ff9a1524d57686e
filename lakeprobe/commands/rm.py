"""lakeprobe rm: remove runs, comparisons, noises, verifications and perturbations from the lake."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.complete import run_or_comparison_names
from lakeprobe.commands.options import LakeOption


def rm(
    names: Annotated[
        list[str],
        typer.Argument(help="Runs, comparisons, verifications, perturbations.", autocompletion=run_or_comparison_names),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    lake: LakeOption = None,
) -> None:
    """Remove runs, comparisons, noises, verifications and perturbations, after asking.

    With a run R go R.preflight, R.weights, its verifications, perturbations and noises. A comparison keeps its rows.

    Example: lakeprobe rm npu_vs_gpu old_npu --yes
    """
    from lakeprobe import diagnostics
    from lakeprobe.lake import store, upkeep

    path = store.check(store.choose(lake))
    for kept in [upkeep.find(path, name) for name in names]:
        users = upkeep.users_of(path, kept)
        use = "a side of" if kept.what == "run" else "used by"
        consequence = f" ({use} {', '.join(users)}, whose rows stay)" if users else ""
        if kept.what == "run":
            others = [*upkeep.companions_of(path, kept.name), *upkeep.checks_of(path, kept.name)]
            consequence += f" with {', '.join(others)}" if others else ""
        if yes or diagnostics.agreed(f"remove the {kept.what} {kept.name}{consequence}?"):
            with diagnostics.working(f"removing {kept.name}"):
                upkeep.remove(path, kept.name)
            diagnostics.note(f"removed: the {kept.what} {kept.name}")
