"""Changes one thing in a module or a statement, and looks whether its tests notice: mutation testing, by hand.

    python tests/mutants.py [--sample 12] [--seed 0] [FILE ...]        files as in TESTS; all of them by default

A changed constant, comparison, operator or condition that no test notices is a survivor, and is printed. Some change
nothing (a bound that nothing reaches, a fast path), the others are gaps of the tests. Each mutant is a process of its
own, a copy of this one, which has loaded what is slow to load.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import duckdb  # noqa: F401  what tests need is loaded once, here
import numpy as np  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import torch  # noqa: F401

HERE = Path(__file__).resolve().parent
TESTS = {
    "lakeprobe/tensors/kernel.py": ["tensors/test_metrics.py", "tensors/test_exact.py", "tensors/test_udf.py"],
    "lakeprobe/tensors/metrics.py": ["tensors/test_metrics.py", "tensors/test_exact.py", "tensors/test_udf.py"],
    "lakeprobe/readers/leaves.py": ["readers/test_leaves.py", "readers/test_dump_files.py", "readers/test_damage.py"],
    "lakeprobe/readers/members.py": ["readers/test_members.py", "readers/test_damage.py"],
    "lakeprobe/readers/names.py": ["readers/test_names.py", "readers/test_dump_files.py"],
    "lakeprobe/lake/log.py": ["lake/test_log.py", "lake/test_atomicity.py", "lake/test_audits.py"],
    "lakeprobe/lake/staging.py": ["lake/test_atomicity.py", "lake/test_audits.py", "lake/test_together.py"],
    "sql/judge/difference.sql": ["compare/test_difference.py", "compare/test_verdicts.py"],
    "sql/judge/verdicts.sql": ["compare/test_verdicts.py", "compare/test_statistics.py"],
}
SECONDS = 300
"""After which a mutant that does not end counts as noticed."""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}  # fmt: skip
IN_SQL = (
    (r"<=", "<"), (r">=", ">"), (r"(?<![<>=!])<(?![<>=])", "<="), (r"(?<![<>=!-])>(?![<>=])", ">="), (r"<>", "="),
    (r"(?<![<>=!:])=(?![=>])", "<>"), (r"\bAND\b", "OR"), (r"\bOR\b(?! REPLACE)", "AND"), (r"\bNOT ", ""),
    (r"\bmin\(", "max("), (r"\bmax\(", "min("), (r"\bgreatest\(", "least("), (r"\bleast\(", "greatest("),
    (r" \+ ", " - "), (r" / ", " * "), (r"(?<![\w.])(\d+)(?![\w.])", "7"),
)  # fmt: skip
Mutant = tuple[str, Callable[[], None]]
"""What is changed, and what makes the process have it so."""


def in_python(path: Path) -> Iterator[Mutant]:
    tree = ast.parse(path.read_text())
    for number, node in enumerate(ast.walk(tree)):
        if (changed := _changed(copy.deepcopy(node))) is not None:
            what = f"{path.name}:{node.lineno}: {ast.unparse(node)}  →  {ast.unparse(changed)}"  # type: ignore[attr-defined]
            yield what, lambda number=number: _install(path, number)  # type: ignore[misc]


def _changed(node: ast.AST) -> ast.AST | None:
    """The node, changed; None if nothing of it is to be changed."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return node.test if isinstance(node, ast.If) else node
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        node.value += 1
    else:
        return None
    return node


def _install(path: Path, number: int) -> None:
    """Have the module at `path` imported with its node `number` changed."""
    tree = ast.parse(path.read_text())
    node = next(node for count, node in enumerate(ast.walk(tree)) if count == number)
    _changed(node)
    name = ".".join(path.relative_to(HERE.parent).with_suffix("").parts)
    code = compile(ast.fix_missing_locations(tree), str(path), "exec")

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
            return importlib.util.spec_from_file_location(name, path, loader=self) if fullname == name else None

        def exec_module(self, module: ModuleType) -> None:
            exec(code, module.__dict__)

    sys.meta_path.insert(0, Finder())


def in_sql(path: Path) -> Iterator[Mutant]:
    text = path.read_text()
    for pattern, instead in IN_SQL:
        for found in re.finditer(pattern, text):
            line = text.count("\n", 0, found.start()) + 1
            whole = text.splitlines()[line - 1]
            if whole.lstrip().startswith("--") or found[0] == instead:
                continue
            changed = text[: found.start()] + instead + text[found.end() :]
            what = f"{path.name}:{line}: {whole.strip()}  →  {changed.splitlines()[line - 1].strip()}"
            yield what, lambda changed=changed: _serve(path, changed)  # type: ignore[misc]


def _serve(path: Path, text: str) -> None:
    usual = Path.read_text

    def read_text(asked: Path, *how: object, **more: object) -> str:
        return text if asked == path else usual(asked, *how, **more)  # type: ignore[arg-type]

    Path.read_text = read_text  # type: ignore[method-assign, assignment]


def is_noticed(apply: Callable[[], None], tests: list[str]) -> bool:
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1), os.dup2(silent, 2)
        apply()
        asked = [str(HERE / test) for test in tests]
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:xdist", "-p", "no:randomly", *asked])))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=list(TESTS))
    parser.add_argument("--sample", type=int, default=12, help="so many mutants of each file, drawn by chance")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for file in asked.files:
        path, tests, began = HERE.parent / file, TESTS[file], time.monotonic()
        assert not is_noticed(lambda: None, tests), f"the tests of {file} fail without a change"
        mutants = list((in_python if path.suffix == ".py" else in_sql)(path))
        chosen = random.Random(asked.seed).sample(mutants, min(asked.sample, len(mutants)))
        survivors = [what for what, apply in chosen if not is_noticed(apply, tests)]
        print(f"{file}: {len(chosen)} of {len(mutants)}, {len(survivors)} survive, {time.monotonic() - began:.0f} s")
        for what in sorted(survivors):
            print(f"  {what}", flush=True)


if __name__ == "__main__":
    main()
