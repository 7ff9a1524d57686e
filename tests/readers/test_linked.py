"""What the files beside a dump say of its ops."""

from __future__ import annotations

from lakeprobe.readers.linked import LinkedOps, Links


def test_links_of_ops_and_what_is_left() -> None:
    linked = LinkedOps()
    linked.add_stack(["b", "only_stack"], 7)
    assert linked.add_parents({"a": None, "b": "module", "c": "module"})
    assert not linked.add_parents({"d": None, "a": "module"})  # a occurs twice: nothing is noted
    linked.add_parent("e", "other", 3)
    assert linked.of(["e", "unknown", "b", "d"]) == Links(
        ["other", None, "module", None], [3, None, 1, None], [3, None, None, None], [None, None, 7, None]
    )
    assert linked.are_new(["a", "new"])
    assert not linked.are_new(["new", "new"])
    linked.read(["a", "new"])
    assert not linked.are_new(["new"])
    assert linked.left() == (
        ["b", "c", "e", "only_stack"],
        Links(["module", "module", "other", None], [1, 2, 3, None], [None, None, 3, None], [7, None, None, 7]),
    )


def test_what_construct_says_last_of_an_op_counts() -> None:
    linked = LinkedOps()
    linked.add_parent("a", "first", 1)
    linked.add_parent("a", "second", None)
    linked.add_parent("b", None, None)
    assert linked.of(["a", "b"]) == Links(["second", None], [1, 1], [None, None], [None, None])
    assert linked.left() == (["a", "b"], linked.of(["a", "b"]))
    linked.read(["a", "b"])
    assert linked.left()[0] == []
