"""Makes a training run repeatable: torch's random numbers and its choice of algorithms."""

import os

import torch


def seed(number: int, *, deterministic: bool) -> None:
    """Seed the CPU, CUDA and NPU; with `deterministic` also ask for deterministic algorithms."""
    torch.manual_seed(number)  # of CUDA and NPU too
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(deterministic)
    if deterministic:
        os.environ |= {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "HCCL_DETERMINISTIC": "true"}
