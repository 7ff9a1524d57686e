"""Ops that end their process or never end, for the workers of a test, which import this."""

import ctypes
import time

import torch
from torch.nn import functional


def crash(*args, **named):
    ctypes.string_at(0)


def endless(*args, **named):
    while True:
        time.sleep(0.1)


functional.gelu = crash
torch.relu = endless
