//! Who is told how preparing and measuring goes? Whoever shows it to a person.

/// Work in many equal steps, of which a person may want to see how many are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Links of programs in other layouts.
    Links,
    /// Runs of programs.
    Runs,
    /// Boots of kernels.
    Boots,
}

/// Hears how a comparison goes. This crate prints nothing itself.
pub trait Teller {
    /// So many steps begin, of which some are done.
    fn begin(&mut self, work: Work, done: u64, total: u64);
    /// So many steps are done.
    fn at(&mut self, done: u64);
    /// What the step under way is doing.
    fn doing(&mut self, what: &str);
    /// The steps ended, all of them or not.
    fn end(&mut self);
    /// Something that the user should know.
    fn note(&mut self, text: &str);
    /// Something that the result will lack.
    fn warn(&mut self, text: &str);
}
