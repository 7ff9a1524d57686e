"""Mapping files become rows: the files of msprobe's users unchanged, and every mistake with its line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mapping_texts import (
    API_CODE_KEYS,
    API_DOCUMENTED,
    API_MATMUL,
    API_ONE_MAPPING,
    CELL,
    DATA,
    DATA_PAIRS,
    LAYER,
    LAYER_DOCUMENTED,
)
from sampling import examples

from lakeprobe.errors import UsageError
from lakeprobe.mapping import files
from lakeprobe.mapping.files import Mappings

READERS: dict[str, Callable[[Path], Any]] = {
    "api": files.read_apis,
    "cell": files.read_cells,
    "data": files.read_data,
    "layer": files.read_layers,
}


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "m.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


# --- msprobe's files -------------------------------------------------------------------------------------------------


def test_an_api_mapping_of_positions(file: Callable[[str], Path]) -> None:
    apis, slots = files.read_apis(file(API_MATMUL))
    assert apis == (("Primitive.matmul", "Functional.linear"),)
    assert slots == (
        ("Primitive.matmul", "Functional.linear", None, "input.0", "input.0"),
        ("Primitive.matmul", "Functional.linear", None, "input.1", "input.1"),
        ("Primitive.matmul", "Functional.linear", None, "output.0", "output.0"),
    )


def test_both_spellings_of_outputs_say_the_same(file: Callable[[str], Path]) -> None:
    expected = (
        (("Functional.gelu", "Functional.gelu"),),
        (
            ("Functional.gelu", "Functional.gelu", None, "input.0", "input.0"),
            ("Functional.gelu", "Functional.gelu", None, "output.0", "output.0"),
        ),
    )
    assert files.read_apis(file(API_CODE_KEYS)) == expected
    assert files.read_apis(file(API_DOCUMENTED)) == expected
    assert files.read_apis(file(API_CODE_KEYS.replace("ms_output", "ms_outputs"))) == expected


def test_one_mapping_is_read_like_a_list_of_one(file: Callable[[str], Path]) -> None:
    ours, theirs = "Functional.flash_attention_score", "NPU.npu_fusion_attention"
    single = files.read_apis(file(API_ONE_MAPPING))
    assert single == (
        ((ours, theirs),),
        (
            (ours, theirs, None, "input.0", "input.0"),
            (ours, theirs, None, "input.1", "input.1"),
            (ours, theirs, None, "input.2", "input.2"),
            (ours, theirs, None, "output.0", "output.0"),
            (ours, theirs, None, "output.1", "output.1"),
            (ours, theirs, None, "parameters.gamma", "parameters.weight"),
            (ours, theirs, None, "parameters.beta", "parameters.bias"),
            (ours, theirs, "parameters_grad", "gamma", "weight"),
        ),
    )
    as_list = "".join(f"{'- ' if i == 0 else '  '}{line}\n" for i, line in enumerate(API_ONE_MAPPING.splitlines()))
    assert files.read_apis(file(as_list)) == single


def test_elements_are_indexes_names_and_paths_as_they_were_written(file: Callable[[str], Path]) -> None:
    text = """\
- ms_api: Functional.softmax
  pt_api: Functional.softmax
  ms_args: [1, axis, 0.10, "yes", no, ~]
  pt_args:
    - dim
    - 0
    - 0x1
    - on
    - '2'
    - null
"""
    _, slots = files.read_apis(file(text))
    assert [(target, golden) for *_, target, golden in slots] == [
        ("input.1", "input.dim"),
        ("input.axis", "input.0"),
        ("input.0.10", "input.0x1"),
        ("input.yes", "input.on"),
        ("input.no", "input.2"),
        ("input.~", "input.null"),
    ]


def test_sections_that_are_not_named_have_no_slots(file: Callable[[str], Path]) -> None:
    assert files.read_apis(file("ms_api: Mint.a\npt_api: Torch.b\n")) == ((("Mint.a", "Torch.b"),), ())


def test_an_empty_section_is_its_bare_name_without_counterpart(file: Callable[[str], Path]) -> None:
    sections = "".join(
        f"{side}_{section}: []\n"
        for section in ("args", "outputs", "parameters", "parameters_grad")
        for side in ("ms", "pt")
    )
    _, slots = files.read_apis(file("ms_api: Mint.a\npt_api: Torch.b\n" + sections))
    assert slots == (
        ("Mint.a", "Torch.b", None, "input", None),
        ("Mint.a", "Torch.b", None, "output", None),
        ("Mint.a", "Torch.b", None, "parameters", None),
        ("Mint.a", "Torch.b", "parameters_grad", "parameters_grad", None),
    )


def test_apis_may_have_more_than_two_segments_and_share_a_golden_api(file: Callable[[str], Path]) -> None:
    text = "- {ms_api: Primitive.ln.LayerNorm, pt_api: Functional.layer_norm}\n" * 2
    apis, _ = files.read_apis(file(text.replace("ln.", "other.", 1)))
    assert apis == (
        ("Primitive.other.LayerNorm", "Functional.layer_norm"),
        ("Primitive.ln.LayerNorm", "Functional.layer_norm"),
    )


def test_cells_stand_in_the_order_of_the_file(file: Callable[[str], Path]) -> None:
    assert files.read_cells(file(CELL)) == (
        ("head.Dense", "head.Linear"),
        ("q_proj.Dense", "q_proj.Linear"),
        ("k_proj.Dense", "k_proj.Linear"),
        ("v_proj.Dense", "v_proj.Linear"),
        ("out_proj.Dense", "out_proj.Linear"),
        ("fc1.Dense", "fc1.Linear"),
        ("fc2.Dense", "fc2.Linear"),
    )


def test_a_cell_text_may_be_removed_and_names_may_be_numbers(file: Callable[[str], Path]) -> None:
    text = "network.: ''\n0: 1\nno: yes\nDense: Linear\n"
    assert files.read_cells(file(text)) == (("network.", ""), ("0", "1"), ("no", "yes"), ("Dense", "Linear"))


def test_data_rows_are_read_as_they_are(file: Callable[[str], Path]) -> None:
    assert len(DATA_PAIRS) == 39
    assert files.read_data(file(DATA)) == DATA_PAIRS


@pytest.mark.parametrize(
    ("written", "row"),
    [
        ("Functional.a.0.forward.output.0.npy", "Functional.a.0.forward.output.0"),
        ("Functional.a.0.forward.output.0.pt", "Functional.a.0.forward.output.0"),
        ("Functional.a.0.forward.kwargs.axis.npy", "Functional.a.0.forward.input.axis"),
        ("Functional.a.0.forward.input_kwargs.axis", "Functional.a.0.forward.input.axis"),
        ("Functional.a.0.forward.input_args.3", "Functional.a.0.forward.input.3"),
        ("Cell.a.Dense.forward.12.kwargs.x", "Cell.a.Dense.forward.12.input.x"),
        ("Cell.a.Dense.backward.0.input.0", "Cell.a.Dense.backward.0.input.0"),
        # words in the path of a module, or of a nested argument, stay
        ("Cell.kwargs.Dense.forward.0.output.0", "Cell.kwargs.Dense.forward.0.output.0"),
        ("Cell.a.Dense.forward.0.input.kwargs.x", "Cell.a.Dense.forward.0.input.kwargs.x"),
        ("Cell.a.Dense.forward.0.kwargs.kwargs.x", "Cell.a.Dense.forward.0.input.kwargs.x"),
        ("Cell.a.Dense.parameters_grad.0.weight.pt", "Cell.a.Dense.parameters_grad.0.weight"),
        ("Cell.a.Dense.parameters_grad.weight", "Cell.a.Dense.parameters_grad.weight"),
        ("hidden.1.debug.1.a", "hidden.1.debug.1.a"),
    ],
)
def test_a_row_may_be_written_as_its_data_name(file: Callable[[str], Path], written: str, row: str) -> None:
    golden = "Module.z.Linear.forward.0.output.0"
    assert files.read_data(file(f"{written}: {golden}.pt\n")) == ((row, golden),)
    assert files.read_data(file(f"{golden}.npy: {written}\n")) == ((golden, row),)


def test_layers(file: Callable[[str], Path]) -> None:
    assert files.read_layers(file(LAYER)) == (("TopLayer", "Cell", "Module"), ("Attention", "q_proj", "q_proj"))
    documented = (
        ("TopLayer", "network_with_loss", "module"),
        ("ParallelTransformer", "layers.attention", "layers.self_attn"),
    )
    assert files.read_layers(file(LAYER_DOCUMENTED)) == documented
    assert files.read_layers(file(LAYER_DOCUMENTED.replace("TopLayer:", "Cell:"))) == documented


def test_a_layer_value_ends_at_its_bracket_and_a_class_has_many_sources(file: Callable[[str], Path]) -> None:
    text = "Block:\n  a.b: x(Linear)\n  c: d.e (2 of them)\n  f: d\n"
    assert files.read_layers(file(text)) == (("Block", "a.b", "x"), ("Block", "c", "d.e"), ("Block", "f", "d"))


# --- all of them together --------------------------------------------------------------------------------------------


def test_what_several_files_say_travels_as_one_value(tmp_path: Path) -> None:
    paths = {}
    for kind, text in {"api": API_ONE_MAPPING, "cell": CELL, "data": DATA, "layer": LAYER}.items():
        paths[kind] = tmp_path / f"{kind}.yaml"
        paths[kind].write_text(text, encoding="utf-8")
    mappings = files.read(**paths)
    assert len(mappings.apis) == 1
    assert len(mappings.slots) == 8
    assert len(mappings.cells) == 7
    assert len(mappings.data) == 39
    assert len(mappings.layers) == 2
    assert not mappings.is_empty
    assert pickle.loads(pickle.dumps(mappings)) == mappings
    assert hash(mappings) == hash(files.read(**paths))
    assert files.read(cell=paths["cell"]) == Mappings(cells=mappings.cells)
    assert files.read() == Mappings()
    assert Mappings().is_empty


# --- mistakes --------------------------------------------------------------------------------------------------------

_API_EXAMPLE = "write ms_api: Functional.dense and pt_api: Functional.linear, each on a line"
_CELL_EXAMPLE = "write q_proj.Dense: q_proj.Linear"
_DATA_EXAMPLE = "write Cell.fc.Dense.forward.0.input.0: Module.fc.Linear.forward.0.input.0"
_LAYER_EXAMPLE = "write TopLayer: and below it, indented, network: module"
_KEYS = (
    "ms_api, pt_api, ms_args, pt_args, ms_output, pt_output, ms_outputs, pt_outputs, "
    "ms_parameters, pt_parameters, ms_parameters_grad, pt_parameters_grad"
)
_EQUAL = "write two lists of equal length, the i-th of one for the i-th of the other"
_GELU = "- ms_api: Functional.gelu\n  pt_api: Functional.gelu\n"


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        # nothing in it
        ("api", "", f"line 1: the API mapping is empty; {_API_EXAMPLE}"),
        ("api", "[]\n", f"line 1: the API mapping is empty; {_API_EXAMPLE}"),
        ("api", "\n- {}\n", f"line 2: ms_api is missing; {_API_EXAMPLE}"),
        ("cell", "# later\n\n", f"line 1: the cell mapping is empty; {_CELL_EXAMPLE}"),
        ("cell", "\n\n{}\n", f"line 3: the cell mapping is empty; {_CELL_EXAMPLE}"),
        ("data", "---\n", f"line 1: the data mapping is empty; {_DATA_EXAMPLE}"),
        ("layer", "---\n...\n", f"line 1: the layer mapping is empty; {_LAYER_EXAMPLE}"),
        # of another shape
        ("api", "Functional.gelu\n", f"line 1: an API mapping has keys and values; {_API_EXAMPLE}"),
        ("api", f"{_GELU}- x\n", f"line 3: an API mapping has keys and values; {_API_EXAMPLE}"),
        ("cell", "\n- a: b\n", f"line 2: it is not a mapping of names; {_CELL_EXAMPLE}"),
        ("data", "a\n", f"line 1: it is not a mapping of names; {_DATA_EXAMPLE}"),
        ("layer", "- a\n", f"line 1: it is not a mapping of names; {_LAYER_EXAMPLE}"),
        # API mapping
        ("api", "- pt_api: Torch.a\n", f"line 1: ms_api is missing; {_API_EXAMPLE}"),
        ("api", f"{_GELU}-\n  ms_api: Torch.a\n", f"line 4: pt_api is missing; {_API_EXAMPLE}"),
        (
            "api",
            f"{_GELU}  ms_arg: [0]\n",
            f"line 3: the key 'ms_arg' is unknown; write ms_args, or one of {_KEYS}",
        ),
        (
            "api",
            "Functional.dense: Functional.linear\n",
            f"line 1: the key 'Functional.dense' is unknown; write one of {_KEYS}",
        ),
        (
            "api",
            "ms_api: gelu\npt_api: Functional.gelu\n",
            "line 1: ms_api 'gelu' has an unknown API form; write type and name, such as ms_api: Mint.matmul",
        ),
        (
            "api",
            "ms_api: Functional.gelu\npt_api: Functional.\n",
            "line 2: pt_api 'Functional.' has an unknown API form; write type and name, such as pt_api: Mint.matmul",
        ),
        (
            "api",
            "ms_api: Mint. gelu\n",
            "line 1: ms_api 'Mint. gelu' has an unknown API form; write type and name, such as ms_api: Mint.matmul",
        ),
        (
            "api",
            "ms_api: Functional.gelu.0.forward\n",
            "line 1: ms_api 'Functional.gelu.0.forward' is an op, not an API; write ms_api: Functional.gelu",
        ),
        ("api", "ms_api:\npt_api: Torch.a\n", f"line 1: the value of 'ms_api' is missing; {_API_EXAMPLE}"),
        ("api", "ms_api: [Torch.a]\n", f"line 1: the value of 'ms_api' is not text; {_API_EXAMPLE}"),
        (
            "api",
            f"{_GELU}- pt_api: Torch.gelu\n  ms_api: Functional.gelu\n",
            "line 3: ms_api Functional.gelu is mapped on line 1 already; write each API once",
        ),
        (
            "api",
            f"{_GELU}  ms_args: [0, 1]\n  pt_args: [0]\n",
            "line 3: ms_args has 2 elements, pt_args has 1; " + _EQUAL,
        ),
        (
            "api",
            f"{_GELU}  ms_outputs: []\n  pt_output: [0]\n",
            "line 3: ms_outputs has 0 elements, pt_output has 1; " + _EQUAL,
        ),
        (
            "api",
            f"{_GELU}  ms_args: [0]\n",
            "line 3: ms_args is given without pt_args; write both, or neither to pair all by their own names",
        ),
        (
            "api",
            f"{_GELU}\n  pt_outputs: [0]\n",
            "line 4: pt_outputs is given without ms_outputs; write both, or neither to pair all by their own names",
        ),
        (
            "api",
            f"{_GELU}  ms_output: [0]\n  ms_outputs: [0]\n",
            "line 4: ms_output on line 3 says the same; write one of them",
        ),
        (
            "api",
            f"{_GELU}  ms_args: 0\n  pt_args: [0]\n",
            "line 3: ms_args is not a list; write ms_args: [0, 1]",
        ),
        (
            "api",
            f"{_GELU}  ms_args: [0]\n  pt_args:\n",
            "line 4: pt_args is not a list; write pt_args: [0, 1]",
        ),
        (
            "api",
            f"{_GELU}  ms_args:\n  - 0\n  - [1]\n  pt_args: [0, 1]\n",
            "line 5: an element of ms_args is neither an index nor a name; write ms_args: [0, 1]",
        ),
        (
            "api",
            f"{_GELU}  ms_args:\n  - 0\n  -\n  pt_args: [0, 1]\n",
            "line 5: an element of ms_args is neither an index nor a name; write ms_args: [0, 1]",
        ),
        (
            "api",
            f"{_GELU}  ms_args: [0]\n  pt_args: [-1]\n",
            "line 4: the index -1 in pt_args; count from the first, which is 0",
        ),
        (
            "api",
            f"{_GELU}  ms_args: [0, 1]\n  pt_args: [0,\n   '0']\n",
            "line 5: pt_args has '0' twice; write each element once, as a row pairs with one row",
        ),
        # cell mapping
        (
            "cell",
            "a: b\nhead.Dense:\n",
            f"line 2: the value of 'head.Dense' is missing; {_CELL_EXAMPLE}, or \"\" to remove the text",
        ),
        ("cell", "a: b\n'': c\n", f"line 2: a name before the colon is missing; {_CELL_EXAMPLE}"),
        ("cell", "a: b\nc: ' '\n", f"line 2: the value of 'c' is missing; {_CELL_EXAMPLE}"),
        ("cell", "a: b\nc: {d: e}\n", f"line 2: the value of 'c' is not text; {_CELL_EXAMPLE}"),
        ("cell", "a: b\nc: d\na: e\n", "line 3: the key 'a' is on line 1 already; write each key once, with one value"),
        # data mapping
        ("data", "a: b\nc:\n", f"line 2: the value of 'c' is missing; {_DATA_EXAMPLE}"),
        ("data", "a: b\nc: ''\n", f"line 2: the value of 'c' is missing; {_DATA_EXAMPLE}"),
        ("data", "a: b\nc: [d]\n", f"line 2: the value of 'c' is not text; {_DATA_EXAMPLE}"),
        ("data", "a: x\nb: y\nc: x\n", "line 3: 'x' is paired on line 1 already; write each row of golden once"),
        ("data", "a: x\n\nb: x.npy\n", "line 3: 'x' is paired on line 1 already; write each row of golden once"),
        ("data", "a: x\na.pt: y\n", "line 2: 'a' is mapped on line 1 already; write each row once"),
        (
            "data",
            "Torch.a.0.forward.kwargs.k: x\nTorch.a.0.forward.input.k: y\n",
            "line 2: 'Torch.a.0.forward.input.k' is mapped on line 1 already; write each row once",
        ),
        (
            "data",
            "Cell.a.Fc.forward.0: Module.a.Fc.forward.0\n",
            "line 1: 'Cell.a.Fc.forward.0' is an op, not a row; write its rows, such as Cell.a.Fc.forward.0.input.0",
        ),
        (
            "data",
            "Mint.a.0.forward.input.0: Torch.a.0.forward\n",
            "line 1: 'Torch.a.0.forward' is an op, not a row; write its rows, such as Torch.a.0.forward.input.0",
        ),
        # layer mapping
        ("layer", "A:\n  b: c\nD:\n", f"line 3: the class 'D' has no scopes below it; {_LAYER_EXAMPLE}"),
        ("layer", "q_proj: q_proj\n", f"line 1: the class 'q_proj' has no scopes below it; {_LAYER_EXAMPLE}"),
        ("layer", "A: {}\n", f"line 1: the class 'A' has no scopes below it; {_LAYER_EXAMPLE}"),
        ("layer", "'':\n  b: c\n", f"line 1: a name before the colon is missing; {_LAYER_EXAMPLE}"),
        ("layer", "A:\n  b:\n", f"line 2: the value of 'b' is missing; {_LAYER_EXAMPLE}"),
        ("layer", "A:\n  b:\n    c: d\n", f"line 2: the value of 'b' is not text; {_LAYER_EXAMPLE}"),
        (
            "layer",
            "A:\n  b: (x)\n",
            "line 2: the scope '(x)' has an empty part; write names with one dot between them",
        ),
        (
            "layer",
            "A:\n  a: b\n  b..c: d\n",
            "line 3: the scope 'b..c' has an empty part; write names with one dot between them",
        ),
        (
            "layer",
            "TopLayer:\n  a: b\nCell:\n  c: d\n  a: e\n",
            "line 5: 'a' of TopLayer is mapped on line 2 already; write each scope once",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(file: Callable[[str], Path], kind: str, text: str, message: str) -> None:
    path = file(text)
    with pytest.raises(UsageError) as raised:
        READERS[kind](path)
    assert str(raised.value) == f"{path} {message}"


_PIECES = [
    *("- ", "  ", "A:\n", "  b: c\n", "a: b\n", "...\n", "---\n", "&a ", "*a", "<<: ", "''", '"\\0"', "\x85"),
    *("ms_api: A.b\n", "pt_api: C.d\n", "ms_args: [0", ", 1", "]\n", "pt_args: [x]\n", "ms_outputs: []\n"),
    *("pt_output: []\n", "!!python/name:os.system ", "Torch.a.0.forward.input.0: x\n"),
]


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.one_of(
        st.text(),
        st.text("ab.-:[]{}'\" \n\t#&*!?|>%@0", max_size=60),
        st.lists(st.sampled_from(_PIECES)).map("".join),
    ),
    kind=st.sampled_from(sorted(READERS)),
)
@example(text='a: "\\ud800"', kind="cell")
@example(text="\ufeffa: b", kind="cell")
def test_any_text_is_a_mapping_or_a_mistake(tmp_path: Path, text: str, kind: str) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    read, mistake = _read(kind, path)
    if mistake:
        assert mistake.startswith(str(path))
        assert len(mistake.splitlines()) == 1
    else:
        assert not read.is_empty
        assert all(isinstance(name, str) for row in read.cells + read.data + read.layers + read.apis for name in row)


def _read(kind: str, path: Path) -> tuple[Mappings, str]:
    try:
        return files.read(**{kind: path}), ""
    except UsageError as error:
        return Mappings(), str(error)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")), min_size=1))
def test_any_names_come_out_as_they_were_written(tmp_path: Path, names: dict[str, str]) -> None:
    path = tmp_path / "names.yaml"
    quoted = {f"k{name}": f"v{value}" for name, value in names.items()}
    lines = [_quoted(name) + ": " + _quoted(value) + "\n" for name, value in quoted.items()]
    path.write_text("".join(lines), encoding="utf-8", newline="")
    unprintable = {ord(c) for text in [*quoted, *quoted.values()] for c in text} & _UNPRINTABLE
    if unprintable:
        with pytest.raises(UsageError, match="the character"):
            files.read_cells(path)
    else:
        assert files.read_cells(path) == tuple(quoted.items())


_UNPRINTABLE = {*range(32), *range(127, 160), 0xFFFE, 0xFFFF} - {9, 10, 13, 0x85}


def _quoted(text: str) -> str:
    """`text` in double quotes, every character but the plainest as an escape."""
    plain = "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text)
    return f'"{plain}"'
