"""The catalogue of bad input, names and texts (1 to 21): who holds which."""

from __future__ import annotations

HOSTILE, SEARCH = "tests/pages/test_hostile.py", "tests/pages/test_search.py"
SCHEMA, BAD = "tests/spec/test_schema.py", "tests/api/test_bad_input.py"
NAMES = "tests/accounts/test_names.py"
KEPT, HANDED = "tests/services/test_outputs.py", "tests/agent/test_outputs.py"
_PAGES = (HOSTILE, "test_names_labels_and_comments_are_text_on_every_page")
_SPEC = (SCHEMA, "test_b1_to_b11_names")
_NAME = (NAMES, "test_names_that_cannot_be_read_are_refused")
_PATHS = (KEPT, "test_hostile_names_are_refused")
_LINKS = (HANDED, "test_files_are_handed_over_and_links_pipes_and_odd_names_are_not")

# Entry: what comes in; the tests, as file and function. Archives are taken nowhere (17, 18): what
# comes in are single files of a job, and their count and size have caps.
TEXTS: dict[int, tuple[str, tuple[tuple[str, str], ...]]] = {
    1: ("nothing", (_SPEC, _NAME)),
    2: ("spaces", (_SPEC, _NAME)),
    3: ("a long name", (_SPEC, _NAME)),
    4: ("a name of 10 MB", (_SPEC, (BAD, "test_a_large_body_is_refused_unread"))),
    5: ("NUL", (_SPEC, (BAD, "test_odd_json_is_a_400"))),
    6: ("lone surrogates", (_SPEC, (BAD, "test_odd_json_is_a_400"))),
    7: ("turned direction", (_PAGES, (SCHEMA, "test_odd_but_harmless_names_are_kept"))),
    8: ("lookalikes", ((NAMES, "test_a_second_team_cannot_look_like_the_first"),)),
    9: ("floods of marks", (_SPEC, _PAGES)),
    10: ("joined emoji", (_PAGES, (SCHEMA, "test_odd_but_harmless_names_are_kept"))),
    11: ("line ends", (_SPEC, _PAGES)),
    12: ("markup and templates", (_PAGES, (SCHEMA, "test_odd_but_harmless_names_are_kept"))),
    13: ("addresses that run", (_PAGES,)),
    14: ("drawings with scripts", (_PAGES,)),
    15: ("paths upwards", (_PATHS, _LINKS)),
    16: ("absolute paths", (_PATHS,)),
    17: (
        "links and devices",
        (_LINKS, (HANDED, "test_devices_sockets_and_files_of_others_are_named")),
    ),
    18: ("too many, too large", ((KEPT, "test_caps_and_refusals_are_told_by_name"),)),
    19: (
        "reserved names and shells",
        (
            _PAGES,
            (HOSTILE, "test_what_stands_in_addresses_cannot_be_called_so"),
            (NAMES, "test_slugs_that_addresses_cannot_hold_are_refused"),
        ),
    ),
    20: (
        "SQL and its wildcards",
        (_PAGES, (SEARCH, "test_odd_texts_find_nothing_and_break_nothing")),
    ),
    21: ("format strings", (_PAGES,)),
}
