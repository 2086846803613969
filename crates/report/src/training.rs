//! What did each training command give to a profile, and is the profile stable?

use counts::aggregate::Aggregated;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What recording in rounds gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// How many rounds were recorded.
    pub rounds: u64,
    /// How often each command ran in what was kept of them.
    pub runs: u64,
    /// Emulation: taken branches between two samples.
    pub period: Option<u64>,
    /// Whether two halves of the samples agree.
    pub stable: bool,
    /// All of it in words.
    pub line: String,
    /// The commands in their order.
    pub commands: Vec<Command>,
}

/// What one command gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The command.
    pub command: String,
    /// CPU time of one run without being recorded.
    pub cpu_seconds: f64,
    /// What the user multiplies its weight by.
    pub weight: f64,
    /// Samples in the program.
    pub samples: u64,
    /// What its counts were multiplied by, so that it has its weight.
    pub factor: u64,
    /// Its share in the profile: in the executions of branches of the program.
    pub share: f64,
    /// Size of its recordings.
    pub file_bytes: u64,
}

/// What the commands weigh, where there are several, and whether the profile is stable; a line
/// each.
pub fn lines(trained: &Trained) -> Vec<String> {
    let several = trained.commands.len() > 1;
    let weighed = trained.commands.iter().filter(|_| several).map(|command| {
        let Command { command, cpu_seconds, weight, factor, share, .. } = command;
        let by = if *weight == 1.0 { String::new() } else { format!(", times {weight}") };
        format!(
            "{:>20}: {:.1} % of the profile for {cpu_seconds:.3} s of CPU time{by} (counts times \
             {factor}): {command}",
            "weight",
            100.0 * share
        )
    });
    weighed.chain([trained.line.clone()]).collect()
}

/// What was counted, and what each command gave to it.
pub fn json(found: &Aggregated, trained: &Trained) -> Value {
    let mut all = crate::counts::json(found);
    if let Some(object) = all.as_object_mut() {
        object.insert("training".to_owned(), json!(trained));
    }
    all
}
