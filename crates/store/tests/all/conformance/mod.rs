//! What every store must do, written against the contract alone.
//!
//! The test file of a store defines how a store is opened ([`support::StoreLocation`]) and runs everything with [`conformance!`]:
//!
//! ```ignore
//! use crate::conformance;
//! fn new_location() -> StoreLocation { ... }
//! conformance!(crate::sqlite::new_location);
//! ```
//! Each specification is a function that gets a location of its own. A specification that is missing in the list below is an unused function, which
//! the compiler reports.

pub mod calls;
pub mod change_feed;
pub mod changes;
pub mod definition;
pub mod erasure;
pub mod former;
pub mod history;
pub mod journal;
pub mod premises;
pub mod query;
pub mod queue;
pub mod records;
pub mod settling;
pub mod support;
pub mod tags;
pub mod tenants;
pub mod unique;
pub mod words;

/// Makes a test of every specification, each with a new location, whose own checks run afterwards.
#[macro_export]
macro_rules! conformance {
    ($new_location:path) => {
        $crate::conformance! { @modules $new_location;
            calls: [
                a_repeated_call_is_executed_once_and_gets_the_first_response,
                a_call_id_with_another_request_is_reported_as_different,
                a_call_without_a_kept_response_may_be_repeated,
                equal_calls_of_two_tenants_are_two_calls,
                of_simultaneous_equal_calls_only_one_is_executed,
                a_unit_that_waits_for_a_locked_record_does_not_delay_others,
                the_change_log_lists_transitions_newest_first,
                a_unit_that_fails_logs_nothing,
                tokens_are_listed_until_they_are_revoked,
                tokens_are_changed_rotated_and_say_when_they_were_used,
                a_change_and_its_audit_entry_are_written_together,
                versions_are_those_of_the_records_that_are_read,
                commit_numbers_grow_with_every_commit_and_local_observers_are_notified,
            ],
            change_feed: [
                what_readers_see_of_records_is_noted_in_the_order_of_commits,
                changes_name_the_contributions_that_they_follow_from,
                who_follows_while_others_write_misses_nothing_and_reads_nothing_twice,
                changes_are_kept_as_long_as_their_collection_says,
                keeping_changes_begins_and_ends_with_the_definition,
                many_changes_of_one_unit_are_read_in_pages,
            ],
            changes: [
                records_are_read_in_the_order_in_which_they_changed,
                every_change_is_read_once_by_who_continues_from_the_time_of_the_last_reading,
                an_index_of_changes_is_added_to_a_store_with_records_and_dropped_again,
            ],
            erasure: [
                erased_records_are_not_written_until_that_is_lifted,
            ],
            records: [
                reading_gives_records_in_the_order_of_the_keys_and_nothing_for_missing_ones,
                a_key_requested_twice_is_returned_twice,
                ten_thousand_keys_are_read_in_one_call,
                a_record_is_read_as_it_was_written,
                a_head_contains_only_what_decides_on_a_write,
                values_of_all_types_are_read_as_they_were_written,
                values_of_all_types_are_read_from_state_that_was_set,
                a_put_replaces_everything_a_record_had,
                a_touch_changes_contributions_and_leaves_content_and_revision,
                a_deleted_record_is_neither_read_nor_found,
                a_record_that_does_not_exist_for_readers_is_read_by_key_but_not_found,
                every_write_based_on_an_old_version_is_resolved_with_the_complete_record,
                a_version_without_a_row_hint_is_as_good_as_one_that_was_read,
                conflicts_are_reported_together_ordered_by_collection_and_key,
                queries_are_answered_while_a_unit_is_being_written,
                writes_that_resolve_returns_are_written,
                when_resolve_returns_nothing_the_record_stays_as_it_is,
                a_write_that_resolve_returns_for_another_version_fails_the_unit,
                a_revision_is_the_commit_time_of_the_receipt_and_only_grows,
                a_revision_grows_across_deletion_and_reopening,
                the_clock_never_returns_a_time_twice,
                a_receipt_counts_the_rows_that_were_written,
                stats_count_committed_transactions_and_rows,
                an_error_in_resolve_rolls_the_unit_back,
                a_failed_unit_does_not_affect_units_submitted_with_it,
                a_failed_unit_among_interactive_work_is_rolled_back_alone,
                units_that_share_a_transaction_see_each_other,
                a_unit_that_fails_only_when_it_is_repeated_fails_alone,
                a_unit_that_panics_fails_alone,
                interactive_and_bulk_units_are_all_written,
                an_interactive_unit_overtakes_bulk_work,
                records_are_stored_after_reopening,
            ],
            premises: [
                a_unit_whose_searches_find_the_same_is_written,
                a_unit_whose_searches_find_something_else_writes_nothing,
                a_unit_whose_records_have_changed_or_gone_writes_nothing,
                settling_that_changes_no_content_leaves_premises_true,
                a_unit_of_all_or_nothing_writes_nothing_if_a_value_is_taken,
                of_simultaneous_units_that_found_nothing_one_is_written,
                an_outdated_unit_does_not_affect_others,
            ],
            unique: [
                the_second_record_with_a_value_is_refused_with_the_holders_key,
                a_refused_record_keeps_its_values_and_its_unit_is_written,
                a_value_is_freed_when_its_record_changes_is_deleted_or_exists_no_more,
                many_records_may_have_no_value,
                a_record_may_keep_its_own_value,
                values_that_fold_to_the_same_text_are_equal,
                each_type_of_value_can_be_unique,
                a_record_refused_after_a_conflict_is_refused_as_well,
                a_record_that_is_merged_again_keeps_its_turn_in_the_order_of_keys,
                a_stale_write_takes_and_frees_no_value,
                a_stale_write_of_a_taken_value_is_a_conflict_first,
                a_failed_unit_leaves_no_reservation,
                reservations_outlive_the_process,
            ],
            tags: [
                a_renamed_tag_is_carried_by_the_same_records,
                a_rename_that_is_not_possible_changes_nothing,
            ],
            tenants: [
                records_of_another_tenant_are_not_read_found_counted_or_aggregated,
                writing_the_same_key_in_another_tenant_is_no_conflict,
                a_unique_value_may_also_belong_to_a_record_of_another_tenant,
                indexed_lists_and_text_searches_stay_inside_a_tenant,
                edges_and_marks_of_another_tenant_are_not_read_or_cleared,
                jobs_are_listed_for_their_tenant,
                a_tenant_without_writes_is_empty,
                names_of_tenants_are_checked,
            ],
            query: [
                every_condition_on_every_column_finds_what_a_naive_reader_finds,
                random_plans_give_what_a_naive_reader_gives,
                random_groups_are_those_of_a_naive_reader,
                groups_of_members_of_structs_are_those_of_a_naive_reader,
                periods_begin_on_days_of_the_calendar_in_every_year,
                more_groups_than_may_be_returned_are_refused_unless_a_page_is_asked_for,
                unique_rows_are_grouped_by_columns_they_have,
                sums_of_groups_are_exact_and_refused_where_they_do_not_fit,
                percentiles_lie_between_values_in_proportion,
                members_of_structs_and_rows_of_them_are_those_of_a_naive_reader,
                unique_rows_that_differ_in_one_column_of_ranges_are_one,
                text_is_ordered_by_its_bytes,
                folded_fields_are_compared_and_sorted_folded_and_shown_as_they_are,
                a_wildcard_on_a_folded_field_is_folded_like_the_field,
                wildcard_characters_of_other_languages_are_plain_text,
                a_prefix_may_end_in_any_character,
                a_prefix_with_a_blank_at_its_end_means_the_next_word,
                a_record_without_a_value_satisfies_only_negations,
                a_list_satisfies_a_condition_when_an_element_does,
                an_empty_list_is_a_value_without_elements,
                elements_of_a_folded_list_are_compared_folded,
                a_condition_on_key_revision_or_conflict_finds_its_records,
                a_condition_on_a_state_field_finds_its_records,
                a_condition_on_no_values_finds_nothing,
                a_condition_may_list_thousands_of_values,
                several_sort_columns_decide_in_turn_and_the_key_last,
                rows_may_have_no_columns,
                pages_together_are_the_complete_result,
                a_page_after_the_end_is_empty,
                long_texts_with_equal_beginnings_are_distinguished,
                pages_of_a_condition_of_very_many_records_are_in_the_order_of_keys,
                distinct_rows_are_counted_and_paged_as_rows,
                every_aggregate_of_numbers_is_exact,
                aggregates_of_text_times_and_uuids_keep_their_type,
                aggregates_of_lists_count_elements,
                aggregates_of_lists_obey_conditions_on_key_and_lists,
                keys_of_all_sorts_are_found_in_their_order,
                aggregates_of_nothing_are_null_and_zero,
                aggregates_look_at_all_rows_whatever_the_page,
                a_sum_that_does_not_fit_is_an_error_in_words,
                floats_in_lists_are_exact,
                an_indexed_condition_does_not_scan,
                indexes_follow_every_change_of_a_record,
                visiting_sees_one_snapshot_and_stops_at_an_error,
                a_page_and_the_number_of_rows_are_of_one_snapshot,
                a_cancelled_query_is_given_up_and_others_are_answered,
                a_plan_of_another_catalogue_is_refused,
            ],
            words: [
                words_are_found_and_ranked_as_by_a_naive_reader,
                words_are_combined_with_other_conditions,
                words_follow_every_change_of_a_record,
                an_index_of_words_is_added_to_records_dropped_and_added_again,
                different_values_are_counted_once,
                a_search_for_words_does_not_scan,
            ],
            settling: [
                edges_are_ordered_by_group_start_and_child,
                an_edge_put_twice_has_its_last_payload,
                a_deleted_edge_is_not_read_and_deleting_it_again_has_no_effect,
                edges_of_other_links_and_targets_are_not_seen,
                marks_are_listed_by_order_and_then_oldest_first,
                a_pass_takes_marks_of_the_lowest_order_until_none_remains,
                a_pass_that_fails_leaves_its_marks,
                a_pass_reads_edges_by_group_by_range_and_by_page,
                children_of_a_link_that_is_only_read_are_found_by_their_field,
                children_of_a_link_of_a_list_are_found_by_each_element,
                a_link_becomes_a_list_of_keys_and_one_key_again,
                a_condition_finds_records_whose_linked_record_exists,
                a_condition_finds_records_whose_linked_records_all_exist,
                links_that_become_only_read_find_existing_children,
                children_from_before_a_record_are_distinguished_from_those_written_with_it,
                a_unit_is_notified_which_edge_ranges_of_its_read_set_have_changed,
                a_pass_waits_for_units_whose_read_set_has_changed,
                a_cleared_link_loses_its_edges_of_one_tenant,
                keys_are_listed_in_order_with_those_of_deleted_records,
                cleared_marks_are_deleted_and_their_ids_are_never_reused,
                marks_appended_while_others_are_cleared_stay,
                settling_changes_of_a_failed_unit_are_not_written,
            ],
            queue: [
                chunks_are_leased_in_order,
                a_leased_chunk_is_not_leased_again,
                leasing_takes_from_the_oldest_job_unless_one_is_named,
                a_lease_carries_the_slice_as_it_was_added,
                an_expired_lease_is_taken_over_and_its_token_is_fenced,
                a_fenced_unit_writes_nothing,
                a_fenced_unit_does_not_affect_units_submitted_with_it,
                units_that_are_submitted_again_after_a_rollback_are_written_once,
                a_renewed_lease_is_not_taken_over,
                only_valid_leases_are_renewed,
                leases_and_delays_last_as_long_as_requested,
                a_released_chunk_waits_for_its_delay_and_keeps_the_reason,
                releasing_a_lease_that_was_lost_changes_nothing,
                a_chunk_that_failed_often_enough_is_dead_and_its_job_failed,
                dead_chunks_are_retried_together_or_one_by_one,
                taking_over_a_job_frees_its_chunks_and_fences_their_holders,
                lease_tokens_of_one_chunk_are_never_equal,
                adding_chunks_twice_adds_them_once,
                two_processes_that_split_the_same_files_add_every_chunk_once,
                chunks_are_added_only_to_jobs_that_have_not_ended,
                a_chunk_is_replaced_by_its_parts_which_get_new_ordinals,
                a_chunk_replaced_by_nothing_lets_its_job_end,
                a_leased_or_finished_chunk_is_not_replaced,
                a_dumped_chunk_that_is_loaded_replaces_the_queued_one,
                a_chunk_that_is_leased_or_done_or_of_a_cancelled_job_is_not_loaded,
                a_job_is_queued_then_running_then_completed,
                a_job_without_workers_is_interrupted_until_a_chunk_is_leased,
                a_job_without_chunks_is_completed_when_its_files_are_split,
                a_job_with_failed_documents_is_completed_with_errors,
                a_job_runs_until_all_its_files_are_split,
                a_cancelled_job_has_no_chunks_and_fences_its_workers,
                a_failed_job_has_no_waiting_chunks_and_keeps_the_reason,
                a_job_that_has_ended_can_be_forgotten,
                ending_a_job_that_has_ended_changes_nothing,
                an_unknown_job_is_named_in_the_error,
                jobs_are_listed_newest_first,
                a_job_keeps_its_attributes_after_reopening,
                two_open_instances_of_one_store_never_lease_the_same_chunk,
                tenants_get_chunks_by_weight_in_turn,
                small_jobs_of_one_tenant_come_first_and_equal_ones_in_order,
                a_tenant_at_its_limit_gets_no_more_leases,
                an_idle_tenant_gets_only_a_small_credit,
                chunks_returned_unstarted_wait_as_if_they_had_not_been_leased,
                a_store_is_idle_when_no_chunk_waits_or_is_leased,
                waiting_for_chunks_ends_when_chunks_are_added,
                a_chunk_whose_workers_never_report_becomes_dead,
            ],
            journal: [
                the_journal_lists_documents_in_the_order_of_the_files,
                the_bytes_of_a_failed_document_are_kept,
                counts_of_chunks_add_up_with_corrections,
                a_correction_changes_the_entry_of_another_chunk_whichever_was_first,
                pages_of_any_size_together_are_the_complete_journal,
                a_journal_of_issues_lists_only_entries_with_failures_or_warnings,
                pages_of_issues_of_any_size_together_are_all_issues,
                a_chunk_without_documents_is_journalled,
                a_failed_unit_leaves_no_journal,
                the_journal_of_another_job_is_not_shown,
                packed_outcomes_are_unpacked_unchanged,
            ],
            definition: [
                a_new_store_and_an_unchanged_definition_report_nothing,
                additions_are_applied_and_reported,
                existing_records_have_no_value_in_an_added_field,
                structs_get_members_and_indexes_later,
                an_index_added_later_finds_existing_records,
                an_index_that_is_dropped_and_added_again_finds_all_records,
                a_folded_list_may_be_added_to_a_collection_with_records,
                a_field_that_is_no_longer_unique_takes_any_value,
                a_changed_mapping_has_a_new_generation_and_is_no_change_of_the_store_schema,
                every_change_that_would_make_stored_values_wrong_is_refused_with_its_reason,
                other_rules_for_values_are_applied_to_records_afterwards,
                all_reasons_are_given_at_once,
                a_refused_definition_leaves_the_store_unchanged,
                writes_of_a_process_with_the_old_definition_are_refused,
                failing_queries_of_a_process_with_the_old_definition_report_the_new_one,
                a_new_store_may_be_opened_by_several_threads_at_once,
                state_of_every_kind_can_be_queried,
            ],
            former: [
                former_contributions_are_read_by_key_as_they_were_added,
                a_former_contribution_is_added_once_and_removed_alone_or_with_all_of_its_contributor,
                former_contributions_of_other_tenants_and_collections_are_not_seen,
                a_failed_unit_changes_no_former_contributions,
                a_conflict_has_the_former_contributions_that_were_written_meanwhile,
                jobs_can_be_undone_from_the_definition_on_that_says_so,
                a_job_that_is_undone_has_no_chunks_and_is_not_retried,
                jobs_that_are_too_old_cannot_be_undone_unless_one_is_being_undone,
                other_jobs_are_those_that_had_not_ended_before,
            ],
            history: [
                two_interleaved_writers_end_where_a_naive_model_ends,
            ],
        }
    };
    (@modules $new_location:path; $($module:ident: [$($name:ident),* $(,)?],)*) => {
        $(
            mod $module {
                $(
                    #[test]
                    fn $name() {
                        let Some(location) = Option::from($new_location()) else { return };
                        let location: $crate::conformance::support::StoreLocation = location;
                        $crate::conformance::$module::$name(&location);
                        location.check();
                    }
                )*
            }
        )*
    };
}
