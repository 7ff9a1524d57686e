"""Which ops are recorded: scope, list, risk level and data mode of the settings, asked op by op as they come."""

from lakeprobe.collect import torch_apis
from lakeprobe.collect.settings import Settings

_CORE = torch_apis.CORE | torch_apis.DISTRIBUTED | torch_apis.NPU


class Scope:
    """What is wanted of a step. It has a memory: a range opens and closes by the names of ops as they are asked for."""

    def __init__(self, settings: Settings) -> None:
        self._level = settings.level
        self._range = settings.scope
        self._parts = settings.list
        self._risk = settings.risk_level
        self._range_open = False
        self._listed_modules: set[str] = set()
        mode = set(settings.data_mode)
        every = "all" in mode
        self.forward = every or "forward" in mode or "backward" not in mode
        self.backward = every or "backward" in mode or "forward" not in mode
        self.inputs = every or "input" in mode or "output" not in mode
        self.outputs = every or "output" in mode or "input" not in mode

    def wants(self, name: str) -> bool:
        """Whether the op is recorded. Asked once per op, when it starts."""
        if not self._range and not self._parts:
            return True
        by_module = self._range and self._level != "mix" and self._range[0].startswith("Module.")
        if self._range and not by_module and name == self._range[0]:
            self._range_open = True
        wanted = (not self._range or self._range_open) and self._listed(name)
        if self._range and not by_module and name == self._range[1]:
            self._range_open = False
        return wanted

    def still_wants(self, name: str, *, wanted: bool) -> bool:
        """Whether the results of a module are recorded, whose inputs were `wanted` or not."""
        if not self._range:
            return wanted
        return name in self._range or (self._range_open and self._listed(name))

    def wants_function(self, name: str) -> bool:
        """Whether calls of a function (`Functional.linear`) are recorded at the risk level.

        Scope and list overrule it.
        """
        if self._range or self._parts or self._risk == "ALL":
            return True
        bare = name.rsplit(".", 1)[-1]
        if self._risk == "CORE":
            return bare in _CORE
        return bare in _CORE or bare not in torch_apis.SHAPES_AND_FACTORIES

    def open_module(self, name: str) -> None:
        """A module's forward or backward begins."""
        if self._range and name == self._range[0]:
            self._range_open = True
        if self._level == "mix" and any(part in name for part in self._parts):
            self._listed_modules.add(name)

    def close_module(self, name: str) -> None:
        """A module's forward or backward has ended."""
        if self._range and name == self._range[1]:
            self._range_open = False
        self._listed_modules.discard(name)

    def _listed(self, name: str) -> bool:
        return not self._parts or bool(self._listed_modules) or any(part in name for part in self._parts)
