"""How the command line presents itself: its commands in groups, and the options that every command has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import copy_context
from functools import cache
from importlib import import_module
from itertools import chain, takewhile
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from lakeprobe import diagnostics, habits, output
from lakeprobe.errors import UsageError
from lakeprobe.table_text import fold

GROUPS: dict[str, tuple[str, ...]] = {
    "Collect and read": ("run", "preflight", "ingest", "export", "examples"),
    "Compare, and find the cause": (
        "compare", "merge-layout", "first-diff", "blame", "verify", "unmatched", "map", "noise", "reproduce",
        "perturb",
    ),
    "Look closer": ("show", "view", "overflow", "comm", "merge", "drift", "sql"),
    "Watch a training": ("watch", "signs"),
    "Keep the lake": (
        "ls", "rm", "rename", "compact", "note", "publish", "check", "recover", "doctor", "rules",
    ),
}  # fmt: skip
"""All commands, in the groups and the order of the help. commands/NAME.py has the function or the app NAME."""

_WIDTH = 80


class Commands(TyperGroup):
    """A command of commands: its help lists them in whole sentences."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help, which writes as every command does."""
        return _writing(super().get_help_option(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help as that of a command is written."""
        _write_help(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section of all commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _sentence(command.help)) for name, command in self.commands.items()])


class Group(Commands):
    """The program: its help lists the commands in groups."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Make the program with all commands."""
        super().__init__(*arguments, **options | {"commands": _OnDemand()})

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a line in a context of its own: what it sets ends with it, as the lake that hints name."""
        return copy_context().run(super().main, *arguments, **options)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the options before the command."""
        _refuse_unknown(self, ctx, takewhile(lambda word: word.startswith("-"), args))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the line names."""
        if hint := habits.COMMANDS.get(args[0]):
            ctx.fail(f"No such command '{args[0]}'. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, _sentence(self.commands[name].help)) for name in names])


class _OnDemand(Mapping[str, Any]):
    """All commands by name. Each is made when it is asked for: to make all takes as long as to start without them."""

    def __getitem__(self, name: str) -> Any:
        return _made(name)

    def __iter__(self) -> Iterator[str]:
        return _names()

    def __len__(self) -> int:
        return sum(map(len, GROUPS.values()))


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every command by its full name, as `rules list`, with its function."""
    for name in _names():
        module = _module(name)
        if hasattr(module, "app"):
            yield from ((f"{name} {inner.name}", inner.callback) for inner in module.app.registered_commands)
        else:
            yield name, _function(module, name)


def _names() -> Iterator[str]:
    return chain.from_iterable(GROUPS.values())


def _module(name: str) -> ModuleType:
    return import_module(f"lakeprobe.commands.{name.replace('-', '_')}")


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(module, name.replace("-", "_"))
    return function


@cache
def _made(name: str) -> Any:
    if name not in _names():
        raise KeyError(name)
    module = _module(name)
    program = typer.Typer(rich_markup_mode=None, add_completion=False)
    if hasattr(module, "app"):
        program.add_typer(module.app, name=name)
        return typer.main.get_group(program).commands[name]
    program.command(name, cls=Command)(_function(module, name))
    return typer.main.get_command(program)


class Command(TyperCommand):
    """A command, with --quiet and --verbose."""

    def __init__(self, *arguments: Any, params: list[Any] | None = None, **options: Any) -> None:
        """Make the command of its own parameters and those of every command."""
        for parameter in params or ():
            if parameter.metavar is None and not hasattr(parameter.type, "choices"):
                parameter.metavar = f"{parameter.name.upper()}{'...' if parameter.nargs == -1 else ''}"
        super().__init__(*arguments, params=[*(params or ()), *_common()], **options)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help, which writes as every command does."""
        return _writing(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the options and arguments."""
        _refuse_unknown(self, ctx, args)
        ctx.allow_extra_args = True  # they are told here, with a hint
        surplus: list[str] = super().parse_args(ctx, list(args))
        if not ctx.resilient_parsing:
            if surplus:
                extra = output.shown(" ".join(surplus))
                ctx.fail(f"Got unexpected extra argument(s) ({extra}){habits.unread_mapping(args)}")
            _refuse_no_place(ctx.params)
        return surplus

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: RUN is required, [RUN] is not; typer would write {RUN}."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with a paragraph as it is written, and the example last."""
        _write_help(self, ctx, formatter)


def _refuse_unknown(command: TyperCommand | TyperGroup, ctx: Any, words: Iterable[str]) -> None:
    """End with the name of the first option in `words` that does not exist, and what to type in place of msprobe's."""
    options = (parameter for parameter in command.get_params(ctx) if isinstance(parameter, TyperOption))
    takes_value = {name: not option.is_flag for option in options for name in (*option.opts, *option.secondary_opts)}
    problem = habits.unknown_option(command.name or "", words, takes_value)
    if problem and not ctx.resilient_parsing:
        ctx.fail(problem)


def _refuse_no_place(values: Mapping[str, Any]) -> None:
    """Raise UsageError where a file or folder to write has no name, or that by which others mean stdout."""
    for name in ("out", "output"):
        if values.get(name) in ("", "-"):
            raise UsageError(f"{values[name]!r} names no file or folder to write to; name one, such as ./out")


def _writing(help_option: Any) -> Any:
    """Let the option --help write through `output`, which knows streams whose reader left and disks that are full."""
    if help_option is not None:
        help_option.callback = _show_help
    return help_option


def _show_help(ctx: Any, parameter: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        output.document(ctx.get_help())
        ctx.exit()


def _write_help(command: TyperCommand | TyperGroup, ctx: Any, formatter: Any) -> None:
    command.format_usage(ctx, formatter)
    text, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    for paragraph in text.strip().split("\n\n"):
        formatter.write_paragraph()
        formatter.write("\n".join(fold(" ".join(paragraph.split()), _WIDTH, "")) + "\n")
    command.format_options(ctx, formatter)
    if example:
        formatter.write_paragraph()
        formatter.write(f"Example: {example.strip()}\n")


def _common() -> Iterator[TyperOption]:
    for name, short, volume, text in (
        ("quiet", "-q", diagnostics.Volume.QUIET, "Say only results and errors."),
        ("verbose", "-v", diagnostics.Volume.VERBOSE, "Say also what was read, by which rule, and how long it took."),
    ):
        yield TyperOption(
            param_decls=[f"--{name}", short],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            help=text,
            callback=_speaking(volume),
        )


def _speaking(volume: diagnostics.Volume) -> Any:
    def set_volume(context: Any, parameter: Any, wanted: bool) -> bool:
        if wanted and not context.resilient_parsing:
            diagnostics.speak(volume)
        return wanted

    return set_volume


def _sentence(text: str | None) -> str:
    """Return the first sentence of a command's help."""
    first, _, _ = inspect.cleandoc(text or "").partition("\n\n")
    sentence, stop, _ = " ".join(first.split()).partition(". ")
    return sentence + "." if stop else sentence
