"""Hostile dumps: each function writes one into a folder; corpus.yaml says what is to be said of it."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lakeprobe import bounds

CASES: dict[str, Callable[[Path], object]] = {}
HEAD = {"task": "statistics", "level": "L1", "framework": "pytorch"}
LEAF = {
    "type": "torch.Tensor", "dtype": "torch.float32", "shape": [4],
    "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 2.0, "requires_grad": False,
}  # fmt: skip
RESULT = "compare_result_rank0_20260102030405.xlsx"
HEADERS = ("NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype")


def case(write: Callable[[Path], object]) -> Callable[[Path], object]:
    CASES[write.__name__] = write
    return write


def dump(folder: Path, data: Any = None, indent: int | None = 1, **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if data is None:
        data = {"Torch.f.0.forward": {"input_args": [LEAF], "input_kwargs": {}, "output": [LEAF]}}
    (folder / "dump.json").write_text(json.dumps({**HEAD, **more, "data": data}, indent=indent))
    (folder / "stack.json").write_text("{}")
    (folder / "construct.json").write_text("{}")
    return folder


def saved(folder: Path, name: str = "x.npy") -> Path:
    """A dump with one tensor file; returns where that is to be."""
    op = {"input_args": [{**LEAF, "data_name": name}], "output": []}
    dump(folder, {"Torch.f.0.forward": op}, task="tensor")
    (folder / "dump_tensor_data").mkdir()
    return folder / "dump_tensor_data" / name


# ---- JSON -------------------------------------------------------------------------------------------------


@case
def digits_flat(folder: Path) -> None:
    (folder / "dump.json").write_text('{"data": {"op": {"output": [' + "7" * 5000 + "]}}}")


@case
def digits_indented(folder: Path) -> None:
    dump(folder, {"op": {"output": ["DIGITS"]}})
    text = (folder / "dump.json").read_text()
    (folder / "dump.json").write_text(text.replace('"DIGITS"', "7" * 5000))


@case
def two_data_flat(folder: Path) -> None:
    (folder / "dump.json").write_text('{"data": {"a": {}}, "data": {"b": {}}}')


@case
def two_data_indented(folder: Path) -> None:
    (folder / "dump.json").write_text('{\n "data": {\n  "a": {}\n },\n "data": {\n  "b": {}\n }\n}')


@case
def section_repeated(folder: Path) -> None:
    dump(folder, {"op": {"output": [LEAF], "OUTPUT": []}})
    text = (folder / "dump.json").read_text()
    (folder / "dump.json").write_text(text.replace("OUTPUT", "output"))


@case
def entry_too_large(folder: Path) -> None:
    dump(folder, {"op": {"output": [{"type": "str", "value": "x" * (bounds.LARGEST_ENTRY + bounds.MIB)}]}})


@case
def entry_too_large_flat(folder: Path) -> None:
    dump(folder, {"op": {"output": [{"type": "str", "value": "x" * (bounds.LARGEST_ENTRY + bounds.MIB)}]}}, indent=None)


@case
def name_too_large(folder: Path) -> None:
    dump(folder, {"x" * (60 * bounds.MIB): {"output": []}})


@case
def many_leaves(folder: Path) -> None:
    dump(folder, {"op": {"output": [None] * 150_000}})


@case
def many_keys(folder: Path) -> None:
    dump(folder, {"op": {"input_kwargs": {str(key): None for key in range(150_000)}}})


@case
def leaves_in_lists(folder: Path) -> None:
    dump(folder, {"op": {"output": [[None] * 1000] * 110}})


@case
def deep_entry(folder: Path) -> None:
    (folder / "dump.json").write_text('{"data": {"op": {"output": ' + "[" * 100_000 + "]" * 100_000 + "}}}")


@case
def deep_value(folder: Path) -> None:
    value = "[" * 20_000
    dump(folder, {"op": {"output": [{"type": "list", "value": value}]}})


@case
def deep_extra(folder: Path) -> None:
    text = json.dumps({**HEAD, "data": {"op": {"output": [], "odd": "DEEP"}}}, indent=1)
    (folder / "dump.json").write_text(text.replace('"DEEP"', "[" * 900 + "]" * 900))


@case
def deep_head(folder: Path) -> None:
    (folder / "dump.json").write_text('{"odd": ' + "[" * 900 + "]" * 900 + ', "data": {}}')


@case
def not_utf8(folder: Path) -> None:
    (folder / "dump.json").write_bytes(b'{"data": {"\xff\xfe": {"output": []}}}')


@case
def lone_surrogate(folder: Path) -> None:
    (folder / "dump.json").write_text('{\n "data": {\n  "\\ud800": {\n   "output": []\n  }\n }\n}')


@case
def half_a_character_in_the_head(folder: Path) -> None:
    dump(folder, dump_data_dir="\ud800")


@case
def settings_of_another_kind(folder: Path) -> None:
    dump(folder, settings={"perturb": "a little"})


@case
def peers_of_another_kind(folder: Path) -> None:
    fields = {"class_type": "torch.distributed.P2POp", "op": "isend", "group_id": "1", "tensor": LEAF}
    ops = [fields | {"peer": "the next", "tag": 0}, fields | {"peer": 1, "tag": 1 << 40}]
    calls: dict[str, Any] = {"Distributed.batch_isend_irecv.0.forward": {"input_args": [ops], "output": []}}
    calls["Distributed.all_reduce.0.forward"] = {"input_args": {"tensor": LEAF, "group": []}, "output": [LEAF]}
    dump(folder, calls)


@case
def shapes_beyond_all(folder: Path) -> None:
    shapes = ([1 << 62], [1 << 62] * 20 + [0], [0, 1 << 62, 1 << 62])
    leaves = [{**LEAF, "shape": shape} for shape in shapes]
    calls = {f"Distributed.all_reduce.{n}.forward": {"input_args": [leaf]} for n, leaf in enumerate(leaves)}
    dump(folder, calls)


@case
def no_json(folder: Path) -> None:
    (folder / "dump.json").write_bytes(b"PK\3\4 no JSON")


@case
def name_leads_out(folder: Path) -> None:
    dump(folder, {"op": {"output": [{**LEAF, "data_name": "../../secret.npy"}]}})


# ---- files that are none ----------------------------------------------------------------------------------


@case
def pipe_dump(folder: Path) -> None:
    os.mkfifo(folder / "dump.json")


@case
def pipe_stack(folder: Path) -> None:
    dump(folder)
    (folder / "stack.json").unlink()
    os.mkfifo(folder / "stack.json")


@case
def pipe_tensor(folder: Path) -> None:
    os.mkfifo(saved(folder))


@case
def pipe_tables(folder: Path) -> None:
    dump(folder)
    for name in ("x.csv", "x.csv.gz", "x.xlsx", RESULT, "x.pkl", "a.npy", "b.pt", "mapping.csv"):
        os.mkfifo(folder / name)


@case
def endless_device(folder: Path) -> None:
    (folder / "dump.json").symlink_to("/dev/zero")


@case
def endless_tensor(folder: Path) -> None:
    saved(folder).symlink_to("/dev/zero")


@case
def dangling_link(folder: Path) -> None:
    (folder / "dump.json").symlink_to(folder / "gone.json")


@case
def link_out(folder: Path) -> None:
    outside = dump(folder.parent / f"{folder.name}.outside")
    (folder / "dump.json").symlink_to(outside / "dump.json")


@case
def folder_out(folder: Path) -> None:
    dump(folder / "step0" / "rank0")
    (folder / "step0" / "rank1").symlink_to("/etc")


@case
def tensor_out(folder: Path) -> None:
    np.save(folder.parent / f"{folder.name}.secret.npy", np.arange(4.0))
    saved(folder).symlink_to(folder.parent / f"{folder.name}.secret.npy")


@case
def tensors_out(folder: Path) -> None:
    place = saved(folder)
    elsewhere = folder.parent / f"{folder.name}.elsewhere"
    place.parent.rename(elsewhere)
    np.save(elsewhere / place.name, np.arange(4, dtype=np.float32))
    place.parent.symlink_to(elsewhere)


@case
def links_around(folder: Path) -> None:
    dump(folder / "real")
    for number in range(8):
        (folder / f"loop{number}").symlink_to(folder)


@case
def socket_and_folder(folder: Path) -> None:
    (folder / "dump.json").mkdir()


@case
def name_not_utf8(folder: Path) -> None:
    dump(Path(os.fsdecode(os.fsencode(folder) + b"/run\xff")))


# ---- tensors ----------------------------------------------------------------------------------------------


def npy(shape: str, descr: str = "<f4", body: bytes = bytes(16)) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + body


SHAPES = {
    "npy_empty_huge": "(4294967296, 4294967296, 0)",
    "npy_empty_astronomic": "(0, 1" + "0" * 300 + ")",
    "npy_huge": "(1099511627776,)",
    "npy_negative": "(-4,)",
    "npy_axes": "(" + "1," * 70 + ")",
    "npy_digits": "(1" + "0" * 5000 + ",)",
}
for name, shape in SHAPES.items():
    CASES[name] = lambda folder, shape=shape: saved(folder).write_bytes(npy(shape))  # type: ignore[misc]


@case
def npy_object(folder: Path) -> None:
    np.save(saved(folder), np.array([print], dtype=object), allow_pickle=True)


def pt(path: Path, shape: tuple[int, ...], strides: tuple[int, ...], call: bytes | None = None) -> None:
    """A .pt as torch.save writes it, of a storage of one float32, without torch."""
    text = (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000"
        b"X\x03\0\0\0cpuK\x01tQK\0" + _tuple(shape) + _tuple(strides) + b"\x89ccollections\nOrderedDict\n)RtR."
    )
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("x/data.pkl", call or text)
        packed.writestr("x/byteorder", "little")
        packed.writestr("x/data/0", bytes(4))
        packed.writestr("x/version", "3\n")


def _tuple(numbers: tuple[int, ...]) -> bytes:
    return pickle.dumps(numbers, 2)[2:-1]


@case
def pt_repeats(folder: Path) -> None:
    pt(saved(folder, "x.pt"), (10**6, 10**3), (0, 0))


@case
def pt_repeats_for_ever(folder: Path) -> None:
    pt(saved(folder, "x.pt"), (2**20, 2**20), (0, 0))


@case
def pt_expanded(folder: Path) -> None:
    pt(saved(folder, "x.pt"), (10, 10), (0, 0))


@case
def pt_code(folder: Path) -> None:
    pt(saved(folder, "x.pt"), (1,), (1,), b"\x80\x02cos\nsystem\nX\x0a\0\0\0touch ownedtR.")


@case
def pt_directory(folder: Path) -> None:
    path = saved(folder, "x.pt")
    with zipfile.ZipFile(path, "w") as packed:
        for number in range(20_000):
            packed.writestr(f"x/{number}", b"")


# ---- checkpoints ------------------------------------------------------------------------------------------


def state_dict(folder: Path, inner: bytes) -> None:
    """A .pt with a dict of one tensor w, and what `inner` puts under x."""
    shape = b"K\x02\x85K\x01\x85"
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + shape + b"\x89}tR"
    with zipfile.ZipFile(folder / "x.pt", "w") as packed:
        packed.writestr("x/data.pkl", b"\x80\x02}(X\x01\0\0\0w" + tensor + b"X\x01\0\0\0x" + inner + b"u.")
        packed.writestr("x/data/0", bytes(8))


@case
def state_dict_code(folder: Path) -> None:
    state_dict(folder, b"cos\nsystem\nX\x0b\0\0\0touch owned\x85R")


@case
def state_dict_doubled(folder: Path) -> None:
    doubled = b"]" + b"".join(b"q%c0](h%ch%ce" % (n, n, n) for n in range(60))
    state_dict(folder, doubled)


@case
def state_dict_memo(folder: Path) -> None:
    state_dict(folder, b"Nr\xff\xff\xff\x7f")


@case
def state_dict_classes(folder: Path) -> None:
    state_dict(folder, b"](" + b"".join(b"ca\nb%d\n" % n for n in range(5000)) + b"e")


@case
def safetensors_header(folder: Path) -> None:
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")


@case
def safetensors_deep(folder: Path) -> None:
    header = b"[" * 1_000_000
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


@case
def safetensors_overlap(folder: Path) -> None:
    entry = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
    header = json.dumps({"a": entry, "b": entry}).encode()
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


@case
def safetensors_type(folder: Path) -> None:
    entry = {"dtype": "F4\n" * 1000, "shape": [1 << 31, 1 << 31], "data_offsets": [0, 4]}
    header = json.dumps({"w": entry}).encode()
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


@case
def ckpt_huge(folder: Path) -> None:
    value = b"\x0a\x01w\x12\x0f\x08\xff\xff\xff\xff\x7f\x12\x05Int64\x1a\x00"
    (folder / "x.ckpt").write_bytes(b"\x0a" + bytes([len(value)]) + value)


@case
def preflight_deep(folder: Path) -> None:
    (folder / "preflight.json").write_text('{"preflight": 1, "settings": {"a": ' + "[" * 1_000_000)


# ---- workbooks --------------------------------------------------------------------------------------------

MAIN = b' xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
SHEET = (b"<worksheet" + MAIN + b"><sheetData>", b"</sheetData></worksheet>")
SHARED_TEXTS = (
    b'<Override PartName="/xl/sharedStrings.xml" '
    b'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/>'
)


def workbook(folder: Path, **parts: bytes) -> None:
    """A sound workbook of one row of headers, with the parts `sheet1`, `styles`, … in the place of its own."""
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(HEADERS)  # type: ignore[union-attr]
    whole = io.BytesIO()
    book.save(whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(folder / RESULT, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in source.namelist():
            part = parts.get(Path(name).stem) or source.read(name)
            packed.writestr(name, part.replace(b"</Types>", SHARED_TEXTS + b"</Types>"))
        packed.writestr("xl/sharedStrings.xml", parts.get("sharedStrings", b"<sst" + MAIN + b"/>"))


@case
def xlsx_styles(folder: Path) -> None:
    workbook(folder, styles=b"<styleSheet" + MAIN + b">" + b"<a/>" * 10_000_000 + b"</styleSheet>")


@case
def xlsx_cell(folder: Path) -> None:
    cell = b'<row><c t="inlineStr"><is><t>' + b"x" * 50_000_000 + b"</t></is></c></row>"
    workbook(folder, sheet1=SHEET[0] + cell + SHEET[1])


@case
def xlsx_comment(folder: Path) -> None:
    workbook(folder, sheet1=SHEET[0] + b"<!--" + b"x" * 100_000_000 + b"-->" + SHEET[1])


@case
def xlsx_small_comment(folder: Path) -> None:
    workbook(folder, sheet1=SHEET[0] + b"<!--" + b"x" * 2_000_000 + b"-->" + SHEET[1])


@case
def xlsx_siblings(folder: Path) -> None:
    workbook(folder, sheet1=SHEET[0] + SHEET[1].replace(b"</worksheet>", b"<x/>" * 10_000_000 + b"</worksheet>"))


@case
def xlsx_wide_row(folder: Path) -> None:
    workbook(folder, sheet1=SHEET[0] + b"<row>" + b"<c/>" * 10_000_000 + b"</row>" + SHEET[1])


@case
def xlsx_deep(folder: Path) -> None:
    workbook(folder, sheet1=SHEET[0] + b"<x>" * 1_000_000 + b"</x>" * 1_000_000 + SHEET[1])


@case
def xlsx_entities(folder: Path) -> None:
    entities = b"".join(b'<!ENTITY e%d "%s">' % (n, b"&e%d;" % (n - 1) * 10 if n else b"ha") for n in range(10))
    text = b"<!DOCTYPE x [" + entities + b"]>" + SHEET[0] + b"<row><c><v>&e9;</v></c></row>" + SHEET[1]
    workbook(folder, sheet1=text)


@case
def xlsx_texts(folder: Path) -> None:
    text = b"<sst" + MAIN + b">" + b"<si/>" * 2_000 + b"</sst>"
    workbook(folder, sharedStrings=text)


@case
def xlsx_directory(folder: Path) -> None:
    with zipfile.ZipFile(folder / RESULT, "w") as packed:
        for number in range(20_000):
            packed.writestr(f"xl/{number}", b"")
