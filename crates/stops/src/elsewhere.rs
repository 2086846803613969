//! The same interface where threads cannot be stopped this way: everything says so.

use crate::{Counts, Ended, Error, StopOptions, Visitor};
use perfdata::RuntimeAddr;
use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;

/// General registers, of which nothing is known here.
pub type Registers = Infallible;

/// What became of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are described where they occur")]
pub enum Step {
    Done,
    SystemCall,
    Signal(i32),
    Stopped,
    Ended,
}

/// A thread that stands still; there is none here.
#[derive(Debug)]
pub struct Stopped<'a>(Infallible, PhantomData<&'a ()>);

#[allow(missing_docs, reason = "as on x86-64 Linux; nothing of this can be called")]
impl Stopped<'_> {
    pub fn pid(&self) -> i32 {
        match self.0 {}
    }
    pub fn tid(&self) -> i32 {
        match self.0 {}
    }
    pub fn cpu(&self) -> Option<u32> {
        match self.0 {}
    }
    pub fn time_ns(&self) -> u64 {
        match self.0 {}
    }
    pub fn cpu_time_ns(&self) -> Option<u64> {
        match self.0 {}
    }
    pub fn period(&self) -> u64 {
        match self.0 {}
    }
    pub fn registers(&self) -> io::Result<Registers> {
        match self.0 {}
    }
    pub fn xstate(&self, _area: &mut Vec<u8>) -> io::Result<()> {
        match self.0 {}
    }
    pub fn read(&self, _address: RuntimeAddr, _bytes: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
    pub fn read_many(&self, _addresses: &[RuntimeAddr], _pages: &mut [[u8; 4096]]) -> usize {
        match self.0 {}
    }
    pub fn step(&mut self) -> io::Result<Step> {
        match self.0 {}
    }
}

/// Threads of running programs; none can be had here.
#[derive(Debug)]
pub struct Tracer(Infallible);

#[allow(missing_docs, reason = "as on x86-64 Linux")]
impl Tracer {
    /// # Errors
    ///
    /// Always [`Error::Unsupported`].
    pub fn seize_child(_pid: i32, _options: &StopOptions) -> Result<Tracer, Error> {
        Err(Error::Unsupported)
    }

    /// # Errors
    ///
    /// Always [`Error::Unsupported`].
    pub fn attach(_tids_or_pids: &[i32], _options: &StopOptions) -> Result<Tracer, Error> {
        Err(Error::Unsupported)
    }

    pub fn counts(&self) -> &Counts {
        match self.0 {}
    }

    /// # Errors
    ///
    /// None: there is no tracer to call this on.
    pub fn run(
        &mut self,
        _visitor: &mut dyn Visitor,
        _stop: &dyn Fn() -> bool,
    ) -> Result<Ended, Error> {
        match self.0 {}
    }
}
