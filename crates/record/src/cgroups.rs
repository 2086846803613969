//! Control groups: where their hierarchy is mounted, which one each event belongs to, and the
//! numbers by which samples name them.
//!
//! Version 1 is a hierarchy of its own, mounted with the option `perf_event`; otherwise it is the
//! one of version 2 (`man 7 cgroups`). A group's number in samples is the inode of its directory
//! (`cgroup_id` in the kernel).

use crate::Error;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A group that events are opened for.
#[derive(Debug)]
pub(crate) struct Cgroup {
    /// As the user wrote it.
    pub name: String,
    /// Its directory.
    pub dir: File,
}

impl Cgroup {
    /// What it means that the kernel refuses an event for it; `None` where that has nothing to do
    /// with the group.
    pub(crate) fn refused(&self, event: &str, error: &std::io::Error) -> Option<Error> {
        let reason = match error.raw_os_error()? {
            libc::EINVAL => format!(
                "the kernel refuses {event} for it ({error}): all events of a group between \
                 braces need the same control group, and the kernel needs CONFIG_CGROUP_PERF"
            ),
            libc::EBADF | libc::ENOENT => {
                format!(
                    "the kernel refuses {event} for it ({error}): it is no control group, or it \
                     is gone"
                )
            }
            _ => return None,
        };
        Some(Error::Cgroup { name: self.name.clone(), reason })
    }
}

/// The group of each of `events` events; `None` is the whole system, which an empty name asks for.
pub(crate) fn each(names: &[String], events: usize) -> Result<Vec<Option<Arc<Cgroup>>>, Error> {
    let refused = |name: &str, reason: String| Error::Cgroup { name: name.to_owned(), reason };
    if names.is_empty() {
        return Ok(vec![None; events]);
    }
    if names.len() != 1 && names.len() != events {
        let reason = format!(
            "there are {} names for {events} events; give one for all, or one for each event in \
             their order (an empty one is the whole system)",
            names.len()
        );
        return Err(refused(&names.join(","), reason));
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let Some(root) = mount(&mounts) else {
        let reason = "no hierarchy for perf events is mounted: neither cgroup2 nor a cgroup with \
                      perf_event"
            .to_owned();
        return Err(refused(&names.join(","), reason));
    };
    let open = |name: &String| {
        if name.is_empty() {
            return Ok(None);
        }
        let path = root.join(name.trim_start_matches('/'));
        if name.split('/').any(|part| part == "..") {
            return Err(refused(name, format!("it is to be a path below {}", root.display())));
        }
        let dir = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(&path);
        let dir = dir.map_err(|error| refused(name, format!("{}: {error}", path.display())))?;
        Ok(Some(Arc::new(Cgroup { name: name.clone(), dir })))
    };
    let mut found = names.iter().map(open).collect::<Result<Vec<_>, Error>>()?;
    if let [one] = &found[..] {
        found = vec![one.clone(); events];
    }
    Ok(found)
}

/// Where the hierarchy that counts for perf events is mounted, by the lines of `/proc/self/mounts`.
fn mount(mounts: &str) -> Option<PathBuf> {
    let mut second = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(place), Some(kind), Some(options)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        // The kernel writes a blank as an octal number.
        let place = PathBuf::from(place.replace("\\040", " "));
        match kind {
            "cgroup" if options.split(',').any(|option| option == "perf_event") => {
                return Some(place);
            }
            "cgroup2" => second = second.or(Some(place)),
            _ => {}
        }
    }
    second
}

/// All groups there are: number, and path from the root of the hierarchy.
pub(crate) fn all() -> Vec<(u64, String)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mount(&mounts).map_or_else(Vec::new, |root| below(&root))
}

fn below(root: &Path) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        // One that is removed meanwhile has no processes.
        let Ok(entry) = std::fs::symlink_metadata(&dir) else { continue };
        let path = dir.strip_prefix(root).unwrap_or(&dir).to_string_lossy();
        found.push((entry.ino(), format!("/{path}")));
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        left.extend(entries.flatten().filter(is_dir).map(|entry| entry.path()));
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_version_one_comes_first_where_it_has_perf_events() {
        let second = "cgroup2 /sys/fs/cgroup/my\\040place cgroup2 rw,relatime 0 0\n";
        let first = "cgroup /sys/fs/cgroup/perf cgroup rw,relatime,cpu,perf_event 0 0\n";
        let other = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\ntmpfs /tmp tmpfs rw 0 \
                     0\nbroken\n";
        assert_eq!(mount(&[other, second].concat()), Some("/sys/fs/cgroup/my place".into()));
        assert_eq!(mount(&[second, other, first].concat()), Some("/sys/fs/cgroup/perf".into()));
        assert_eq!(mount(other), None);
    }

    #[test]
    fn names_are_for_all_events_or_one_for_each() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(each(&[], 2).unwrap().iter().filter(|one| one.is_none()).count(), 2);
        assert_eq!(each(&names(","), 2).unwrap().len(), 2);
        let said = each(&names("a,b"), 3).unwrap_err().to_string();
        assert!(said.contains("2 names for 3 events"), "{said}");
        for wrong in ["../etc", "no-group-of-this-name"] {
            assert!(each(&names(wrong), 1).unwrap_err().to_string().contains(wrong));
        }
    }

    #[test]
    fn only_what_the_group_can_be_blamed_for_is_its_refusal() {
        let group = Cgroup { name: "web.slice".to_owned(), dir: File::open("/").unwrap() };
        let said = |code| group.refused("cpu-clock", &std::io::Error::from_raw_os_error(code));
        assert!(said(libc::ENOENT).unwrap().to_string().contains("no control group"));
        assert!(said(libc::EINVAL).unwrap().to_string().contains("CONFIG_CGROUP_PERF"));
        for other in [libc::EMFILE, libc::EACCES, libc::EBUSY] {
            assert!(said(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_tree_is_listed_with_paths_from_its_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let mut paths: Vec<String> = below(dir.path()).into_iter().map(|(_, path)| path).collect();
        paths.sort();
        assert_eq!(paths, ["/", "/a", "/a/b"]);
    }
}
