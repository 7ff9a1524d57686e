"""lakeprobe examples: copy the bundled dumps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def examples(
    folder: Annotated[Path, typer.Argument(help="The folder to write; it must not exist yet.")] = Path("examples"),
) -> None:
    """Copy the dumps of the tutorials into a folder, to try lakeprobe on them.

    demo has two runs of a language model: golden, and target with a planted defect. ranks has three runs of a job of
    four ranks: golden, and two with a defect. ptdbg.tar.xz is a dump of ptdbg_ascend with one of msprobe.

    Example: lakeprobe examples
    """
    import shutil
    from shlex import quote

    from lakeprobe import diagnostics, resources
    from lakeprobe.errors import UsageError

    try:
        folder.mkdir(parents=True)
        for name, path in resources.examples().items():
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, folder / name)
    except FileExistsError as error:
        raise UsageError(f"{folder} exists already; name a new folder") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    diagnostics.note(f"written: {', '.join(str(folder / name) for name in resources.examples())}")
    target, golden = (quote(str(folder / "demo" / side)) for side in ("target", "golden"))
    diagnostics.note(f"next, compare two runs: lakeprobe compare {target} {golden}")
