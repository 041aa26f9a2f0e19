//! The library against a real server: one binary, a module a concern.
//!
//! Failures of other libraries, each with the test that rules it out here: `README.md` beside this file.
//!
//! # Found bugs
//!
//! Bugs of this crate that the tests and the model have found, with the test that finds each again (`cargo test NAME`).
//!
//! | what went wrong | found by |
//! | --- | --- |
//! | A second attempt's grant, made after the first lease was lost, was forgotten while its caller held: the name was blocked for a ttl | `a_second_grant_after_the_first_was_lost_is_given_back`, and the model (`late grant forgotten`) |
//! | A lease's own grant was given back with the rest of its call's, and a name that was to be held longer was free | `a_release_that_is_put_off_has_one_pipeline`, by reading |
//! | A call that was answered during a shutdown got a lease that no task renewed, watched or released | `what_is_granted_in_the_middle_of_a_shutdown_is_given_back` |
//! | A shutdown that was dropped forgot what it had not released yet | `a_shutdown_that_was_dropped_goes_on_with_the_next_call` |
//! | A call without a wait went on for 5 s during a shutdown | `a_call_that_asks_once_ends_with_the_shutdown` |
//! | Renewals were not batched: 178 commands for 2,000 leases in three periods instead of 39 | `two_thousand_leases_are_renewed_by_few_commands` |
//! | The server's reply that a document held a bulk renewal up came too late, and other leases were lost | `a_document_in_a_transaction_does_not_delay_other_renewals` |
//! | A renewal of a damaged document was reported as a release by somebody else | `of_a_damaged_document_a_guard_and_a_renewal_report_it` |
//! | An expiry near the beginning of time was shown as held for ever | `no_expiry_null_and_a_past_date_are_free` |
//! | A listing never ended when a name was an array | `documents_of_other_programs_with_odd_names_are_passed_over` |
//! | A name that stayed blocked after its release could not be freed by an operator | `an_operator_can_free_a_name_kept_by_hold_at_least` |
//! | One of ten concurrent migrations failed (code 125) | `ten_conversions_at_once_all_succeed` |
//! | A second index on the same key made every acquire fail (code 27), and was not found | `a_second_index_with_the_same_key_is_refused` |
//! | A damaged entry, which cannot be promoted, kept a free lease from all callers | `a_free_lease_is_granted_past_a_damaged_queue` |
//! | Behind a dead first waiter, the others waited for the `recheck_every` or the old holder's ttl, and not for its entry's life | `a_dead_waiter_delays_the_next_by_its_waiter_ttl_and_the_skew` |
//! | Where a privilege was missing, the server's repetition of the whole command, with the lease's value, was in the error and in the log | `no_password_and_no_value_is_logged_whatever_goes_wrong` |
//! | A resume believed any document in the reply (no server sends another) | `no_decoder_panics_or_believes_what_is_not_there` |
//! | With a unique index on `value`, or a validator against empty ones, the second tombstone and the second `hold_at_least` release failed after 10 s of retries, and the lease stayed busy | `a_unique_index_on_value_hinders_no_release`, `a_validator_against_empty_values_hinders_no_release` |
//! | A document that outlived its holder because all waiters had died was refused by a unique index on `value` | `a_unique_index_on_value_hinders_no_hand_off_to_nobody` |
//! | The error of one statement was retried until the release's deadline | `a_refused_hold_at_least_is_an_error_at_once`, `a_refused_tombstone_is_deleted_at_once_and_company_too` |
//! | A loss to a tombstone that keeps the name blocked was reported as a take-over | `a_loss_to_a_tombstone_reads_removed_also_where_it_is_kept` |
//! | A manager that released a thousand leases in five minutes made tombstones although the option was off | `every_release_deletes_unless_told_otherwise` |
//! | The error at the end of a wait said how long the lease was still held, by an answer that was long out of date | `a_wait_timeout_names_the_last_known_holder` |
//! | Fifty leases were dropped, one under an open guard: all fifty stayed held for their ttl, and no waiter was promoted | `leases_dropped_beside_a_blocked_one_are_free_soon` |
//! | A shutdown beside one blocked lease released none of fifty, took its whole bound and left tasks behind | `a_shutdown_beside_a_blocked_lease_releases_the_rest`, `a_shutdown_ends_the_give_back_of_a_blocked_lease` |
//! | Releases in one command with a blocked lease took 5 s, and were `Unknown` | `releases_beside_that_of_a_blocked_lease_are_answered`, `each_of_several_blocked_leases_is_found` |
//! | Calls for free leases timed out in one command with a call for a blocked one: its deadline was the latest of all | `free_leases_are_granted_beside_a_blocked_one` |
//! | Joins that a transaction blocked occupied all slots, and a ping took 2 s | `calls_that_cannot_join_a_queue_delay_nobody`, `many_calls_for_one_blocked_lease_delay_nobody` |
//! | In the specification, an entry whose value is no text did not count in the queue, and the comparison with the real one failed occasionally | `the_server_does_what_the_specification_says` |
//! | The fence was two fragments: the line that added the caller's own `$set` replaced the one that stored the token, and nothing was ever refused | `the_token_joins_the_set_of_an_update`, by a review |
//! | The fence let an older token through where one element of an array in its field was older or null | `a_value_that_is_no_token_refuses_every_write` |
//! | `build()` against a server that was down said after 10 s that the database did not answer in time, and nothing else | `build_names_the_addresses_and_why_each_one_failed` |
//! | Both binaries reported a wrong password as a database out of reach, and dumped the driver's `Topology` where a server was down | `refusals_are_told_without_the_password`, `a_database_that_is_not_there_is_given_up_in_bounded_time`, `a_listing_and_a_command_work_over_scram_and_tls` |
//! | A driver task panicked at the end of `mongo-lease-migrate` (6 of 200 runs) and of `mongo-lease` (1 of 200) | `no_run_panics_at_its_end` |
//! | The migration showed documents without a name as `"null"`, and their holders as those of `lease ""` | `duplicates_are_listed_with_holders_and_nothing_is_changed` |
//! | A password with a bare `%` before a sign and a hexadecimal digit was not hidden in its decoded form | `a_percent_sign_before_no_two_digits_is_one` |
//! | With standard input redirected, `Ctrl-C` on `mongo-lease run` reached the command and not its children | `a_signal_of_the_keyboard_goes_to_the_whole_group` |
//! | The command line printed direction marks, soft hyphens and tags unescaped | `what_nobody_sees_is_escaped` |
//! | Under `nohup`, the processes that the tests start ignored SIGHUP and SIGINT too, and three tests waited 60 s in vain | `a_child_ignores_no_signal_whatever_we_ignore` |
//! | A follower that was told to stop went on campaigning, and became the leader | `a_follower_that_gets_sigterm_leaves_the_queue_and_ends` |
//! | Two concurrent resumes of one key both got the lease | `of_two_resumes_of_one_key_one_gets_the_lease` |
//! | A lease right after its hand-off was detached for 11 s instead of its ttl | `a_lease_that_was_handed_on_is_detached_for_its_whole_ttl` |
//! | An acquire right after a drop of the same name was refused on a standalone server | `a_dropped_lease_is_granted_again_on_a_standalone_server` |
//! | A refused request's `Retry-After` was the end of the holder's lease | `held_is_409_with_a_second_and_a_problem_that_names_nobody` |
//! | A layer with `limit(1)`, an exclusive lease, answered 429 in place of 409, and in gRPC 8 in place of 10 | `a_limit_of_one_is_answered_as_no_limit`, by a review |
//! | Requests without the layer's key passed, past the lease or the limit | `no_request_without_a_key_passes` |
//! | A layer in a nested router let every request pass where its route had the public path, and nothing was logged | `a_path_that_does_not_fit_the_route_is_refused`, `a_template_with_the_public_path_refuses_and_is_logged` |
//! | On a standalone server, a layer with a limit answered each request with 503, as if a later one could succeed | `a_limit_on_a_standalone_server_is_500`, by a review |
//! | A lease that ended at its `max_hold`, as configured, was logged as an error | `a_lease_that_ends_as_it_was_asked_to_is_no_error` |
//! | `max_in_flight(usize::MAX)` panicked in `build()`, and the error for zero named an option that does not exist | `options_out_of_range_are_named_as_their_methods` |
//! | `mongo-lease acquire NAME >&-` ended with 0, and its key was lost: Rust opens `/dev/null` in place of a closed output | `a_key_for_a_closed_output_is_refused_beforehand` |
//! | One long name of another program made each row of `mongo-lease ls` 65,000 columns wide | `a_long_foreign_name_does_not_widen_all_rows` |
//! | Where a filter excluded this crate's spans, a lease's token was recorded on the caller's own span | `a_span_of_the_callers_own_keeps_its_token` |
//! | A detached lease's key, used up by a `resume`, still released the lease that was resumed with it | `a_detached_lease_is_renewed_resumed_once_and_released` |
//! | On a server without majority reads, every call in a batch failed (code 148), and one lost lease would have cost its renewal batch | `batched_calls_are_granted_without_majority_reads`, `a_lookup_without_majority_reads_reads_locally` |
//! | MongoDB 7.0 refuses `prepareUnique` under the strict Stable API, and a migration failed in its middle | `a_conversion_that_the_strict_api_refuses_is_an_obstacle` |
//! | Entries that joined over more than a quarter of a second never came to share a heartbeat: four commands an interval in place of one | `heartbeats_of_entries_that_joined_apart_come_together` |
//! | With `MONGODB_URI` set for a service, the tests wrote to its server, and could have made that step down | `the_variable_of_a_service_under_test_is_not_ours` |
//! | A caller that left a queue deleted the field `queue` where it was a document that showed the caller's value, and counted it as left | `each_changed_end_is_found`, `the_server_does_what_the_specification_says` |
//! | A forced release by the value of a lease that several hold deleted the document of all its holders | `the_value_of_shared_use_releases_nobody` |
//! | A release that found nothing sent a second command: each of 200 dropped leases an update of its own, where they had shared a few | `dropped_leases_that_are_gone_share_commands`, `calls_given_up_without_an_answer_are_released_together`, `a_release_of_nothing_costs_a_delete_an_update_and_a_look` |
//! | A promoted writer that readers waited for sent four commands, one after the other, to hand over | `a_promoted_writer_hands_over_to_readers_in_one_command` |
//! | In memory, `MemoryStore::release` ended no writer that a reader waited for | `releasing_a_writers_name_admits_a_reader` |
//! | Each permit and each waiting call of a blocked name had a command of its own, one after the other in the one slot for blocked documents: those of other names starved | `permits_of_a_blocked_name_are_renewed_together`, `calls_for_a_blocked_name_share_heartbeats` |
//! | Each of the sixteen waiting calls of a process sent an attempt in each waiter ttl, and a look followed each of their heartbeats | `waiting_calls_of_one_process_recheck_by_one_of_them` |
//! | The end of one permit was reported as a failed renewal of all others that the process had under its name | `a_permit_that_ends_raises_no_alarm_for_others` |
//! | A permit's `expires_at` was the time of the last holder of its name | `the_documents_expiry_is_the_latest_holders`, by a review |
//! | A call for a share with the value of an exclusive holder, which its user chose, took that lease for its own and let readers in beside the holder | `an_own_value_does_not_share_an_exclusive_lease`, by a review |
//! | A call with a value that had permits already was told the permits that it asked for | `a_value_of_ones_own_finds_its_permits_again`, by a review |
//! | The look after a renewal of permits read every holder of up to 2,000 names: where 16 MB cut its reply off, leases were reported lost | `no_text_of_a_user_is_an_expression`, which lists the ids, by a review |
//! | A renewal read the TTL index to its end where its leases expired before all others: 102,000 keys for 1,000 leases | `a_renewal_reads_no_documents_but_its_own` |
//! | A reader's release left a reader that had died, and the writer that waited for the first one's end was not told: it came at its `recheck_every` | `a_release_tells_the_first_waiter_of_an_earlier_end`, by a review |
//! | A text in place of a number in one holder's record failed the renewals of up to 2,000 other leases until they were lost | `a_damaged_number_fails_no_other_renewal`, by a review |
//! | Under an exclusive holder, each command carried the records of the readers before it: 84 KB of 250 | `readers_between_two_writers_enter_together`, by a review |
//! | A permit that was released by its value, in a batch that came twice, got `Unknown` and stayed | `an_operator_ends_the_permits_of_one_holder` |
//! | A heartbeat for several entries was confirmed although it was not written, when one of them joined again before the look | `a_heartbeat_for_several_entries_is_not_confirmed_by_a_look` |
//! | A call that was polled once and left blocked all later calls of its manager for the name | `a_call_that_is_not_polled_does_not_block_the_next_one`, `four_calls_for_permits_that_are_not_polled_do_not_block_the_fifth`, `many_calls_that_are_not_polled_are_passed_over_together` |
//! | A call that had waited for an earlier call of its own manager, and had asked nothing, said that the database did not answer | `a_call_that_waited_for_its_turn_says_so` |
//! | A call for several names held the earlier ones for each wait: calls for those formed a convoy | `sets_below_saturation_form_no_convoy`, `a_call_that_waits_gives_the_names_before_back_once_and_those_after_always` |
//! | A call in another runtime waited for its deadline after the runtime of its manager was gone | `a_call_ends_when_the_runtime_of_its_manager_is_gone` |
//! | A holder that was stopped for longer than its ttl was told the reason of an end that was asked for, and the alert on losses was silent | `a_stopped_holder_counts_a_loss_that_nobody_asked_for`, `only_a_pause_past_an_asked_end_is_an_end_as_asked` |
//! | Where another program had made the ttl in a document smaller, a renewal counted that did not prolong: two holders were valid for up to 9 s | `the_server_does_what_the_specification_says`, the simulation (`stored-ttl`), and the model (`a renewal for the ttl in the document`) |
//! | Where another program had made the ttl in a queue entry smaller, the waiter relied on a hand-off for longer than the server | `the_server_does_what_the_specification_says`, the simulation (`boundless-event`), and the model (`a promotion for the waiter's own term`) |
//! | A call that still waited in its own process counted as one that may have been sent, and was sent again, alone: 7,087 commands for 5,000 calls | `a_call_that_waits_in_its_process_is_sent_once`, `calls_of_a_server_that_hangs_are_repeated_together`, `a_call_that_was_never_sent_has_changed_nothing` |
//! | A shutdown went through all of its leases for each one that ended: 10 s for 60,000 leases, and 44,273 were left to expire | the benchmark of growth |
//! | A release deleted or buried a damaged document, or handed it off, and a release of permits called it not held | `no_handle_releases_a_damaged_lease`, `no_release_by_name_ends_a_damaged_lease`, `a_shutdown_leaves_damaged_leases_and_names_them`, `every_other_type_is_held_and_reported_as_damaged`, and the model (`a release of a damaged document`) |
//! | Foreign texts in errors and in a lease's text could command a terminal; a damaged list was shown as "4294967295 of 0 permits"; a key that was made up was called resumed | `foreign_texts_are_escaped`, `no_decoder_panics_or_believes_what_is_not_there`, `a_forged_key_is_not_called_resumed` |
//! | An error code that nobody had named, such as that of a full disk, ended a wait of 8 s after 14 ms, and an election | `a_failure_that_nobody_has_named_passes_within_the_wait`, `a_failure_that_nobody_has_named_leaves_a_retry_open` |
//! | Of two containers with one host name, the second was told that it held the first one's lease | `two_containers_with_one_host_name_are_two_processes`, `neither_the_owner_nor_the_value_says_who_holds` |
//! | A forked child released the leases that its parent held | `a_forked_child_releases_nothing_of_its_parents` |
//! | The release of a lost lease told nothing for 10 s while the database hung | `the_release_of_a_lost_lease_takes_a_second_and_goes_on_behind` |
//! | A shutdown took 10 s after the runtime of its manager was gone, and a call named the database for a runtime that nobody drove | `a_shutdown_names_what_the_end_of_its_runtime_left_held`, `a_runtime_that_nobody_drives_is_named` |
//! | After an overload, renewals, the reads that confirm writes, and new calls waited for seconds behind releases | `an_overload_delays_no_renewals_and_no_later_calls`, `an_overload_with_a_late_majority_delays_no_renewals_and_no_later_calls` |
//! | A refused renewal of 300 leases wrote 14,663 lines in 13 s, and the loss said that the database did not confirm | `a_refused_renewal_of_many_leases_is_one_line_and_few_commands`, `the_tries_before_the_end_of_validity_are_few` |
//! | A transaction that blocked a lease wrote a line for each cut-off, and none named the lease | `a_transaction_that_blocks_a_lease_is_logged_once` |
//! | A release that failed, or whose future was dropped, was not told; a shutdown did not count the leases that were dropped just before | `a_release_that_fails_or_is_dropped_is_told_once`, `a_shutdown_reports_the_leases_that_were_dropped_just_before` |
//! | A pause right after a renewal was due counted as a database out of reach | `a_pause_right_after_a_renewal_was_due_is_a_pause`, `only_a_pause_past_an_asked_end_is_an_end_as_asked` |
//! | `doctor` called the tombstones of the last minute a problem of the TTL monitor | `what_has_outlived_its_holder_is_no_problem` |
//! | A resumed lease was valid for the default ttl where that in its document was null, and the server had not prolonged it | `a_damaged_ttl_prolongs_no_resumed_lease` |
//! | A guard that was called after a commit, or without a transaction, said `Ok`: a former holder's write was stored beside the next one | `a_commit_after_one_by_the_session_says_that_nothing_was_guarded`, by a review |
//! | A guard failed for every client whose read preference is not primary, as an error to be repeated for ever | `every_client_can_use_it`, by a review |
//! | A loss that went through the driver's `and_run` came out as `Custom user error`, and transient | `an_error_comes_out_of_the_drivers_as_it_went_in`, by a review |
//! | A holder that died behind its guard blocked the name for 63 to 83 s, with a ttl of 5 s | `a_process_that_was_stopped_in_a_transaction_blocks_no_grant`, by a review |
//! | On a standalone server a guard ended in a driver's advice to switch retries off | `on_a_standalone_server_it_is_unsupported`, by a review |
//! | With a majority that was late by 3 s each lease was lost after 29.7 s, and with 6 s no acquire succeeded: a late confirmation was dropped | `no_lease_is_lost_while_a_majority_is_late`, `an_acquire_is_granted_when_a_majority_has_it` |
//! | A lease of 1 s gave the renewals of its neighbours of 30 s a tenth of their time | `a_short_lease_leaves_its_long_neighbours_their_time` |

// A test names what it expects; everything else is a failure, also variants that are added later.
#![allow(clippy::wildcard_enum_match_arm)]

mod absent;
mod api;
mod blocked;
mod cancel;
mod churn;
mod clients;
mod clocks;
mod cost;
mod daemon_example;
mod damaged_releases;
mod deadlines;
mod dev_example;
mod drop_order;
mod drops;
mod election;
mod events;
mod examples;
mod expiry_types;
mod fence;
mod fencing_example;
mod fencing_tokens;
mod first_upsert;
mod home_made;
mod indexes;
mod inspect;
mod keys;
mod late_attempts;
mod late_majority;
mod line;
#[cfg(feature = "tracing")]
mod logs;
mod loss;
mod lost_replies;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod named;
mod neighbours;
mod obstinate;
mod odd_documents;
mod open_transactions;
mod options;
mod other_format;
mod own_value;
mod permits;
mod privileges;
mod queue_faults;
mod release;
mod renewal;
mod schedule;
mod secrets;
mod serialized;
mod several;
mod shared;
mod shutdown;
mod standalone;
mod surprises;
mod tidy;
mod together;
mod tower_layer;
mod transactions;
mod user_strings;
mod waiting;

// The tools of these tests, and those that `tests/alone` has as well.
mod both;
mod bson_types;
mod recipe;
#[path = "../tools/mod.rs"]
mod tools;
mod users;

use tools::*;
