//! Does a reader run on the NUMA node of the rings that it reads, and does its own memory lie there?

use crate::sys::readers as sys;

/// Where a reader read and wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The CPUs whose rings it read.
    pub cpus: Vec<i32>,
    /// Bytes that it took out of rings, AUX data not among them.
    pub bytes: u64,
    /// Of these, what it took while it ran on the node of the ring's CPU, where the kernel puts the
    /// ring; looked at whenever it begins with a ring.
    pub bytes_near: u64,
    /// Pages of its own buffers, which records are gathered and compressed into.
    pub pages: u64,
    /// Of these, those on the node that it ran on at the end.
    pub pages_near: u64,
}

impl Placement {
    /// That of a reader of these CPUs' rings, before it has read any.
    pub(crate) fn of(mut cpus: Vec<i32>) -> Placement {
        cpus.sort_unstable();
        cpus.dedup();
        Placement { cpus, ..Placement::default() }
    }

    /// The calling thread takes so many bytes out of a ring that lies on `node`.
    pub(crate) fn takes(&mut self, bytes: usize, node: u32) {
        self.bytes += bytes as u64;
        if sys::node() == Some(node) {
            self.bytes_near += bytes as u64;
        }
    }

    /// The calling thread has these buffers.
    pub(crate) fn has(&mut self, buffers: &[&Vec<u8>]) {
        let Some(here) = sys::node() else { return };
        for buffer in buffers {
            let nodes = sys::nodes_of(buffer);
            self.pages += nodes.len() as u64;
            self.pages_near += nodes.iter().filter(|node| **node == here).count() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_this_thread_wrote_alone_lies_on_its_node() {
        let mut placement = Placement::of(vec![3, 1, 3]);
        assert_eq!(placement.cpus, [1, 3]);
        let Some(here) = sys::node() else { return eprintln!("skipped: no getcpu here") };
        placement.takes(100, here);
        placement.takes(10, here + 1);
        assert_eq!((placement.bytes, placement.bytes_near), (110, 100));
        let written = vec![1_u8; 1 << 20];
        placement.has(&[&written, &Vec::new()]);
        if placement.pages == 0 {
            return eprintln!("skipped: the kernel does not say where memory lies");
        }
        assert!(
            placement.pages >= (1 << 20) / crate::sys::page_bytes() as u64 - 1,
            "{placement:?}"
        );
        assert!(placement.pages_near <= placement.pages);
    }
}
