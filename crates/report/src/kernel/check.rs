//! How is it told which objects of a kernel's build have the flags for profiles?

use kernel::check::Checked;

/// The flags of each area with an example, all odd objects where `verbose`, and what is wrong.
pub fn text(found: &Checked, verbose: bool) -> String {
    let word = |on: bool| if on { "on" } else { "off" };
    let mut lines = vec![
        format!("AUTOFDO_CLANG {}, PROPELLER_CLANG {}", word(found.autofdo), word(found.propeller)),
        "C objects of  all  AutoFDO  Propeller  for example".to_owned(),
    ];
    for area in &found.areas {
        let (object, flags) = &area.example;
        let flags = if flags.is_empty() { "no flags".to_owned() } else { flags.join(" ") };
        lines.push(format!(
            "{:<10} {:>6} {:>8} {:>10}  {object}: {flags}",
            area.area.name(),
            area.objects,
            area.autofdo,
            area.propeller
        ));
        let without = if area.area.is_profiled() { area.odd.as_slice() } else { &[] };
        if !without.is_empty() {
            let shown = if verbose { without.len() } else { 8.min(without.len()) };
            let more = without.len() - shown;
            let more = if more > 0 { format!(" and {more} more (-v)") } else { String::new() };
            let shown = without.get(..shown).unwrap_or_default().join(" ");
            lines.push(format!(
                "           not as the configuration says (opted out?): {shown}{more}"
            ));
        }
    }
    if let Some(linked) = &found.linked {
        let bytes =
            |what: Option<u64>| what.map_or("none".to_owned(), |bytes| format!("{bytes} bytes"));
        lines.push(format!(
            "vmlinux: hot text {}, unlikely {}, split {}, block map {}",
            bytes(linked.hot_bytes),
            bytes(linked.unlikely_bytes),
            bytes(linked.split_bytes),
            bytes(linked.block_map_bytes)
        ));
    }
    lines.extend(found.wrong.iter().map(|wrong| format!("wrong: {wrong}")));
    lines.join("\n") + "\n"
}
