"""Finds what an op of a rank is called in the whole model.

Layers that each stage numbers from 0 are numbered through the stages and their chunks, experts through the ranks that
have them. Modules pair with golden's by path. An API call pairs with golden's call of the same API at the same place in
the same module, so that calls that only one program has shift no other. Calls of one module for several micro-batches
are parts of one call.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from msgspec import Struct

WRAPPERS = re.compile(r"(^|\.)(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?=\.|$)")
"""What DDP, torch.compile, FSDP and checkpointing put into a module's path."""

_NUMBERED = re.compile(r"([^\d].*?)\.(\d+)(?=\.|$)")
_CHUNK = re.compile(r"(\d+)\.(.+)")
_EXPERT = re.compile(r"(.*?\bexperts)\.(\d+)(?=\.|$)")
_OWN = re.compile(
    r"(Distributed\.|Functional\.all_|"
    r"Tensor\.(clone|contiguous|view_as|chunk|narrow|split|__getitem__|select|div_?|mul_?|__i?truediv__|__r?mul__|__imul__|detach|to|copy_)\b|"
    r"Torch\.(chunk|split|narrow|cat|empty\w*|zeros\w*|stack|div|mul)\b)"
)
"""Calls that a cut adds to the program of the whole: collectives, and what prepares a tensor for them."""

_Scope = tuple[str, str, str]
"""Where calls are made: the module's name in the whole, or outside of modules the parent and the phase of the step."""


class Op(NamedTuple):
    """One op of a rank, in the order in which calls begin."""

    op: str
    kind: str
    api_type: str
    api: str
    module_class: str | None
    direction: str
    call: int
    parent: str | None


class Named(NamedTuple):
    """An op under its name in the whole model, or with the reason why it has none."""

    op: str
    whole: str | None
    micro: int
    reason: str | None
    parent: str | None = None


class Piece(Struct, frozen=True):
    """The ops of ranks that run one program: its stage, its place among the ranks with experts, its ops.

    `blocks`: the parameters (module path, slot) in the order in which the optimizer takes them.
    """

    stage: int
    expert: int
    ops: tuple[Op, ...]
    blocks: tuple[tuple[str, str], ...] = ()


class _Part(NamedTuple):
    """A call within a scope: piece, place in the piece, what it calls."""

    piece: int
    place: int
    token: str


def whole_names(pieces: Sequence[Piece], golden: Piece | None) -> list[list[Named]]:
    """What the ops of each piece are called in the whole model, in their order."""
    paths = _Paths(pieces, golden)
    modules = _golden_modules(golden)
    calls = _calls(pieces, golden, paths)
    own = _own_modules(pieces, golden, paths)
    named: list[dict[int, Named]] = [{} for _ in pieces]
    scopes: dict[_Scope, list[_Part]] = defaultdict(list)
    micro_of: list[dict[int, int]] = [{} for _ in pieces]
    for number, piece in enumerate(pieces):
        whole_of: dict[str, tuple[str, int]] = {}
        left_out: dict[str, str | None] = {}
        last = max((place for place, op in enumerate(piece.ops) if op.direction == "backward"), default=len(piece.ops))
        for place, op in enumerate(piece.ops):
            if op.kind in ("module", "parameters_grad"):
                path = paths.whole(number, op.api)
                call, micro = calls.whole(path, op.call)
                if not path or path in own:
                    reason = "golden has no such module" if path else "it wraps the model"
                    named[number][place] = Named(op.op, None, 0, reason, op.parent)
                    left_out[op.op] = op.parent
                    continue
                key = (path, op.direction, call)
                name = modules.get(key) or f"{op.api_type}.{path}.{op.module_class}.{op.direction}.{call}"
                whole_of[op.op] = (name, micro)
                named[number][place] = Named(op.op, name, micro, None, op.parent)
        for place, op in enumerate(piece.ops):
            if op.kind in ("module", "parameters_grad") or op.direction == "backward":
                continue
            parent = _above(op.parent, left_out)
            if parent in whole_of:
                name, micro_of[number][place] = whole_of[parent]
                scopes[name, "", ""].append(_Part(number, place, _token(op)))
            else:
                scopes["", parent or "", "after" if place > last else "before"].append(_Part(number, place, _token(op)))
    ours, fresh = _golden_scopes(golden, _missing_modules(pieces, golden, paths)), _Fresh(golden)
    for scope, parts in scopes.items():
        _align(scope, parts, ours.get(scope, []), pieces, golden, calls.ratio, named, micro_of, paths, fresh)
    for number, piece in enumerate(pieces):
        _name_backward(piece, named[number])
    return [[named[number][place] for place in range(len(piece.ops))] for number, piece in enumerate(pieces)]


def _own_modules(pieces: Sequence[Piece], golden: Piece | None, paths: _Paths) -> set[str]:
    """The paths of modules that golden does not have, and that make calls: these pair with calls around golden's."""
    theirs = {stripped(op.api) for op in golden.ops if op.kind == "module"} if golden else set()
    own = set()
    for number, piece in enumerate(pieces if golden else ()):
        calling = {op.parent for op in piece.ops if op.kind == "api"}
        made = {paths.whole(number, op.api) for op in piece.ops if op.kind == "module" and op.op in calling}
        own |= made - theirs
    return own


def _missing_modules(pieces: Sequence[Piece], golden: Piece | None, paths: _Paths) -> dict[str, str | None]:
    """Golden's modules that no rank has, and the op around each: their calls pair with calls around them."""
    if golden is None:
        return {}
    ours = {
        paths.whole(number, op.api) for number, piece in enumerate(pieces) for op in piece.ops if op.kind == "module"
    }
    return {op.op: op.parent for op in golden.ops if op.kind == "module" and stripped(op.api) not in ours}


def _above(parent: str | None, left_out: Mapping[str, str | None]) -> str | None:
    """The module that a call is made in, of those that have a place in the whole."""
    while parent is not None and parent in left_out:
        parent = left_out[parent]
    return parent


def _token(op: Op) -> str:
    return f"{op.api_type}.{op.api}"


def stripped(path: str) -> str:
    """A module's path without what wrappers put into it."""
    return WRAPPERS.sub("", path).lstrip(".")


class _Paths:
    """The paths of modules in the whole model."""

    def __init__(self, pieces: Sequence[Piece], golden: Piece | None) -> None:
        self._golden = {stripped(op.api) for op in golden.ops if op.kind == "module"} if golden else set()
        self._pieces = pieces
        self._local = [self._cleaned(piece) for piece in pieces]
        self._offsets = self._layer_offsets()
        theirs = max((int(match[2]) + 1 for path in self._golden if (match := _EXPERT.match(path))), default=0)
        own = self._expert_counts()
        self._experts = 0 if theirs == own else own

    def _cleaned(self, piece: Piece) -> dict[str, tuple[int, str]]:
        """The chunk of each module and its path within it. There are chunks if all paths begin with a number."""
        paths = {op.api: stripped(op.api) for op in piece.ops if op.kind in ("module", "parameters_grad")}
        has_chunks = bool(paths) and all(_CHUNK.fullmatch(path) or path.isdigit() for path in paths.values())
        has_chunks = has_chunks and not any(path in self._golden for path in paths.values())
        cleaned = {}
        for own, path in paths.items():
            chunk = _CHUNK.fullmatch(path) if has_chunks else None
            cleaned[own] = (int(chunk[1]), chunk[2]) if chunk else (0, "" if has_chunks else path)
        return cleaned

    def _layer_offsets(self) -> dict[tuple[int, int, str], int]:
        """What is added to the numbers of a container's layers in a stage and chunk; those that overlap follow."""
        counts: dict[str, dict[tuple[int, int], set[int]]] = defaultdict(lambda: defaultdict(set))
        for number, local in enumerate(self._local):
            for chunk, path in local.values():
                if match := _NUMBERED.match(path):
                    counts[match[1]][chunk, self._pieces[number].stage].add(int(match[2]))
        offsets = {}
        for container, places in counts.items():
            overlaps = sum(map(len, places.values())) > len(set().union(*places.values()))
            first = 0
            for chunk, stage in sorted(places):
                offsets[chunk, stage, container] = first if overlaps else 0
                first += max(places[chunk, stage]) + 1
        return offsets

    def _expert_counts(self) -> int:
        return max(
            (
                int(match[2]) + 1
                for local in self._local
                for _, path in local.values()
                if (match := _EXPERT.match(path))
            ),
            default=0,
        )

    def whole(self, piece: int, path: str) -> str:
        """The path in the whole model of a module of a piece."""
        if path not in self._local[piece]:
            return stripped(path)
        chunk, local = self._local[piece][path]
        if match := _NUMBERED.match(local):
            offset = self._offsets.get((chunk, self._pieces[piece].stage, match[1]), 0)
            local = f"{match[1]}.{int(match[2]) + offset}{local[match.end() :]}"
        if self._pieces[piece].expert and (match := _EXPERT.match(local)):
            local = f"{match[1]}.{int(match[2]) + self._pieces[piece].expert * self._experts}{local[match.end() :]}"
        return local


def _golden_modules(golden: Piece | None) -> dict[tuple[str, str, int], str]:
    if golden is None:
        return {}
    return {
        (stripped(op.api), op.direction, op.call): op.op
        for op in golden.ops
        if op.kind in ("module", "parameters_grad")
    }


class _Calls(Struct, frozen=True):
    """How many calls of a module are the parts of one call of golden's."""

    ratio: int
    ratios: Mapping[str, int]

    def whole(self, path: str, call: int) -> tuple[int, int]:
        """The call in the whole, and which micro-batch of it this is."""
        return divmod(call, self.ratios.get(path, self.ratio))


def _calls(pieces: Sequence[Piece], golden: Piece | None, paths: _Paths) -> _Calls:
    ours: dict[str, int] = defaultdict(int)
    for number, piece in enumerate(pieces):
        for op in piece.ops:
            if op.kind == "module" and op.direction == "forward":
                path = paths.whole(number, op.api)
                ours[path] = max(ours[path], op.call + 1)
    theirs: dict[str, int] = defaultdict(int)
    for op in golden.ops if golden else ():
        if op.kind == "module" and op.direction == "forward":
            theirs[stripped(op.api)] = max(theirs[stripped(op.api)], op.call + 1)
    ratios = {path: count // theirs[path] for path, count in ours.items() if theirs[path] and count % theirs[path] == 0}
    usual = sorted(ratios.values())
    return _Calls(usual[len(usual) // 2] if usual else 1, ratios)


def _golden_scopes(golden: Piece | None, left_out: Mapping[str, str | None]) -> dict[_Scope, list[Op]]:
    scopes: dict[_Scope, list[Op]] = defaultdict(list)
    if golden is None:
        return scopes
    modules = {op.op for op in golden.ops if op.kind == "module"} - set(left_out)
    last = max((place for place, op in enumerate(golden.ops) if op.direction == "backward"), default=len(golden.ops))
    for place, op in enumerate(golden.ops):
        if op.kind in ("module", "parameters_grad") or op.direction == "backward":
            continue
        parent = _above(op.parent, left_out)
        if parent in modules:
            scopes[parent or "", "", ""].append(op)
        else:
            scopes["", parent or "", "after" if place > last else "before"].append(op)
    return scopes


def _align(
    key: _Scope,
    parts: Sequence[_Part],
    theirs: Sequence[Op],
    pieces: Sequence[Piece],
    golden: Piece | None,
    ratio: int,
    named: list[dict[int, Named]],
    micro_of: list[dict[int, int]],
    paths: _Paths,
    fresh: _Fresh,
) -> None:
    """Name the calls of one scope after golden's calls there."""
    for lane in _lanes(key, parts, ratio, micro_of):
        for micro, piece_parts in lane:
            if (
                key[2] == "after"
                and golden is not None
                and _in_blocks(piece_parts, pieces, theirs, golden, named, paths)
            ):
                continue
            _align_in_order(key, micro, piece_parts, theirs, pieces, golden is not None, named, fresh)


_Lane = list[tuple[int, list[_Part]]]


def _lanes(key: _Scope, parts: Sequence[_Part], ratio: int, micro_of: list[dict[int, int]]) -> Iterable[_Lane]:
    """The calls of a scope of each piece by micro-batch. Those outside of modules repeat for each."""
    by_piece: dict[int, list[_Part]] = defaultdict(list)
    for part in parts:
        by_piece[part.piece].append(part)
    for number, own in by_piece.items():
        if key[0]:
            by_micro: dict[int, list[_Part]] = defaultdict(list)
            for part in own:
                by_micro[micro_of[number][part.place]].append(part)
            yield sorted(by_micro.items())
        elif key[2] == "before" and ratio > 1:
            yield _repeated(own, ratio)
        else:
            yield [(0, own)]


def _repeated(parts: Sequence[_Part], ratio: int) -> _Lane:
    """The calls that are made for each micro-batch: the n-th of each API belongs to the n-th part of its calls."""
    counts: dict[str, int] = defaultdict(int)
    for part in parts:
        counts[part.token] += 1
    seen: dict[str, int] = defaultdict(int)
    lanes: dict[int, list[_Part]] = defaultdict(list)
    for part in parts:
        each = -(-counts[part.token] // ratio)
        lanes[seen[part.token] // each].append(part)
        seen[part.token] += 1
    return sorted(lanes.items())


def _align_in_order(
    key: _Scope,
    micro: int,
    parts: Sequence[_Part],
    theirs: Sequence[Op],
    pieces: Sequence[Piece],
    has_golden: bool,
    named: list[dict[int, Named]],
    fresh: _Fresh,
) -> None:
    whole: dict[int, str] = {}
    tokens = [part.token for part in parts]
    if has_golden:
        wanted = [_token(op) for op in theirs]
        if tokens == wanted:
            whole = {place: theirs[place].op for place in range(len(parts))}
        else:
            for ours, other, size in SequenceMatcher(None, tokens, wanted, autojunk=False).get_matching_blocks():
                whole.update({ours + nth: theirs[other + nth].op for nth in range(size)})
    seen: dict[str, int] = defaultdict(int)
    for place, part in enumerate(parts):
        piece = pieces[part.piece]
        op, name, reason = piece.ops[part.place], whole.get(place), None
        if name is None and _is_own(op.op, has_golden):
            reason = "the cut adds it"
        elif name is None:
            name = fresh.name(op, (key, piece.stage, part.token, seen[part.token]))
            seen[part.token] += 1
        named[part.piece][part.place] = Named(op.op, name, micro, reason, op.parent)


def _is_own(op: str, has_golden: bool) -> bool:
    """Whether a call that golden does not make belongs to the cut. Without golden only collectives are known to."""
    return bool(_OWN.match(op)) if has_golden else op.startswith("Distributed.")


class _Fresh:
    """Names of calls that golden does not make: the n-th of an API in a scope has the same on all ranks."""

    def __init__(self, golden: Piece | None) -> None:
        self._next: dict[str, int] = defaultdict(int)
        for op in golden.ops if golden else ():
            self._next[_token(op)] = max(self._next[_token(op)], op.call + 1)
        self._known: dict[tuple[_Scope, int, str, int], str] = {}

    def name(self, op: Op, place: tuple[_Scope, int, str, int]) -> str:
        """The name of a call at a place: its scope, its stage, what it calls, and how many such were before it."""
        if place not in self._known:
            token = _token(op)
            self._known[place] = f"{token}.{self._next[token]}.forward"
            self._next[token] += 1
        return self._known[place]


def _in_blocks(
    parts: Sequence[_Part],
    pieces: Sequence[Piece],
    theirs: Sequence[Op],
    golden: Piece,
    named: list[dict[int, Named]],
    paths: _Paths,
) -> bool:
    """Name the calls of an optimizer parameter by parameter; False unless both sides repeat one block of calls."""
    piece = pieces[parts[0].piece]
    if not piece.blocks or not golden.blocks or len(theirs) % len(golden.blocks):
        return False
    own = [
        part
        for part in parts
        if not _OWN.match(piece.ops[part.place].op) or part.token in {_token(op) for op in theirs}
    ]
    size = len(theirs) // len(golden.blocks)
    tokens, wanted = [part.token for part in own], [_token(op) for op in theirs]
    is_known = len(piece.blocks) == len(golden.blocks)
    if not is_known and tokens[-len(wanted) :] == wanted:  # of all parameters, some of whose values are not known
        return False
    own = own[-size * len(piece.blocks) :]
    if size == 0 or [part.token for part in own] != wanted[:size] * len(piece.blocks):
        return False
    index = {(stripped(path), slot): place for place, (path, slot) in enumerate(golden.blocks)}
    names = [(paths.whole(parts[0].piece, path), slot) for path, slot in piece.blocks]
    chosen = {part.place for part in own}
    for nth, part in enumerate(own):
        place = index.get(names[nth // size])
        op = piece.ops[part.place]
        name = None if place is None else theirs[place * size + nth % size].op
        reason = None if name else "golden has no such parameter"
        named[part.piece][part.place] = Named(op.op, name, 0, reason, op.parent)
    for part in parts:
        if part.place not in chosen:
            op = piece.ops[part.place]
            named[part.piece][part.place] = Named(op.op, None, 0, "the cut adds it", op.parent)
    return True


def _name_backward(piece: Piece, named: dict[int, Named]) -> None:
    """Name the backward of an API call after its forward call."""
    forward = {
        (op.api_type, op.api, op.call): named[place]
        for place, op in enumerate(piece.ops)
        if place in named and op.kind == "api"
    }
    for place, op in enumerate(piece.ops):
        if place in named:
            continue
        made = forward.get((op.api_type, op.api, op.call))
        if made is None or made.whole is None:
            reason = made.reason if made else "its forward call is not recorded"
            named[place] = Named(op.op, None, 0, reason, op.parent)
        else:
            named[place] = Named(op.op, made.whole.removesuffix("forward") + "backward", made.micro, None, op.parent)
