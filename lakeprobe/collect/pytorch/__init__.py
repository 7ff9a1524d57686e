"""Watches training steps in PyTorch on the CPU, on CUDA, and on Ascend if torch_npu can be imported."""
