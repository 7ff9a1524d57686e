"""What to record of a training step: the checked options of msprobe's config.json and lakeprobe's own, as one value."""

from typing import Literal

from msgspec import Struct

from lakeprobe.changes import USUAL_MODES

Level = Literal["L0", "L1", "mix", "debug"]
Task = Literal["statistics", "tensor", "structure", "overflow_check", "perturb"]
SummaryMode = Literal["statistics", "md5", "xor"]
Handler = Literal["check", "fix"]
Risk = Literal["ALL", "CORE", "FOCUS"]
Compiled = Literal["eager", "boundary"]
Precision = Literal["low", "high"]


class Settings(Struct, frozen=True):
    """Plain values, as config.json has them, with defaults filled in.

    The creator checks them and raises `lakeprobe.errors.UsageError`. The capture trusts them.
    """

    level: Level = "L1"
    task: Task = "statistics"
    summary_mode: SummaryMode = "statistics"
    scope: tuple[str, ...] = ()
    """Empty, or two full names: record only the ops from the first to the second, in the order of calls."""
    list: tuple[str, ...] = ()
    """Parts of names: record only these ops. At level mix, a module includes everything that runs inside it."""
    tensor_list: tuple[str, ...] = ()
    """Parts of names: keep the contents of these ops at task statistics too."""
    data_mode: tuple[str, ...] = ("all",)
    """"all", or any of "forward", "backward", "input", "output"."""
    rank: tuple[int, ...] = ()
    """The ranks to collect. Empty means all."""
    step: tuple[int, ...] = ()
    """The steps to collect. Empty means all."""
    extra_info: bool = True
    """Whether to record call stacks and the module tree."""
    risk_level: Risk = "FOCUS"
    """Which APIs to record. FOCUS leaves out shapes, casts and factories. CORE keeps matrix products and the like."""
    overflow_nums: int = 1
    """At task overflow_check, the number of ops in which NaN or inf is born after which training ends. -1 means no
    limit."""
    pert_mode: tuple[str, ...] = USUAL_MODES
    """At task perturb, how inputs are changed (`lakeprobe.changes.MODES`)."""
    fuzz_stage: tuple[str, ...] = ("forward",)
    """What is tried with changed inputs: forward, backward or both."""
    handler_type: Handler = "check"
    """check: the training does not notice. fix: it goes on with the results of the changed inputs."""
    if_preheat: bool = False
    """Whether the first steps find out how far results may be apart, from samples of the calls."""
    preheat_step: int = 15
    """How many steps do so."""
    max_sample: int = 20
    """How many calls of an API a step samples at most."""
    precision: Precision = "low"
    """How wide_mean and wide_norm of float32 tensors are accumulated: low in float32, high in float64.

    At high precision, level L0 counts zeros too.
    """
    compiled: Compiled = "eager"
    """eager: what torch.compile compiled runs eagerly while it is collected. boundary: compiled modules are one op
    each."""
    every: int = 1
    """Collect every n-th of the requested steps, counted from 0."""
    switch: str | None = None
    """A file, or the name of a signal.

    A step is collected if, when it begins, the file exists or the signal was sent an odd number of times.
    """
    most: float = 0.0
    """How much longer training may take, as a share of its time. Steps are left out to stay below. 0 means no limit."""
    perturb: float = 0.0
    """How far to move each floating-point parameter of the model at the first start, relative to its value. 0 means not
    at all."""
    perturb_seed: int = 0
    """The seed of the random numbers for `perturb`, which nothing else uses."""
