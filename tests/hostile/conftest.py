import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "commands"), str(TESTS / "compare"), str(TESTS / "readers")]  # what writes and runs is there
