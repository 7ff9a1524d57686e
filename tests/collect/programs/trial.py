"""Tries a program watched and unwatched, and says what became of it."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any, NamedTuple

import frameworks  # noqa: F401  it enters its programs, as does later
import later  # noqa: F401
import newest  # noqa: F401
import odd  # noqa: F401
import others  # noqa: F401
import published  # noqa: F401
import torch
from kinds import PROGRAMS
from memory import Memory, bodies, capture

STEPS = 3


class Outcome(NamedTuple):
    """What became of a program at one level."""

    works: bool
    """It ran, and nothing could not be recorded."""
    identical: bool
    """Losses, parameters, gradients and the state of the random numbers are the same to the last bit."""
    restored: bool
    """After `stop` torch's functions, and the hooks of modules and parameters, are what they were."""
    ops: int
    """How many ops were recorded."""
    why: str = ""
    """What is not as it should be."""


def digest(values: Any) -> str:
    """A hash over all bits of nested values."""
    state = hashlib.sha256()
    for leaf in torch.utils._pytree.tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().contiguous()
            state.update(leaf.reshape(-1).view(torch.uint8).numpy().tobytes() if leaf.numel() else b"")
        else:
            state.update(repr(leaf).encode())
    return state.hexdigest()


def models_of(model: Any) -> list[Any]:
    return model if isinstance(model, list) else [model]


def run(name: str, memory: Memory | None = None, level: str = "L1", **settings: Any) -> tuple[list[str], Any]:
    """Train three steps, of which the second is collected into `memory`. Returns a hash for each, and the model."""
    torch.manual_seed(0)
    model, step = PROGRAMS[name]()
    watched = None if memory is None else capture(memory, model, level=level, step=(1,), **settings)
    seen = []
    for number in range(STEPS):
        if watched is not None:
            watched.start(model)
        result = step(number)
        if watched is not None:
            watched.stop()
            watched.step()
        gradients = [parameter.grad for part in models_of(model) for parameter in part.parameters()]
        parameters = [parameter for part in models_of(model) for parameter in part.parameters()]
        seen.append(digest([result, gradients, parameters, torch.get_rng_state()]))
    if watched is not None:
        watched.close()
    return seen, model


def attributes() -> dict[tuple[str, str], Any]:
    owners = (torch, torch.Tensor, torch.nn.functional, torch._VF, torch.nn.utils, torch.nn.Module, torch.jit._script)
    return {(repr(owner), name): value for owner in owners for name, value in vars(owner).items() if callable(value)}


def hooks(model: Any) -> list[Any]:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    modules = [module for part in models_of(model) for module in part.modules()]
    found: list[Any] = [list(getattr(module, kind)) for module in modules for kind in kinds]
    parameters = [parameter for part in models_of(model) for parameter in part.parameters()]
    return found + [bool(parameter._post_accumulate_grad_hooks) for parameter in parameters]


def tried(name: str, level: str, **settings: Any) -> Outcome:
    """What becomes of a program at a level."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone, unwatched = run(name)
        memory = Memory()
        before = attributes()
        try:
            seen, model = run(name, memory, level, **settings)
        except Exception as error:  # noqa: BLE001  that is what is asked
            return Outcome(False, False, False, 0, f"{type(error).__name__}: {error}".splitlines()[0])
        after = attributes()
    changed = [key for key in before | after if before.get(key) is not after.get(key)]
    restored = not changed and len(hooks(model)) == len(hooks(unwatched)) and _same_hooks(model, unwatched)
    ops = len(bodies(memory)) if memory.steps else 0
    lost = [note for note in memory.notes if "could not be recorded" in note]
    return Outcome(not lost, seen == alone, restored, ops, "; ".join(lost))


def _same_hooks(one: Any, other: Any) -> bool:
    """Whether two models that were made alike have as many hooks in each place. Their numbers differ."""
    return [len(x) if isinstance(x, list) else x for x in hooks(one)] == [
        len(x) if isinstance(x, list) else x for x in hooks(other)
    ]
