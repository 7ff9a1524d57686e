"""What a first look found wrong with the collector, and the tests that would fail if it came back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FINDINGS = {
    "F1: a compiled model is traced into, loses its graphs, or no longer compiles": [
        "traced.graphs_and_breaks_are_the_same_as_without_and_so_are_the_losses",
        "traced.that_compiled_code_runs_eagerly_is_said_once",
        "traced.with_boundary_inductor_gives_the_same_losses",
        "traced.what_is_compiled_while_a_step_is_collected_is_compiled_afterwards",
    ],
    "F2: an odd argument of one op makes the whole lake unreadable": [
        "faults.odd_values_cost_no_op_and_are_there_by_class",
        "promise.a_bad_journal_is_set_aside_and_keeps_no_other_run_out",
        "promise.ls_and_check_tell_what_is_set_aside_and_recover_tries_again",
        "unit_sink.names_and_frames_that_are_not_unicode_arrive_with_question_marks",
    ],
    "F3: steps that were asked for are not collected, and nothing says so": [
        "promise.the_steps_that_were_asked_for_are_collected_by_a_with",
        "promise.a_run_that_ends_with_no_unit_says_why",
    ],
    "F4: steps that were cut off are complete, or leave no trace": [
        "faults.the_training_does_not_notice_and_the_lake_tells",
        "debugger.a_program_that_ends_without_close_still_fills_the_lake_and_a_running_step_is_incomplete",
    ],
    "F5: a ScriptModule makes start fail, and hooks stay": [
        "traced.a_script_module_in_a_model_is_one_op",
        "promise.a_start_that_fails_undoes_all_that_it_did",
    ],
    "F6: jit, torch.func, forward AD and export crash the training": [
        "traced.it_works_gives_the_same_and_what_runs_afterwards_is_recorded",
    ],
    "F7: a value that cannot be encoded loses the rest of the step": [
        "promise.ops_that_cannot_be_encoded_keep_their_place",
        "unit_sink.values_that_msgpack_cannot_hold_arrive",
    ],
    "F8: gradients change in their last bits": [
        "boundaries.loss_gradients_and_random_numbers_keep_their_bits",
        "boundaries.no_level_data_mode_or_task_changes_a_bit",
        "programs.it_trains_to_the_same_bits_and_nothing_stays",
    ],
    "F9: sparse, quantized and nested tensors have no statistics, and subclasses see our calls": [
        "promise.sparse_quantized_and_nested_tensors_have_the_statistics_of_the_numbers_that_they_hold",
        "promise.a_subclass_of_tensor_sees_none_of_our_calls_and_keeps_its_class_and_attributes",
    ],
    "F10: watched models cannot be pickled, and copies keep our hooks": [
        "promise.a_watched_model_can_be_pickled_saved_and_copied",
        "promise.a_module_that_copies_itself_while_it_runs_gives_copies_without_our_hooks",
    ],
    "F11: VF.lstm is recorded, and no list of differences says so": [
        "torch_capture.the_op_of_an_lstm_is_recorded_which_msprobe_leaves_out_and_the_page_of_differences_says_so",
    ],
    "F12: a full disk reaches the training, and a removed lake is called a success": [
        "faults.the_training_does_not_notice_and_the_lake_tells",
        "promise.what_fails_is_said_in_one_line_and_the_training_goes_on",
        "promise.a_lake_that_is_removed_between_steps_is_not_made_again",
    ],
    "F13: 200 small units are 1 001 files": [
        "unit_sink.many_small_steps_share_files_once_collecting_has_ended",
        "unit_sink.steps_that_wait_are_made_at_once_and_say_the_same_as_one_by_one",
    ],
    "F14: what it costs (benchmarks/overhead.py): a tensor is read once": [
        "torch_wide.all_statistics_of_a_tensor_take_one_pass",
        "torch_wide.a_view_of_all_elements_has_the_same_statistics_to_the_last_bit",
    ],
}


@pytest.mark.parametrize("finding", FINDINGS)
def test_each_finding_has_tests(finding: str) -> None:
    for test in FINDINGS[finding]:
        file, name = test.split(".")
        text = (HERE / f"test_{file}.py").read_text(encoding="utf-8")
        assert re.search(rf"^def test_{name}\(", text, re.MULTILINE), test
