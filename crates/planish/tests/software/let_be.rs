//! What is let be: children that the program traces itself, and threads that come faster than a
//! budget can follow.

use super::{compile, has, planish, record, said, works};
use std::time::Instant;

const PROGRAMS: &str = "../../../../stops/tests/programs";

#[test]
fn a_program_that_traces_its_children_is_recorded_and_they_are_let_go() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (flags, output) in [(&["-O1"][..], "dynamic"), (&["-O1", "-static"], "static")] {
        if compile(dir.path(), "cc", &format!("{PROGRAMS}/tracers.c"), output, flags).is_none() {
            continue;
        }
        let words =
            ["record", "--branches=software", "-c", "1000000", "--", &format!("./{output}"), "2"];
        let done = planish(dir.path(), &words).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout), "6 0\n", "{output}: {}", said(&done));
        assert!(
            said(&done).contains("note: 2 processes asked to be traced by the program"),
            "{}",
            said(&done)
        );
    }
    if has("strace") && has("true") {
        let traced = ["strace", "-f", "-o", "calls", "sh", "-c", "true; true"];
        let recorded = record(dir.path(), &["-c", "100000"], &traced);
        assert!(recorded.number("stops") > 0, "{}", recorded.notes());
        assert!(std::fs::read_to_string(dir.path().join("calls")).unwrap().contains("execve("));
    }
}

#[test]
fn of_thousands_of_short_threads_few_are_followed_and_the_others_are_told() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if compile(dir.path(), "cc", &format!("{PROGRAMS}/short.c"), "short", &["-O1", "-pthread"])
        .is_none()
    {
        return;
    }
    let begun = Instant::now();
    let words = ["record", "--branches=software", "--format", "json", "--", "sh", "-c"];
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec ./short 5000";
    let done = planish(dir.path(), &[&words[..], &[busy]].concat()).output().unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    assert!(
        said(&done).contains("new threads came faster than the budget can follow"),
        "{}",
        said(&done)
    );
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let number = |name: &str| json["look_ahead"][name].as_u64().unwrap();
    // A budget of 3 % is one of a hundred threads at once, and of a hundred in each second.
    let followed = number("threads");
    assert!(followed as f64 <= 1.0 + 100.0 + 100.0 * seconds + 10.0, "{seconds} s: {json}");
    // All that were made are in one of the two numbers.
    assert_eq!(followed + number("let_be"), 5001, "{json}");
    // None ran long enough to be stopped: that is no sleep.
    let done = planish(dir.path(), &["record", "--branches=software", "--", "./short", "3000"])
        .output()
        .unwrap();
    assert!(!said(&done).contains("asleep"), "{}", said(&done));
}
