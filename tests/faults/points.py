"""Strikes every call that changes a lake, one at a time, and looks at what is left. See `--help`.

To be run with the library of shim.c preloaded (tests/faults/test_points.py and `make faults` do that). Each case is a
process of its own, which is a copy of this one, so that it need not import anything.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import importlib
import os
import pkgutil
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from pathlib import Path

import duckdb  # noqa: F401  what a case needs is imported once, here
import pyarrow.parquet
from scenes import Scene, State, copy, dump, scenes, settle, state

import lakeprobe
from lakeprobe import session
from lakeprobe.errors import LakeprobeError
from lakeprobe.ingest import ingest
from lakeprobe.lake import audits, log, staging

WITH_FRAMEWORKS = ("collect", "monitoring", "checks")

for module in pkgutil.walk_packages(lakeprobe.__path__, "lakeprobe."):
    if not module.name.endswith(("__main__", ".jupyter")) and module.name.split(".")[1] not in WITH_FRAMEWORKS:
        importlib.import_module(module.name)

SHIM = ctypes.CDLL(None)
KINDS = {"c": "create", "o": "open", "w": "write", "s": "sync", "l": "lock", "m": "mkdir", "r": "rename", "n": "link",
         "u": "unlink"}  # fmt: skip
FAULTS = {
    "kill": (-1, "cowslmrnu"), "SIGTERM": (-2, "cwsmrnu"), "short write": (-3, "w"), "EIO": (errno.EIO, "cowslmrnu"),
    "ENOSPC": (errno.ENOSPC, "cwsmrn"), "EACCES": (errno.EACCES, "comrnu"), "ENOLCK": (errno.ENOLCK, "l"),
}  # fmt: skip
"""What is done to a call, and to calls of which kinds."""
DONE, REFUSED, BUG = 0, 3, 70


def apart(act: Callable[[], object], says: Path) -> int:
    """`act` in a copy of this process. Returns its exit code, or the signal that ended it, below 0."""
    child = os.fork()
    if child == 0:
        code = BUG
        try:
            act()
            code = DONE
        except LakeprobeError as error:
            says.write_text(str(error))
            code = REFUSED
        except BaseException:  # noqa: BLE001  whatever else comes out is a defect
            says.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


class Case:
    """One call of one scene, and what strikes it."""

    def __init__(self, scene: Scene, number: int, kind: str, fault: str) -> None:
        self.scene, self.number, self.kind, self.fault = scene, number, kind, fault

    def __str__(self) -> str:
        return f"{self.scene.name}: {self.fault} at call {self.number} ({KINDS[self.kind]})"


def struck(  # noqa: C901
    case: Case, begun: Path, folder: Path, olds: State, news: State, thorough: bool
) -> str | None:
    """What is wrong after the case; None if nothing is."""
    lake, says = folder / "lake", folder / "says"
    copy(begun, lake)

    def act() -> None:
        SHIM.shim_arm(os.fsencode(lake), case.number, FAULTS[case.fault][0])
        case.scene.act(lake)

    def look() -> None:
        if not (lake / "lake.yaml").exists():
            assert not olds, "the lake is gone"
            return
        if case.scene.grows:
            settle(lake)
            check_collected(state(lake), folder)
        else:
            found = state(lake)
            assert found in (olds, news), f"neither old nor new: {sorted(found)}"
            assert code != DONE or found == news, "it was said to be done, and is not"
            text = says.read_text() if says.exists() else ""
            assert "as it was before" not in text or found == olds, f"said to be as before, and is not: {text}"
        if thorough:
            with session.Lake(lake) as opened:
                assert audits.run(opened.sql) == []

    def again() -> None:
        case.scene.act_again(lake)
        settle(lake)
        if not case.scene.grows:
            assert state(lake) == news, "the retry did not do it"
        assert staging.left_over(lake) == []
        assert staging.orphans(lake) == []
        assert log.missing(log.read(lake)) == []
        left = [path for path in (lake / ".staging").iterdir() if not path.name.startswith("reader")]
        assert left == [], left

    code = apart(act, says)
    if code == BUG:
        return f"{case}: {says.read_text()}"
    if code == DONE and case.fault in ("kill", "SIGTERM") and not is_late(case):
        return f"{case}: it was not struck"
    for what, after in (("after it", look), ("again", again)):
        told = folder / f"told {what}"
        if apart(after, told) != DONE:
            return f"{case}: {what}: {told.read_text() if told.exists() else 'killed'} (code {code})"
    return None


def is_late(case: Case) -> bool:
    """Threads make the number of calls differ a little from one time to the next."""
    return case.number > 10


def check_collected(found: State, folder: Path) -> None:
    """Every step that was said to be over is there with all of its ops."""
    ended = int((folder / "ended").read_text()) if (folder / "ended").exists() else 0
    for step in range(ended):
        name = f"run=npu/step={step}/rank=0"
        rows = [found.get(f"{name}/{table}.parquet") for table in ("ops", "tensors", "contents")]
        assert rows == [3, 3, 3], f"{name} has {rows}"


def counted(scene: Scene, begun: Path, folder: Path) -> str:
    """The calls of a scene, a letter each."""
    lake = folder / "lake"
    copy(begun, lake)
    kinds = folder / "kinds"

    def act() -> None:
        SHIM.shim_arm(os.fsencode(lake), 0, 0)
        scene.act(lake)
        SHIM.shim_kind.restype = ctypes.c_char
        SHIM.shim_kind.argtypes = [ctypes.c_long]
        number = SHIM.shim_calls()
        SHIM.shim_arm(b"", 0, 0)
        kinds.write_bytes(b"".join(SHIM.shim_kind(each) for each in range(1, number + 1)))

    says = folder / "says"
    assert apart(act, says) == DONE, says.read_text()
    return kinds.read_text()


def ends_of_rows(calls: str) -> Iterator[tuple[int, str]]:
    """The calls by number, but of several of one kind in a row (a file that is written) the first and the last only."""
    for number, kind in enumerate(calls, start=1):
        if number == 1 or not calls[number - 2] == kind == calls[number : number + 1]:
            yield number, kind


def drawn(cases: list[list[Case]], most: int | None, chance: random.Random) -> list[Case]:
    """`most` of the cases, of each scene as many as of the others; all of them if `most` is None."""
    if most is None:
        return [case for scene in cases for case in scene]
    shuffled = [chance.sample(scene, len(scene)) for scene in cases]
    in_turn = (case for cases in zip_longest(*shuffled) for case in cases if case is not None)
    return list(islice(in_turn, most))


def main() -> int:
    """Run the cases, print a table of them, and say what went wrong. Returns how many did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="only so many cases, chosen by chance, of each scene as many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scene", action="append", help="only this scene")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="faults-", dir=os.environ.get("FAULTS_FOLDER")))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        return run(home, asked.sample, asked.seed, asked.scene)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def run(home: Path, sample: int | None, seed: int, names: list[str] | None) -> int:
    """As `main`, in the folder `home`."""
    pyarrow.set_cpu_count(1)  # no threads, which a copy of this process would lack
    ingest(dump(home / "warm" / "gpu", 1), lake=home / "warm" / "lake", jobs=1)  # what is slow the first time
    cases: dict[str, list[Case]] = {}
    begun, states = {}, {}
    for scene in scenes(home / "dumps"):
        if names and scene.name not in names:
            continue
        place = home / scene.name
        place.mkdir()
        begun[scene.name] = place / "begun" / "lake"
        begun[scene.name].parent.mkdir()
        assert apart(lambda: scene.begin(begun[scene.name]), place / "says") == DONE, (place / "says").read_text()  # noqa: B023
        (place / "count").mkdir()
        calls = counted(scene, begun[scene.name], place / "count")
        states[scene.name] = tuple(
            state(lake) if (lake / "lake.yaml").exists() else {}
            for lake in (begun[scene.name], place / "count" / "lake")
        )
        cases[scene.name] = [
            Case(scene, number, kind, fault)
            for number, kind in ends_of_rows(calls)
            for fault, (_, kinds) in FAULTS.items() if kind in kinds
        ]  # fmt: skip
    chosen = drawn(list(cases.values()), sample, random.Random(seed))
    wrong: list[str] = []
    counts: Counter[tuple[str, str]] = Counter()
    for number, case in enumerate(chosen):
        folder = home / str(number)
        folder.mkdir()
        log._known.clear()
        error = struck(case, begun[case.scene.name], folder, *states[case.scene.name], thorough=number % 20 == 0)
        counts[case.scene.name, case.fault] += 1
        if number % 50 == 49:
            print(f"{number + 1} cases", flush=True)
        if error:
            wrong.append(error)
            print(f"WRONG {error}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    for name, all_of_it in cases.items():
        row = ", ".join(f"{counts[name, fault]} {fault}" for fault in FAULTS if counts[name, fault])
        print(f"{name} ({len(all_of_it)}): {row}")
    print(f"{len(chosen)} of {sum(map(len, cases.values()))} cases, {len(wrong)} wrong")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
