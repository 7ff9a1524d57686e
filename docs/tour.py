"""Makes docs/tour.md, what a terminal of 80 columns shows, and the pictures in docs/pictures.

python docs/tour.py writes the pictures, that of a workbook if LibreOffice is there, and that of a notebook if Chromium
is. docs/generate.py writes and checks the page.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from lakeprobe import cli

FOLDER = Path(__file__).resolve().parent
DUMPS = FOLDER.parent / "tests" / "data" / "dumps"

QUERY = "select op, count(*) as rows from tensors group by all order by rows desc, op limit 3"
STEPS = (
    ("Read two dumps", "ingest dumps/demo/target"),
    ("", "ingest dumps/demo/golden"),
    ("What is there now", "ls"),
    ("Which op differs first", "compare target golden"),
    ("Where it began, on every rank", "first-diff target_vs_golden"),
    ("What causes it, and how it reaches the loss", "blame target_vs_golden --most 2"),
    ("Both sides of an op", "show layer_norm.3 --most 1"),
    ("Any other question", f"sql {shlex.quote(QUERY)} --format table"),
    ("Four ranks: which one it came from", "compare dumps/ranks/gelu_tanh dumps/ranks/golden"),
    ("Where NaN or inf is born", "overflow dumps/ranks/log0"),
    ("The steps, with your own runs", ""),
)  # fmt: skip
"""The titles and commands of the tour."""

TEXT = """\
<!-- Made by docs/generate.py: edit docs/tour.py and run it again. -->

# A tour

What a terminal of 80 columns shows. The dumps are those of the repository: a small language model with a planted
defect (the epsilon of a LayerNorm), and four ranks of which one has another GELU.
"""


def page() -> str:
    """Return the page: every command with what it writes to stdout."""
    parts = [TEXT]
    with lake():
        for title, command in STEPS:
            parts += [f"## {title}\n"] if title else []
            parts.append(f"```text\n$ lakeprobe {command}".rstrip() + f"\n{shown(command)}\n```\n")
    return "\n".join(parts)


@contextmanager
def lake() -> Iterator[None]:
    """Go into a folder with the dumps, in which the commands run, and which is gone afterwards."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "dumps").symlink_to(DUMPS)
        with chdir(folder):
            yield


def shown(command: str, **environment: str) -> str:
    """Return what a command writes to stdout, or what it says if that is nothing; times are left out."""
    words = shlex.split(command)
    if words[:1] == ["overflow"]:
        call(["ingest", words[1]], environment)
        words[1] = Path(words[1]).name
    out, err = call(words, environment)
    here = str(Path.cwd())
    return re.sub(r" in \d+\.\d s$", "", (out or err).strip("\n").replace(here, "~"), flags=re.MULTILINE)


def call(words: list[str], environment: dict[str, str]) -> tuple[str, str]:
    """Run the command line in this process, on a terminal of 80 columns. Returns stdout and stderr."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("LAKEPROBE")}
    variables |= {"COLUMNS": "80", "NO_COLOR": "1"} | environment
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, {name: value for name, value in variables.items() if value}, clear=True),
        patch.object(sys, "argv", ["lakeprobe", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(err.getvalue()) from ended
    return out.getvalue(), err.getvalue()


PICTURES = {
    "compare": "compare target golden",
    "blame": "blame target_vs_golden --most 2",
    "show": "show layer_norm.3 --most 1",
    "help": "--help",
}


def pictures() -> None:
    """Write a picture of a terminal for each of PICTURES."""
    from rich.console import Console
    from rich.text import Text

    (FOLDER / "pictures").mkdir(exist_ok=True)
    with lake():
        call(["ingest", "dumps/demo/target"], {})
        call(["ingest", "dumps/demo/golden"], {})
        for name, command in PICTURES.items():
            text = shown(command, NO_COLOR="", FORCE_COLOR="1")
            width = max(82, *map(len, re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()))
            console = Console(record=True, width=width, file=io.StringIO())
            console.print(Text("$ ", "dim") + Text(f"lakeprobe {command}", "bold"))
            console.print(Text.from_ansi(text), soft_wrap=True)
            svg = console.export_svg(title=f"lakeprobe {command.split()[0].strip('-')}", unique_id=f"lakeprobe-{name}")
            (FOLDER / "pictures" / f"{name}.svg").write_text(svg, encoding="utf-8")


def workbook_picture() -> None:
    """Write a picture of a workbook's first sheet. It needs soffice of LibreOffice, and pdftoppm of poppler."""
    with lake():
        call(["compare", "dumps/ranks/gelu_tanh", "dumps/ranks/golden", "-o", "out", "--format", "xlsx"], {})
        (book,) = Path("out").glob("*.xlsx")
        for command in (
            ["soffice", "--headless", "--convert-to", "pdf", "--outdir", "out", str(book)],
            ["pdftoppm", "-r", "80", "-png", "-singlefile", str(book.with_suffix(".pdf")), "out/workbook"],
        ):
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603 the two programs above
        shutil.copy("out/workbook.png", FOLDER / "pictures" / "workbook.png")


STYLE = """
body { font: 14px system-ui, sans-serif; margin: 16px 24px; width: 950px; }
.code { background: #f5f6f8; border: 1px solid #dde1e6; padding: 8px 12px; white-space: pre-wrap; font: 13px monospace }
"""


def notebook_picture() -> None:
    """Write a picture of notebooks/view.ipynb after it has run. It needs nbclient, and a chromium."""
    import nbclient
    import nbformat

    notebooks = FOLDER.parent / "notebooks"
    notebook = nbformat.read(notebooks / "view.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(notebooks)}}).execute()
    parts = [f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>"]
    for cell in notebook.cells[1:4]:
        if cell.cell_type == "code":
            parts.append(f'<div class="code">{escape(cell.source)}</div>')
            parts += [output.data["text/html"] for output in cell.outputs if "data" in output]
    flow = notebook.cells[5]
    parts += [f'<div class="code">{escape(flow.source)}</div>', flow.outputs[0].data["text/html"]]
    with TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_text("\n".join(parts), encoding="utf-8")
        picture = FOLDER / "pictures" / "notebook.png"
        command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1480"]
        subprocess.run(  # noqa: S603 the browser
            [*command, f"--screenshot={picture}", (Path(folder) / "page.html").as_uri()],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    pictures()
    if shutil.which("chromium"):
        notebook_picture()
    if shutil.which("soffice") and shutil.which("pdftoppm"):
        workbook_picture()
