"""A run or comparison that several processes make together, each its shard, and that is published at one moment.

LAKE/.shards/run=R/of=8/shard=3/             what the shard 3 of 8 read of the run R
LAKE/.shards/comparison=C/of=8/shard=3/      what it compared of the comparison C
LAKE/.shards/…/shard=3/shard.json            the place in the lake that each of its folders gets, and a description

A shard works in a session of its own, as any writer does (`lakeprobe.lake.staging`). When it has finished, its
session's folder is renamed to the place above, where it stays. The files of all shards become links in the session of
the process that publishes them, so a publisher that is killed takes nothing with it, and two of them do no harm. There
is no lock.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lakeprobe.bounds import LARGEST_RECORD
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import log, staging, store
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.staging import Session
from lakeprobe.output import ranges
from lakeprobe.system import files
from lakeprobe.version import __version__

Item = TypeVar("Item")

_FOLDER, _FILE = ".shards", "shard.json"
_MOST = 100_000
_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")
_PLACE = re.compile(r"(?P<kind>run|comparison)=(?P<name>[^/]+)/of=(?P<count>\d+)/shard=(?P<index>\d+)")


class Shard(Struct, frozen=True, order=True):
    """The share `index` of `count`, counted from 0 as the tasks of a Slurm array and the ranks of torchrun are."""

    count: int
    index: int

    @classmethod
    def of(cls, text: str) -> Shard:
        """Parse "3/8". Raises UsageError."""
        found = _SHARD.fullmatch(text.strip())
        if found is None or not int(found[1]) < int(found[2]) <= _MOST:
            raise UsageError(f"{text!r} is not a shard; write it as i/n with i from 0 to n - 1: 0/8, 1/8, … 7/8")
        return cls(int(found[2]), int(found[1]))

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Return this shard's items: every `count`-th, from the `index`-th on."""
        return list(items[self.index :: self.count])

    def __str__(self) -> str:
        """Return the shard as it is written on the command line."""
        return f"{self.index}/{self.count}"


class Finished(Struct, frozen=True):
    """What a shard left to be published: its folders by the place in the lake that each gets, and its description.

    Shards that were asked the same thing in the same lake have the same `plan`.
    """

    shard: Shard
    folder: Path
    identity: str
    plan: str
    put: Mapping[str, str]
    described: Mapping[str, Any]


class Pending(Struct, frozen=True):
    """What becomes of the run or comparison `name` (`kind` says which) when all `count` shards have finished.

    `working` has the seconds since the last sign of life of each shard that a living process works on.
    """

    kind: str
    name: str
    count: int
    finished: tuple[Finished, ...]
    working: Mapping[int, float]

    @property
    def absent(self) -> list[int]:
        """The shards that have not begun, or whose process has ended without a result."""
        return sorted(set(range(self.count)) - {it.shard.index for it in self.finished} - set(self.working))

    @property
    def is_whole(self) -> bool:
        """Whether all shards have finished."""
        return len(self.finished) == self.count

    def __str__(self) -> str:
        """Say in a line how far it is."""
        text = f"{self.kind} {self.name}: {len(self.finished)} of {self.count} shards have finished"
        if self.working:
            silent = max(self.working.values())
            text += f"; at work: {ranges(set(self.working), '-')} (last sign of life {silent:.0f} s ago)"
        if self.absent:
            text += f"; to be run, or run again: {ranges(set(self.absent), '-')}"
        return text


def plan_of(*asked: object) -> str:
    """Return a hash of what all shards must have been asked alike."""
    return hashlib.sha256(repr((__version__, *asked)).encode()).hexdigest()[:16]


def begin(session: Session, kind: str, name: str, shard: Shard) -> None:
    """Note which shard the session works on, for `pending`. Raises UsageError for a lake on remote storage."""
    store.must_be_local(session.lake, "shards cannot meet")
    _write(session.folder / _FILE, {"place": _place(kind, name, shard)})


def keep(
    session: Session, kind: str, name: str, shard: Shard, plan: str, put: Mapping[str, Path], described: dict[str, Any]
) -> Pending:
    """Keep the session's folders in `put`, keyed by their place in the lake, until all shards have finished.

    What the same shard kept before is replaced. Returns how far all of them are. Raises OSError and LakeError.
    """
    folder = session.lake / _FOLDER / _place(kind, name, shard)
    inside = {place: str(path.relative_to(session.folder)) for place, path in put.items()}
    content = {"identity": session.publication, "plan": plan, "put": inside, "described": described}
    _write(session.folder / _FILE, content)
    files.refuse_links(session.lake, [str(folder.relative_to(session.lake))])
    changed = files.make_folders(folder.parent)
    _remove(session.lake, folder)
    session.folder.rename(folder)
    files.sync(folder.parent, *changed)
    return next(it for it in pending(session.lake) if (it.kind, it.name, it.count) == (kind, name, shard.count))


def pending(lake: Path) -> list[Pending]:
    """Return what shards have begun and nobody has published, sorted by kind, name and number of shards."""
    finished: dict[tuple[str, str, int], list[Finished]] = {}
    working: dict[tuple[str, str, int], dict[int, float]] = {}
    for file in (lake / _FOLDER).glob(f"*/of=*/shard=*/{_FILE}"):
        found = _PLACE.fullmatch(str(file.parent.relative_to(lake / _FOLDER)))
        is_ours = found and files.link_above(lake, str(file.relative_to(lake))) is None
        if found and is_ours and (kept := _read(file, found)):
            finished.setdefault((found["kind"], found["name"], kept.shard.count), []).append(kept)
    for session, silent in staging.sessions(lake):
        found = _PLACE.fullmatch(str(_load(session / _FILE).get("place", "")))
        if found:
            at_work = working.setdefault((found["kind"], found["name"], int(found["count"])), {})
            at_work[int(found["index"])] = silent
    return [
        Pending(*key, tuple(sorted(finished.get(key, ()), key=lambda it: it.shard)), _without(working.get(key, {}),
                finished.get(key, ())))
        for key in sorted({*finished, *working})
    ]  # fmt: skip


def whole(lake: Path, name: str) -> Pending:
    """Return what all shards of `name` have finished. Raises UsageError and LakeError if there is no such thing."""
    begun = [it for it in pending(lake) if it.name == name]
    if not begun:
        others = ", ".join(sorted({it.name for it in pending(lake)})) or "nothing"
        raise UsageError(f"no shard of {name} waits in {lake} (waiting: {others})")
    done = [it for it in begun if it.is_whole]
    if len(done) > 1:
        raise UsageError(f"{name} was made twice: {'; '.join(map(str, done))}; discard it, and run the shards again")
    if not done:
        raise LakeError(f"{'; '.join(map(str, begun))}; nothing was published")
    for one in done[0].finished:
        if one.plan != done[0].finished[0].plan:
            raise LakeError(
                f"{done[0].kind} {name}: the shards {done[0].finished[0].shard} and {one.shard} were given different "
                "options, or the dumps, the runs or lakeprobe changed between them; run all shards again"
            )
    return done[0]


@contextmanager
def understanding(made: Pending) -> Iterator[None]:
    """Turn what is raised where the descriptions of shards lack something into a LakeError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise LakeError(
            f"the results of the shards of {made.name} are damaged ({type(error).__name__}: {error}); discard them: "
            f"lakeprobe publish {made.name} --discard"
        ) from error


def publish(
    session: Session,
    made: Pending,
    names: Sequence[str],
    check: Callable[[Snapshot], None],
    complete: Callable[[Path], None] = lambda _: None,
) -> None:
    """Publish the things `names` that all shards of `made` have, and forget the shards.

    `complete` gets the folder in which the things are, by name, and may add to them. `check` may refuse. If another
    process publishes the same shards at the same time, one of them does it. Raises OSError and LakeError.
    """
    top = session.folder / "gathered"
    for one in made.finished:
        for place, folder in one.put.items():
            _link(one.folder / folder, top / place)
    complete(top)
    # the mark in the folders' names tells the other publisher
    mark = hashlib.sha256("\n".join(one.identity for one in made.finished).encode()).hexdigest()[:8]
    marked = replace(session, publication=f"{session.publication}{mark}")

    def check_new(snapshot: Snapshot) -> None:
        if names and all(name in snapshot.places and snapshot.places[name].path.endswith(mark) for name in names):
            raise _AlreadyPublishedError
        check(snapshot)

    with suppress(_AlreadyPublishedError):
        what = f"{made.kind} {made.name}, {made.count} shards"
        staging.publish(marked, what, {name: top / name for name in names}, before=check_new)
    discard(session.lake, made.name)


def discard(lake: Path, name: str) -> int:
    """Remove what shards of `name` have left to be published. Returns how many there were."""
    left = [one for it in pending(lake) if it.name == name for one in it.finished]
    for one in left:
        _remove(lake, one.folder)
        files.remove_empty([one.folder.parent, one.folder.parent.parent, lake / _FOLDER])
    return len(left)


class _AlreadyPublishedError(Exception):
    """Another process has published the same shards."""


def _place(kind: str, name: str, shard: Shard) -> str:
    return f"{kind}={name}/of={shard.count}/shard={shard.index}"


def _without(working: Mapping[int, float], finished: Sequence[Finished]) -> dict[int, float]:
    done = {one.shard.index for one in finished}
    return {index: working[index] for index in sorted(working) if index not in done}


def _write(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    files.sync(draft)
    draft.replace(path)
    files.sync(path.parent)


def _load(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(files.read_bounded(path, LARGEST_RECORD))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _read(path: Path, found: re.Match[str]) -> Finished | None:
    """Return what the shard kept whose place is `found`. None if its file is damaged, or names what is not its own."""
    content = _load(path)
    shard = Shard(int(found["count"]), int(found["index"]))
    own = f"{'comparisons/' * (found['kind'] == 'comparison')}{found['kind']}={found['name']}/"
    try:
        put = {str(place): str(folder) for place, folder in dict(content["put"]).items()}
        described = dict(content["described"])
        finished = Finished(shard, path.parent, str(content["identity"]), str(content["plan"]), put, described)
    except (KeyError, TypeError, ValueError):
        return None
    is_own = all(f"{place}/".startswith(own) for place in put)
    return finished if is_own and all(map(log.is_inside, (*put, *put.values()))) else None


def _link(folder: Path, target: Path) -> None:
    """Give the files in `folder` a second name in the new folder `target`."""
    target.mkdir(parents=True)
    for child in folder.iterdir():
        if child.is_dir():
            _link(child, target / child.name)
        else:
            files.link_or_copy(child, target / child.name)
    files.sync(target)


def _remove(lake: Path, folder: Path) -> None:
    """Remove a shard's folder. It is renamed first, so that nobody takes part of it for the whole."""
    files.refuse_links(lake, [str(folder.relative_to(lake))])
    if folder.exists():
        hidden = staging.hidden(lake, f"replaced-{time.time_ns()}")
        with suppress(FileNotFoundError):  # another process removes it
            folder.rename(hidden)
            shutil.rmtree(hidden, ignore_errors=True)
