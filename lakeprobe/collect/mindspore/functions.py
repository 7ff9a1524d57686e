"""Finds the MindSpore functions to record."""

from mindspore import Tensor, mint, ops
from mindspore.communication import comm_func
from mindspore.mint import distributed
from mindspore.mint.nn import functional

from lakeprobe.collect.mindspore import apis
from lakeprobe.collect.watching.places import Place, place_of

MINT_DISTRIBUTED = "MintDistributed"
_GROUPS = (
    ("Functional", ops, apis.OPS),
    ("Tensor", Tensor, apis.TENSOR),
    ("Mint", mint, apis.MINT),
    ("MintFunctional", functional, apis.MINT_FUNCTIONAL),
    ("Distributed", comm_func, apis.COMMUNICATION),
    (MINT_DISTRIBUTED, distributed, apis.MINT_DISTRIBUTED),
)


def places() -> list[Place]:
    """Return every listed function that this MindSpore has, in its current state."""
    found = (place_of(prefix, owner, name) for prefix, owner, names in _GROUPS for name in sorted(names))
    return [place for place in found if place is not None]
