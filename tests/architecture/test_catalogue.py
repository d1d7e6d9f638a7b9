"""The catalogue of bad input, entries 1 to 83 and 93 to 100: each with the tests that hold it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.catalogue_of_figures import FIGURES, MONEY
from tests.architecture.catalogue_of_money import INVARIANTS, PROMISED
from tests.architecture.catalogue_of_text import TEXTS

ROOT = Path(__file__).resolve().parents[2]
BAD, CALLERS, LIMITS = (f"tests/api/test_{n}.py" for n in ("bad_input", "bad_callers", "limits"))
AGENT, AUTH, JOBS = (f"tests/api/test_{n}.py" for n in ("agent", "auth", "jobs"))
SCHEMA, ORDER, YAML = (f"tests/spec/test_{n}.py" for n in ("schema", "order", "document"))
TERMINAL, PAGES = "tests/pages/test_terminal.py", "tests/pages/test_matrix.py"
REFUSALS = "tests/pages/test_refusals.py"
LOGS, REDACTION = "tests/services/test_logs.py", "tests/agent/test_redaction.py"
SEARCH = "tests/pages/test_log_search.py"
DEAF, FLOODS = "tests/live/test_hostile.py", "tests/flows/test_hostile_sockets.py"
SLOW, VERSIONS = (f"tests/flows/test_{n}.py" for n in ("slow_callers", "agent_versions"))
LARGE = "tests/pages/test_large_log.py"
SOCKET, WIRE = "tests/live/test_socket.py", "tests/wire/test_codec.py"

# Entry: what comes in; the tests, as file and function.
HELD: dict[int, tuple[str, tuple[tuple[str, str], ...]]] = {
    34: ("duplicate keys", ((BAD, "test_odd_json_is_a_400"),)),
    35: ("10 000 levels", ((BAD, "test_depth_is_refused_fast"),)),
    36: (
        "a huge body",
        (
            (BAD, "test_a_large_body_is_refused_unread"),
            (SLOW, "test_a_body_that_says_it_is_too_large_is_refused_unread"),
        ),
    ),
    37: ("another content type", ((BAD, "test_another_content_type_is_a_415"),)),
    38: ("cut JSON", ((BAD, "test_odd_json_is_a_400"),)),
    39: ("huge numbers as text", ((BAD, "test_a_bad_field_is_named"),)),
    40: ("fields of the server", ((BAD, "test_fields_that_are_not_the_callers_are_listed"),)),
    41: ("a list for one value", ((SCHEMA, "test_b41_wrong_kinds"),)),
    42: ("bytes behind the end", ((BAD, "test_odd_json_is_a_400"),)),
    43: ("a compressed bomb", ((BAD, "test_compressed_and_chunked_bodies_are_refused"),)),
    44: (
        "bodies without end",
        (
            (BAD, "test_compressed_and_chunked_bodies_are_refused"),
            (CALLERS, "test_the_proxy_names_the_address_and_lets_slow_senders_go"),
            (SLOW, "test_a_crowd_of_slow_senders_is_let_go_and_nobody_else_waits"),
            (SLOW, "test_a_body_without_end_is_refused_once_it_is_too_much"),
        ),
    ),
    45: ("a parameter twice", ((BAD, "test_a_bad_query_is_named"),)),
    46: (
        "huge queries",
        ((BAD, "test_a_huge_query_is_refused"), (CALLERS, "test_thousands_of_filters_are_refused")),
    ),
    47: ("a foreign cursor", ((JOBS, "test_lists_page_by_cursor_and_filter"),)),
    48: ("a page of 1e9", ((BAD, "test_a_bad_query_is_named"),)),
    49: ("sorting by a secret", ((BAD, "test_a_bad_query_is_named"),)),
    50: (
        "methods",
        (
            (BAD, "test_other_methods_are_a_405"),
            (BAD, "test_get_on_an_action_and_method_override_do_nothing"),
            (REFUSALS, "test_methods_that_a_page_does_not_have_are_refused"),
        ),
    ),
    51: (
        "forged forms",
        (
            (REFUSALS, "test_a_form_needs_its_token_and_its_own_site"),
            (AUTH, "test_a_session_needs_csrf_and_our_own_origin"),
        ),
    ),
    52: ("a foreign Host", (("tests/pages/test_errors.py", "test_a_foreign_host_is_refused"),)),
    53: (
        "a forged address",
        (
            (CALLERS, "test_an_address_that_the_caller_names_is_not_recorded"),
            (CALLERS, "test_the_proxy_names_the_address_and_lets_slow_senders_go"),
        ),
    ),
    54: (
        "one key for two bodies",
        (
            (JOBS, "test_the_same_key_and_body_is_the_same_job"),
            (JOBS, "test_a_key_belongs_to_one_user"),
            ("tests/cli/test_commands.py", "test_fifty_times_the_same_key_at_once_is_one_job"),
        ),
    ),
    55: ("a stale version", ((JOBS, "test_a_stale_version_is_refused_and_told"),)),
    56: (
        "a pattern that explodes",
        (
            (SEARCH, "test_no_pattern_is_slow"),
            (CALLERS, "test_what_looks_like_a_pattern_is_plain_text"),
        ),
    ),
    57: (
        "no pattern",
        (
            (SEARCH, "test_what_is_no_pattern_is_refused"),
            (CALLERS, "test_what_looks_like_a_pattern_is_plain_text"),
        ),
    ),
    58: ("a pattern of 100 kB", ((CALLERS, "test_a_search_for_100_kb_is_refused"),)),
    59: (
        "everything of 1 GiB",
        (
            (SEARCH, "test_many_lines_stop_where_they_can_go_on"),
            (LOGS, "test_a_line_longer_than_any_window_is_passed"),
            (LARGE, "test_what_matches_everything_ends_after_so_many_lines"),
            (LARGE, "test_a_log_of_one_byte_a_thousand_million_times_ends_in_time"),
        ),
    ),
    60: ("odd variables", ((SCHEMA, "test_b60_environment"), (BAD, "test_a_bad_field_is_named"))),
    61: ("images", ((CALLERS, "test_what_jobs_do_not_have_is_refused_by_name"),)),
    62: ("mounts", ((CALLERS, "test_what_jobs_do_not_have_is_refused_by_name"),)),
    63: ("odd commands", ((SCHEMA, "test_b63_commands"), (BAD, "test_a_bad_field_is_named"))),
    64: (
        "foreign secrets",
        (
            ("tests/services/test_secrets.py", "test_a_job_names_only_what_is_there_for_it"),
            ("tests/api/test_secrets.py", "test_a_secret_of_another_team_is_the_same_as_none"),
        ),
    ),
    65: (
        "circles",
        (
            (ORDER, "test_odd_dependencies_name_field_and_remedy"),
            ("tests/api/test_order.py", "test_a_circle_of_a_bulk_is_printed"),
        ),
    ),
    66: ("odd arrays", ((ORDER, "test_odd_arrays_name_field_and_remedy"),)),
    67: ("labels", ((CALLERS, "test_odd_labels_are_named"),)),
    68: (
        "above the ceiling",
        (
            (
                "tests/services/test_ceilings.py",
                "test_production_is_open_only_to_whom_an_operator_names",
            ),
        ),
    ),
    69: (
        "fields that a template locks",
        (("tests/services/test_templates.py", "test_a_job_outside_the_rules_is_refused"),),
    ),
    70: ("ports", ((CALLERS, "test_what_jobs_do_not_have_is_refused_by_name"),)),
    71: ("odd YAML", ((YAML, "test_b71_is_refused_with_a_place"),)),
    72: ("control sequences", ((TERMINAL, "test_every_other_control_sequence_is_dropped"),)),
    73: ("markup", ((TERMINAL, "test_markup_is_text"),)),
    74: ("100 MB in one line", ((TERMINAL, "test_a_line_of_100_mb_costs_little_beyond_itself"),)),
    75: ("progress bars", ((TERMINAL, "test_a_progress_bar_keeps_its_last_state"),)),
    76: (
        "other encodings",
        ((TERMINAL, "test_other_encodings_and_binary_become_replacement_boxes"),),
    ),
    77: ("forged marks", ((TERMINAL, "test_forged_records_are_only_text"),)),
    78: (
        "secrets in pieces",
        (
            (REDACTION, "test_a_secret_in_any_form_and_cut_anywhere_is_masked"),
            (REDACTION, "test_the_file_never_holds_it"),
            (REDACTION, "test_base64_in_lines_is_masked"),
            (REDACTION, "test_escapes_of_other_languages_are_masked"),
        ),
    ),
    79: (
        "records out of order",
        (
            (LOGS, "test_other_bytes_for_what_is_stored_are_refused_and_told"),
            (LOGS, "test_a_hole_is_refused_and_the_offset_to_go_on_from_is_told"),
            (AGENT, "test_odd_log_addresses_are_refused"),
            (AGENT, "test_another_nodes_log_and_too_much_are_refused"),
        ),
    ),
    80: ("1970", ((CALLERS, "test_a_clock_in_1970_takes_the_node_out_and_changes_no_time"),)),
    93: ("used tokens", ((AGENT, "test_enrolment_is_for_once"),)),
    94: ("another node's attempt", ((AGENT, "test_a_node_that_speaks_for_another_is_shut_out"),)),
    95: ("lying inventories", ((AGENT, "test_lying_inventories_are_refused"),)),
    96: (
        "ends of no attempt",
        (
            (AGENT, "test_ends_of_what_was_never_assigned_change_nothing"),
            (CALLERS, "test_an_impossible_number_costs_no_node_its_call"),
        ),
    ),
    97: ("odd samples", ((AGENT, "test_odd_samples_are_refused_or_dropped"),)),
    98: (
        "versions",
        (
            (AGENT, "test_versions_we_do_not_speak_are_told_so"),
            (AGENT, "test_an_agent_that_is_refused_is_told_of_on_its_nodes_page_once"),
            (VERSIONS, "test_of_other_versions_one_is_served_and_one_is_told_why_not"),
        ),
    ),
    99: (
        "1000 calls a second",
        (
            (LIMITS, "test_a_node_that_calls_all_the_time_is_told_to_wait"),
            ("tests/flows/test_busy_node.py", "test_it_is_told_to_wait_and_nobody_else_waits"),
        ),
    ),
    100: (
        "hostile sockets",
        (
            (SOCKET, "test_foreign_origins_are_refused_at_the_door"),
            (SOCKET, "test_without_a_session_it_is_closed_with_4401"),
            (SOCKET, "test_the_end_of_the_session_closes_it"),
            (SOCKET, "test_stranger_is_refused_that_topic_and_no_other"),
            (SOCKET, "test_junk_closes_only_that_socket"),
            (SOCKET, "test_binary_frames_close_it"),
            (SOCKET, "test_a_flood_of_frames_closes_it"),
            (SOCKET, "test_fifty_topics_in_all_and_not_one_more"),
            (SOCKET, "test_one_person_holds_so_many_sockets_and_no_more"),
            (DEAF, "test_a_session_that_has_run_out_opens_nothing_and_ends_what_is_open"),
            (DEAF, "test_who_never_reads_is_hung_up_on_and_no_other_waits"),
            (FLOODS, "test_floods_of_pings_and_huge_frames_disturb_nobody_else"),
        ),
    ),
}


ENTRIES = {**TEXTS, **FIGURES, **HELD}


@cache
def functions_of(path: str) -> frozenset[str]:
    """Tests of a module and of its classes."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    bodies = [tree.body, *(one.body for one in classes)]
    return frozenset(node.name for body in bodies for node in body if isinstance(node, kinds))


def test_no_entry_is_missing():
    assert sorted(ENTRIES) == [*range(1, 84), *range(93, 101)]


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_is_held_by_a_test_that_exists(entry):
    _, held = ENTRIES[entry]
    assert held
    assert [name for path, name in held if name not in functions_of(path)] == []


@pytest.mark.parametrize("what", MONEY)
def test_what_is_wrong_about_money_is_held_by_a_test_that_exists(what):
    assert MONEY[what]
    assert [name for path, name in MONEY[what] if name not in functions_of(path)] == []


@pytest.mark.parametrize("held", [INVARIANTS, PROMISED], ids=["invariants", "promised"])
def test_quota_and_money_name_functions_that_exist(held):
    assert held is PROMISED or list(held) == [f"F{number}" for number in range(1, 29)]
    named = [one.split("::") for words in held.values() for one in words.split()]
    assert [one for one in named if one[1] not in functions_of(f"tests/{one[0]}.py")] == []


def test_what_must_hold_of_money_names_tests_that_exist():
    """The table F1 to F28 in the ledger's README; its tests lie in any folder."""
    text = (ROOT / "scheduler/ledger/README.md").read_text("utf-8")
    rows = re.findall(r"^\| (F[\d, F]+) \|.*\|(.*)\|$", text, re.MULTILINE)
    named = [int(number) for numbers, _ in rows for number in re.findall(r"\d+", numbers)]
    assert named == [*range(1, 18), 19, 18, *range(20, 29)]
    there = {path.with_suffix("").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    for numbers, words in rows:
        tests = re.findall(r"`([\w/]*test_\w+)`", words)
        assert tests, numbers
        missing = [name for name in tests if not any(path.endswith(f"/{name}") for path in there)]
        assert missing == [], numbers
