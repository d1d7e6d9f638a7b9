"""The catalogue of bad input, figures, times and cells (22 to 33, 81 to 83): who holds which."""

from __future__ import annotations

SIX = "tests/services/test_six_decimals.py"
BAD, CALLERS, ASKING = (f"tests/api/test_{n}.py" for n in ("bad_input", "bad_callers", "requests"))
SCHEMA, REQUESTS, UNITS = (f"tests/spec/test_{n}.py" for n in ("schema", "requests", "units"))
BUDGETS, WISHES, SHARING, TERMS = (
    f"tests/services/test_{n}.py"
    for n in ("budget_setting", "request_refusals", "sharing", "terms")
)
DESK, COSTS, QUOTA = (f"tests/pages/test_{n}.py" for n in ("finance_desk", "costs", "team_quota"))
RATES, FILES, EXPORTS = (
    "tests/accounts/test_rates.py",
    "tests/reports/test_report_files.py",
    "tests/reports/test_exports.py",
)

# Entry: what comes in; the tests, as file and function.
FIGURES: dict[int, tuple[str, tuple[tuple[str, str], ...]]] = {
    22: (
        "odd numbers",
        (
            (SCHEMA, "test_b22_b23_numbers"),
            (BAD, "test_a_bad_field_is_named"),
            (BAD, "test_odd_json_is_a_400"),
            (BAD, "test_a_bad_query_is_named"),
            (BUDGETS, "test_bad_figures_are_refused_by_field_and_nothing_is_written"),
            (DESK, "test_bad_amounts_are_refused_beside_the_field"),
            (QUOTA, "test_bad_figures_are_refused_beside_the_field"),
        ),
    ),
    23: ("half a GPU", ((SCHEMA, "test_b22_b23_numbers"), (BAD, "test_a_bad_field_is_named"))),
    24: (
        "more GPUs than there are",
        (
            (BAD, "test_too_many_gpus_names_the_largest_shape"),
            (WISHES, "test_what_cannot_be_granted_is_refused_by_field"),
        ),
    ),
    25: (
        "odd time limits",
        ((SCHEMA, "test_b25_time_limits"), (UNITS, "test_what_is_no_duration")),
    ),
    26: (
        "odd begins",
        (
            (REQUESTS, "test_b26_a_begin_is_one_moment_whatever_clocks_do"),
            (REQUESTS, "test_what_does_not_fit_together_names_field_and_remedy"),
        ),
    ),
    27: (
        "30 February",
        (
            (BAD, "test_a_bad_period_is_refused"),
            (ASKING, "test_wrong_values_are_named"),
            (DESK, "test_bad_prices_are_refused_beside_the_field"),
        ),
    ),
    28: (
        "from after to",
        (
            (BAD, "test_a_bad_period_is_refused"),
            (COSTS, "test_wrong_values_are_named_on_a_page"),
            ("tests/api/test_windows.py", "test_bad_windows_are_refused_by_field"),
            (BUDGETS, "test_bad_figures_are_refused_by_field_and_nothing_is_written"),
        ),
    ),
    29: (
        "a quota for no time",
        (
            (ASKING, "test_wrong_values_are_named"),
            (WISHES, "test_what_cannot_be_granted_is_refused_by_field"),
            (BUDGETS, "test_bad_figures_are_refused_by_field_and_nothing_is_written"),
        ),
    ),
    30: (
        "odd prices",
        (
            (BAD, "test_a_bad_price_is_refused"),
            (RATES, "test_prices_that_make_no_sense"),
            (SIX, "test_seven_decimals_are_refused_by_name"),
            (DESK, "test_bad_prices_are_refused_beside_the_field"),
        ),
    ),
    31: (
        "101 per cent",
        (
            (TERMS, "test_what_makes_no_sense_is_refused_by_name"),
            (BUDGETS, "test_bad_figures_are_refused_by_field_and_nothing_is_written"),
        ),
    ),
    32: (
        "other currencies",
        (
            (RATES, "test_currencies_are_three_letters"),
            (DESK, "test_only_the_currency_of_the_books_is_taken"),
            ("tests/api/test_months.py", "test_bad_input_is_named_and_nothing_is_written"),
        ),
    ),
    33: (
        "every second",
        (
            ("tests/reports/test_mailing.py", "test_wrong_wishes_are_refused_and_nothing_is_kept"),
            ("tests/reports/test_mailing.py", "test_the_page_makes_and_ends_one"),
        ),
    ),
    81: (
        "formulas",
        (
            (FILES, "test_hostile_names_stay_names"),
            (EXPORTS, "test_text_that_looks_like_a_formula_is_quoted"),
            (EXPORTS, "test_quotes_commas_and_line_ends_survive"),
            (DESK, "test_a_formula_as_a_reason_is_shown_as_text"),
        ),
    ),
    82: (
        "amounts below nothing",
        (
            (EXPORTS, "test_b82_negative_amounts_stay_numbers_and_texts_like_them_do_not"),
            (EXPORTS, "test_numbers_stay_numbers"),
        ),
    ),
    83: ("names of sheets", ((FILES, "test_b83_no_name_of_ours_is_the_name_of_a_sheet"),)),
}
# What else people get wrong about quota and money, as it is written on the tin of that room.
MONEY: dict[str, tuple[tuple[str, str], ...]] = {
    "validity that overlaps": ((SHARING, "test_periods_of_budgets_do_not_overlap"),),
    "a price for the past": (
        (RATES, "test_the_past_is_priced_only_by_a_restatement_with_a_reason"),
    ),
    "quota above capacity": ((WISHES, "test_what_cannot_be_granted_is_refused_by_field"),),
    "teams in a circle": (("tests/accounts/test_subteams.py", "test_circles_are_refused_by_name"),),
    "a stale version": (
        (BUDGETS, "test_a_stale_version_changes_nothing"),
        (DESK, "test_a_month_is_closed_as_it_was_seen"),
        ("tests/pages/test_requests.py", "test_deciding_on_the_page_and_being_late"),
    ),
    "a POST that is sent again": (
        (DESK, "test_one_proposes_another_posts"),
        (RATES, "test_a_decision_is_taken_once"),
        (WISHES, "test_the_same_twice_is_refused"),
    ),
    "GET on what decides": (
        (DESK, "test_get_decides_nothing"),
        ("tests/pages/test_requests.py", "test_looking_changes_nothing"),
    ),
}
