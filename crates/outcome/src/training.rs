//! What does the training say of how much can be gained?

/// A program that takes less of what ran in training can hardly gain anything visible.
const LITTLE: f64 = 0.1;

/// Says that what ran in training was hardly the program; `counted` is what `planish aggregate` or
/// `planish train record` say of it.
pub(crate) fn little_of_its_own(counted: &serde_json::Value) -> Option<String> {
    let samples = counted.get("ledger")?.get("samples")?;
    let of = |key: &str| samples.get(key)?.as_f64();
    let (all, own) = (of("entered")?, of("used")?);
    (all > 0.0 && own < LITTLE * all).then(|| {
        format!(
            "only {:.1} % of the samples lie in the program and its libraries; the others lie in system \
             libraries, the dynamic linker or other processes, which planish does not change. Let the \
             training commands do more work in the program itself",
            100.0 * own / all
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn training_that_hardly_runs_the_program_is_told() {
        let of = |own: u64| {
            little_of_its_own(
                &json!({ "ledger": { "samples": { "entered": 16724, "used": own } } }),
            )
        };
        assert!(of(69).unwrap().starts_with("only 0.4 % of the samples"));
        assert_eq!(of(16000), None);
        assert_eq!(little_of_its_own(&json!({})), None);
    }
}
