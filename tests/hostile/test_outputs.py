"""What a command writes where its user says: nothing in a lake, nothing in place of a pipe, and links stay links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from program import dump_text, lakeprobe, write_dump

from lakeprobe.compare.run import compare
from lakeprobe.errors import UsageError
from lakeprobe.ingest import ingest
from lakeprobe.lake import outputs
from lakeprobe.reports import verification_files

FILES = {
    "view": ("view", "npu_vs_gpu", "--output", "{}.html"),
    "view of a run": ("view", "npu", "-o", "{}.html"),
    "vis.db": ("view", "npu_vs_gpu", "--format", "vis.db", "-o", "{}.db"),
    "perturb": ("perturb", "npu", "--output", "{}.csv"),
    "reproduce": ("reproduce", "npu", "Torch.add.0", "-o", "{}.py"),
    "first-diff": ("first-diff", "npu_vs_gpu", "--diff-analyze", "{}.json"),
    "map": ("map", "npu", "gpu", "-o", "{}.yaml"),
    "rules": ("rules", "new", "{}.sql"),
    "drift": ("drift", "gpu", "npu", "-o", "{}.png"),
    "sql": ("sql", "SELECT 1 AS a", "--write", "{}.csv"),
}
FOLDERS = {
    "compare": ("compare", "npu", "gpu", "-o", "{}"),
    "workbook": ("compare", "npu", "gpu", "--format", "xlsx", "-o", "{}"),
    "merge": ("merge", "npu_vs_gpu", "-o", "{}"),
    "verify": ("verify", "npu", "-o", "{}"),
    "errors": ("verify", "npu", "--save-errors", "{}"),
    "preflight": ("preflight", "pack", "-o", "{}"),
    "export": ("export", "npu", "{}"),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with the runs npu and gpu, and the comparison of both."""
    folder = tmp_path_factory.mktemp("outputs")
    for name, norm in (("npu", 3.0), ("gpu", 1.0)):
        ingest(write_dump(folder / name, dump_text(add=1.0, mul=norm)), lake=folder / "lake")
    compare("npu", "gpu", lake=folder / "lake", name="npu_vs_gpu")
    return folder / "lake"


def content(folder: Path) -> dict[Path, bytes | None]:
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if ".staging" not in path.parts
    }


def words_of(command: tuple[str, ...], place: Path) -> list[str]:
    return [word.format(place) for word in command]


@pytest.mark.parametrize("command", [*FILES.values(), *FOLDERS.values()], ids=[*FILES, *FOLDERS])
def test_nothing_is_written_into_a_lake(lake: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "way").symlink_to(lake / "log")
    before = content(lake)
    for place in (lake / "new", tmp_path / "way" / "new", lake / "run=npu" / "deep" / "new"):
        done = lakeprobe(*words_of(command, place), LAKEPROBE_LAKE=lake)
        assert done.code == 2
        named = place.resolve() if command[0] == "export" else place
        assert done.line.startswith(f"lakeprobe: {named}")
        assert done.line.endswith(f" is in the lake {lake}; write to another folder")
    assert content(lake) == before


@pytest.mark.parametrize(
    "command",
    [command for command in (*FILES.values(), *FOLDERS.values()) if {"-o", "--output", "export"} & set(command)],
)
@pytest.mark.parametrize("place", ["", "-"])
def test_no_place_and_the_sign_of_stdout(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [place if "{}" in word else word for word in command]
    done = lakeprobe(*words, LAKEPROBE_LAKE=lake)
    assert done.code == 2
    if command[0] != "drift":  # whose pictures have other names
        assert done.line == f"lakeprobe: {place!r} names no file or folder to write to; name one, such as ./out"
    assert list(tmp_path.iterdir()) == []


def test_the_description_of_a_lake_stays(lake: Path, tmp_path: Path) -> None:
    """Neither that of the lake in use nor that of another, whose name or link leads to it."""
    other = tmp_path / "other"
    ingest(write_dump(tmp_path / "run", dump_text(add=1.0)), lake=other)
    (tmp_path / "link").symlink_to(other / "lake.yaml")
    before = content(other)
    for place in (other / "lake.yaml", tmp_path / "link", tmp_path / "run" / ".." / "other" / "lake.yaml"):
        for words in (
            ("view", "npu"),
            ("view", "npu", "--format", "vis.db"),
            ("perturb", "npu"),
            ("map", "npu", "gpu"),
        ):
            done = lakeprobe(*words, "-o", place, "--lake", lake)
            assert (done.code, done.line) == (2, f"lakeprobe: {place} is in the lake {other}; write to another folder")
    assert content(other) == before


@pytest.mark.parametrize("command", FILES.values(), ids=FILES)
def test_no_pipe_is_replaced_or_waited_for(lake: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    pipe = Path(command[-1].format(tmp_path / "pipe"))
    os.mkfifo(pipe)
    done = lakeprobe(*words_of(command, tmp_path / "pipe"), LAKEPROBE_LAKE=lake)
    assert (done.code, done.err) == (2, f"lakeprobe: {pipe} is a pipe; name a file\n")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("name", ["compare", "workbook", "merge", "verify", "errors"])
def test_files_go_into_a_folder(lake: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    done = lakeprobe(*words_of(FOLDERS[name], file), LAKEPROBE_LAKE=lake)
    assert (done.code, done.line) == (2, f"lakeprobe: {file} is a file; name a folder")
    assert file.read_text() == "mine"


@pytest.mark.parametrize("name", ["view", "vis.db", "first-diff", "sql"])
def test_a_link_is_followed_and_stays(lake: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "away").mkdir()
    suffix = FILES[name][-1].format("")
    (tmp_path / f"old{suffix}").symlink_to(Path("away", f"old{suffix}"))
    (tmp_path / "away" / f"old{suffix}").write_text("old")
    (tmp_path / f"none{suffix}").symlink_to(tmp_path / "away" / f"none{suffix}")
    for stem in ("old", "none"):
        assert lakeprobe(*words_of(FILES[name], tmp_path / stem), LAKEPROBE_LAKE=lake).code == 0
        assert (tmp_path / f"{stem}{suffix}").is_symlink()
        written = tmp_path / "away" / f"{stem}{suffix}"
        assert not written.is_symlink()
        assert written.read_bytes() not in (b"old", b"")
    assert len(list((tmp_path / "away").iterdir())) == 2


def test_a_link_to_itself(lake: Path, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    done = lakeprobe("view", "npu", "-o", loop, "--lake", lake)
    assert (done.code, done.line) == (2, f"lakeprobe: {loop} is a link to itself; name a file")
    assert loop.is_symlink()


def test_tables_of_checks(tmp_path: Path) -> None:
    """What perturb and verify write after their work, which takes a framework."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=r"is a pipe; name a file$"):
        verification_files.write_free_benchmark([], tmp_path / "pipe")
    (tmp_path / "link").symlink_to("table.csv")
    verification_files.write_free_benchmark([], tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "table.csv").read_text("utf-8-sig").startswith("rank,pert_mode,")


@pytest.mark.parametrize("name", ["reproduce", "map", "rules"])
@pytest.mark.parametrize("is_link", [False, True])
def test_what_people_edit_is_not_overwritten(lake: Path, tmp_path: Path, name: str, is_link: bool) -> None:
    place = Path(FILES[name][-1].format(tmp_path / "mine"))
    file = tmp_path / "other" if is_link else place
    file.write_text("my work")
    if is_link:
        place.symlink_to(file)
    done = lakeprobe(*words_of(FILES[name], tmp_path / "mine"), LAKEPROBE_LAKE=lake)
    says = f"lakeprobe: {place} exists already; name another file, or remove it first"
    assert (done.code, done.line) == (2, says)
    assert file.read_text() == "my work"
    assert set(tmp_path.iterdir()) == {file, place}


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"

    def write() -> None:
        with outputs.draft(file, new=True) as hidden:
            hidden.write_text("ours")
            file.write_text("theirs")

    with pytest.raises(UsageError, match="exists already"):
        write()
    assert file.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [file]


def test_a_draft_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def write() -> None:
        with outputs.draft(file) as hidden:
            hidden.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert (file.read_text(), list(tmp_path.iterdir())) == ("old", [file])


def test_an_error_names_the_file_that_the_user_named(tmp_path: Path) -> None:
    file = tmp_path / "none" / "file"
    with pytest.raises(FileNotFoundError) as raised, outputs.draft(file) as hidden:
        hidden.write_text("ours")
    assert raised.value.filename == str(file)


def test_a_folder_that_must_be_empty(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is in the lake"):
        outputs.empty_folder(lake / "new")
    (tmp_path / "way").symlink_to("empty")
    (tmp_path / "empty").mkdir()
    assert outputs.empty_folder(tmp_path / "way") == tmp_path / "empty"
    (tmp_path / "empty" / "file").touch()
    with pytest.raises(UsageError, match=r"is not an empty folder; choose another$"):
        outputs.empty_folder(tmp_path / "way")
