"""Makes a training run repeatable: seeds torch's random numbers and selects its algorithms."""

import os

import torch


def seed(number: int, *, deterministic: bool) -> None:
    """Seed the CPU, CUDA and NPU. `deterministic` turns deterministic algorithms on or off."""
    torch.manual_seed(number)  # also seeds CUDA and NPU
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(deterministic)
    if deterministic:
        os.environ |= {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "HCCL_DETERMINISTIC": "true"}
