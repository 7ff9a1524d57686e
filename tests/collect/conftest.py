"""What tests of captures begin with."""

import sys
from collections.abc import Iterator

import pytest
from memory import Memory


@pytest.fixture
def memory() -> Memory:
    """A sink that keeps what it is given."""
    return Memory()


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """A process that has compiled code is told so by each collector; a test is not told of the compiling of others."""
    yield
    if "torch._dynamo" in sys.modules:
        import torch

        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
