"""Decides which ops to record, from the scope, list and data mode of the settings."""

from lakeprobe.collect.settings import Settings

MODULES = ("Module.", "Cell.")
"""The prefixes of module names: PyTorch's modules and MindSpore's cells."""


class Scope:
    """Decides what to record of a step. It is stateful: a range opens and closes as names of ops are asked for."""

    def __init__(self, settings: Settings) -> None:
        self._level = settings.level
        self._range = settings.scope
        self._parts = settings.list
        self._range_open = False
        self._listed_modules: set[str] = set()
        mode = set(settings.data_mode)
        every = "all" in mode
        self.forward = every or "forward" in mode or "backward" not in mode
        self.backward = every or "backward" in mode or "forward" not in mode
        self.inputs = every or "input" in mode or "output" not in mode
        self.outputs = every or "output" in mode or "input" not in mode

    def wants(self, name: str) -> bool:
        """Return whether to record the op. Call once per op, when it starts."""
        if not self._range and not self._parts:
            return True
        by_module = self._range and self._level != "mix" and self._range[0].startswith(MODULES)
        if self._range and not by_module and name == self._range[0]:
            self._range_open = True
        wanted = (not self._range or self._range_open) and self._listed(name)
        if self._range and not by_module and name == self._range[1]:
            self._range_open = False
        return wanted

    def surely_wants(self, name: str) -> bool:
        """Return whether the op will be recorded wherever a range opens and closes."""
        return not self._range and self._listed(name)

    def still_wants(self, name: str, *, wanted: bool) -> bool:
        """Return whether to record the results of a module. `wanted` is whether its inputs were recorded."""
        if not self._range:
            return wanted
        return name in self._range or (self._range_open and self._listed(name))

    @property
    def overrules_risk(self) -> bool:
        """Whether functions are recorded at any risk level, because scope or list selects them."""
        return bool(self._range or self._parts)

    def open_module(self, name: str) -> None:
        """Record the start of a module's forward or backward."""
        if self._range and name == self._range[0]:
            self._range_open = True
        if self._level == "mix" and any(part in name for part in self._parts):
            self._listed_modules.add(name)

    def close_module(self, name: str) -> None:
        """Record the end of a module's forward or backward."""
        if self._range and name == self._range[1]:
            self._range_open = False
        self._listed_modules.discard(name)

    def _listed(self, name: str) -> bool:
        return not self._parts or bool(self._listed_modules) or any(part in name for part in self._parts)
