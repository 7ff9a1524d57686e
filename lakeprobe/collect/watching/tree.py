"""The tree of running modules, which gives an op's parent in construct.json."""

import threading


class Tree:
    """The modules whose forward or backward has begun and not ended, for each thread and for all threads."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[str]] = {}
        self._open: dict[str, None] = {}
        self._places: dict[str, int] = {}
        self._begun = 0

    @property
    def top(self) -> str | None:
        """The innermost open module of this thread, or None."""
        stack = self._stacks.get(threading.get_ident())
        return stack[-1] if stack else None

    def enter(self, name: str) -> str | None:
        """Open a module and return its parent.

        Backward on a GPU has threads of its own, and may reach a module before or after its parents. If this thread has
        no open module, the parent is the module opened last whose path is this path without its last part.
        """
        stack = self._stacks.setdefault(threading.get_ident(), [])
        parent = stack[-1] if stack else self._by_path(name)
        stack.append(name)
        self._open[name] = None
        self._places[name] = self._next()
        return parent

    def place(self, name: str) -> int:
        """Return the op's position in the order in which calls began.

        A module began when it was entered. Any other op begins now.
        """
        place = self._places.pop(name, None)
        return self._next() if place is None else place

    def _next(self) -> int:
        place = self._begun
        self._begun += 1
        return place

    def leave(self, name: str) -> None:
        """Close a forward and all that is still open in it, or else the innermost module.

        The latter happens if the forward is not open in this thread. The backward of a module whose inputs need no
        gradient ends before that of its submodules. Then another module is closed in its place, as msprobe does.
        """
        self._open.pop(name, None)
        stack = self._stacks.get(threading.get_ident())
        if stack:
            stack.pop()

    def unwind(self, name: str) -> None:
        """Close a module that an exception left, and all that is open in it."""
        self._open.pop(name, None)
        stack = self._stacks.get(threading.get_ident(), [])
        if name in stack:
            del stack[stack.index(name) :]

    def _by_path(self, name: str) -> str | None:
        path = name.split(".")[:-4]
        if len(path) < 2:
            return None
        for other in reversed(list(self._open)):  # another thread may open one meanwhile
            if other.split(".")[:-3] == path:
                return other
        return None
