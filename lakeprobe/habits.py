"""What users of msprobe and ptdbg_ascend type out of habit, and what to type here: hints for unknown words.

A hint follows "No such option: WORD. ". tests/commands/test_habits.py checks that what hints name exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Hints = Mapping[str, str]


def _same(words: str, hint: str) -> dict[str, str]:
    return dict.fromkeys(words.split(), hint)


_VERIFY = "Run lakeprobe ingest DUMP, then lakeprobe verify RUN (docs/ops.md)"
_FOLDERS = "Run lakeprobe compare A B with the two folders or files (docs/formats.md)"

COMMANDS: Hints = {
    **_same("acc_check multi_acc_check run_ut multi_run_ut", _VERIFY),
    "api_precision_compare": "Run lakeprobe verify RUN --device npu:0 --against VERIFICATION (docs/ops.md)",
    **_same("cad vc compare_distributed", _FOLDERS),
    **_same("cn dc pk pt", "Run lakeprobe ingest FILE, then lakeprobe show OP (docs/formats.md)"),
    "code_mapping": "Run lakeprobe export RUN OUT --format code-mapping (docs/start.md)",
    **_same(
        "config_check config_checking",
        "Run lakeprobe preflight pack -o OUT for each side, then lakeprobe preflight compare TARGET GOLDEN "
        "(docs/start.md)",
    ),
    "data2db": "The lake is a database already: lakeprobe sql asks it, lakeprobe drift GOLDEN RUN follows steps "
    "(docs/lake.md)",
    "free_benchmark": "Run lakeprobe perturb RUN (docs/ops.md)",
    "grad_probe": "Run lakeprobe signs GOLDEN RUN (docs/monitor.md)",
    "graph_visualize": "Run lakeprobe view NAME --format vis.db (docs/view.md)",
    "install_deps": "Nothing has to be installed to compare; lakeprobe doctor lists the extras",
    "merge_result": "Run lakeprobe merge NAME -o OUT (docs/ranks.md)",
    **_same("nan_analyze overflow_check", "Run lakeprobe overflow RUN (docs/ranks.md)"),
    "offline_dump": "It has no counterpart; lakeprobe runs no offline models (docs/formats.md has what it reads)",
    "op_generate": "Run lakeprobe reproduce RUN OP, or lakeprobe reproduce --config FILE (docs/ops.md)",
    "parse": "Run lakeprobe ingest DUMP, then lakeprobe show OP; in Python lake.tensor is the array (docs/formats.md)",
}
"""By commands of msprobe and ptdbg_ascend that lakeprobe has under another name, or lacks."""

_LOG = "Leave it out; --verbose says what is read"
_OFFLINE = "It has no counterpart; lakeprobe compares no offline models (docs/formats.md has what it compares)"
_INFERENCE = "It has no counterpart; lakeprobe map TARGET GOLDEN -o data.yaml proposes which names belong together"
_CUTS = "Leave it out; lakeprobe compare TARGET GOLDEN --cuts auto finds how the ranks were cut (docs/cuts.md)"
_COMPARED = "Give it to lakeprobe compare, whose pairs the view shows (docs/view.md)"

OPTIONS: Mapping[str, Hints] = {
    "lakeprobe": {
        **_same("-f --framework", "Leave it and its value out; the framework is read from the dump"),
        "-V": "Write --version",
    },
    "compare": {
        **_same("-c --compare_only", "Leave it out; no advice is written, lakeprobe blame NAME names the cause"),
        **_same("--config -config", "It has no counterpart; tensors are compared as they were saved"),
        **_same("--consistent_check --backend", _INFERENCE),
        **_same("-da --diff_analyze", "After the comparison, run lakeprobe first-diff NAME --diff-analyze OUT"),
        "-f": "Write -fm to pair ops in order",
        **_same("-hl --highlight", "Write --format xlsx, in which findings have colours"),
        **_same("-m --mode", "Leave it and its value out; the format of a dump is recognised (docs/formats.md)"),
        **_same("-s --stack_mode", "Leave it out; the tables have the call stacks if the dump has them"),
        **_same("-tensor_log --is_print_compare_log", _LOG),
        "--xlsx": "Write --format xlsx --layout msprobe",
        **_same("-fr --fusion_rule_file -qfr --quant_fusion_rule_file -cfr --close_fusion_rule_file", _OFFLINE),
        **_same("--input_data --input_shape --output_size --dym_shape_range -ofs --onnx_fusion_switch", _OFFLINE),
    },
    "merge": {
        **_same("-i --input_dir", "Write the folder alone: lakeprobe merge FOLDER -o OUT"),
        **_same("--config-path --config_path", "Write --config"),
        "--output_dir": "Write --output",
    },
    "overflow": {
        **_same("-i --input_path", "Run lakeprobe ingest DUMP, then lakeprobe overflow RUN"),
        **_same("-o --output_path", "Write --format json, and > FILE"),
    },
    "verify": {
        **_same("-api_info --api_info_file", _VERIFY),
        **_same("-config --config_path", "Write the APIs of its white_list as OPS, and of its black_list after --skip"),
        **_same("-csv_path --result_csv_path", "Leave it out; what is verified already does not run again"),
        **_same("-f --filter_api", "Leave it out; equal calls run once"),
        **_same("-n --num_splits", "Write --jobs"),
        **_same("-save_error_data --save_error_data", "Write --save-errors FOLDER"),
    },
    "view": {
        **_same(
            "-tp --target_path -gp --golden_path",
            "Run lakeprobe compare TARGET GOLDEN, then lakeprobe view NAME --format vis.db (docs/view.md)",
        ),
        **_same("-fm --fuzzy_match -lm --layer_mapping", _COMPARED),
        **_same("--rank_size --tp --pp --vpp --order", _CUTS),
        **_same("-oc --overflow_check", "Leave it out; overflow levels are always there"),
        **_same("-tensor_log --is_print_compare_log -progress_log --is_print_progress_log", _LOG),
        "--file_type": "Write --format vis.db",
    },
}
"""By command of lakeprobe (lakeprobe: before any), and there by options of msprobe's command that does the same."""


def unread_mapping(words: Iterable[str]) -> str:
    """Return what to say of surplus arguments if `words` has a mapping option without a file, and else nothing."""
    is_empty = any(word.startswith("--") and word.endswith("-mapping=") for word in words)
    return ". The file of a mapping option ends in .yaml or .yml" if is_empty else ""


def unknown_option(command: str, words: Iterable[str], takes_value: Mapping[str, bool]) -> str | None:
    """Return what to say of the first of `words` that is an option and none of `command`; None if there is none.

    `takes_value` has the options of `command`: a value is not looked at, nor what follows --. A long option that is not
    msprobe's either is left to the parser, which names similar ones.
    """
    rest = iter(words)
    for word in rest:
        name, has_value, _ = word.partition("=")
        if word == "--":
            break
        if name in takes_value:
            if takes_value[name] and not has_value:
                next(rest, None)
        elif hint := OPTIONS.get(command, {}).get(name):
            return f"No such option: {name}. {hint}"
        elif name[:1] == "-" and name[1:2] not in ("", "-") and name[:2] not in takes_value:
            return f"No such option: {name}"
    return None
