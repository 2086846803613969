//! What a record's time is: a clock, or its place in the file where the recording carries no times.

use perfdata::Input;

/// What the times of records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Nanoseconds of the recording's clock.
    Time,
    /// Positions in the recording.
    Position,
}

impl Clock {
    /// That of a recording.
    pub fn of(input: &Input) -> Clock {
        let timed = |a: &perfdata::EventAttr| {
            a.sample_type & perfdata::sample_type::TIME != 0 && a.sample_id_all()
        };
        if input.attrs().iter().all(timed) { Clock::Time } else { Clock::Position }
    }
}
