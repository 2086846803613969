//! How is it told what a kernel and its modules gave to a profile or a layout?

use crate::numbers::numbered;
use crate::pct;
use kernel::together::Together;
use serde::Serialize;

/// Images that are listed at most.
const MOST: usize = 12;

/// The JSON form, with what was written.
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    #[serde(flatten)]
    told: Together,
    files: Vec<String>,
}

impl Written {
    /// Of these files.
    pub fn of<'f>(
        told: &Together,
        files: impl IntoIterator<Item = &'f (impl AsRef<std::path::Path> + 'f)>,
    ) -> Written {
        let files = files.into_iter().map(|file| file.as_ref().display().to_string());
        Written { told: told.clone(), files: files.collect() }
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
