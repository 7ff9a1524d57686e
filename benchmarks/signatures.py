"""Writes the arguments of an installed framework's ops: python benchmarks/signatures.py (pytorch | mindspore) FILE.

FILE is schemas/data/signatures/FRAMEWORK.csv: a row per op as a dump names it (Functional.linear, Torch.add, Mint.add,
Primitive.BatchNorm), with its arguments in their order and their defaults, as in Python: `input, other, *, alpha=1`.
They are those that the package itself states: Python's signatures, the schemas of ATen, the text of the documentation.
"""

from __future__ import annotations

import csv
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    """Write the file that the command line asks for."""
    framework, path = sys.argv[1:3]
    write(Path(path), signatures(framework))


def signatures(framework: str) -> dict[str, str]:
    """Per op of the installed `framework` its arguments."""
    found = dict(_of_pytorch() if framework == "pytorch" else _of_mindspore())
    return {api: arguments for api, arguments in sorted(found.items()) if arguments}


def write(path: Path, rows: dict[str, str]) -> None:
    """Write `rows` as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("api", "arguments"))
        writer.writerows(rows.items())


def _of_pytorch() -> Iterator[tuple[str, str]]:
    import torch

    functional = torch.nn.functional
    for name in dir(functional):
        value = getattr(functional, name)
        if _is_op(name, value):
            yield f"Functional.{name}", _python(value) or _aten(torch, name)
    for name in dir(torch):
        value = getattr(torch, name)
        if _is_op(name, value) and not isinstance(value, torch.dtype):
            yield f"Torch.{name}", _aten(torch, name) or _python(value)
    for name in dir(torch.Tensor):
        value = getattr(torch.Tensor, name)
        is_operator = name.startswith("__") and name.endswith("__") and name[2:-2] in _OPERATORS
        if is_operator:
            yield f"Tensor.{name}", _OPERATORS[name[2:-2]]
        elif _is_op(name, value):
            yield f"Tensor.{name}", _aten(torch, name.rstrip("_") or name) or _python(value)


_BINARY = "input, other"
_NAMES = "add sub mul truediv floordiv matmul pow mod and or xor eq ne lt le gt ge"
_OPERATORS = dict.fromkeys(re.findall(r"\w+", _NAMES), _BINARY)
_OPERATORS |= {f"r{name}": _BINARY for name in tuple(_OPERATORS)} | {f"i{name}": _BINARY for name in tuple(_OPERATORS)}
_OPERATORS |= {"neg": "input", "abs": "input", "invert": "input"}


def _of_mindspore() -> Iterator[tuple[str, str]]:
    import mindspore
    from mindspore import mint, ops
    from mindspore.ops import operations
    from mindspore.ops.auto_generate import gen_ops_prim

    for kind, module in (("Functional", ops), ("Mint", mint), ("MintFunctional", mint.nn.functional)):
        yield from ((f"{kind}.{name}", _stated(name, value)) for name, value in _ops_of(module))
    for name in dir(mindspore.Tensor):
        value = getattr(mindspore.Tensor, name)
        if name.startswith("__") and name.endswith("__") and name[2:-2] in _OPERATORS:
            yield f"Tensor.{name}", _OPERATORS[name[2:-2]]
        elif _is_op(name, value):
            stated = _stated(name, value)
            yield f"Tensor.{name}", stated if stated.startswith("input") or not stated else f"input, {stated}"
    for module in (operations, gen_ops_prim):
        for name in dir(module):
            value = getattr(module, name)
            if inspect.isclass(value) and name[0].isupper() and callable(value):
                yield f"Primitive.{name}", _python(value.__call__) or _inputs(value.__doc__ or "")


def _ops_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(module, name)) for name in dir(module) if _is_op(name, getattr(module, name)))


def _is_op(name: str, value: object) -> bool:
    return not name.startswith("_") and callable(value) and not inspect.isclass(value) and not inspect.ismodule(value)


def _stated(name: str, value: Callable[..., Any]) -> str:
    """What Python knows, else what the first line of the documentation says."""
    return _python(value) or _documented(name, value.__doc__ or "")


def _python(value: Callable[..., Any]) -> str:
    """The arguments that Python knows; nothing where these are no more than *args."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return ""
    if not parameters or all(
        each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in _without_self(parameters)
    ):
        return ""
    texts: list[str] = []
    for place, each in enumerate(parameters):
        if each.name == "self":
            if not _is_method_of_tensor(value):
                continue
            each = each.replace(name="input")
        if each.kind == each.KEYWORD_ONLY and (place == 0 or parameters[place - 1].kind < each.VAR_POSITIONAL):
            texts.append("*")
        texts.append(_text(each))
    return ", ".join(texts)


def _without_self(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [each for each in parameters if each.name != "self"]


def _is_method_of_tensor(value: Callable[..., Any]) -> bool:
    return not getattr(value, "__qualname__", "").endswith("__call__")


def _text(parameter: inspect.Parameter) -> str:
    name = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "") + parameter.name
    default = parameter.default
    if default is parameter.empty:
        return name
    plain = default is None or isinstance(default, bool | int | float | str | tuple | list)
    return f"{name}={default!r}" if plain else name + "=..."


def _aten(torch: ModuleType, name: str) -> str:
    """The arguments of the overload that takes a tensor first and has most of them, without those for the result."""
    overloads = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        arguments = [each for each in schema.arguments if not each.is_out]
        if arguments and str(arguments[0].type) in ("Tensor", "List[Tensor]") and "Dimname" not in str(schema):
            overloads.append(arguments)
    if not overloads:
        return ""
    texts: list[str] = []
    chosen = max(overloads, key=len)
    for place, each in enumerate(chosen):
        if each.kwarg_only and (place == 0 or not chosen[place - 1].kwarg_only):
            texts.append("*")
        name = "input" if each.name == "self" else each.name
        texts.append(f"{name}={each.default_value!r}" if each.has_default_value() else name)
    return ", ".join(texts)


def _documented(name: str, text: str) -> str:
    """The arguments in the first line of a documentation: `add(input, other, *, alpha=1) -> Tensor`."""
    match = re.match(rf"\s*{re.escape(name)}\(([^()]*(?:\([^()]*\)[^()]*)*)\)", text)
    return re.sub(r"\s+", " ", match.group(1)).strip() if match else ""


def _inputs(text: str) -> str:
    """The arguments under `Inputs:` of a primitive's documentation."""
    section = re.search(r"\n\s*Inputs:\n(.*?)(?:\n\s*Outputs?:|\Z)", text, re.DOTALL)
    names = re.findall(r"^\s*- \*\*(\w+)\*\*", section.group(1), re.MULTILINE) if section else []
    return ", ".join(dict.fromkeys(names))


if __name__ == "__main__":
    main()
