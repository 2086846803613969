//! Whether any JSON of ours (a state, a report, a result of `planish compare`) makes its reader or
//! what tells it panic, and whether what is told moves a terminal's cursor. The first byte says
//! which.
#![no_main]

use libfuzzer_sys::fuzz_target;
use report::{Optimization, Style};

fn is_clean(text: &str) {
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, json)) = bytes.split_first() else { return };
    match kind % 3 {
        0 => drop(serde_json::from_slice::<build::state::State>(json)),
        1 => {
            let Ok(told) = serde_json::from_slice::<Optimization>(json) else { return };
            let _ = told.markdown();
            let _ = told.terminal(Style::default());
        }
        _ => {
            let Ok(told) = serde_json::from_slice::<compare::result::Measurement>(json) else {
                return;
            };
            is_clean(&report::compare::terminal(&told, &[], Style::default()));
            is_clean(&report::compare::markdown(&told));
            let _ = report::compare::html(&told, &[]);
        }
    }
});
