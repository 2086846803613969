//! Which threads and processes run, as /proc says.

use std::path::Path;

/// Threads of a process, in order.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    numbers_in(Path::new(&format!("/proc/{pid}/task")))
}

/// The process that a thread belongs to.
pub(crate) fn process_of(tid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Processes of a user, by the owner of their directories in /proc, in order.
pub(crate) fn processes_of(user: u32) -> Vec<i32> {
    use std::os::unix::fs::MetadataExt;
    let owned = |pid: &i32| {
        std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == user)
    };
    processes().into_iter().filter(owned).collect()
}

/// All processes, in order.
pub(crate) fn processes() -> Vec<i32> {
    numbers_in(Path::new("/proc"))
}

fn numbers_in(dir: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}
