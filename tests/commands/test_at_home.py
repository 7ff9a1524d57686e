"""What a user meets first: the overview, the help, completion, doctor, and how much is said."""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from program import dump_text, lakeprobe, write_dump

import lakeprobe as lakeprobe_of_python
from lakeprobe import cli, commands, diagnostics
from lakeprobe.commands.layout import GROUPS
from lakeprobe.lake.connection import query_errors
from lakeprobe.lake.interrupting import heeding_ctrl_c, interruptible
from lakeprobe.system import native


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for name, norm in (("npu", 3.0), ("gpu", 1.0)):
        write_dump(folder / name, dump_text(add=1.0, mul=norm))
    assert lakeprobe("compare", folder / "npu", folder / "gpu", "--lake", folder / "lake").code == 0
    return folder / "lake"


# ---- the overview -----------------------------------------------------------------------------------------


def test_alone_it_shows_the_overview(tmp_path: Path) -> None:
    done = lakeprobe(LAKEPROBE_LAKE=tmp_path / "none")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) <= 11
    assert "  Compare them:        lakeprobe compare TARGET GOLDEN" in lines
    assert f"There is no lake at {tmp_path / 'none'} yet; the first command makes it." in lines
    assert not (tmp_path / "none").exists()


def test_the_road_has_the_users_own_runs(lake: Path) -> None:
    lines = lakeprobe(LAKEPROBE_LAKE=lake).out.splitlines()
    assert "✓ Compare them:        lakeprobe compare npu gpu" in lines
    assert "  What causes it:      lakeprobe blame npu_vs_gpu" in lines
    assert "  Is the op wrong:     lakeprobe verify npu --of npu_vs_gpu" in lines
    assert f"The lake {lake} has 2 runs: lakeprobe ls" in lines


def test_a_lake_without_runs_is_empty_and_one_run_wants_a_second(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    dump = write_dump(tmp_path / "npu", dump_text(add=1.0))
    assert lakeprobe("ingest", dump, "--lake", lake).code == 0
    one = lakeprobe(LAKEPROBE_LAKE=lake).out
    assert f"The lake {lake} has 1 run; compare it with a second: lakeprobe ls" in one
    assert "✓" not in one
    assert lakeprobe("rm", "npu", "--yes", "--lake", lake).code == 0
    assert f"The lake {lake} is empty; collect a run, or read a dump." in lakeprobe(LAKEPROBE_LAKE=lake).out


def test_blame_names_the_comparison_to_show_unless_it_is_the_last_one(lake: Path, tmp_path: Path) -> None:
    older = shutil.copytree(lake, tmp_path / "lake")
    time.sleep(1)  # comparisons of one second have no order
    assert lakeprobe("compare", "gpu", "npu", "--name", "later", "--lake", older).code == 0
    for name, asked in (("npu_vs_gpu", "--comparison npu_vs_gpu "), ("later", "")):
        last = lakeprobe("blame", name, "--lake", older).out.splitlines()[-1]
        assert last.endswith(f"lakeprobe show Torch.mul.0.forward {asked}--lake {older}")


def test_each_answer_ends_with_what_to_ask_next(lake: Path) -> None:
    for words, last in (
        (("compare", "npu", "gpu", "--replace"), "lakeprobe sql \"from results where comparison = 'npu_vs_gpu'\""),
        (("first-diff", "npu_vs_gpu"), "lakeprobe blame npu_vs_gpu"),
        (("blame", "npu_vs_gpu"), "lakeprobe show Torch.mul.0.forward"),
        (("ls",), "lakeprobe first-diff npu_vs_gpu"),
        (("unmatched", "npu_vs_gpu"), "lakeprobe first-diff npu_vs_gpu"),
        (("drift", "gpu", "npu", "--op", "Torch"), "lakeprobe compare npu gpu --step 0"),
    ):
        done = lakeprobe(*words, "--lake", lake)
        assert done.out.splitlines()[-1].endswith(f"{last} --lake {lake}"), words
        asked = shlex.split(done.out.splitlines()[-1])
        assert lakeprobe(*asked[asked.index("lakeprobe") + 1 :]).code == 0, asked


def test_what_to_ask_next_names_no_lake_that_the_environment_names(lake: Path) -> None:
    assert lakeprobe("ls", LAKEPROBE_LAKE=lake).out.endswith("lakeprobe first-diff npu_vs_gpu\n")


# ---- help -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["-h", "--help"])
def test_the_help_has_groups_and_whole_sentences(spelling: str) -> None:
    done = lakeprobe(spelling)
    assert done.code == 0
    assert "..." not in done.out.partition("\n")[2]
    titles = re.findall(r"^([A-Z][\w ,]+):$", done.out, re.MULTILINE)
    assert titles == ["Options", *GROUPS]
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_help_of_every_command_is_whole_and_ends_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups = {"rules": ("list", "show", "new"), "preflight": ("pack", "compare")}
    inner = [f"{name} {command}" for name, names in groups.items() for command in names]
    for command in [*(name for names in GROUPS.values() for name in names), *inner]:
        text = lakeprobe(*command.split(), "-h").out
        usage, *lines = text.splitlines()
        assert usage.startswith(f"Usage: lakeprobe {command} "), usage
        assert not set("{}<") & set(usage), usage
        assert re.match(r"[A-Z].*", lines[1]), command
        assert lines[-1].startswith(f"Example: lakeprobe {command} ".rstrip()), command
        assert "..." not in re.sub(r"\b[A-Z]+\.\.\.|\[ARGS\]\.\.\.", "", text), command
        assert not re.search(r" <(?:str|path|int|float)", text), command
        assert max(map(len, lines[:-1])) <= 80, command
        if command not in groups:
            assert "--quiet" in text, command


def test_every_command_is_in_a_group() -> None:
    files = {path.stem.replace("_", "-") for path in Path(commands.__path__[0]).glob("*.py")}
    listed = [name for names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(files - {"--init--", "complete", "layout", "options", "overview"})


# ---- completion -------------------------------------------------------------------------------------------


def completed(line: str, lake: Path) -> list[str]:
    words = {"_LAKEPROBE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = lakeprobe(LAKEPROBE_LAKE=lake, **words)
    assert done.err == ""
    return done.out.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lakeprobe bl", ["blame"]),
        ("lakeprobe compare n", ["npu"]),
        ("lakeprobe blame ", ["npu_vs_gpu"]),
        ("lakeprobe overflow n", ["npu", "npu_vs_gpu"]),
        ("lakeprobe show Torch.mul", ["Torch.mul.0.forward"]),
        ("lakeprobe show Torch --run ", ["gpu", "npu"]),
        ("lakeprobe compare --sql same", ["same_framework"]),
        ("lakeprobe rules show f", ["fuzzy"]),
        ("lakeprobe ingest --tensors ", ["copy", "link", "none"]),
    ],
)
def test_a_shell_completes(line: str, expected: list[str], lake: Path) -> None:
    assert completed(line, lake) == expected


def test_without_a_lake_nothing_is_completed_and_nothing_is_said(tmp_path: Path) -> None:
    assert completed("lakeprobe blame ", tmp_path / "none") == []
    (tmp_path / "lake.yaml").write_text("format: [")
    assert completed("lakeprobe blame ", tmp_path) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown_for_each_shell(shell: str) -> None:
    done = lakeprobe("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1)
    assert done.code == 0
    assert "_LAKEPROBE_COMPLETE" in done.out


# ---- wrong names ------------------------------------------------------------------------------------------


def test_a_message_says_what_is_wrong_and_what_to_do(lake: Path) -> None:
    refused = lakeprobe("sql", "from nosuch", "--lake", lake)
    assert (refused.code, "nosuch does not exist" in refused.line) == (2, True)
    assert "EXPLAIN" not in refused.line
    assert "^" not in refused.line
    unwritten = lakeprobe("note", "npu", "--lake", lake)
    assert (unwritten.code, unwritten.out) == (0, "")
    assert unwritten.err == 'npu has no note; write one: lakeprobe note npu "TEXT"\n'


def test_a_question_that_ctrl_c_ends_is_no_bug() -> None:
    with pytest.raises(KeyboardInterrupt), query_errors():
        raise RuntimeError("Query interrupted")  # as DuckDB does
    with pytest.raises(RuntimeError, match="another"), query_errors():
        raise RuntimeError("another")


def test_a_query_that_forgot_ctrl_c_is_asked_again() -> None:
    """DuckDB clears what it was asked when it has planned a query."""

    class Forgetful:
        asked = 0

        def interrupt(self) -> None:
            self.asked += 1

    connection = Forgetful()
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with heeding_ctrl_c():
            interruptible(connection)  # type: ignore[arg-type]
            signal.raise_signal(signal.SIGINT)
            ends = time.monotonic() + 30
            while connection.asked < 2 and time.monotonic() < ends:
                time.sleep(0.05)
    finally:
        signal.signal(signal.SIGINT, before)
    assert connection.asked >= 2


def test_a_long_query_says_how_long_it_runs_and_ctrl_c_ends_it(lake: Path) -> None:
    """Its task of DuckDB takes hours, and DuckDB looks for signals between tasks only.

    DuckDB thinks at once that nearly all is done, so no share is shown.
    """
    query = "with t as materialized (select range as row from range(2438)) select count(*) from t a, t b, t c, t d"
    command = [sys.executable, "-m", "lakeprobe", "sql", query, "--lake", str(lake)]
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born deaf to it
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=variables)
    signal.signal(signal.SIGINT, before)
    os.close(theirs)
    said = b""
    try:
        while not re.search(rb"running the query: [1-9]\d* s", said):  # a busy machine may skip a second
            said += os.read(ours, 4096)
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=30)
    finally:
        program.kill()
    said += os.read(ours, 4096)
    os.close(ours)
    assert (program.returncode, out) == (130, b"")
    assert b"Traceback" not in said
    assert b"done" not in said


@pytest.mark.parametrize(("stdout", "code", "said"), [
    (">&-", 0, ""),
    ("> /dev/full", 2, "lakeprobe: stdout cannot be written: No space left on device\n"),
])  # fmt: skip
def test_a_stdout_that_takes_nothing(lake: Path, stdout: str, code: int, said: str) -> None:
    line = f"exec {shlex.quote(sys.executable)} -m lakeprobe ls --lake {shlex.quote(str(lake))} {stdout}"
    done = subprocess.run(line, shell=True, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("compare", "-h"), ("rules", "list", "--help")])
def test_a_help_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "argv", ["lakeprobe", *words])
        monkeypatch.setattr(sys, "stdout", full)
        said = io.StringIO()
        monkeypatch.setattr(sys, "stderr", said)
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert (ended.value.code, said.getvalue()) == (2, "lakeprobe: stdout cannot be written: No space left on device\n")


@pytest.mark.parametrize(("words", "said"), [
    (("sql",), "the query is empty; give one as an argument, with --file, or on stdin"),
    (("rm", "npu_vs_gpu"), "remove the comparison npu_vs_gpu? stdin is not a terminal; confirm with --yes"),
])  # fmt: skip
def test_a_stdin_that_is_closed(lake: Path, words: tuple[str, ...], said: str) -> None:
    line = shlex.join([sys.executable, "-m", "lakeprobe", *words, "--lake", str(lake)])
    done = subprocess.run(f"exec {line} <&-", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"lakeprobe: {said}\n")


# ---- doctor -----------------------------------------------------------------------------------------------


def test_doctor(lake: Path) -> None:
    done = lakeprobe("doctor", "--lake", lake)
    assert (done.code, done.err) == (0, "")
    facts = dict(re.findall(r"^([\w ]+?)  +(.*)$", done.out, re.MULTILINE))
    assert facts["runs"] == "2, of 2 units"
    assert facts["comparisons"] == "1"
    assert facts["functions in C"] == native.state()
    assert (facts["collecting"], facts["left over"]) == ("nothing", "nothing")
    assert re.fullmatch(r"writes \d+ MB/s; a small file takes [\d.]+ ms", facts["disk"])
    assert facts["lake"] == str(lake)
    assert list((lake / ".staging").iterdir()) == []


def test_doctor_without_a_lake_and_with_one_that_is_damaged(tmp_path: Path) -> None:
    assert "does not exist yet" in lakeprobe("doctor", "--lake", tmp_path / "none").out
    (tmp_path / "lake.yaml").write_text("format: [")
    done = lakeprobe("doctor", "--lake", tmp_path)
    assert done.code == 0
    assert "lake.yaml is damaged" in done.out


# ---- how much is said -------------------------------------------------------------------------------------


def test_quiet_and_verbose(lake: Path, tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "run", dump_text(add=1.0))
    quiet = lakeprobe("ingest", dump, "--lake", tmp_path / "one", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    verbose = lakeprobe("ingest", dump, "--lake", tmp_path / "two", "--verbose")
    assert re.search(r"^  run run step 0 rank 0 \(msprobe dump\): 1 ops, \d+ bytes$", verbose.err, re.MULTILINE)
    compared = lakeprobe("compare", "npu", "gpu", "--replace", "-v", "--lake", lake)
    assert re.search(r"^rule same_framework, .*noise_factor 16,", compared.err, re.MULTILINE)
    assert re.search(r"^comparing: \d+\.\d\d s$", compared.err, re.MULTILINE)
    refused = lakeprobe("compare", "npu", "none", "-q", "--lake", lake)
    assert refused.line == f"lakeprobe: {lake} has no run none; it has gpu, npu; there is no such path either"


def test_progress_appears_after_a_second_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("TERM", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    diagnostics.speak(diagnostics.Volume.USUAL)
    monkeypatch.setattr(diagnostics, "_PATIENCE", 0.0)
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with diagnostics.progress("reading") as move:
        assert move is not None
        move(1, 4)
        while "1/4" not in shown.getvalue():
            move(1, 4)
    with diagnostics.working("looking"):
        while "looking: 0 s" not in shown.getvalue():
            pass
    monkeypatch.setenv("TERM", "dumb")  # which cannot write a line again
    with diagnostics.progress("reading") as move:
        assert move is None
    monkeypatch.delenv("TERM")
    diagnostics.speak(diagnostics.Volume.QUIET)
    with diagnostics.progress("reading") as move:
        assert move is None
    diagnostics.speak(diagnostics.Volume.USUAL)
    monkeypatch.setattr(diagnostics, "_PATIENCE", 60.0)
    brief = Terminal()
    monkeypatch.setattr(sys, "stderr", brief)
    with diagnostics.progress("reading") as move, diagnostics.working("looking"):
        assert move is not None
        move(1, 4)
    assert brief.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with diagnostics.progress("reading") as move:
        assert move is None


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([], ""),
        ([0.1 + place / 100 for place in range(12)], ", about 21 % done, 20 s left"),  # 1 % every quarter of a second
        ([0.19] * 12, ""),  # a join builds its table
        ([0.42] * 8 + [0.79] * 4, ""),  # the next part of the plan begins
        ([0.9997] * 12, ""),  # a cross product of hours
        ([0.3 - place / 100 for place in range(12)], ""),
    ],
)
def test_the_time_left_is_said_only_where_duckdbs_share_moves_steadily(shares: list[float], said: str) -> None:
    assert diagnostics.estimate([(place / 4, share) for place, share in enumerate(shares)]) == said


def test_the_pace_of_parts() -> None:
    """3 of 8 units in 6 s: 0.5 a second, 10 s for the rest."""
    assert diagnostics.pace(3, 8, 6.0) == "0.5/s, about 10 s left"
    assert diagnostics.pace(0, 8, 6.0) == diagnostics.pace(8, 8, 6.0) == ""
    assert [diagnostics.duration(seconds) for seconds in (0.4, 59.6, 3599, 12000)] == [
        "0 s",
        "1 min 0 s",
        "59 min 59 s",
        "3 h 20 min",
    ]


def test_the_share_of_a_query_grows_from_0_to_1(lake: Path) -> None:
    query = "select count(*) from (from range(60_000_000) t(a) where hash(a) % 7 = 3)"
    with lakeprobe_of_python.open(lake) as opened:
        share = opened.share_done()
        seen, ended = [], threading.Event()

        def look() -> None:
            while not ended.wait(0.01):
                seen.append(share())

        looking = threading.Thread(target=look)
        looking.start()
        opened.sql(query).fetchall()
        ended.set()
        looking.join()
    assert all(0 <= one <= 1 for one in seen)
    assert any(0 < one < 1 for one in seen)


def test_a_note_folds_on_a_terminal_and_its_command_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()  # which knows no width, so it has 80 columns
    diagnostics.speak(diagnostics.Volume.USUAL)
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        diagnostics.note(f"{'so many words ' * 7}end: lakeprobe compare {'a' * 50} {'b' * 50}")
    lines = os.read(ours, 4096).decode().splitlines()
    os.close(ours)
    assert len(lines) == 2
    assert len(lines[0]) <= 80
    assert lines[1].endswith(f"end: lakeprobe compare {'a' * 50} {'b' * 50}")


# ---- the terminal -----------------------------------------------------------------------------------------


def on_a_terminal(*words: object, **environment: str) -> str:
    """Run the program with a terminal of 80 columns as stdout; returns what it wrote."""
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "LINES")}
    command = [sys.executable, "-m", "lakeprobe", *map(str, words)]
    program = subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, env=variables | {"TERM": "xterm"} | environment
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the program has ended
            break
        if not part:
            break
        written += part
    assert program.wait(60) == 0
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def test_on_a_terminal_the_answer_fits_and_has_colours(lake: Path) -> None:
    coloured = on_a_terminal("compare", "npu", "gpu", "--replace", "--lake", lake, COLUMNS="80")
    assert "Verdict: \x1b[1;31mdifferent\x1b[0m\n" in coloured
    plain = on_a_terminal("sql", "from results", "--lake", lake, NO_COLOR="1")  # a terminal that knows no width
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert "target_name           Torch.add.0.forward.input.0" in plain
