//! What a run of the workload said on its console, by the reader that recordings are made with.

use record::machine::{Section, Statement, Timing};

/// Everything that the workload said, in order.
pub struct Said {
    /// What the reader understands.
    pub statements: Vec<Statement>,
    /// Lines of the workload that it does not.
    pub others: Vec<String>,
}

impl Said {
    /// Reads a console's text.
    pub fn read(text: &str) -> Said {
        let statements = text.lines().filter_map(Statement::read).collect();
        let is_other = |line: &&str| line.contains("planish: ") && Statement::read(line).is_none();
        Said { statements, others: text.lines().filter(is_other).map(str::to_owned).collect() }
    }

    /// The sections that began.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.statements.iter().filter_map(|said| match said {
            Statement::Section(section) => Some(section),
            _ => None,
        })
    }

    /// Number and reason of each failure.
    pub fn failures(&self) -> Vec<(u8, &str)> {
        let failure = |said| match said {
            &Statement::Failed { number, ref text } => Some((number, text.as_str())),
            _ => None,
        };
        self.statements.iter().filter_map(failure).collect()
    }

    /// The index over the sections of one kind, where it was said once.
    pub fn index(&self, held_out: bool) -> Option<u64> {
        let mut found = self.statements.iter().filter_map(|said| match said {
            Statement::Index(index) if index.held_out == held_out => Some(index.tenths),
            _ => None,
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// Whether it came to its end.
    pub fn ended(&self) -> bool {
        self.statements.last() == Some(&Statement::End)
    }

    /// Whether it began, every section was followed by its result, and it ended; and it said
    /// nothing else but indexes.
    pub fn complete(&self) -> bool {
        let [Statement::Begin { form: Statement::FORM }, rest @ .., _] = &self.statements[..]
        else {
            return false;
        };
        let runs = rest
            .iter()
            .rposition(|said| !matches!(said, Statement::Index(_)))
            .map_or(0, |at| at + 1);
        let (runs, indexes) = rest.split_at(runs);
        let done = |pair: &[Statement]| match pair {
            [
                Statement::Section(section),
                Statement::Result(Timing { number, operations: 1.., nanoseconds: 1.. }),
            ] => section.number == *number,
            _ => false,
        };
        self.ended()
            && !runs.is_empty()
            && (1..=2).contains(&indexes.len())
            && runs.chunks(2).all(done)
    }
}
