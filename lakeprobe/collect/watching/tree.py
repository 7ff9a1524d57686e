"""The tree of modules that are running: what construct.json gives as an op's parent."""

import threading


class Tree:
    """Modules whose forward or backward has begun and not ended, in each thread and in all of them."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[str]] = {}
        self._open: dict[str, None] = {}
        self._places: dict[str, int] = {}
        self._begun = 0

    @property
    def top(self) -> str | None:
        """The innermost open module of this thread."""
        stack = self._stacks.get(threading.get_ident())
        return stack[-1] if stack else None

    def enter(self, name: str) -> str | None:
        """Opens a module and gives its parent.

        Where this thread has none open (backward has threads of its own on a GPU, and may come before or after its
        parents'), it is the last opened one whose path is the module's path without its last part.
        """
        stack = self._stacks.setdefault(threading.get_ident(), [])
        parent = stack[-1] if stack else self._by_path(name)
        stack.append(name)
        self._open[name] = None
        self._places[name] = self._next()
        return parent

    def place(self, name: str) -> int:
        """The op's place in the order in which calls began: for a module when it was entered, for another op now."""
        place = self._places.pop(name, None)
        return self._next() if place is None else place

    def _next(self) -> int:
        place = self._begun
        self._begun += 1
        return place

    def leave(self, name: str) -> None:
        """Closes a forward and all that was left open in it, or the innermost where it is not open in this thread.

        Backward of a module whose inputs need no gradient ends before that of its parts: then another one is closed in
        its place, as msprobe does.
        """
        self._open.pop(name, None)
        stack = self._stacks.get(threading.get_ident())
        if stack:
            stack.pop()

    def unwind(self, name: str) -> None:
        """Closes a module that an exception left, and all that is open in it."""
        self._open.pop(name, None)
        stack = self._stacks.get(threading.get_ident(), [])
        if name in stack:
            del stack[stack.index(name) :]

    def _by_path(self, name: str) -> str | None:
        path = name.split(".")[:-4]
        if len(path) < 2:
            return None
        for other in reversed(self._open):
            if other.split(".")[:-3] == path:
                return other
        return None
