"""What to record of a training step: the choices that msprobe's config.json gives, checked and in one value."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["L0", "L1", "mix", "debug"]
Task = Literal["statistics", "tensor", "structure", "overflow_check"]
SummaryMode = Literal["statistics", "md5", "xor"]
Risk = Literal["ALL", "CORE", "FOCUS"]
Compiled = Literal["eager", "boundary"]
Precision = Literal["low", "high"]


@dataclass(frozen=True)
class Settings:
    """Plain values, as config.json has them once its defaults are filled in.

    Whoever makes one checks it (`lakeprobe.errors.UsageError`); the capture trusts it.
    """

    level: Level = "L1"
    task: Task = "statistics"
    summary_mode: SummaryMode = "statistics"
    scope: tuple[str, ...] = ()
    """None, or two full names: only the ops from the first to the second, in the order of calls."""
    list: tuple[str, ...] = ()
    """Parts of names: only these ops; at level mix, for a module, also all that runs inside it."""
    tensor_list: tuple[str, ...] = ()
    """Parts of names: contents are kept of these ops though the task is statistics."""
    data_mode: tuple[str, ...] = ("all",)
    """"all", or any of "forward", "backward", "input", "output"."""
    rank: tuple[int, ...] = ()
    """The ranks to collect; empty for all."""
    step: tuple[int, ...] = ()
    """The steps to collect; empty for all."""
    extra_info: bool = True
    """Whether to record call stacks and the tree of modules."""
    risk_level: Risk = "FOCUS"
    """Which APIs to record: FOCUS leaves out shapes, casts and factories; CORE keeps matrix products and the like."""
    overflow_nums: int = 1
    """At task overflow_check, how many ops in which NaN or inf is born end the training; -1 for none."""
    precision: Precision = "low"
    """How the columns wide_mean and wide_norm of float32 tensors are accumulated: low in float32, high in float64.

    With high, zeros are counted at level L0 too.
    """
    compiled: Compiled = "eager"
    """Whether what torch.compile compiled runs eagerly while it is collected, or compiled modules are one op each."""
    every: int = 1
    """Of the steps to collect every n-th, counted from 0."""
    switch: str | None = None
    """A file, or the name of a signal: steps are collected that begin while it is there, or was sent an odd number of
    times."""
    most: float = 0.0
    """How much longer the training may take, as a share of it; 0 for any. Steps are left out to stay below."""
    perturb: float = 0.0
    """How far each floating-point parameter of the model is moved at the first start, as a share of it; 0 for not."""
    perturb_seed: int = 0
    """The seed of the random numbers that this takes, which are nobody else's."""
