"""The program `lakeprobe`."""

from __future__ import annotations

from lakeprobe.system import own_process


def main() -> None:
    """Run the command line."""
    own_process.prepare()
    from lakeprobe import cli

    cli.main()


if __name__ == "__main__":
    main()
