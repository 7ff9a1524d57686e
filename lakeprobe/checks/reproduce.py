"""Writes a script that runs one op as a run called it, for whoever owns the kernel.

It needs numpy and the run's framework, torch or mindspore, and nothing of lakeprobe.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from lakeprobe import resources
from lakeprobe.checks import SEED, check_seed, values
from lakeprobe.checks.calls import CASTS, KEEPS_DTYPE, NO_OPS, Call, CannotRunError, Leaf, nested, paths, values_of
from lakeprobe.checks.standards import prepare
from lakeprobe.checks.verify import Chosen, select
from lakeprobe.errors import UsageError
from lakeprobe.lake import outputs, staging, store, views
from lakeprobe.lake.connection import connect
from lakeprobe.system.files import read_json

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

_TEMPLATES = Path(__file__).parent / "templates"
_MODULES = {
    "pytorch": {
        "Functional": "torch.nn.functional",
        "Torch": "torch",
        "Tensor": "torch.Tensor",
        "VF": "torch._VF",
        "Aten": "torch.ops.aten",
    },
    "mindspore": {
        "Functional": "mindspore.ops",
        "Mint": "mindspore.mint",
        "MintFunctional": "mindspore.mint.nn.functional",
        "Tensor": "mindspore.Tensor",
        "Primitive": "mindspore.ops",
    },
}
"""Where a script finds the ops of each namespace. It has a template for each of these frameworks."""
_KEEPS_DTYPE = {"pytorch": KEEPS_DTYPE, "mindspore": KEEPS_DTYPE | CASTS}
_REFERENCES = "from lakeprobe.checks.mindspore.references import install"
"""The line of a template in whose place scripts have the whole file."""
_API = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
_WORDS = {1: "u1", 2: "i2"}
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


class Script(Struct, frozen=True):
    """The files that were written: the script, and its data."""

    path: Path
    data: Path


def reproduce(
    run: str,
    op: str,
    out: str | os.PathLike[str] | None = None,
    *,
    lake: str | os.PathLike[str] | None = None,
    step: int | None = None,
    rank: int | None = None,
    backward: bool = True,
    random: bool = False,
    seed: int = SEED,
) -> Script:
    """Write the script `out` (by default OP.py) for the op `op` of `run`, and its arguments beside it as .npz.

    Arguments are what was dumped, or random values with the recorded statistics. Of several steps and ranks the first
    that has the op is taken. Raises UsageError for an op that the run lacks or that cannot be rebuilt, and for files
    that exist already.
    """
    check_seed(seed)
    path = store.check(store.choose(lake))
    wanted = re.sub(r"\.(forward|backward)$", "", op)
    script = Path(out) if out is not None else Path(f"{re.sub(r'[^A-Za-z0-9_.-]', '_', wanted)}.py")
    if script.suffix == ".npz":
        raise UsageError(f"{script} is the name of a file of arguments; end that of the script in .py")
    for file in (script, script.with_suffix(".npz")):
        outputs.file_at(file, new=True)
    chosen = Chosen(
        (_literal(f"{wanted}.forward"),), steps=() if step is None else (step,), ranks=() if rank is None else (rank,)
    )
    with staging.reading(path) as snapshot, connect(threads=1) as connection:
        views.define(connection, snapshot)
        prepare(connection)
        rows, calls, framework = select(connection, path, run, chosen, random=random)
        call = calls[rows[0]["key"]]
        limits = _limits(connection, call.api)
    try:
        described, arrays = _described(call, wanted, seed, backward, framework)
    except CannotRunError as reason:
        raise UsageError(f"{wanted} of run {run} cannot be reproduced: {reason}") from reason
    return _write(script, framework, described | {"limits": limits}, arrays)


def reproduce_config(path: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Script:
    """Write the script that a config_op.json of msprobe's op_generate asks for; its dump is read into a passing lake.

    Keys: dump_json_path, api_name, propagation (forward or backward), data_mode (random_data or real_data) and
    random_seed. extract_api_path and iter_times have no meaning here. Raises UsageError and DumpError.
    """
    from lakeprobe.ingest import ingest  # the readers, which only this needs

    config = read_json(path)
    try:
        dump, op = Path(config["dump_json_path"]), str(config["api_name"])
    except (KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a config_op.json with dump_json_path and api_name: {error}") from error
    with tempfile.TemporaryDirectory(prefix="lakeprobe-") as folder:
        lake = Path(folder) / "lake"
        ingest(dump.parent, lake=lake, run="dump", tensors="link")
        return reproduce(
            "dump", op, out, lake=lake, backward=config.get("propagation") == "backward",
            random=config.get("data_mode") == "random_data", seed=int(config.get("random_seed") or SEED),
        )  # fmt: skip


def _literal(name: str) -> str:
    """`name` as a pattern that matches nothing else."""
    return re.sub(r"([*?[])", r"[\1]", name)


def _limits(connection: duckdb.DuckDBPyConnection, api: str) -> list[dict[str, float]]:
    """The limits of the rounding standard for the forward and the backward of an API."""
    found = connection.execute(resources.sql("checks/limits"), {"api": api})
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _described(
    call: Call, op: str, seed: int, backward: bool, framework: str
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:  # fmt: skip
    """The call as the script has it, and its arrays by name. Raises CannotRunError."""
    function = _function(call, _MODULES[framework])
    own_seed = seed ^ zlib.crc32(call.key.encode())
    arrays: dict[str, NDArray[Any]] = {}
    dtypes: dict[str, str] = {}

    def keep(name: str, leaf: Leaf, seed: int) -> None:
        array = values.array_of(leaf, seed)
        extended = array.dtype.kind not in "biufc" or array.dtype.name in ("bfloat16",)
        arrays[name] = array.view(_WORDS[array.dtype.itemsize]) if extended else array
        dtypes[name] = array.dtype.name if extended else ""

    inputs = call.of("input")
    for leaf in inputs:
        if leaf.kind == "tensor":
            keep(leaf.slot, leaf, own_seed)
    gradients = [leaf for leaf in call.gradients("input") if leaf.kind == "tensor"] if backward else []
    for leaf in gradients:
        keep(f"gradient.{leaf.slot}", leaf, own_seed + 1)
    positional, named = (
        nested({path: _member(leaf, bool(gradients)) for path, leaf in paths(inputs, section)}, call.empties, section)
        for section in ("input_args", "input_kwargs")
    )
    floats = [_EPS[leaf.plain_dtype] for leaf in (*inputs, *call.of("output")) if leaf.plain_dtype in _EPS]
    described = {
        "op": op, "function": function, "positional": positional or [], "named": named or {},
        "gradients": [f"gradient.{leaf.slot}" for leaf in gradients], "dtypes": dtypes,
        "keeps_dtype": call.api.rpartition(".")[2] in _KEEPS_DTYPE[framework],
        "autocast": _autocast(call), "unit": max(floats, default=2.0**-23) / 2,
        "seed": seed, "without": [], "attributes": None if call.attributes is None else json.loads(call.attributes),
    }  # fmt: skip
    return described, arrays


def _function(call: Call, modules: Mapping[str, str]) -> str:
    """Where the script finds the op. Whether torch calls it an op, it asks there itself."""
    module = modules.get(call.api_type)
    if module is None or not _API.fullmatch(call.api) or call.api.rpartition(".")[2] in NO_OPS:
        raise CannotRunError(f"{call.api_type}.{call.api} is not an op that a script could call")
    return f"{module}.{call.api.rpartition('.')[2] if call.api_type == 'Primitive' else call.api}"


def _autocast(call: Call) -> str | None:
    """The dtype of autocast, as in the workers: results of 16 bits of float32 inputs."""
    given = {leaf.plain_dtype for leaf in call.of("input") if leaf.kind == "tensor"}
    small = {leaf.plain_dtype for leaf in call.of("output") if leaf.kind == "tensor"} & {"float16", "bfloat16"}
    return small.pop() if "float32" in given and len(small) == 1 and call.api not in KEEPS_DTYPE else None


def _member(leaf: Leaf, has_backward: bool) -> Any:
    if leaf.kind == "tensor":
        return {"tensor": leaf.slot, "requires_grad": bool(leaf.requires_grad) and has_backward}
    if leaf.type in ("torch.dtype", "mindspore.dtype", "Number"):
        return {"dtype": str(leaf.value).rpartition(".")[2].lower()}
    if leaf.type == "torch.device":
        return {"device": True}
    value = values_of(leaf)
    return {"slice": [value.start, value.stop, value.step]} if isinstance(value, slice) else value


def _write(
    script: Path, framework: str, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Script:  # fmt: skip
    text = (_TEMPLATES / f"{framework}_op.py").read_text(encoding="utf-8").replace("SCRIPT", script.name)
    references = _TEMPLATES.parent / "mindspore" / "references.py"
    text = text.replace(f"{_REFERENCES}\n", f"\n{references.read_text(encoding='utf-8')}")
    text = text.replace("CALL: dict[str, Any] = {}", f"CALL: dict[str, Any] = {literal(described)}", 1)
    data = script.with_suffix(".npz")
    try:
        with outputs.draft(script, new=True) as hidden, outputs.draft(data, new=True) as hidden_data:
            with hidden_data.open("wb") as file:  # numpy adds .npz to a name
                np.savez(file, **arrays)  # type: ignore[arg-type] # numpy 1 would keep allow_pickle as an array
            hidden.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{script} cannot be written: {error.strerror}") from error
    return Script(script, data)


def literal(value: Any, depth: int = 0) -> str:
    """`value` as Python source: numbers that are not finite as float("nan"), texts escaped."""
    inside = "    " * (depth + 1)
    if isinstance(value, dict):
        members = [f"{literal(str(key))}: {literal(member, depth + 1)}" for key, member in value.items()]
    elif isinstance(value, (list, tuple)):
        members = [literal(member, depth + 1) for member in value]
    elif isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    elif isinstance(value, str):
        return json.dumps(value)
    else:
        return repr(value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    line = f"{opening}{', '.join(members)}{closing}"
    if len(line) + 4 * depth <= 100:
        return line
    return f"{opening}\n" + "".join(f"{inside}{member},\n" for member in members) + "    " * depth + closing
