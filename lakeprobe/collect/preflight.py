"""What a run begins with, before its first op: written down in one file, which the reader `preflight` makes rows of.

Environment, packages, devices, deterministic switches, random generators, hyper-parameters, the first batches, weights.
It needs no framework: what torch or MindSpore know is added where they are imported already. Nothing that the training
uses is changed: generators are as they were, and batches are taken from an iterator of their own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import random
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import layout, outputs
from lakeprobe.readers.preflight import FILE, VERSION
from lakeprobe.system import files
from lakeprobe.version import __version__

FOLDER = "LAKEPROBE_PREFLIGHT"
"""The environment variable with the folder that a wrapped command packs into."""

_MODULES = {"torch": "pytorch", "mindspore": "mindspore"}
_RANKS = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK")
"""The variables by which launchers say which rank a process is: torchrun, MindSpore's, mpirun."""

_OF_THE_PROCESS = re.compile(
    r"_|SHLVL|PWD|OLDPWD|TERM|TERM_.*|COLUMNS|LINES|HOSTNAME|HOST|SSH_.*|XDG_.*|DBUS_.*|TMUX.*|STY|WINDOWID|LS_COLORS|"
    r"LAKEPROBE_.*|RANK|RANK_ID|LOCAL_RANK|GROUP_RANK|ROLE_RANK|MASTER_ADDR|MASTER_PORT|TORCHELASTIC_.*|"
    r".*_CACHE_DIR|TMPDIR|TMP|TEMP|PYTEST_CURRENT_TEST|PYTEST_XDIST_.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_.*|SLURM_JOB_?ID|SLURM_STEP_ID"
)
"""Variables that say where and by whom a process was started, not what it computes. They are not written down."""

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY", re.IGNORECASE)
"""Variables of which only a digest is written down."""

_MOST_BATCHES = 3
_SEEDED_NOT = "not seeded"
_LONGEST_TEXT = 4096


def preflight(
    model: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    run: str | None = None,
    lake: str | os.PathLike[str] | None = None,
    settings: Any = None,
    batches: Iterable[Any] | None = None,
    most_batches: int = _MOST_BATCHES,
) -> Path | None:
    """Write down what this process begins with: call it once, before the first training step.

    `settings` are the hyper-parameters: a dict, an argparse.Namespace or a dataclass, nested as you like. `batches` is
    what the training will go through, such as a DataLoader; the first `most_batches` are hashed and measured, and of
    `model` (a module or cell) every parameter and buffer.

    With `out` a file is written into the folder out/rankR, which is returned. With `run` it becomes the run
    RUN.preflight of `lake` ($LAKEPROBE_LAKE or ./lake), which `compare` and `blame` of RUN look at first. Raises
    UsageError, LakeError, and OSError.

    >>> lakeprobe.preflight(model, run="npu", settings=args, batches=loader)
    """
    if (out is None) == (run is None):
        raise UsageError("preflight: give out, a folder, or run, the name of the run that begins")
    found = gather(model, settings=settings, batches=batches, most_batches=most_batches)
    if out is not None:
        return write(found, files.absolute(out))
    from lakeprobe.ingest import ingest

    with tempfile.TemporaryDirectory(prefix="lakeprobe-preflight-") as folder:
        write(found, Path(folder))
        ingest(folder, lake=lake, run=f"{run}{layout.PREFLIGHT}", replace=True)
    return None


def write(found: Mapping[str, Any], folder: Path) -> Path:
    """Write what was gathered into `folder`, for this process's rank. Returns the folder of the rank.

    Raises UsageError for a folder in a lake, and LakeError if it cannot be written.
    """
    place = folder / f"rank{rank()}"
    try:
        outputs.folder(place)
        with outputs.draft(place / FILE) as path:
            path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    except OSError as error:
        raise LakeError.from_system(error, place, "nothing was written") from error
    return place


def rank() -> int:
    """The rank of this process, as its launcher says; else 0."""
    known = next((os.environ[name] for name in _RANKS if os.environ.get(name, "").isdecimal()), "0")
    return int(known)


def gather(
    model: Any = None,
    *,
    settings: Any = None,
    batches: Iterable[Any] | None = None,
    most_batches: int = _MOST_BATCHES,
    unseeded: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What this process begins with, as the file has it: sections of values by name, and leaves of tensors.

    `unseeded` are the states of generators (`generators`) when the program began: one that is still in its state was
    not seeded, and nothing was drawn from it.
    """
    found: dict[str, Any] = {
        "preflight": VERSION,
        "lakeprobe": __version__,
        "framework": "pytorch",
        "environment": _environment(),
        "packages": _packages(),
        "python": _python(),
        "launch": {"arguments": _text(" ".join(sys.argv[1:])), "world_size": os.environ.get("WORLD_SIZE", "1")},
        "random": _random(unseeded or {}),
        "settings": dict(_flattened(settings)) if settings is not None else {},
        "switches": {},
        "devices": {},
        "data": {},
        "weights": {},
    }
    state = _framework(model)
    if state is not None:
        found["framework"] = state.FRAMEWORK
        found["switches"], found["devices"] = state.switches(), state.devices()
        found["random"] |= state.generators()
        found["weights"] = dict(_weights(model, state))
    if batches is not None:
        with _generators_kept(state):
            found["data"] = _data(batches, most_batches, state)
    return found


def _weights(model: Any, state: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of a model's parameters and buffers; of several models each with its number."""
    models = list(model) if isinstance(model, (list, tuple)) else [] if model is None else [model]
    for number, each in enumerate(models):
        prefix = f"model{number}." if len(models) > 1 else ""
        for name, array in state.weights(each):
            yield f"{prefix}{name}", _leaf(array)


def _framework(model: Any) -> Any:
    """The module that knows the framework of `model`, or the one that is imported; None where there is none."""
    first = model[0] if isinstance(model, (list, tuple)) and model else model
    classes = [kind.__module__.partition(".")[0] for kind in type(first).__mro__]
    name = next((name for name in (*classes, *sys.modules) if name in _MODULES), None)
    return None if name is None else importlib.import_module(f"lakeprobe.collect.{_MODULES[name]}.state")


# ---- sections ---------------------------------------------------------------------------------------------


def _environment() -> dict[str, str]:
    """The variables that may change what is computed; of secrets a digest."""
    return {
        name: f"hidden, {_digest(value.encode())[:16]}" if _SECRET.search(name) else _text(value)
        for name, value in sorted(os.environ.items())
        if not _OF_THE_PROCESS.fullmatch(name)
    }


def _packages() -> dict[str, str]:
    """The installed distributions, with their versions."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution.version)
    return dict(sorted(found.items()))


def _python() -> dict[str, str]:
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
    }


def _random(unseeded: Mapping[str, str]) -> dict[str, str]:
    states = generators()
    return {name: _SEEDED_NOT if unseeded.get(name) == state else state for name, state in states.items()}


def generators() -> dict[str, str]:
    """Digests of the states of the random generators of Python and numpy."""
    found = {"random": _digest(repr(random.getstate()).encode())}
    if "numpy" in sys.modules:
        import numpy as np

        kind, keys, *rest = np.random.get_state(legacy=True)
        found["numpy"] = _digest(repr((kind, rest)).encode() + np.asarray(keys).tobytes())
    return found


@contextmanager
def _generators_kept(state: Any) -> Iterator[None]:
    """Put the random generators back as they were: a shuffled loader draws from them."""
    import numpy as np

    python, numbers = random.getstate(), np.random.get_state()
    restore = state.generators_kept() if state is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)
        if restore is not None:
            restore()


def _data(batches: Iterable[Any], most: int, state: Any) -> dict[str, Any]:
    """The first batches: their tensors by digest and statistics, numbers and texts as they are."""
    iterator = iter(batches)
    if iterator is batches:
        raise UsageError("preflight: batches can be gone through only once; give the loader, or a list of batches")
    found: dict[str, Any] = {}
    for number, batch in zip(range(most), iterator, strict=False):
        for name, value in _flattened(batch, f"batch{number}", keep=state.is_tensor if state else None):
            found[name] = _leaf(state.array(value)) if state is not None and state.is_tensor(value) else _value(value)
    return found


# ---- values -----------------------------------------------------------------------------------------------


def _flattened(value: Any, name: str = "", keep: Any = None) -> Iterator[tuple[str, Any]]:
    """The numbers and texts in nested dicts, lists, Namespaces and dataclasses, by their names joined with dots."""
    if keep is not None and keep(value):
        yield name, value
        return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif type(value).__name__ in ("Namespace", "SimpleNamespace"):
        value = vars(value)
    if isinstance(value, Mapping):
        inner: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple)):
        inner = enumerate(value)
    else:
        yield name or "value", value if keep is not None else _value(value)
        return
    for key, item in inner:
        yield from _flattened(item, f"{name}.{key}" if name else str(key), keep)


def _value(value: Any) -> Any:
    """A value as JSON has it; an array by its digest, and anything else by its class, which has no address."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return _text(value)
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        import numpy as np

        return _leaf(np.asarray(value))
    text = str(value)
    return f"{type(value).__name__}" if re.search(r" at 0x[0-9a-f]+", text) else _text(text)


def _text(value: str) -> str:
    """A text without lone surrogates; a long one by its beginning and digest."""
    value = value.encode("utf-8", "replace").decode("utf-8")
    return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}… {_digest(value.encode())}"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _leaf(array: Any) -> dict[str, Any]:
    """A tensor by its digest (that of contents) and its statistics, as dump.json would have it."""
    from lakeprobe.tensors.content import array_hash, plain
    from lakeprobe.tensors.statistics import measure_array

    laid = plain(array)
    return {
        "type": "numpy.ndarray",
        "dtype": laid.dtype.name,
        "shape": list(laid.shape),
        **measure_array(laid),
        "md5": array_hash(laid),
    }
