//! How is training recorded where the CPU records no branches? Decided once, by how long it takes
//! natively.
//!
//! A short program is emulated: about 13 times slower, but every thousandth branch ends a sample,
//! whatever the machine does. A long one runs natively and is
//! stopped for software branch stacks; where it takes less than the time to record, all training
//! commands are repeated equally often, so that their weights stay what one run of each gives.

use crate::Error;
use crate::config::Branches;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Software, or auto: whatever suits.
    pub branches: Branches,
    /// Seconds to record.
    pub seconds: f64,
    /// Native seconds below which programs are emulated.
    pub emulate_below: f64,
    /// Per cent of the program's CPU time that goes into stops.
    pub budget: f64,
    /// Whether programs can be emulated here.
    pub can_emulate: bool,
    /// Whether threads can be stopped here.
    pub can_stop: bool,
}

/// A timed training command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// As it was run.
    pub command: String,
    /// How long it took natively.
    pub seconds: f64,
}

/// How all training commands are recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// `planish-training`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// The commands, each timed in one run.
    pub commands: Vec<Timed>,
    /// `emulated` or `software`.
    pub branches: Branches,
    /// How often each command is run.
    pub runs: u64,
    /// Why, in words.
    pub reason: String,
}

/// No training is repeated more often.
const MOST_RUNS: f64 = 10_000.0;

impl Training {
    /// Decides. `Err` holds what is missing where nothing can be recorded.
    ///
    /// # Errors
    /// Where programs can neither be emulated nor stopped.
    pub fn decide(commands: Vec<Timed>, wish: &Wish) -> Result<Training, String> {
        let native: f64 = commands.iter().map(|timed| timed.seconds).sum();
        let took = format!("the training takes {native:.1} s");
        let below = wish.emulate_below;
        let wants_emulation = wish.branches == Branches::Auto && native < below;
        let (branches, why) = match (wants_emulation, wish.can_emulate, wish.can_stop) {
            (true, true, _) => (Branches::Emulated, format!(", less than {below} s: emulated")),
            (true, false, true) => (
                Branches::Software,
                ", and the emulator is missing here (planish doctor)".to_owned(),
            ),
            (false, _, true) => (Branches::Software, String::new()),
            (false, true, false) if wish.branches == Branches::Auto => (
                Branches::Emulated,
                ", and threads cannot be stopped here: emulated, which takes 13 times as long"
                    .into(),
            ),
            _ => {
                return Err("neither can programs be emulated here nor their threads be stopped; \
                            `planish doctor` says what is missing"
                    .into());
            }
        };
        let stretched = native.max(1e-3) * (1.0 + wish.budget / 100.0);
        let runs = match branches {
            Branches::Software => (wish.seconds / stretched).ceil().clamp(1.0, MOST_RUNS) as u64,
            _ => 1,
        };
        let how = match (branches, runs) {
            (Branches::Software, 1) => {
                ": recorded natively, with software branch stacks".to_owned()
            }
            (Branches::Software, runs) => {
                format!(
                    ": recorded natively, with software branch stacks, {runs} times over for {} s",
                    wish.seconds
                )
            }
            _ => String::new(),
        };
        let reason = format!("{took}{why}{how}");
        Ok(Training { schema: SCHEMA.to_owned(), version: 1, commands, branches, runs, reason })
    }

    /// Reads what an earlier step decided.
    ///
    /// # Errors
    /// Where `path` holds something else.
    pub fn read(path: &Path) -> Result<Training, Error> {
        let fail = |source| Error::File { path: path.to_owned(), action: "cannot read", source };
        let bytes = beside::given::read(path, beside::given::TEXT).map_err(fail)?;
        let training: Training =
            serde_json::from_slice(&bytes).map_err(|error| fail(error.into()))?;
        if training.schema != SCHEMA {
            return Err(fail(std::io::Error::other("it is not what `planish train time` prints")));
        }
        Ok(training)
    }
}

const SCHEMA: &str = "planish-training";

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(seconds: &[f64], wish: Wish) -> Result<(Branches, u64, String), String> {
        let timed = |&seconds: &f64| Timed { command: "./app".into(), seconds };
        let training = Training::decide(seconds.iter().map(timed).collect(), &wish)?;
        Ok((training.branches, training.runs, training.reason))
    }

    const USUAL: Wish = Wish {
        branches: Branches::Auto,
        seconds: 60.0,
        emulate_below: 5.0,
        budget: 100.0,
        can_emulate: true,
        can_stop: true,
    };

    #[test]
    fn short_training_is_emulated_and_long_training_is_repeated_to_a_minute_together() {
        let (branches, runs, reason) = decided(&[0.5, 2.0], USUAL).unwrap();
        assert_eq!((branches, runs), (Branches::Emulated, 1));
        assert!(reason.contains("takes 2.5 s, less than 5 s: emulated"), "{reason}");
        // With stops that take as long as the program, 3 runs of 10 s are a minute.
        let (branches, runs, reason) = decided(&[4.0, 6.0], USUAL).unwrap();
        assert_eq!((branches, runs), (Branches::Software, 3));
        assert!(reason.contains("3 times over for 60 s"), "{reason}");
        assert_eq!(decided(&[90.0], USUAL).unwrap().1, 1);
        assert_eq!(decided(&[10.0], Wish { budget: 3.0, ..USUAL }).unwrap().1, 6);
        assert_eq!(decided(&[0.0], Wish { emulate_below: 0.0, ..USUAL }).unwrap().1, 10_000);
    }

    #[test]
    fn what_is_missing_decides_too() {
        let no_emulator = Wish { can_emulate: false, ..USUAL };
        let (branches, _, reason) = decided(&[1.0], no_emulator).unwrap();
        assert_eq!(branches, Branches::Software);
        assert!(reason.contains("the emulator is missing here"), "{reason}");
        assert_eq!(
            decided(&[10.0], Wish { can_stop: false, ..USUAL }).unwrap().0,
            Branches::Emulated
        );
        assert!(
            decided(&[1.0], Wish { can_stop: false, ..no_emulator })
                .unwrap_err()
                .contains("doctor")
        );
        let software = Wish { branches: Branches::Software, ..USUAL };
        assert_eq!(decided(&[1.0], software).unwrap().0, Branches::Software);
        assert!(decided(&[1.0], Wish { can_stop: false, ..software }).is_err());
    }
}
