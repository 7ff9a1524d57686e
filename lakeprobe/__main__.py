"""The program `lakeprobe`."""

from __future__ import annotations

from typing import NoReturn

from lakeprobe.system import own_process


def main() -> NoReturn:
    """Run the command line."""
    own_process.prepare()
    from lakeprobe import cli

    own_process.end(cli.main)


if __name__ == "__main__":
    main()
