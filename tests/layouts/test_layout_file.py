"""A user's layout file: what it says, and errors that name the line."""

import pytest

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.layouts import layout_file
from lakeprobe.layouts.placements import Way


def written(tmp_path, text):
    path = tmp_path / "layout.yaml"
    path.write_text(text)
    return layout_file.read(path)


def test_axes_and_layouts(tmp_path):
    file = written(
        tmp_path,
        "axes: {pp: 2, tp: 4}\n"
        "tensors:\n"
        "  up\\.weight: {tp: shard 0}\n"
        "  mixed: {tp: partial sum, dp: copy}\n"
        "  hidden: b s[cp] h[tp]\n",
    )
    assert file.axes == {"pp": 2, "tp": 4}
    assert [(rule.pattern.pattern, rule.ways) for rule in file.rules] == [
        (r"up\.weight", {"tp": Way("shard", 0)}),
        ("mixed", {"tp": Way("sum"), "dp": Way("copy")}),
        ("hidden", {"cp": Way("shard", 1), "tp": Way("shard", 2)}),
    ]
    assert [rule.dimensions for rule in file.rules] == [None, None, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axes: {tp: many}\n", "is not a size of an axis"),
        ("axes: {tp: 0}\n", "is not a size of an axis"),
        ("meshes: {tp: 2}\n", "meshes is unknown"),
        ("tensors: {'(': {tp: copy}}\n", "is not a regular expression"),
        ("tensors: {'[[a]': {tp: copy}}\n", "is not a regular expression: Possible nested set"),
        ("tensors: {a: {tp: halved}}\n", "'halved' is not a layout along an axis"),
        ("tensors: {a: 'b s[cp'}\n", "does not name dimensions"),
        ("tensors: {a: 'b[tp] s[tp]'}\n", "tp cuts two dimensions"),
        ("tensors: {a: b s h}\n", "says of no dimension which axis cuts it"),
        ("tensors: {a: [tp]}\n", "is not a layout"),
        ("- a\n", "is not a layout file"),
        ("", "is not a layout file"),
    ],
)
def test_errors_name_the_file(tmp_path, text, message):
    with pytest.raises(UsageError, match=r"layout\.yaml") as raised:
        written(tmp_path, text)
    assert message in str(raised.value)


def test_a_line_is_about_an_axis_of_the_run(tmp_path):
    file = written(tmp_path, "axes: {pp: 2, tp: 2}\ntensors: {a: {tp: copy}}\n")
    layout_file.check_axes(file, ["tp"])
    for axis in ("pp", "pt"):
        wrong = written(tmp_path, f"axes: {{pp: 2, tp: 2}}\ntensors: {{a: {{{axis}: copy}}}}\n")
        with pytest.raises(LakeError, match=f"how a lies over {axis}, along which no tensors .* write one of tp"):
            layout_file.check_axes(wrong, ["tp"])
