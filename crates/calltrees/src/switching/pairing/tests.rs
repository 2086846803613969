//! Are all records paired or in the books?

use super::*;

const A: u64 = 1;
const B: u64 = 2;

#[test]
fn a_wait_lasts_from_the_switch_out_to_the_next_switch_in_and_has_the_last_sample() {
    let mut pairing = Pairing::default();
    assert_eq!(pairing.switch_in(7, 100), Ended::Nothing);
    pairing.sample(7, A);
    assert_eq!(pairing.switch_out(7, 150, false), Ended::Run(50));
    // Another thread between them changes nothing.
    pairing.switch_in(8, 160);
    let wait = Wait {
        tid: 7,
        reason: Reason::Synchronization,
        sample_ns: Some(A),
        start_ns: 150,
        woken: None,
        end_ns: 400,
    };
    assert_eq!(pairing.switch_in(7, 400), Ended::Wait(wait));
    assert_eq!(pairing.switch_out(7, 410, true), Ended::Run(10));
    let wait =
        Wait { reason: Reason::Preemption, sample_ns: None, start_ns: 410, end_ns: 420, ..wait };
    assert_eq!(pairing.switch_in(7, 420), Ended::Wait(wait));
    assert_eq!(pairing.exit(7, 425), Ended::Run(5));
    let ledger = pairing.finish();
    assert!(ledger.balances(), "{ledger:?}");
    assert_eq!((ledger.outs_paired, ledger.ins_first, ledger.waits_without_stack), (2, 2, 1));
}

#[test]
fn a_wake_up_splits_a_wait_for_something_from_the_wait_for_a_cpu() {
    let mut pairing = Pairing::default();
    let woken = |time_ns| Woken { time_ns, by: 8 };
    // Of a thread that nothing is known of, and of one that runs.
    pairing.wake(7, woken(90));
    pairing.switch_in(7, 100);
    pairing.wake(7, woken(110));
    pairing.switch_out(7, 150, false);
    pairing.wake(7, woken(350));
    // The second changes nothing.
    pairing.wake(7, woken(360));
    let Ended::Wait(wait) = pairing.switch_in(7, 400) else { panic!("no wait") };
    assert_eq!((wait.woken, wait.whole_ns()), (Some(woken(350)), 250));
    let parts: Vec<_> = wait.parts().collect();
    assert_eq!(parts, [(Reason::Synchronization, 200), (Reason::RunQueue, 50)]);
    // Whoever could have run on is not woken.
    pairing.switch_out(7, 500, true);
    pairing.wake(7, woken(510));
    let Ended::Wait(wait) = pairing.switch_in(7, 520) else { panic!("no wait") };
    assert_eq!(wait.parts().collect::<Vec<_>>(), [(Reason::Preemption, 20)]);
    // A wait that nobody ended is one whole.
    pairing.switch_out(7, 600, false);
    let Ended::Wait(wait) = pairing.switch_in(7, 650) else { panic!("no wait") };
    assert_eq!(wait.parts().collect::<Vec<_>>(), [(Reason::Synchronization, 50)]);
    // A clock that goes back makes no time.
    pairing.switch_out(7, 700, false);
    pairing.wake(7, woken(690));
    pairing.wake(7, woken(u64::MAX));
    let Ended::Wait(wait) = pairing.switch_in(7, 710) else { panic!("no wait") };
    assert_eq!(wait.parts().map(|part| part.1).sum::<u64>(), 10);
    let ledger = pairing.finish();
    assert!(ledger.balances(), "{ledger:?}");
    let wakes = (ledger.wakes_paired, ledger.wakes_needless, ledger.wakes_of_others);
    assert_eq!((wakes, ledger.wakes, ledger.waits_without_wake), ((2, 4, 1), 7, 1));
}

#[test]
fn waits_before_the_first_wake_up_lack_one_too() {
    let mut pairing = Pairing::default();
    pairing.switch_out(7, 100, false);
    pairing.switch_in(7, 150);
    pairing.switch_out(7, 200, true);
    pairing.switch_in(7, 210);
    pairing.wake(7, Woken { time_ns: 220, by: 8 });
    assert_eq!(pairing.finish().waits_without_wake, 1);
    // Where none is recorded, no wait can have one.
    let mut pairing = Pairing::default();
    pairing.switch_out(7, 100, false);
    pairing.switch_in(7, 150);
    assert_eq!(pairing.finish().waits_without_wake, 0);
}

#[test]
fn the_last_switch_of_a_thread_comes_after_its_end_and_belongs_to_it() {
    let mut pairing = Pairing::default();
    pairing.switch_in(7, 10);
    assert_eq!(pairing.exit(7, 30), Ended::Run(20));
    pairing.sample(7, A);
    assert_eq!(pairing.switch_out(7, 35, false), Ended::Run(5));
    let ledger = pairing.finish();
    assert!(ledger.balances(), "{ledger:?}");
    assert_eq!((ledger.outs_at_exit, ledger.outs_at_end, ledger.samples_paired), (1, 0, 1));
}

#[test]
fn what_has_no_partner_is_in_the_books() {
    let mut pairing = Pairing::default();
    pairing.runs(7, 5);
    pairing.sample(7, A);
    pairing.sample(7, B);
    assert_eq!(pairing.switch_out(7, 10, false), Ended::Run(5));
    assert_eq!(pairing.switch_out(7, 20, false), Ended::Nothing);
    pairing.sample(7, A);
    pairing.exit(7, 30);
    // Another thread of that number.
    pairing.begins(7);
    pairing.switch_in(7, 40);
    pairing.switch_in(7, 50);
    pairing.sample(7, A);
    pairing.switch_in(7, 60);
    pairing.switch_out(7, 70, true);
    pairing.switch_out(0, 70, false);
    pairing.switch_in(0, 80);
    pairing.sample(0, A);
    let ledger = pairing.finish();
    assert!(ledger.balances(), "{ledger:?}");
    let expected = Ledger {
        outs: 4,
        outs_idle: 1,
        outs_without_in: 1,
        outs_at_exit: 1,
        outs_at_end: 1,
        ins: 4,
        ins_idle: 1,
        ins_first: 1,
        ins_without_out: 2,
        samples: 5,
        samples_paired: 1,
        samples_idle: 1,
        samples_without_out: 3,
        ..Ledger::default()
    };
    assert_eq!(ledger, expected);
}

#[test]
fn the_books_balance_whatever_comes() {
    let mut seed = 1u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for _ in 0..200 {
        let mut pairing = Pairing::default();
        for _ in 0..next(60) {
            let (tid, time) = (next(4) as i32 - 1, next(1000));
            let ended = match next(7) {
                6 => {
                    pairing.wake(tid, Woken { time_ns: time, by: 3 });
                    Ended::Nothing
                }
                5 => {
                    pairing.begins(tid);
                    Ended::Nothing
                }
                0 => {
                    pairing.sample(tid, A);
                    Ended::Nothing
                }
                1 => pairing.switch_out(tid, time, next(2) == 0),
                2 | 3 => pairing.switch_in(tid, time),
                _ => pairing.exit(tid, time),
            };
            assert!(
                !matches!(ended, Ended::Wait(wait) if wait.tid == 0 || wait.end_ns < wait.start_ns)
            );
        }
        let ledger = pairing.finish();
        assert!(ledger.balances(), "{ledger:?}");
    }
}
