//! Which processes are there, and which of them were started by others that are named?

use std::collections::HashMap;
use std::path::Path;

/// All processes, in order.
pub fn all() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// Whether a process or thread is there and has not ended, waited for or not.
pub fn is_running(id: i32) -> bool {
    state(id).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// The processes named that run, and all that descend from them.
pub fn family(roots: &[i32]) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in all() {
        if let Some((state, parent)) = state(pid)
            && !matches!(state, 'Z' | 'X')
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found: Vec<i32> = Vec::new();
    let mut next: Vec<i32> = roots.iter().copied().filter(|pid| is_running(*pid)).collect();
    while let Some(pid) = next.pop() {
        if !found.contains(&pid) {
            found.push(pid);
            next.extend(children.remove(&pid).unwrap_or_default());
        }
    }
    found.sort_unstable();
    found
}

/// State and parent of a process, behind its name, which may hold anything.
fn state(id: i32) -> Option<(char, i32)> {
    let path = Path::new("/proc").join(id.to_string()).join("stat");
    let text = std::fs::read_to_string(path).ok()?;
    let (_, behind) = text.rsplit_once(") ")?;
    let mut words = behind.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_of_children_belong_to_a_process_until_they_end() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & read line; kill $!"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let begun = std::time::Instant::now();
        while family(&[pid]).len() < 2 {
            assert!(begun.elapsed().as_secs() < 60);
        }
        assert!(family(&[own]).len() >= 3 && family(&[own]).contains(&pid));
        drop(shell.stdin.take());
        while is_running(pid) {
            assert!(begun.elapsed().as_secs() < 60);
        }
        // It has ended, and nobody has asked how.
        assert!(family(&[pid]).is_empty());
        shell.wait().unwrap();
        assert!(!is_running(pid) && !is_running(i32::MAX));
    }
}
