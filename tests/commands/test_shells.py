"""Completion as it is installed, in the shells that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from program import dump_text, lakeprobe, write_dump

ASKED = {
    "bash": 'source ~/.bash_completions/lakeprobe.sh; COMP_WORDS=({line} ""); COMP_CWORD={place};'
    ' $(complete -p lakeprobe | sed "s/.*-F \\([^ ]*\\).*/\\1/") lakeprobe; echo "${{COMPREPLY[@]}}"',
    "zsh": 'compdef() {{ }}; _arguments() {{ print "$@" }}; source ~/.zfunc/_lakeprobe;'
    ' words=({line} ""); CURRENT={place}; (( CURRENT++ )); _lakeprobe_completion',
    "fish": 'source ~/.config/fish/completions/lakeprobe.fish; complete -C "{line} "',
}
"""What a shell does at Tab, with the file that --install-completion wrote."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the program, and a lake of two runs that are compared."""
    folder = tmp_path_factory.mktemp("shells")
    for name, norm in (("npu", 3.0), ("gpu", 1.0)):
        write_dump(folder / name, dump_text(mul=norm))
    assert lakeprobe("compare", folder / "npu", folder / "gpu", "--lake", folder / "lake").code == 0
    program = folder / "lakeprobe"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakeprobe "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("shell", ASKED)
def test_names_are_completed(home: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} on this machine")

    own = {"HOME": str(home), "LAKEPROBE_LAKE": str(home / "lake"), "PATH": f"{home}:{os.environ['PATH']}"}
    plain = {"bash": "--norc", "fish": "--no-config", "zsh": "-f"}[shell]

    def said(script: str) -> str:
        done = subprocess.run([shell, plain, "-c", script], env=os.environ | own, capture_output=True, text=True)
        return done.stdout

    # with a second command the shell stays: the program looks which shell has called it
    assert "completion installed" in said("lakeprobe --install-completion; true")
    for line, names in {
        "lakeprobe compare": ["gpu", "npu"],
        "lakeprobe blame": ["npu_vs_gpu"],
        "lakeprobe show": ["Torch.mul.0.forward"],
        "lakeprobe rules show": ["fuzzy", "same_framework"],
    }.items():
        found = said(ASKED[shell].format(line=line, place=len(line.split())))
        assert [name for name in names if name not in found] == [], (line, found)
