"""The cut runs of the benchmark are not part of the package: they are imported from the checkout."""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(CHECKOUT))
collect_ignore_glob = (
    [] if (CHECKOUT / "benchmarks").exists() else ["test_merge_layout.py", "test_placed_runs.py", "test_jobs.py"]
)
