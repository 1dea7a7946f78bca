//! The conformance suite: what every engine must do on every medium (design, section 5).
//!
//! The tests are generic over the medium and are given the engine. `conformance!` makes a test of each for every engine
//! on every medium: `<engine>::<medium>::<theme>::<test>`; a usual run tries a part of each ([`workload::effort`]), and
//! on files only the themes that its backing names. `engines/<engine>.rs` has what the suite must know of an engine.

#[path = "../../engines/tests/common/mod.rs"]
mod common;
mod cost;
mod cuts;
mod damage;
mod engines;
mod equality;
mod faults;
mod floods;
mod growth;
mod harness;
mod interleaved;
mod kills;
mod linear;
mod model;
mod recovery;
mod scans;
mod space;
mod threads;

/// Tests of the enclosing engine on a medium: `theme { test, ... }`.
macro_rules! tests {
    ($backing:ident; $($theme:ident { $($test:ident),* $(,)? })*) => {
        $(mod $theme {
            use super::super::ENGINE;
            use crate::harness::{$backing, Backing};

            $(#[test]
            fn $test() {
                if $backing::tries(stringify!($theme)) {
                    crate::$theme::$test::<$backing>(&ENGINE);
                }
            })*
        })*
    };
}

/// The tests for every medium that keeps a table.
macro_rules! everywhere {
    ($backing:ident) => {
        tests! { $backing;
            model {
                random_operations_agree_with_a_map,
                extreme_keys_and_values_are_like_any_other,
                every_exchange_finds_what_is_there,
                a_batch_is_its_operations_in_order,
                batches_of_every_length_work,
                scans_in_parts_meet_every_pair_once,
            }
            linear {
                contended_keys_while_growing_from_nothing,
                contended_keys_in_every_level,
                contended_keys_in_batches,
            }
            threads {
                private_keys_behave_as_if_alone,
                readers_never_miss_what_stays,
                readers_never_miss_what_crowds_one_bucket,
                one_of_many_inserts_wins,
                one_of_many_removes_wins,
                counters_lose_no_increment,
                batches_and_singles_lose_no_increment,
                pairs_passed_between_threads_are_counted,
                scans_beside_writers_invent_nothing,
                syncs_beside_writers_end,
                more_threads_than_have_a_line_of_their_own,
            }
            scans {
                what_stays_is_met_once,
            }
            growth {
                from_nothing_to_millions,
                a_table_doubles_under_every_thread_at_once,
                readers_need_nobody_to_finish_a_resize,
                a_full_pool_refuses_and_works_on,
            }
            faults {
                no_key_is_lost_while_growing_under_two_threads,
                readers_beside_a_remove_see_stored_values_only,
                no_key_is_inserted_twice,
                removing_a_missing_key_ends,
                key_0_and_value_0_are_kept,
                opening_an_existing_pool_keeps_it,
                no_lock_outlives_a_crash,
                a_crash_in_initialization_leaves_a_table_or_none,
            }
            recovery {
                closed_tables_come_back,
                a_read_only_table_is_whole_and_unchanged,
                any_number_of_threads_recovers_the_same,
                recovery_of_a_recovery_changes_nothing,
            }
        }
    };
}

/// The tests for a mapped file.
macro_rules! on_files {
    ($backing:ident) => {
        everywhere! { $backing }
        tests! { $backing;
            kills {
                killed_while_creating,
                killed_while_growing,
                killed_in_a_steady_state,
                process_to_be_killed,
            }
        }
    };
}

/// Makes tests of the suite for each engine of the list: those for every medium, and those that only one medium allows.
macro_rules! conformance {
    ($($_variant:ident $engine:ident,)+) => {
        $(mod $engine {
            use crate::engines::$engine::ENGINE;

            mod dram {
                everywhere! { Dram }
                tests! { Dram;
                    floods {
                        chosen_keys_are_stored_or_refused,
                    }
                    damage {
                        random_words_are_refused_or_survived,
                        a_damaged_superblock_is_refused_or_survived,
                        a_cut_off_pool_is_refused,
                    }
                    space {
                        a_table_that_grows_wastes_little,
                    }
                }
            }

            mod file {
                on_files! { TempFile }
            }

            mod shared_memory {
                on_files! { SharedMemory }
            }

            mod count {
                everywhere! { Counted }
                tests! { Counted;
                    cost {
                        mutations_write_few_lines,
                        searches_read_few_lines_and_write_none,
                        what_changes_nothing_writes_nothing,
                        batches_fence_no_more_than_they_must,
                        no_insertion_does_the_work_of_many,
                    }
                }
            }

            mod journal {
                tests! { Journaled;
                    cuts {
                        a_cut_anywhere_keeps_what_had_returned,
                        a_cut_under_several_writers_keeps_what_had_returned,
                        a_cut_while_creating_leaves_a_table_or_none,
                        a_cut_in_recovery_is_recovered,
                    }
                    interleaved {
                        readers_at_each_step_of_a_writer,
                        readers_at_each_step_of_a_resize,
                        writers_at_each_load_of_a_reader,
                        neighbours_come_and_go_beside_a_reader,
                        a_resize_at_each_load_of_a_reader,
                    }
                }
            }
        })+
    };
}
::engines::for_each_engine!(conformance);
