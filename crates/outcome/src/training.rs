//! What does the training say of how much can be gained?

use std::path::Path;

/// A program that takes less of what ran in training can hardly gain anything visible.
const LITTLE: f64 = 0.1;

/// Below this share of the samples, nothing is said of a file.
const WORTH_A_WORD: f64 = 0.01;

/// Files of training and samples in them, of those that planish does not change.
type Elsewhere<'c> = Vec<(&'c str, f64)>;

/// What training says of how much can be gained, and of what; `counted` is what `planish aggregate`
/// or `planish train record` say of it, `made` where the build puts what it makes, and `last` names
/// the last build that did.
pub(crate) fn remarks(counted: &serde_json::Value, made: &Path, last: &str) -> Vec<String> {
    let (made, elsewhere): (Elsewhere<'_>, _) =
        elsewhere(counted).into_iter().partition(|(path, _)| Path::new(path).starts_with(made));
    little_of_its_own(counted, &made, &elsewhere)
        .into_iter()
        .chain(shared_by_all(counted, &made, last))
        .collect()
}

fn elsewhere(counted: &serde_json::Value) -> Elsewhere<'_> {
    fn one(file: &serde_json::Value) -> Option<(&str, f64)> {
        Some((file.get("path")?.as_str()?, file.get("samples")?.as_f64()?))
    }
    let files = counted.get("elsewhere").and_then(serde_json::Value::as_array);
    files.into_iter().flatten().filter_map(one).collect()
}

/// All samples, and those in the program and its libraries.
fn samples(counted: &serde_json::Value) -> Option<(f64, f64)> {
    let samples = counted.get("ledger")?.get("samples")?;
    let of = |key: &str| samples.get(key)?.as_f64();
    Some((of("entered")?, of("used")?))
}

/// Says that what ran in training was hardly the program, nor what its build makes.
fn little_of_its_own(
    counted: &serde_json::Value,
    made: &Elsewhere<'_>,
    elsewhere: &Elsewhere<'_>,
) -> Option<String> {
    let (all, own) = samples(counted)?;
    let of_build: f64 = made.iter().map(|(_, samples)| samples).sum();
    let most: Vec<String> = elsewhere
        .iter()
        .take(3)
        .filter(|&&(_, samples)| samples >= WORTH_A_WORD * all)
        .map(|(path, samples)| format!("{path} ({:.1} %)", 100.0 * samples / all))
        .collect();
    let others = match most.as_slice() {
        [] => "system libraries, the dynamic linker or other processes".to_owned(),
        most => format!("other files and processes, most in {}", most.join(", ")),
    };
    (all > 0.0 && own + of_build < LITTLE * all).then(|| {
        format!(
            "only {:.1} % of the samples lie in the program and its libraries; the others lie in {others}, \
             which planish does not change. Let the training commands do more work in the program itself",
            100.0 * own / all
        )
    })
}

/// Says that training ran what the build makes and planish does not know: there is one file of it,
/// that of the last build, and all programs that are measured use this one.
fn shared_by_all(counted: &serde_json::Value, made: &Elsewhere<'_>, last: &str) -> Option<String> {
    let (all, _) = samples(counted)?;
    let made: Vec<String> = made
        .iter()
        .filter(|&&(_, samples)| samples >= WORTH_A_WORD * all)
        .map(|(path, samples)| format!("{path} ({:.1} % of the samples)", 100.0 * samples / all))
        .collect();
    (!made.is_empty()).then(|| {
        format!(
            "training ran code that the build makes and that is neither the program nor a library of \
             it: {}. It is not profiled, and all programs that are compared use the same file, that of \
             {last}. If the program loads it by its name alone, as the dynamic linker does, give it in \
             [build] libraries (--library)",
            made.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn counted(own: u64, elsewhere: &[(&str, u64)]) -> serde_json::Value {
        let elsewhere: Vec<_> = elsewhere
            .iter()
            .map(|(path, samples)| json!({ "path": path, "samples": samples }))
            .collect();
        json!({ "ledger": { "samples": { "entered": 16724, "used": own } }, "elsewhere": elsewhere })
    }

    #[test]
    fn training_that_hardly_runs_the_program_is_told_with_what_it_ran() {
        let of = |own, elsewhere: &[_]| {
            remarks(&counted(own, elsewhere), Path::new("/p/out"), "the rebuild")
        };
        let told = of(69, &[]);
        assert!(told[0].starts_with("only 0.4 % of the samples"), "{told:?}");
        assert!(told[0].contains("lie in system libraries"), "{told:?}");
        let told = of(69, &[("/lib/libc.so.6", 12000), ("/usr/bin/cat", 100)]);
        assert!(told[0].contains("most in /lib/libc.so.6 (71.8 %), which"), "{told:?}");
        assert_eq!(told.len(), 1);
        assert!(of(16000, &[("/lib/libc.so.6", 700)]).is_empty());
        assert!(remarks(&json!({}), Path::new("/p"), "the rebuild").is_empty());
    }

    #[test]
    fn what_the_build_makes_and_all_programs_load_is_told() {
        let of = |elsewhere: &[_]| {
            remarks(&counted(16000, elsewhere), Path::new("/p/out"), "the rebuild")
        };
        let told = of(&[("/p/out/plugin.so", 700), ("/p/out/rare.so", 2), ("/p/outer.so", 900)]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("it: /p/out/plugin.so (4.2 % of the samples). It"), "{told:?}");
        assert!(told[0].contains("the same file, that of the rebuild."), "{told:?}");
        assert!(of(&[("/p/out/plugin.so", 100)]).is_empty());
        // What the build makes is not what the program hardly runs of its own.
        let counted = counted(69, &[("/p/out/plugin.so", 16000)]);
        assert_eq!(remarks(&counted, Path::new("/p/out"), "the rebuild").len(), 1);
    }
}
