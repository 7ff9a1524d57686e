"""Watches training steps in PyTorch: on the CPU, CUDA, and Ascend where torch_npu can be imported."""
