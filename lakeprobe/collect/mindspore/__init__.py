"""Watches training steps in MindSpore's dynamic graph (PyNative mode) on the CPU and on Ascend."""
