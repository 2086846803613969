//! The letters behind an event: whom it counts (`u k h G H I`), how precisely (`p P`), and how it
//! is scheduled (`S D e W`). Meaning as in perf 6.1 (`man perf-list`, "EVENT MODIFIERS").

use super::error::Error;

/// What modifiers ask for; counts of letters, since their order does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    letters: u16,
    /// `p`s, 0 to 3.
    pub precise: u8,
}

const LETTERS: &str = "ukhGHIPSDeWb";

impl Modifiers {
    /// Whether a letter of `ukhGHIPSDeW` is there.
    pub fn has(self, letter: char) -> bool {
        LETTERS.find(letter).is_some_and(|bit| self.letters & 1 << bit != 0)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Modifiers::default()
    }
}

/// Reads modifiers without their colon; the empty text is none.
pub fn parse(text: &str) -> Result<Modifiers, Error> {
    let wrong = |reason: String| Error::Modifiers { text: text.to_owned(), reason };
    let mut modifiers = Modifiers::default();
    for letter in text.chars() {
        if letter == 'p' {
            modifiers.precise += 1;
            if modifiers.precise > 3 {
                return Err(wrong("at most three p".to_owned()));
            }
            continue;
        }
        let Some(bit) = LETTERS.find(letter) else {
            return Err(wrong(format!(
                "{letter:?} is no modifier; they are u (user), k (kernel), h (hypervisor), G (guest), H \
                 (host), I (not idle), p to ppp and P (precise), S (read the group), D (pinned), \
                 e (exclusive), W (weak group)"
            )));
        };
        if letter == 'b' {
            return Err(wrong("b (counting by BPF) is not built".to_owned()));
        }
        if modifiers.letters & 1 << bit != 0 {
            return Err(wrong(format!("{letter} stands there twice")));
        }
        modifiers.letters |= 1 << bit;
    }
    if modifiers.has('P') && modifiers.precise > 0 {
        return Err(wrong("P and p exclude each other".to_owned()));
    }
    Ok(modifiers)
}

/// Whom an event does not count, and how precise it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Not what runs in user mode.
    pub exclude_user: bool,
    /// Not what runs in the kernel.
    pub exclude_kernel: bool,
    /// Not what runs in the hypervisor.
    pub exclude_hv: bool,
    /// Not what this machine itself runs.
    pub exclude_host: bool,
    /// Not what its guests run.
    pub exclude_guest: bool,
    /// Not the idle task.
    pub exclude_idle: bool,
    /// Skid allowed: 0 any, 1 constant, 2 requested none, 3 none.
    pub precise_ip: u8,
    /// As precise as the event goes.
    pub precise_max: bool,
    /// `G` or `H` was said.
    guest_or_host: bool,
}

impl Default for Scope {
    /// What perf counts when nothing is said: everything but guests.
    fn default() -> Scope {
        Scope { exclude_guest: true, ..Scope::nothing() }
    }
}

impl Scope {
    fn nothing() -> Scope {
        Scope {
            exclude_user: false,
            exclude_kernel: false,
            exclude_hv: false,
            exclude_host: false,
            exclude_guest: false,
            exclude_idle: false,
            precise_ip: 0,
            precise_max: false,
            guest_or_host: false,
        }
    }

    /// An event's own modifiers replace the default altogether.
    pub(crate) fn of(modifiers: Modifiers) -> Scope {
        if modifiers.is_empty() { Scope::default() } else { Scope::nothing().with(modifiers) }
    }

    /// A group's modifiers come on top of those of its events.
    pub(crate) fn with(mut self, modifiers: Modifiers) -> Scope {
        if modifiers.is_empty() {
            return self;
        }
        let spaces = ['u', 'k', 'h'].iter().any(|letter| modifiers.has(*letter));
        if spaces && !(self.exclude_user || self.exclude_kernel || self.exclude_hv) {
            (self.exclude_user, self.exclude_kernel, self.exclude_hv) = (true, true, true);
        }
        self.exclude_user &= !modifiers.has('u');
        self.exclude_kernel &= !modifiers.has('k');
        self.exclude_hv &= !modifiers.has('h');
        // User code and precise sampling are the host's, unless guests are asked for.
        let host_only = modifiers.has('u') || modifiers.precise > 0;
        if (modifiers.has('G') || modifiers.has('H')) && !self.guest_or_host {
            (self.exclude_guest, self.exclude_host, self.guest_or_host) = (true, true, true);
        } else if host_only && !self.guest_or_host {
            self.exclude_guest = true;
        }
        self.exclude_guest &= !modifiers.has('G');
        self.exclude_host &= !modifiers.has('H');
        self.exclude_idle |= modifiers.has('I');
        self.precise_ip = (self.precise_ip + modifiers.precise).min(3);
        self.precise_max |= modifiers.has('P');
        self
    }
}
