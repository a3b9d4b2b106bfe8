//! What a job is told of several reasons that hold at once, and who is counted as before it.

use expect_test::expect;

use crate::support::check;

/// A pause is a person's decision: it is told before whose turn it is or who holds a key, as placement notes it.
#[test]
fn a_pause_is_told_before_the_line_and_the_key() {
    check(
        "
        kind k concurrency=1
        kind line fifo
        node n1
        enqueue a kind=k ckey=x
        enqueue b kind=k ckey=x
        tick
        why b
        pause kind k
        tick
        why b
        resume kind k
        tick
        why b
        pause kind line
        enqueue c kind=line
        enqueue d kind=line
        tick
        why d
        resume kind line
        why d
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b concurrency_key: 1 with key x runs
            b waits: concurrency_key 1 with key x runs for 0ns, tried 1
              concurrency_key 1 with key x runs: 1 times, 0ns
            deferred b kind_paused: kind paused
            b waits: kind_paused kind paused for 0ns, tried 2
              concurrency_key 1 with key x runs: 1 times, 0ns
              kind_paused kind paused: 1 times, 0ns
            deferred b concurrency_key: 1 with key x runs
            b waits: concurrency_key 1 with key x runs for 0ns, tried 3
              concurrency_key 1 with key x runs: 2 times, 0ns
              kind_paused kind paused: 1 times, 0ns
            deferred c kind_paused: kind paused
            d waits: kind_paused kind paused for 0ns, tried 1
              kind_paused kind paused: 1 times, 0ns
            d waits: behind behind 1 others for 0ns, tried 1
              kind_paused kind paused: 1 times, 0ns
        "#]],
    );
}

/// Whoever waits for a key at its limit holds up nobody but those who name the same.
#[test]
fn jobs_whose_key_is_at_its_limit_stand_before_those_with_the_same_key_only() {
    check(
        "
        slot s 2
        kind k needs=s:1 concurrency=1
        node n1
        enqueue a kind=k ckey=x
        enqueue x1 kind=k ckey=x
        enqueue x2 kind=k ckey=x
        enqueue x3 kind=k ckey=x
        enqueue b kind=k
        enqueue y1 kind=k ckey=y
        enqueue c kind=k
        enqueue y2 kind=k ckey=y
        enqueue x4 kind=k ckey=x priority=1
        tick
        explain c
        explain y2
        explain x3
        explain x4
        ",
        expect![[r#"
            granted x4 -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred y1 slot_busy: slot s 2/2
            c: slot s 2/2, 1 ahead y1
              It waits for 1 unit of fleet slot s (2/2 taken); 1 job of its class is before it.
              slot s: needs 1 of 2/2
                x4 holds 1 for 0ns
                b holds 1 for 0ns
              node n1: fits
              starts latest in 10860s
              > 1 more unit of fleet slot s: holders end, or its capacity is raised from 2 to 3
              > 2 leases hold slot s; they are listed
            y2: slot s 2/2, 2 ahead y1 c
              It waits for 1 unit of fleet slot s (2/2 taken); 2 jobs of its class are before it.
              slot s: needs 1 of 2/2
                x4 holds 1 for 0ns
                b holds 1 for 0ns
              node n1: fits
              > 1 more unit of fleet slot s: holders end, or its capacity is raised from 2 to 3
              > 2 leases hold slot s; they are listed
            x3: 1 with key x runs, 3 ahead a x1 x2
              It waits for others with its key; 3 jobs of its class are before it.
              slot s: needs 1 of 2/2
                x4 holds 1 for 0ns
                b holds 1 for 0ns
              node n1: fits
              > a job with key x ends, or the limit of its kind is raised
              > 2 leases hold slot s; they are listed
            x4: runs, 0 ahead
        "#]],
    );
}

/// A process tree that is gone gave its slots back; its lease lives on for the report of its end only.
#[test]
fn a_limit_does_not_count_what_waits_for_its_report_only() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        close n1
        spool a ok
        forget-held n1
        hello n1
        kind k max_running=1
        enqueue c kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            slots of 1.1 freed
            granted c -> n1 token=1.2
        "#]],
    );
}
