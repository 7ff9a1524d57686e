"""Finds the functions of MindSpore that are recorded."""

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
    """Every recorded function that this MindSpore has, as it is now."""
    found = (place_of(prefix, owner, name) for prefix, owner, names in _GROUPS for name in sorted(names))
    return [place for place in found if place is not None]
