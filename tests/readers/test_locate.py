"""Finding the dumps under a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeprobe.errors import DumpError, UsageError
from lakeprobe.readers.locate import locate, locate_run


def dumps(root: Path, *folders: str) -> Path:
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "dump.json").write_text("{}")
    return root


def located(path: Path) -> list[tuple[str, int, int]]:
    return [(source.folder.name, source.step, source.rank) for source in locate_run(path).sources]


def found(path: Path) -> list[tuple[str, list[tuple[str, int, int, str, str]]]]:
    """Each run's folder below `path`, with format, step, rank, part and folder of its sources."""
    return [
        (
            str(run.root.relative_to(path)),
            [(it.format, it.step, it.rank, it.part, str(it.folder.relative_to(path))) for it in run.sources],
        )
        for run in locate(path).runs
    ]


def refused(path: Path) -> str:
    with pytest.raises(DumpError) as caught:
        locate(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("folder", "given", "root", "step", "rank"),
    [
        ("gpu", "gpu/dump.json", "gpu", 0, 0),
        ("gpu", "gpu", "gpu", 0, 0),
        ("gpu/step3", "gpu/step3/dump.json", "gpu", 3, 0),
        ("gpu/step3", "gpu/step3", "gpu", 3, 0),
        ("gpu/step3", "gpu", "gpu", 3, 0),
        ("gpu/step12/rank7", "gpu/step12/rank7/dump.json", "gpu", 12, 7),
        ("gpu/step12/rank7", "gpu/step12/rank7", "gpu", 12, 7),
        ("gpu/step12/rank7", "gpu/step12", "gpu", 12, 7),
        ("gpu/step12/rank7", "gpu", "gpu", 12, 7),
        ("gpu/step0/rank", "gpu/step0", "gpu", 0, 0),
        ("gpu/step0/rank", "gpu", "gpu", 0, 0),
        ("gpu/step0/rank00", "gpu", "gpu", 0, 0),
        ("gpu/step01/rank010", "gpu", "gpu", 1, 10),
        ("gpu/rank5", "gpu/rank5", "gpu", 0, 5),
        ("gpu/rank5", "gpu", "gpu", 0, 5),
        ("gpu/step0/proc4927", "gpu", "gpu", 0, 0),
        ("gpu/step0/proc4927", "gpu/step0/proc4927/dump.json", "gpu", 0, 0),
        ("gpu/step0/proc4927", "gpu/step0", "gpu", 0, 0),
        ("a/b/other name", "a/b/other name", "a/b/other name", 0, 0),
    ],
)  # fmt: skip
def test_every_form_of_a_path(tmp_path: Path, folder: str, given: str, root: str, step: int, rank: int) -> None:
    dumps(tmp_path, folder)
    run = locate_run(tmp_path / given)
    assert run.root == tmp_path / root
    assert [(source.folder, source.step, source.rank) for source in run.sources] == [(tmp_path / folder, step, rank)]
    assert len(run.sources[0].notes) == ("proc" in folder)


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps(tmp_path / "gpu", "step1/rank2")
    monkeypatch.chdir(tmp_path / "gpu" / "step1")
    assert locate_run(Path()).root == tmp_path / "gpu"
    (source,) = locate_run(Path("rank2/dump.json")).sources
    assert (source.folder, source.step, source.rank) == (tmp_path / "gpu" / "step1" / "rank2", 1, 2)


def test_steps_and_ranks_come_in_numeric_order(tmp_path: Path) -> None:
    dumps(tmp_path, *(f"step{step}/rank{rank}" for step in (10, 9, 1) for rank in (11, 2, 0)))
    assert located(tmp_path) == [(f"rank{rank}", step, rank) for step in (1, 9, 10) for rank in (0, 2, 11)]
    assert located(tmp_path / "step9") == [("rank0", 9, 0), ("rank2", 9, 2), ("rank11", 9, 11)]


def test_processes_take_the_free_ranks_in_order_of_their_number(tmp_path: Path) -> None:
    dumps(tmp_path, "step0/proc1000", "step0/proc999", "step0/rank0", "step0/rank2")
    assert located(tmp_path) == [("rank0", 0, 0), ("proc999", 0, 1), ("rank2", 0, 2), ("proc1000", 0, 3)]
    notes = [source.notes for source in locate_run(tmp_path).sources]
    assert notes[0] == notes[2] == ()
    assert "proc999" in str(notes[1])
    assert "rank 1" in str(notes[1])


def test_foreign_files_and_folders_without_dumps_do_not_count(tmp_path: Path) -> None:
    dumps(tmp_path, "step0/rank0")
    for folder in ("step1/rank0", "step0/rank1", "step0/rank1/dump.json/x", "notes", "step", "stepx", "step-1"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "step2").write_text("a file")
    (tmp_path / "step0" / "rank3").write_text("a file")
    assert located(tmp_path) == [("rank0", 0, 0)]


@pytest.mark.parametrize("pair", [("rank0", "rank00"), ("rank", "rank0"), ("rank1", "rank01")])
def test_two_folders_of_one_rank_are_refused(tmp_path: Path, pair: tuple[str, str]) -> None:
    dumps(tmp_path, *(f"step0/{name}" for name in pair))
    for path in (tmp_path, tmp_path / "step0"):
        with pytest.raises(DumpError, match=r"both step 0 rank \d+; move one away") as caught:
            locate(path)
        assert all(name in str(caught.value) for name in pair)


@pytest.mark.parametrize("folder", ["gpu/step99999999999/rank0", "gpu/step1/rank9999999999", "step1000000000"])
def test_a_number_that_no_step_or_rank_has_is_refused(tmp_path: Path, folder: str) -> None:
    dumps(tmp_path, folder)
    odd = next(path for path in (tmp_path / folder, *(tmp_path / folder).parents) if len(path.name) > 12)
    says = f"{odd}: the number of a step or a rank has 9 digits at most; rename the folder"
    assert refused(tmp_path) == says
    with pytest.raises(DumpError) as caught:
        locate(tmp_path / folder)
    assert str(caught.value) == says


@pytest.mark.parametrize("folder", ["step-1/rank0", "step1/rank-2"])
def test_a_negative_step_or_rank_is_a_name_and_a_note_says_so(tmp_path: Path, folder: str) -> None:
    dumps(tmp_path, folder)
    run = locate_run(tmp_path)
    odd = run.root.name
    assert (odd in ("step-1", "rank-2"), run.sources[0].step, run.sources[0].rank) == (True, 0, 0)
    assert run.sources[0].notes == (f"{odd} is taken as a name, and not as a step or a rank",)


def test_two_dumps_in_one_folder_are_named_by_their_files(tmp_path: Path) -> None:
    dumps(tmp_path, ".")
    (tmp_path / "a.pkl").write_text('["Torch_add_1_forward_input.0", 1, [], "torch.float32", [4], [1, 1, 1]]\n')
    assert "a.pkl and dump.json are both step 0 rank 0; move one away" in refused(tmp_path)


def test_two_folders_of_one_step_are_refused(tmp_path: Path) -> None:
    dumps(tmp_path, "step1/rank0", "step01/rank0")
    assert "step1" in refused(tmp_path)


def test_what_holds_no_dump(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none")
    (tmp_path / "stack.json").write_text("{}")
    assert "is not a file of a known format" in refused(tmp_path / "stack.json")
    assert "holds no dump" in refused(tmp_path)
    (tmp_path / "step0" / "rank0").mkdir(parents=True)
    assert "holds no dump" in refused(tmp_path)
    assert "holds no dump" in refused(tmp_path / "step0")
    assert "does not exist" in refused(tmp_path / "step0" / "rank0" / "dump.json")
    with pytest.raises(UsageError, match="has a name of 300 bytes; a file's has 255 at most"):
        locate(tmp_path / ("x" * 300))


def test_the_dump_of_a_folder_wins_over_folders_below(tmp_path: Path) -> None:
    dumps(tmp_path / "gpu", ".", "step1/rank0")
    assert located(tmp_path / "gpu") == [("gpu", 0, 0)]


@pytest.mark.parametrize("below", ["step1/rank0", "step0/rank0/backup", "a/b/c"])
def test_a_dump_in_the_folder_of_a_dump_is_noted(tmp_path: Path, below: str) -> None:
    dumps(tmp_path / "gpu", "step0/rank0", f"step0/rank0/{below}", f"step0/rank0/{below}/step7/rank7")
    rank = tmp_path / "gpu" / "step0" / "rank0"
    (rank / "dump_tensor_data").mkdir()
    (rank / "notes").mkdir()
    dumps(rank / "dump_tensor_data", "rank3")
    (rank / "link").symlink_to(rank / below)
    [source] = locate_run(tmp_path / "gpu").sources
    assert source.folder == rank
    assert source.notes == (
        f"left out: {rank / below}; it is a dump in the folder of another; move it out, or name it alone",
    )
    [run] = locate(tmp_path / "gpu").runs
    assert run.sources == (source,)
    assert locate_run(rank / below).sources[0].folder == rank / below


@pytest.mark.parametrize("rest", ["stack.json", "construct.json", "dump_tensor_data"])
def test_a_rank_without_its_dump_is_noted(tmp_path: Path, rest: str) -> None:
    dumps(tmp_path, "step0/rank0")
    rank = tmp_path / "step0" / "rank1"
    rank.mkdir()
    (rank / rest).mkdir() if rest == "dump_tensor_data" else (rank / rest).write_text("{}")
    note = f"left out: {rank}; it has {rest}, but no dump.json; copy it again, or dump again"
    [source] = locate_run(tmp_path).sources
    assert note in source.notes
    assert note in refused(rank)


def test_links_are_followed(tmp_path: Path) -> None:
    """Within the folder of the run; what leads out of it is left out, and told."""
    dumps(tmp_path / "gpu", "step0/rank4")
    (tmp_path / "gpu" / "step1").mkdir(parents=True)
    (tmp_path / "gpu" / "step1" / "rank4").symlink_to(tmp_path / "gpu" / "step0" / "rank4")
    first, second = locate_run(tmp_path / "gpu").sources
    assert (second.folder, second.step, second.rank) == (tmp_path / "gpu" / "step1" / "rank4", 1, 4)
    assert first.notes == second.notes == ()
    dumps(tmp_path, "elsewhere/rank5")
    link = tmp_path / "gpu" / "step1" / "rank5"
    link.symlink_to(tmp_path / "elsewhere" / "rank5")
    first, second = locate_run(tmp_path / "gpu").sources
    assert first.notes == (f"left out: {link}; it is a link that leads out of {tmp_path / 'gpu'}",)
    (tmp_path / "whole").symlink_to(tmp_path / "gpu")
    assert len(locate_run(tmp_path / "whole").sources) == 2


def test_links_that_lead_around(tmp_path: Path) -> None:
    dumps(tmp_path, "step0/rank0")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for number in range(8):
            (tmp_path / folder / f"self{number}").symlink_to(tmp_path / folder)
            (tmp_path / folder / f"top{number}").symlink_to(tmp_path)
    (source,) = locate_run(tmp_path).sources
    assert len(source.notes) == 6
    assert source.notes[0] == f"left out: {tmp_path}/a/self0; it is a link to a folder that it lies in"
    assert source.notes[-1] == "left out: 27 more links, special files and parts of dumps"


def test_the_two_halves_of_a_mixed_dump_are_parts_of_one_run(tmp_path: Path) -> None:
    dumps(tmp_path / "npu", "graph/step0/rank0", "pynative/step0/rank0", "pynative/step1/rank")
    dump = "msprobe dump"
    assert found(tmp_path) == [
        (
            "npu",
            [
                (dump, 0, 0, "graph", "npu/graph/step0/rank0"),
                (dump, 0, 0, "pynative", "npu/pynative/step0/rank0"),
                (dump, 1, 0, "pynative", "npu/pynative/step1/rank"),
            ],
        )
    ]
    assert locate_run(tmp_path / "npu" / "graph").root == tmp_path / "npu"


def test_every_run_under_a_path_is_found(tmp_path: Path) -> None:
    dumps(tmp_path, "a/golden/step0/rank0", "a/target/step0/rank0", "b/rank1", "c")
    (tmp_path / "b" / "rank2").mkdir()
    (tmp_path / "b" / "rank2" / "debug.json").write_text("{}")
    dump = "msprobe dump"
    assert found(tmp_path) == [
        ("a/golden", [(dump, 0, 0, "", "a/golden/step0/rank0")]),
        ("a/target", [(dump, 0, 0, "", "a/target/step0/rank0")]),
        ("b", [(dump, 0, 1, "", "b/rank1"), ("msprobe debug points", 0, 2, "", "b/rank2")]),
        ("c", [(dump, 0, 0, "", "c")]),
    ]
    with pytest.raises(DumpError, match=r"holds 4 runs \(a/golden, a/target, b, c\); give the path of one"):
        locate_run(tmp_path)


def test_a_copy_that_lies_among_the_ranks_is_left_out_with_a_note(tmp_path: Path) -> None:
    dumps(tmp_path, "step0/rank0", "step0/rank1", "step0/backup of rank1")
    assert located(tmp_path) == [("rank0", 0, 0), ("rank1", 0, 1)]
    assert locate_run(tmp_path).sources[0].notes == (
        "left out, because it is named neither rank* nor proc*: step0/backup of rank1",
    )


def test_debug_points_beside_a_dump_are_a_part_of_their_own(tmp_path: Path) -> None:
    dumps(tmp_path, "step0/rank0", "step1/rank0")
    for step in ("step0", "step2"):
        (tmp_path / step / "rank0").mkdir(parents=True, exist_ok=True)
        (tmp_path / step / "rank0" / "debug.json").write_text("{}")
    sources = locate_run(tmp_path).sources
    assert [(source.format, source.step, source.part) for source in sources] == [
        ("msprobe dump", 0, ""), ("msprobe debug points", 0, "debug"), ("msprobe dump", 1, ""),
        ("msprobe debug points", 2, ""),
    ]  # fmt: skip
