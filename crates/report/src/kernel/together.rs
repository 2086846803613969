//! How is it told what a kernel and its modules gave to a profile or a layout?

use crate::numbers::numbered;
use crate::pct;
use kernel::together::Together;
use serde::Serialize;
use std::path::PathBuf;

/// Images that are listed at most.
const MOST: usize = 12;

/// The JSON form, with what was written.
#[derive(Clone, Debug, Serialize)]
pub struct Written<'t> {
    #[serde(flatten)]
    told: &'t Together,
    files: Vec<String>,
}

impl<'t> Written<'t> {
    /// Of these files.
    pub fn of(told: &'t Together, files: &[PathBuf]) -> Written<'t> {
        let files = files.iter().map(|file| file.display().to_string()).collect();
        Written { told, files }
    }
}

/// A line for each image, most executions first, and what was left out; `all_names` names what nothing
/// was counted in, too.
pub fn text(told: &Together, all_names: bool) -> String {
    let all = told.images.iter().fold(0u64, |sum, one| sum.saturating_add(one.executions));
    let mut images: Vec<_> = told.images.iter().collect();
    images.sort_by_key(|image| std::cmp::Reverse(image.executions));
    let mut text = format!("{:>7} {:>16}\n", "share", "of executions");
    let rest = images.split_off(images.len().min(MOST));
    let mut line = |executions: u64, functions: u64, name: &str| {
        let share = if all == 0 { 0.0 } else { executions as f64 / all as f64 };
        let functions = numbered(functions, "function", "functions");
        text += &format!("{:>7} {functions:>16}  {name}\n", pct(share));
    };
    for image in images {
        line(image.executions, image.functions, &image.path);
    }
    if !rest.is_empty() {
        let sum = |of: fn(&kernel::together::Given) -> u64| rest.iter().map(|one| of(one)).sum();
        let name = numbered(rest.len() as u64, "module more", "modules more");
        line(sum(|one| one.executions), sum(|one| one.functions), &name);
    }
    if !told.hardly.is_empty() {
        text += &format!("left out, as hardly anything was counted: {}\n", told.hardly.join(", "));
    }
    if !told.shared.is_empty() {
        let functions = numbered(told.shared.len() as u64, "function", "functions");
        let are = if told.shared.len() == 1 { "is" } else { "are" };
        let names = told.shared.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
        text += &format!(
            "note: {functions} that several images have {are} laid out as in the first: {names}\n"
        );
    }
    if !told.idle.is_empty() {
        let idle = numbered(told.idle.len() as u64, "module", "modules");
        let names = if all_names { format!(": {}", told.idle.join(", ")) } else { String::new() };
        text += &format!("nothing was counted in {idle}{names}\n");
    }
    if !told.other_build.is_empty() {
        text += &format!(
            "warning: left out, as another build of it was recorded: {}; give the file that was \
             loaded with --module\n",
            told.other_build.join(", ")
        );
    }
    for (name, samples) in &told.unknown {
        let samples = numbered(*samples, "sample", "samples");
        text += &format!(
            "warning: {samples} in the module {name}, whose file is not given; add it with --module\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::together::Given;

    #[test]
    fn what_is_left_out_is_told() {
        let given =
            |path: &str, executions: u64| Given { path: path.to_owned(), functions: 2, executions };
        let told = Together {
            images: vec![given("vmlinux", 25), given("a.ko", 75)],
            hardly: vec!["b.ko".to_owned()],
            idle: vec!["c.ko".to_owned()],
            other_build: vec!["d.ko".to_owned()],
            unknown: vec![("e".to_owned(), 7)],
            shared: vec!["f".to_owned()],
        };
        let said = text(&told, false);
        let places = ["75.0 %", "25.0 %", "hardly anything was counted: b.ko", "have is laid out"];
        assert!(places.map(|part| said.find(part).unwrap()).is_sorted(), "{said}");
        for part in ["in 1 module\n", "was recorded: d.ko;", "7 samples in the module e,", ": f\n"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(text(&told, true).contains("in 1 module: c.ko"));
    }
}
