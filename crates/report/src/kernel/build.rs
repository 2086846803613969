//! How is a kernel's build told?

use kernel::build::Built;

/// For how many objects profile and layout were, and what make did.
pub fn text(built: &Built) -> String {
    let made = &built.made;
    let mut lines = Vec::new();
    if let Some(chosen) = &built.profiled {
        lines.push(format!(
            "profile: for {} of {} objects, with {:.2} % of the samples that belong to this \
             build; {:.1} % belong to none of its functions",
            chosen.objects.len(),
            chosen.of,
            100.0 * chosen.samples_held as f64 / chosen.samples_known.max(1) as f64,
            100.0 * (1.0 - chosen.known_share()),
        ));
    }
    if let Some(chosen) = &built.laid_out {
        lines.push(format!(
            "layout: {} functions in {} of {} objects",
            chosen.samples_held,
            chosen.objects.len(),
            chosen.of
        ));
    }
    lines.push(format!(
        "make: {} files compiled in {:.0} s; {}",
        made.compiled,
        made.seconds,
        built.log.display()
    ));
    match made.warnings.as_slice() {
        [] => {}
        [first, ..] => lines.push(format!(
            "warning: make printed {} warnings; the first: {first}",
            made.warnings.len()
        )),
    }
    lines.join("\n") + "\n"
}
