"""What tests of captures begin with."""

import pytest
from memory import Memory


@pytest.fixture
def memory() -> Memory:
    """A sink that keeps what it is given."""
    return Memory()
