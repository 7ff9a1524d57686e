"""Times msprobe's acc_check on a dump.json, with the CPU as its device: python benchmarks/acc_check.py DUMP.JSON.

msprobe 26.2 refuses to run without an NPU or a GPU; here its modules are told that the CPU is one. It takes an API
whose name has "forward" in it (multi_head_attention_forward) for a broken dump, so such calls are left out. Needs a
Python with torch and msprobe.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from msprobe.pytorch.api_accuracy_checker.acc_check import acc_check


def main(dump: str) -> None:
    """Print the number of calls and the processor time of each."""
    torch.cuda.set_device = torch.cuda.empty_cache = lambda *_: None
    acc_check.is_gpu = True
    for name, module in list(sys.modules.items()):
        if name.startswith("msprobe.") and getattr(module, "current_device", None) in ("cuda", "npu"):
            module.current_device = "cpu"  # type: ignore[attr-defined]
    content = json.loads(Path(dump).read_text())
    content["data"] = {name: entry for name, entry in content["data"].items() if "_forward." not in name}
    calls = sum(name.endswith(".forward") for name in content["data"])
    parser = argparse.ArgumentParser()
    acc_check._acc_check_parser(parser)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "dump.json"
        copy.write_text(json.dumps(content))
        start, began = time.process_time(), time.perf_counter()
        acc_check.acc_check_command(parser.parse_args(["-api_info", str(copy), "-o", folder]))
        used, took = time.process_time() - start, time.perf_counter() - began
    print(f"{calls} calls: {used:.0f} s of processor ({1000 * used / calls:.0f} ms a call), {took:.0f} s by the clock")


if __name__ == "__main__":
    main(sys.argv[1])
