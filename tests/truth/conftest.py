"""The benchmark of accuracy is not a part of the package: it is imported from the checkout, and tested only there."""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(CHECKOUT))
collect_ignore_glob = [] if (CHECKOUT / "benchmarks").exists() else ["test_*.py"]
