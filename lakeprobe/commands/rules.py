"""lakeprobe rules: list and show the bundled rules, and copy one to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.complete import rule_names
from lakeprobe.commands.layout import Command, Commands

app = typer.Typer(
    cls=Commands,
    help="The bundled rules: list them, show one, copy one to edit.\n\nExample: lakeprobe rules list",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", cls=Command)
def list_rules() -> None:
    """List the bundled rules, each with its purpose.

    Example: lakeprobe rules list
    """
    from lakeprobe import diagnostics, output, resources
    from lakeprobe.compare import rule as rules

    rows = [(name, _purpose(resources.sql(f"rules/{name}"))) for name in rules.bundled()]
    output.text(output.aligned(("rule", "purpose"), rows))
    diagnostics.note("copy one to edit it: lakeprobe rules new FILE --from RULE")


@app.command("show", cls=Command)
def show_rule(
    name: Annotated[str, typer.Argument(help="The rule, as given to compare with --sql.", autocompletion=rule_names)],
) -> None:
    """Show the SQL of a rule.

    Example: lakeprobe rules show same_framework
    """
    from lakeprobe import output
    from lakeprobe.compare import rule as rules

    output.document(rules.load(name).sql)


@app.command("new", cls=Command)
def new_rule(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")],
    source: Annotated[
        str, typer.Option("--from", help="The bundled rule to start from.", autocompletion=rule_names)
    ] = "same_framework",
) -> None:
    """Copy a bundled rule into a file, to edit it.

    Example: lakeprobe rules new my_rule.sql --from fuzzy
    """
    import shlex

    from lakeprobe import diagnostics
    from lakeprobe.compare import rule as rules
    from lakeprobe.errors import UsageError
    from lakeprobe.lake import outputs

    copied = rules.load(source)
    views = ", ".join(rules.CONTRACT)
    head = f"-- {file.stem}: a copy of {copied.name}; change its views ({views}) and thresholds: docs/rules.md."
    try:
        with outputs.draft(file, new=True) as hidden:
            hidden.write_text(f"{head}\n{copied.sql}", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    diagnostics.note(f"written: {file}; edit it, then: lakeprobe compare TARGET GOLDEN --sql {shlex.quote(str(file))}")


def _purpose(sql: str) -> str:
    """Return the first line of a rule's header, without the name."""
    return sql.splitlines()[0].removeprefix("-- ").partition(": ")[2]
