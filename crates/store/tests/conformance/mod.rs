//! What every store must do, written against the contract alone.
//!
//! The test file of a store defines how a store is opened ([`support::Place`]) and runs everything with [`conformance!`]:
//!
//! ```ignore
//! mod conformance;
//! fn new_place() -> Place { ... }
//! conformance!(new_place);
//! ```
//! Each specification is a function that gets a place of its own. A specification that is missing in the list below is an unused function, which the
//! compiler reports.

pub mod calls;
pub mod definition;
pub mod history;
pub mod journal;
pub mod query;
pub mod queue;
pub mod records;
pub mod settling;
pub mod support;
pub mod tenants;
pub mod unique;

/// Makes a test of every specification, each with a new place, whose own checks run afterwards.
#[macro_export]
macro_rules! conformance {
    ($new_place:ident) => {
        conformance! { @modules $new_place
            calls: [
                a_call_is_done_once_and_answered_as_before,
                a_call_with_another_request_is_told_so,
                a_call_without_an_answer_may_be_tried_again,
                calls_of_two_tenants_are_two_calls,
                of_equal_calls_at_once_one_is_done,
                whoever_waits_for_a_held_record_keeps_nobody_else_waiting,
                what_transitions_did_is_listed_newest_first,
                a_unit_that_fails_logs_nothing,
                tokens_are_listed_until_they_are_revoked,
                versions_are_those_that_reading_gives,
                where_there_is_a_stand_it_grows_with_every_commit_and_near_watchers_hear_of_it,
            ],
            records: [
                reading_gives_records_in_the_order_of_the_keys_and_nothing_for_missing_ones,
                a_key_asked_for_twice_is_answered_twice,
                reading_ten_thousand_keys_is_one_call,
                a_record_comes_back_as_it_was_written,
                a_head_has_what_decides_on_a_write_and_nothing_else,
                values_of_all_types_come_back_as_they_were,
                values_of_all_types_come_back_from_state_that_was_set,
                a_put_replaces_everything_a_record_had,
                a_touch_changes_contributions_and_leaves_content_and_revision,
                a_deleted_record_is_gone_for_readers,
                a_dead_record_is_read_by_key_but_not_found,
                every_change_of_another_version_reaches_resolve_with_the_whole_record,
                a_version_that_came_from_elsewhere_is_as_good_as_one_that_was_read,
                conflicts_come_together_ordered_by_collection_and_key,
                questions_are_answered_while_a_unit_is_being_written,
                what_resolve_returns_is_written,
                when_resolve_returns_nothing_the_record_stays_as_it_is,
                what_resolve_returns_for_another_version_fails_the_unit,
                a_revision_is_the_receipts_stamp_and_only_grows,
                a_revision_grows_over_deletion_and_over_reopening,
                the_clock_is_never_the_same_twice,
                a_receipt_counts_the_rows_that_were_written,
                a_store_says_what_it_has_committed,
                an_error_in_resolve_takes_everything_back,
                a_unit_that_fails_leaves_its_neighbours_alone,
                a_unit_that_fails_beside_other_interactive_work_takes_only_itself_back,
                units_that_share_a_transaction_see_each_other,
                a_unit_that_fails_only_when_it_is_done_again_fails_alone,
                a_unit_that_panics_fails_alone,
                interactive_and_bulk_units_are_all_written,
                somebody_who_waits_overtakes_bulk_work,
                records_are_there_after_reopening,
            ],
            unique: [
                the_second_record_with_a_value_is_refused_with_the_holders_key,
                a_refused_record_keeps_what_it_had_and_its_unit_goes_on,
                a_value_is_freed_by_an_update_a_deletion_and_a_death,
                many_records_may_have_no_value,
                a_record_may_keep_its_own_value,
                values_that_fold_to_the_same_are_the_same,
                each_type_of_value_can_be_unique,
                a_record_refused_after_a_conflict_is_refused_as_well,
                a_record_that_is_merged_again_still_comes_in_the_order_of_keys,
                a_stale_write_takes_and_frees_no_value,
                a_stale_write_of_a_taken_value_is_a_conflict_first,
                a_failed_unit_leaves_no_reservation,
                reservations_outlive_the_process,
            ],
            tenants: [
                records_of_another_tenant_are_not_read_found_counted_or_aggregated,
                writing_the_same_key_in_another_tenant_is_no_conflict,
                the_same_unique_value_in_another_tenant_is_fine,
                indexed_lists_and_text_searches_stay_inside_a_tenant,
                edges_and_marks_of_another_tenant_are_not_seen_or_answered,
                jobs_are_listed_for_their_tenant,
                a_tenant_nobody_has_written_for_is_empty,
                names_of_tenants_are_checked,
            ],
            query: [
                every_condition_on_every_column_finds_what_a_naive_reader_finds,
                random_plans_give_what_a_naive_reader_gives,
                members_of_structs_and_rows_of_them_are_those_of_a_naive_reader,
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
                none_of_no_values_is_found,
                thousands_of_values_may_be_asked_for_at_once,
                several_sort_columns_decide_in_turn_and_the_key_last,
                rows_may_have_no_columns,
                pages_put_together_are_the_whole,
                a_page_behind_the_end_is_empty,
                long_texts_that_begin_alike_are_told_apart,
                pages_of_what_very_many_records_satisfy_are_in_the_order_of_keys,
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
                indexes_follow_updates_deaths_and_deletions,
                visiting_sees_one_snapshot_and_stops_when_told,
                a_page_and_the_number_of_rows_are_of_one_snapshot,
                what_nobody_waits_for_is_given_up_and_others_are_answered,
                a_plan_of_another_catalogue_is_refused,
            ],
            settling: [
                edges_are_ordered_by_group_start_and_child,
                an_edge_put_twice_has_its_last_payload,
                a_deleted_edge_is_gone_and_deleting_it_again_is_nothing,
                edges_of_other_links_and_targets_are_not_seen,
                marks_are_listed_by_stratum_and_then_oldest_first,
                a_pass_takes_marks_of_the_lowest_stratum_until_none_is_left,
                a_pass_that_fails_leaves_its_marks,
                a_pass_reads_edges_by_group_by_range_and_by_page,
                children_of_a_link_that_is_only_read_are_found_by_their_field,
                children_of_a_link_of_a_list_are_found_by_each_element,
                a_link_becomes_a_list_of_keys_and_one_key_again,
                whether_a_linked_record_is_there_is_asked,
                whether_all_linked_records_are_there_is_asked,
                links_that_are_only_read_from_now_on_find_the_children_that_are_there,
                who_names_a_record_before_it_is_there_is_told_from_who_comes_with_it,
                a_unit_hears_which_ranges_of_edges_have_changed_that_it_relies_on,
                a_pass_waits_for_units_that_rely_on_what_has_changed,
                a_forgotten_link_loses_its_edges_of_one_tenant,
                keys_come_in_order_with_those_of_deleted_records,
                answered_marks_are_gone_and_their_numbers_never_come_back,
                marks_appended_while_others_are_answered_stay,
                settling_belongs_to_the_unit_that_says_it,
            ],
            queue: [
                chunks_are_leased_in_order,
                a_leased_chunk_is_leased_by_nobody_else,
                leasing_takes_from_the_oldest_job_unless_one_is_named,
                a_lease_carries_the_slice_as_it_was_added,
                a_lease_that_has_run_out_is_taken_over_and_the_old_token_is_fenced,
                a_fenced_unit_writes_nothing,
                a_fenced_unit_does_not_disturb_those_beside_it,
                units_that_are_given_back_are_written_once,
                a_renewed_lease_is_not_taken_over,
                only_leases_still_held_are_renewed,
                a_lease_and_a_delay_last_as_long_as_was_said,
                a_released_chunk_waits_for_its_delay_and_remembers_why,
                releasing_a_lease_that_was_lost_changes_nothing,
                a_chunk_that_failed_often_enough_is_dead_and_its_job_failed,
                dead_chunks_are_retried_together_or_one_by_one,
                taking_over_a_job_frees_its_chunks_and_fences_their_holders,
                tokens_of_one_chunk_are_never_the_same,
                adding_chunks_twice_adds_them_once,
                two_who_cut_the_same_files_add_every_chunk_once,
                chunks_are_added_to_a_living_job_only,
                a_chunk_is_replaced_by_its_parts_which_get_numbers_of_their_own,
                a_chunk_replaced_by_nothing_lets_its_job_end,
                a_leased_or_finished_chunk_is_not_replaced,
                a_dumped_chunk_is_put_back_in_its_place,
                a_chunk_is_not_put_back_where_it_makes_no_sense,
                a_job_is_queued_then_running_then_completed,
                a_job_that_nobody_works_on_any_more_is_interrupted_until_somebody_does,
                a_job_without_chunks_is_completed_when_its_files_are_cut,
                a_job_with_failed_documents_is_completed_with_errors,
                a_job_waits_for_the_rest_of_its_files,
                a_cancelled_job_has_no_chunks_and_fences_its_workers,
                a_failed_job_has_no_waiting_chunks_and_says_why,
                a_job_that_has_ended_can_be_forgotten,
                ending_a_job_that_has_ended_changes_nothing,
                a_job_that_is_not_there_is_named_in_the_error,
                jobs_are_listed_newest_first,
                a_job_remembers_what_it_was_created_with_after_reopening,
                two_openings_of_one_store_never_lease_the_same_chunk,
                tenants_get_chunks_by_weight_in_turn,
                of_one_tenant_small_jobs_come_first_and_equal_ones_in_order,
                a_tenant_at_its_limit_waits_whoever_asks,
                a_silent_tenant_is_not_owed_for_its_silence,
                chunks_given_back_wait_as_if_nobody_had_had_them,
                a_store_is_idle_when_no_chunk_waits_or_is_leased,
                who_waits_for_chunks_is_told,
                a_chunk_whose_workers_never_answer_is_dead_in_the_end,
            ],
            journal: [
                the_journal_lists_documents_in_the_order_of_the_files,
                a_document_that_failed_is_there_as_it_was_read,
                counts_of_chunks_add_up_with_corrections,
                a_correction_changes_the_entry_of_another_chunk_whichever_was_first,
                pages_of_any_size_put_together_are_the_whole_journal,
                troubles_are_the_entries_of_the_journal_that_have_reasons,
                pages_of_troubles_of_any_size_put_together_are_all_troubles,
                a_chunk_without_documents_is_journalled,
                a_failed_unit_leaves_no_journal,
                the_journal_of_another_job_is_not_shown,
                packed_lines_come_back_as_they_were,
            ],
            definition: [
                a_new_store_and_an_unchanged_definition_report_nothing,
                additions_are_applied_and_reported,
                records_from_before_an_addition_have_no_value_there,
                structs_get_members_and_indexes_later,
                an_index_added_later_answers_for_old_records,
                an_index_taken_away_and_given_back_answers_again,
                a_folded_list_may_be_added_to_a_collection_with_records,
                a_field_that_is_no_longer_unique_takes_any_value,
                a_changed_map_has_a_number_of_its_own_and_is_no_change_of_shape,
                every_change_that_would_make_stored_values_wrong_is_refused_with_its_reason,
                all_reasons_are_given_at_once,
                a_refused_definition_leaves_the_store_to_the_old_one,
                a_process_with_the_old_definition_is_told_when_it_writes,
                a_process_with_the_old_definition_is_told_when_its_questions_fail,
                a_new_store_may_be_opened_by_several_at_once,
                indexed_state_of_every_kind_can_be_asked_for,
            ],
            history: [
                two_interleaved_writers_end_where_a_naive_model_ends,
            ],
        }
    };
    (@modules $new_place:ident $($module:ident: [$($name:ident),* $(,)?],)*) => {
        $(
            mod $module {
                $(
                    #[test]
                    fn $name() {
                        let Some(place) = Option::from($crate::$new_place()) else { return };
                        let place: $crate::conformance::support::Place = place;
                        $crate::conformance::$module::$name(&place);
                        place.check();
                    }
                )*
            }
        )*
    };
}
