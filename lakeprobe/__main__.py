"""The program `lakeprobe`."""

from lakeprobe.cli import main

if __name__ == "__main__":
    main()
