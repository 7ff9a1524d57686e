"""The benchmark of accuracy: trains models with planted defects under noise, asks which op is the cause, and counts.

    python -m benchmarks.truth.run [--models a,b] [--noises x,y] [--methods m,n] [--sample N [--seed S]] [--no-repeat]
                                   [--recount] [--write-docs]

What was trained and counted before is kept in the work folder (.truth), so that a run that was cut off goes on where it
was; `--recount` asks again, which is needed when lakeprobe has changed. Prints a line per case, then the tables.
`--sample` trains and counts N defects of each model and noise, drawn by chance, in a work folder of its own; the models
come in an order of chance, too, so that a count that was cut off is a sample of models.
`--write-docs` puts them into docs/accuracy.md. MindSpore's models run with the Python of $MINDSPORE_PYTHON
(.venv-mindspore by default) and are left out where there is none.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.truth import report, runs
from benchmarks.truth.count import forget
from benchmarks.truth.planted import MODELS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- counted by make truth -->\n", "<!-- end of what make truth counted -->\n"

NOISES = {
    "statistics": ("clean", "ulp", "npu", "threads", "f64", "tf32", "bf16", "weights"),
    "tensor": ("clean", "npu", "tf32"),
}
"""What is trained of each model, by what is collected."""

UNDER = {"mindspore": ("clean", "weights")}
"""The noises that can be made for a framework; for PyTorch all."""


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 if a training or a count failed."""
    asked = _parser().parse_args(arguments)
    work = Path(asked.work or _work(asked))
    if asked.recount:
        for method, model, noises in _cases(asked):
            for noise in noises:
                forget(runs.folder_of(work, method, model, noise))
    sampling = _sampling(asked)
    # what was trained is counted, also where a model does not run under one of the noises
    done = [(case, _run("train", work, *case, *sampling), _run("count", work, *case)) for case in _cases(asked)]
    found = report.read(work)
    tables = (report.table(found), report.kinds(found), report.misses(found), report.extent(found))
    print("", *tables, sep="\n")
    if asked.write_docs:
        write_page(PAGE, *tables)
    failed = [case for case, is_trained, is_counted in done if not (is_trained and is_counted)]
    for method, model, _ in failed:
        print(f"failed: {method} {model}", file=sys.stderr)
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--methods", default=",".join(NOISES))
    parser.add_argument("--noises", default="")
    parser.add_argument("--work")
    runs.add_sampling(parser)
    parser.add_argument("--recount", action="store_true", help="ask again what was asked before; runs are kept")
    parser.add_argument("--write-docs", action="store_true")
    return parser


def _work(asked: argparse.Namespace) -> Path:
    return ROOT / ".truth" / ("all" if asked.sample is None else f"sample-{asked.seed}")


def _sampling(asked: argparse.Namespace) -> list[str]:
    sample = [] if asked.sample is None else ["--sample", str(asked.sample), "--seed", asked.seed]
    return sample + (["--no-repeat"] if asked.no_repeat else [])


def _cases(asked: argparse.Namespace) -> Iterator[tuple[str, str, list[str]]]:
    """Method, model and noises of all that was asked for; the lake of each noise is a folder of its own."""
    models = asked.models.split(",")
    for method in asked.methods.split(","):
        for model in models if asked.sample is None else runs.drawn(models, asked.seed):
            framework = MODELS[model]
            noises = asked.noises.split(",") if asked.noises else NOISES[method]
            possible = [noise for noise in noises if noise in UNDER.get(framework, (noise,))]
            if possible and python_of(framework) is not None:
                yield method, model, possible


def python_of(framework: str) -> Path | None:
    """The interpreter that has this framework, or None if there is none."""
    if framework == "pytorch":
        return Path(sys.executable)
    python = Path(os.environ.get("MINDSPORE_PYTHON", ROOT / ".venv-mindspore" / "bin" / "python"))
    return python if python.exists() else None


def _run(stage: str, work: Path, method: str, model: str, noises: list[str], *options: str) -> bool:
    """Train or count a model in a process of its own; whether that went well."""
    framework = MODELS[model]
    module = "train_mindspore" if stage == "train" and framework == "mindspore" else stage
    program = [str(python_of(framework)), "-m", f"benchmarks.truth.{module}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*program, str(work), method, model, *noises, *options], cwd=ROOT, env=environment)
    return done.returncode == 0


def write_page(page: Path, *tables: str) -> None:
    """Put the tables between the marks of the page, with the date and the versions that were counted."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    counted = f"{datetime.now(UTC):%Y-%m-%d}, {', '.join(_versions())}.\n"
    page.write_text(before + BEGIN + "\n" + "\n".join([*tables, counted]) + "\n" + END + after)


def _versions() -> Iterator[str]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if commit.returncode == 0:
        yield f"commit {commit.stdout.strip()}"
    yield f"Python {platform.python_version()}"
    for name in ("lakeprobe", "torch", "transformers", "torchvision", "mindspore"):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
