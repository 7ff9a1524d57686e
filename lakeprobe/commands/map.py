"""lakeprobe map: propose a mapping between two runs whose names differ."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.complete import run_names
from lakeprobe.commands.options import LakeOption


class Kind(StrEnum):
    """The mapping files that can be proposed."""

    DATA = "data"
    CELL = "cell"
    LAYER = "layer"


def map(
    target: Annotated[str, typer.Argument(help="The suspect run: its name in the lake.", autocompletion=run_names)],
    golden: Annotated[str, typer.Argument(help="The trusted run: its name in the lake.", autocompletion=run_names)],
    kind: Annotated[Kind, typer.Option("--kind", help="The mapping to write: of rows, cells or layers.")] = Kind.DATA,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default="stdout")
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step", help="The step to read.", show_default="the first common one")
    ] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", help="The rank to read.", show_default="the first common one")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Propose which names of two runs belong together, as a mapping file for compare.

    Ops are aligned by module path, kind, order, shapes and statistics. Each line has a confidence and its evidence;
    what could not be aligned is listed at the end as comments. Uncertain rows are left out. Existing files are not
    overwritten.

    Example: lakeprobe map mindspore torch -o data.yaml && lakeprobe compare mindspore torch --data-mapping data.yaml
    """
    from lakeprobe import diagnostics
    from lakeprobe import output as stdout
    from lakeprobe.errors import LakeError
    from lakeprobe.lake import outputs
    from lakeprobe.mapping.propose import propose

    if output is not None:
        outputs.file_at(output, new=True)
    with diagnostics.working("searching a mapping"):
        proposal = propose(target, golden, lake=lake, step=step, rank=rank)
    text = proposal.yaml(kind.value)
    if output is None:
        stdout.document(text)
    else:
        try:
            with outputs.draft(output, new=True) as hidden:
                hidden.write_text(text, encoding="utf-8")
        except OSError as error:
            raise LakeError.from_system(error, output, "no mapping was written") from error
    for line in proposal.summary():
        diagnostics.note(line)
    if output is not None:
        diagnostics.note(f"written: {output}; read it, then use it: {_use(target, golden, kind, output)}")


def _use(target: str, golden: str, kind: Kind, file: Path) -> str:
    return hints.command("compare", quote(target), quote(golden), f"--{kind}-mapping", quote(str(file)))
