//! The limit of open files (RLIMIT_NOFILE): raised as far as it goes while something is recorded,
//! then put back.

/// While this lives, the soft limit is the hard one: many threads on many CPUs need many events. A
/// program that is forked before keeps the limit that the recorder was started with.
pub(crate) struct FileLimit(Option<libc::rlimit>);

impl FileLimit {
    /// Raises it.
    pub(crate) fn raise() -> FileLimit {
        let Some(before) = limit() else { return FileLimit(None) };
        let raised = libc::rlimit { rlim_cur: before.rlim_max, ..before };
        // SAFETY: the call reads a local structure.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) };
        FileLimit((done == 0).then_some(before))
    }
}

impl Drop for FileLimit {
    /// Descriptors beyond the limit stay open.
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the call reads a structure that the kernel returned.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, before) };
        }
    }
}

fn limit() -> Option<libc::rlimit> {
    // SAFETY: the call fills a local structure, for which all zeros are valid.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0).then_some(limit)
    }
}

/// How many descriptors this process may have now.
pub(crate) fn allowed() -> u64 {
    limit().map_or(u64::MAX, |limit| limit.rlim_cur)
}

/// How many it has.
pub(crate) fn in_use() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_put_back() {
        let before = limit().unwrap();
        let raised = FileLimit::raise();
        assert_eq!(allowed(), before.rlim_max);
        drop(raised);
        assert_eq!(allowed(), before.rlim_cur);
        assert!(in_use() > 2);
    }
}
