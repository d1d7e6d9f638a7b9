"""Quota, approvals and money: what must hold, what was promised, and the tests that prove it.

Each test as folder/file::function below `tests`; `test_catalogue` looks whether it is there.
"""

from __future__ import annotations

# The invariants of the ledger's README, each by its plainest proof.
INVARIANTS: dict[str, str] = {
    "F1": "ledger/test_segments::test_buckets_add_up_to_the_time_in_service "
    "ledger/test_segments::test_buckets_add_up_in_ten_thousand_histories "
    "services/test_segments::test_whatever_happens_the_buckets_add_up",
    "F2": "ledger/test_segments::test_a_device_second_has_one_holder "
    "services/test_segments::test_segments_of_a_device_never_overlap",
    "F3": "ledger/test_segments::test_held_seconds_are_the_attempts_own",
    "F4": "ledger/test_segments::test_windows_add_up "
    "ledger/test_segments::test_the_order_within_a_commit_does_not_matter",
    "F5": "ledger/test_closing::test_lines_and_entries_hold_the_same_seconds_and_amounts",
    "F6": "ledger/test_rating::test_lines_carry_all_charged_seconds_and_cross_no_boundary "
    "ledger/test_rating::test_each_second_has_the_price_of_its_moment "
    "ledger/test_rating::test_any_second_has_the_price_that_looking_at_all_of_them_finds "
    "accounts/test_rate_cards::test_the_quick_look_up_and_the_ledger_find_the_same_price",
    "F7": "ledger/test_entries::test_debits_equal_credits_whatever_is_posted",
    "F8": "ledger/test_shares::test_a_thousand_pools_are_shared_out_whole "
    "ledger/test_shares::test_every_policy_shares_all_or_nothing "
    "ledger/test_shares::test_ratios_add_up_to_one "
    "ledger/test_costs::test_cost_is_met_exactly_by_who_ran",
    "F9": "ledger/test_shares::test_bills_add_up_to_the_control_total_whatever_the_entries "
    "services/test_money_histories::test_a_random_month_adds_up",
    "F10": "ledger/test_closing::test_rating_twice_gives_the_same_hashes "
    "services/test_books::test_a_close_that_broke_off_is_simply_done_again "
    "services/test_close_race::test_of_four_that_close_at_once_one_does",
    "F11": "ledger/test_closing::test_closed_and_corrections_are_what_a_new_count_gives "
    "services/test_books::test_a_fact_learnt_later_is_a_correction_in_the_month_of_now "
    "services/test_late_reports::test_silent_time_that_was_used_is_charged_once_that_is_known "
    "services/test_late_reports::test_what_is_told_after_the_close_is_booked_by_the_next_night",
    "F12": "ledger/test_golden_month::test_a_restated_price_posts_new_less_old_per_account "
    "services/test_rate_cards::test_restating_a_card_posts_new_less_old_for_its_team_alone "
    "accounts/test_rates::test_the_past_is_priced_only_by_a_restatement_with_a_reason "
    "services/test_restating::test_what_is_shown_is_what_a_correction_posts",
    "F13": "selectors/test_reports::test_names_and_places_change_no_amount selectors/test_focus::"
    "test_a_closed_month_is_the_same_bytes_whatever_its_teams_are_called_later",
    "F14": "ledger/test_rating::test_months_are_utc_also_where_local_days_have_23_or_25_hours "
    "reports/test_zones::test_days_and_months_are_those_of_utc_and_totals_tie",
    "F15": "selectors/test_reports::test_every_report_ties_and_adds_up_to_its_totals "
    "reports/test_report_files::test_all_five_give_the_same_figures "
    "reports/test_report_files::test_pages_of_rows_are_the_whole",
    "F16": "ledger/focus/test_rules::test_a_bad_file_is_found_by_its_rule_alone "
    "reports/test_focus_archive::test_the_official_validator_passes_it",
    "F17": "engine/test_quota_histories::test_no_history_of_a_thousand_exceeds_a_limit_or_a_budget "
    "services/test_quota_histories::test_quotas_hold_and_owners_get_their_own "
    "engine/test_quota_properties::test_no_limit_is_exceeded_at_any_account "
    "outages/test_quota_race::test_no_limit_gives_way_to_eight_at_once",
    "F18": "engine/test_quota_histories::test_owners_have_their_room_in_a_thousand_histories "
    "services/test_quota_histories::test_quotas_hold_and_owners_get_their_own "
    "engine/test_reclaiming::test_a_guaranteed_request_on_sound_nodes_gets_its_room_at_once "
    "loop/test_reclaiming::test_an_owner_takes_back_what_it_lent_and_both_sides_say_so",
    "F19": "engine/test_quota_histories::test_no_history_of_a_thousand_exceeds_a_limit_or_a_budget "
    "services/test_quota_histories::test_quotas_hold_and_owners_get_their_own "
    "engine/test_quota_properties::test_what_is_borrowed_is_lent",
    "F20": "engine/test_quota_histories::test_no_history_of_a_thousand_exceeds_a_limit_or_a_budget "
    "services/test_budget_histories::test_committed_and_spent_stay_within_every_budget "
    "services/test_budgets::test_a_hold_is_released_once_however_often_it_is_settled "
    "services/test_six_decimals::test_what_is_committed_is_what_is_charged "
    "services/test_pledges::test_a_job_commits_its_worst_case_all_the_way_up_or_is_refused "
    "services/test_pledges::test_who_waits_again_pledges_again_or_is_held_until_it_fits",
    "F21": "services/test_sharing::test_grants_count_from_their_begin_until_right_before_their_end "
    "services/test_request_race::test_a_quota_is_its_row_and_what_is_granted_at_each_moment",
    "F22": "services/test_request_race::test_no_history_leads_past_the_people_it_needs "
    "services/test_request_deputies::test_outside_its_time_it_has_no_effect",
    "F23": "ledger/test_entries::test_one_changed_value_is_found_and_named "
    "services/test_books_hold::test_a_changed_entry_is_found_and_named "
    "services/test_sealed_closes::test_the_first_total_that_differs_is_named",
    "F24": "ledger/test_segments::test_preempted_in_the_round_it_was_planned_in_holds_nothing "
    "services/test_refunds::test_preempted_in_the_second_it_was_planned_in_costs_nothing",
    "F25": "services/test_refunds::test_a_retry_of_one_task_of_an_array_charges_only_that_task",
    "F26": "ledger/test_rating::test_what_has_no_price_is_a_finding_and_no_line "
    "services/test_books::test_without_a_price_a_month_stays_open "
    "services/test_books::test_a_gap_in_the_segments_keeps_a_month_open",
    "F27": "reports/test_export_memory::test_more_rows_take_no_more_memory "
    "reports/test_focus_full_length::test_a_million_rows_take_a_minute_and_little_memory "
    "reports/test_kept_files::test_a_download_that_broke_off_goes_on",
    "F28": "ledger/test_shares::test_a_currency_has_its_own_smallest_coin",
}

# What people were promised, by part.
PROMISED: dict[str, str] = {
    "roles: one policy for pages, API, sockets; every route has a row": "rights/test_matrix::"
    "test_every_route_has_a_row_and_every_row_a_route rights/test_matrix::test_who_gets_which_page "
    "rights/test_matrix::test_who_gets_what_from_the_api accounts/test_roles::"
    "test_what_the_roles_are_kept_from",
    "roles: sub-teams, delegation with dates, service accounts": "accounts/test_subteams::"
    "test_a_lead_leads_the_teams_below_and_no_other accounts/test_delegations::"
    "test_outside_its_time_it_has_no_effect accounts/test_service_accounts::"
    "test_it_works_for_its_own_team_alone",
    "quota: the database refuses, lowering affects new starts": "services/test_sharing::"
    "test_a_maximum_is_kept_and_comes_back_with_the_devices services/test_sharing::"
    "test_lowering_a_limit_stops_nobody_and_lets_nobody_start services/test_capacity::"
    "test_nothing_that_is_let_through_oversells_at_any_moment",
    "quota: own, borrowed and lent as one bar with names": "pages/test_team_quota::"
    "test_own_borrowed_and_lent_add_up pages/test_team_quota::test_the_page_names_everything",
    "quote: start, run time, cost, what is left": "services/test_quotes::"
    "test_what_is_left_of_quotas_and_budgets_after_it services/test_quotes::"
    "test_run_times_are_learnt_from_runs_like_it",
    "commitment: worst case, trued up, refunded": "services/test_sharing::"
    "test_a_budget_commits_the_worst_case_and_is_trued_up_once services/test_budgets::"
    "test_a_start_commits_its_price_and_its_end_spends_what_was_charged services/test_budgets::"
    "test_a_refunded_attempt_spends_nothing",
    "rates: six decimals, to the last file; books of before stay": "services/test_six_decimals::"
    "test_ledger_focus_and_files_have_all_digits services/test_six_decimals::"
    "test_rest_and_form_take_six_decimals_and_pages_show_them accounts/test_finer_steps::"
    "test_amounts_hashes_seals_and_triggers_are_what_they_were",
    "budgets: actual is the ledger's, limits are trued up to it": "services/test_true_ups::"
    "test_a_price_that_was_restated_moves_what_is_spent_once services/test_true_ups::"
    "test_what_ends_while_a_run_counts_is_counted_once reports/test_golden_month::"
    "test_budgets_come_to_what_the_ledger_says services/test_true_ups::"
    "test_without_a_price_it_is_said_and_counts_as_soon_as_there_is_one",
    "requests: routing, less, denial, question, versions": "services/test_request_routing::"
    "test_every_row_of_the_table services/test_requests::test_less_and_shorter_is_approved_in_part "
    "services/test_requests::test_a_question_stops_the_clock_and_an_answer_goes_back_to_who_asked "
    "services/test_requests::test_a_revision_voids_what_was_agreed",
    "requests: nobody on their own, once, reminded, expired": "services/test_requests::"
    "test_nobody_decides_on_their_own_and_a_leads_own_goes_up services/test_requests::"
    "test_a_second_decision_is_shown_the_winner services/test_request_time::"
    "test_half_way_a_reminder_once_and_at_the_end_it_goes_up services/test_request_time::"
    "test_what_nobody_touches_for_thirty_days_expires",
    "what-if: waits of all teams, stored with the decision": "services/test_request_whatif::"
    "test_a_higher_maximum_would_have_shortened_the_queue services/test_request_whatif::"
    "test_the_decision_keeps_what_was_seen pages/test_request_simulation::"
    "test_the_waits_of_each_team_are_in_the_table",
    "measurement: one stream for each device": "services/test_segments::"
    "test_a_job_from_assignment_to_its_end services/test_segments::"
    "test_a_node_falls_silent_is_lost_and_comes_back selectors/test_reports::"
    "test_capacity_is_the_identity_day_by_day",
    "rates: validity, a second person, purchases written off": "accounts/test_rates::"
    "test_nobody_approves_their_own ledger/test_costs::test_three_years_by_hand "
    "accounts/test_rate_ends::test_the_next_rate_ends_the_last_and_is_ended_by_one_to_come "
    "accounts/test_rate_ends::test_an_end_needs_a_second_person_and_is_proposed_once "
    "accounts/test_rate_ends::test_a_card_ends_whole_and_says_who_pays_by_what "
    "accounts/test_rate_ends::test_of_two_who_decide_the_second_is_told_who_was_faster "
    "selectors/test_team_prices::test_a_lead_sees_the_teams_prices_and_nobody_elses "
    "accounts/test_rate_cards::test_the_nearest_card_up_the_tree_goes_first_then_the_list "
    "accounts/test_rate_cards::test_a_draft_may_have_gaps_and_a_proposal_may_not "
    "services/test_spending::test_an_asset_is_written_off_month_by_month_on_nobodys_statement",
    "ledger: open, soft-closed, closed, reopened by two": "services/test_books::"
    "test_a_month_is_reopened_by_two_and_closed_as_its_second_version services/test_books::"
    "test_a_soft_closed_month_takes_none services/test_books::"
    "test_idle_time_is_shared_where_the_pool_says_so",
    "reports: twelve with self-checks, down to the seconds": "pages/test_finance::"
    "test_figures_lead_to_their_seconds pages/test_finance::"
    "test_pages_keep_to_their_statements_however_many_months pages/test_money_budgets::"
    "test_a_year_of_history_makes_no_page_of_money_longer_than_it_may_be",
    "reports: files, mailed on days, a statement on paper": "reports/test_mailing::"
    "test_a_months_report_waits_for_the_close_and_goes_once reports/test_report_files::"
    "test_a_manifest_tells_what_the_file_is reports/test_golden_month::"
    "test_the_statement_on_paper reports/test_report_files::"
    "test_a_workbook_is_typed_and_its_header_stays",
    "showback and chargeback: one flag of a whole month": "services/test_spending::"
    "test_a_month_informs_or_charges_as_a_whole",
    "FOCUS: every rule has its bad file": "ledger/focus/test_rules::"
    "test_every_rule_has_its_bad_file ledger/focus/test_rules::"
    "test_versions_differ_by_their_columns_only",
    "audit: every change records, the chain names the break": "architecture/test_audited::"
    "test_a_service_with_an_actor_records accounts/test_sealing::test_one_changed_value_is_named "
    "accounts/test_sealing::test_the_commands_seal_and_verify pages/test_audit::"
    "test_every_wish_narrows",
    "demonstration data: comes, holds, goes without a trace": "services/test_demo::"
    "test_it_comes_answers_holds_and_goes_without_a_trace",
    "the golden month: page, API, CSV, XLSX": "ledger/test_golden_month::test_the_statements "
    "reports/test_golden_month::test_statements_line_by_line",
    "two thousand submits at once": "outages/test_quota_race::"
    "test_no_limit_gives_way_to_two_thousand_submits_and_as_many_turns",
    "seen: asked, simulated, approved on a phone, in force": "browser/test_requests::"
    "test_ask_simulate_approve_and_a_waiting_job_starts",
    "seen: a month closed, corrected, exported": "browser/test_closing::"
    "test_a_month_is_closed_corrected_and_its_statement_exported",
}
