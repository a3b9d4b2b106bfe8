//! One exam for all stores: every case runs over each of them. A new store adds one line at the end.

mod cases;
mod lists;
mod log_tails;
mod model;
mod objects;
mod outbox;
mod refusals;

/// One module per store, with every case as a test of its own.
macro_rules! exam {
    ($($module:ident: $store:ty),+ $(,)?) => {
        $(mod $module {
            use super::{cases, lists, log_tails, model, objects, outbox, refusals};
            use crate::lived_through;

            exam!(@tests $store;
                cases: a_new_store_is_empty, workflows_come_back_with_the_ends_of_their_members, rows_come_back_as_they_were, rows_change, rows_go,
                    every_takeover_raises_the_epoch, final_jobs_leave_the_load_and_stay_readable,
                    a_requeued_job_is_loaded_again, prior_finds_ids_and_held_keys,
                    a_key_freed_in_a_turn_is_taken_in_it, a_lease_freed_in_a_turn_is_taken_in_it,
                    a_deleted_job_takes_its_bytes_and_attempts_along, payloads_travel_beside,
                    the_newest_result_is_read, results_of_one_turn_keep_their_bytes, an_outcome_that_came_late_replaces_a_loss,
                    deleting_a_result_twice_is_no_error, a_state_is_no_result, an_empty_turn_commits,
                    what_executions_left_is_kept_for_the_next;
                log_tails: ends_of_logs_are_kept_by_execution_and_go_with_their_job;
                lists: pages_stay_stable_while_jobs_come_and_go, filters_are_anded, dead_jobs_are_counted_by_kind,
                    final_jobs_are_due_by_kind, results_are_due_the_oldest_first,
                    what_a_live_parent_may_read_is_not_due, attempts_come_in_pages;
                refusals: a_deposed_writer_writes_nothing, a_fresh_journal_wants_a_takeover,
                    after_an_error_only_a_takeover_helps, an_update_needs_the_token_of_its_row,
                    deleting_what_is_not_there_is_a_mismatch, the_last_instant_of_a_cron_entry_never_falls, a_missing_payload_is_refused,
                    every_second_wall_has_a_name, a_refused_turn_leaves_no_trace;
                outbox: webhooks_and_deliveries_come_back_as_they_were, tries_change_a_delivery_and_never_what_it_tells,
                    a_webhook_goes_after_its_deliveries_and_comes_again_in_one_turn,
                    a_delivery_has_a_webhook_a_body_and_a_row;
                objects: what_is_wanted_is_what_a_row_names_or_may_come_to_name, objects_go_with_their_rows;
                model: random_turns_equal_the_model;
                lived_through: loading_equals_having_lived_through_it, what_comes_and_goes_in_one_turn_leaves_nothing;
            );
        })+
    };
    (@tests $store:ty; $($area:ident: $($case:ident),+;)+) => {
        $($(
            #[tokio::test]
            async fn $case() {
                $area::$case::<$store>().await;
            }
        )+)+
    };
}

exam! {
    memory: crate::stores::MemoryStore,
    sqlite: crate::stores::SqliteStore,
    postgres: crate::stores::PostgresStore,
}
