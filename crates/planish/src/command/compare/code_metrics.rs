//! Noise-free metrics of the code, beside time.

use crate::cli::Global;
use anyhow::{Context, bail};
use compare::{Design, bind};
use record::code_metrics;

/// Runs every variant once under emulation on every benchmark and notes the figures.
pub fn add(design: &mut Design, global: &Global) -> anyhow::Result<()> {
    // The C library looks at the program's path while it starts, so all variants get paths of one
    // length.
    let folder = tempfile::tempdir().context("no directory for links to the programs")?;
    for benchmark in design.benchmarks.clone() {
        if benchmark.command.first().is_some_and(|word| word == build::around::PLANISH) {
            bail!(
                "--code-metrics: only the program itself is emulated, and {} starts it by something \
                 else, or with something around it; leave --code-metrics out",
                benchmark.name
            );
        }
        for (index, variant) in design.variants.iter_mut().enumerate() {
            let Some(binary) = variant.binaries.first() else { continue };
            if !global.quiet {
                eprintln!(
                    "planish: counting instructions and branches of {} under emulation",
                    variant.name
                );
            }
            let own = folder.path().join(format!("{index:04}"));
            std::fs::create_dir_all(&own)?;
            let link = own.join("program");
            if !link.exists() {
                std::os::unix::fs::symlink(std::path::absolute(binary)?, &link)
                    .with_context(|| link.display().to_string())?;
            }
            let words = bind(&benchmark.command, &link);
            let (variables, command) = with_variables(&words);
            let mut options =
                code_metrics::MetricsOptions { name: Some("program".into()), ..Default::default() };
            if let code_metrics::Environment::Fixed(fixed) = &mut options.environment {
                let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                fixed.extend(variables.into_iter().map(own));
            }
            let found = code_metrics::measure(command, &options).with_context(|| {
                format!("--code-metrics: {} on {}", variant.name, benchmark.name)
            })?;
            let figures = found.figures().into_iter().map(|f| (f.key.to_owned(), f.value));
            variant.code_metrics.insert(benchmark.name.clone(), figures.collect());
            for remark in found.remarks().iter().filter(|_| !global.quiet) {
                eprintln!("planish: {}: {remark}", variant.name);
            }
        }
    }
    Ok(())
}

/// The variables that a command sets for its program as `env NAME=VALUE… PROGRAM …`, and the program's own command.
fn with_variables(command: &[String]) -> (Vec<(&str, &str)>, &[String]) {
    let Some((_, rest)) = command.split_first().filter(|(first, _)| *first == "env") else {
        return (Vec::new(), command);
    };
    let variables: Vec<_> = rest.iter().map_while(|word| word.split_once('=')).collect();
    match rest.get(variables.len()..) {
        Some(own) if own.first().is_some_and(|word| !word.starts_with('-')) => (variables, own),
        // `env -i` and the like do more than that.
        _ => (Vec::new(), command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_before_the_program_are_its_own() {
        let of = |line: &str| {
            let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (variables, own) = with_variables(&command);
            (format!("{variables:?}"), own.join(" "))
        };
        assert_eq!(of("./a A=1"), ("[]".into(), "./a A=1".into()));
        let found = of("env A=1 B=x=2 ./a -x");
        assert_eq!(found, (r#"[("A", "1"), ("B", "x=2")]"#.into(), "./a -x".into()));
        assert_eq!(of("env -i A=1 ./a"), ("[]".into(), "env -i A=1 ./a".into()));
    }
}
