//! What will be run, in which order? A value that one seed repeats.

use crate::{Error, Metric, Random};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One of the programs under comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// The name used in results.
    pub name: String,
    /// The file that takes the place of `{bin}`.
    pub path: PathBuf,
}

/// A whole measurement before it is made. The first variant is the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The programs; at least two.
    pub variants: Vec<Variant>,
    /// Program and arguments; `{bin}` stands for the variant's path.
    pub command: Vec<String>,
    /// Rounds that count (a warm-up round is run before them).
    pub rounds: u32,
    /// Decides every run order and environment size.
    pub seed: u64,
    /// The number that decides.
    pub metric: Metric,
    /// Whether programs whose output differs are compared all the same.
    pub ignore_output: bool,
}

impl Design {
    /// Says why the design cannot be run, if it cannot.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |message: &str| Err(Error::Design(message.to_owned()));
        if self.variants.len() < 2 {
            return wrong("a comparison needs at least two programs");
        }
        if self.rounds == 0 {
            return wrong("a comparison needs at least one round");
        }
        if !self.command.iter().any(|word| word.contains("{bin}")) {
            return wrong(
                "the command does not mention {bin}, so every program under comparison would run the same; \
                 write for example: planish compare A B -- {bin} --input data",
            );
        }
        Ok(())
    }

    /// The variants in the order they run in `round`; every order is equally likely and independent of the others.
    ///
    /// A fixed alternation would run in step with periodic disturbances; blocks would follow any drift.
    pub fn order(&self, round: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.variants.len()).collect();
        self.random(round, 0).shuffle(&mut order);
        order
    }

    /// Bytes added to the environment of one run.
    ///
    /// The environment lies above the stack; its size moves the stack and with it the alignment of everything on it,
    /// which alone can make a program several per cent faster or slower (Mytkowicz et al., "Producing wrong data
    /// without doing anything obviously wrong", 2009). A random size makes that luck part of the noise.
    pub fn environment_bytes(&self, round: u32, position: usize) -> usize {
        self.random(round, position as u64 + 1).below(4096)
    }

    fn random(&self, round: u32, stream: u64) -> Random {
        let mut outer =
            Random::new(self.seed ^ (u64::from(round) << 20) ^ stream.wrapping_mul(0x5851_f42d_4c95_7f2d));
        Random::new(outer.next_bits())
    }
}

/// The command of one variant: `{bin}` replaced by its path everywhere.
pub fn bind(command: &[String], variant: &Variant) -> Vec<String> {
    let path = variant.path.to_string_lossy();
    command.iter().map(|word| word.replace("{bin}", &path)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn design(rounds: u32) -> Design {
        let variant = |name: &str| Variant { name: name.into(), path: format!("/bin/{name}").into() };
        Design {
            variants: vec![variant("a"), variant("b")],
            command: vec!["{bin}".into(), "x={bin}".into()],
            rounds,
            seed: 1,
            metric: Metric::Cpu,
            ignore_output: false,
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
        let one = design(64);
        let mut two = design(64);
        let orders = |d: &Design| (0..64).map(|r| d.order(r)).collect::<Vec<_>>();
        assert_eq!(orders(&one), orders(&two));
        two.seed = 2;
        assert_ne!(orders(&one), orders(&two));
    }

    #[test]
    fn both_orders_of_two_are_about_equally_frequent() {
        let d = design(1000);
        let first = (0..1000).filter(|&r| d.order(r)[0] == 0).count();
        assert!((440..560).contains(&first), "{first}");
    }

    #[test]
    fn the_binary_is_put_wherever_the_command_names_it() {
        let d = design(1);
        assert_eq!(bind(&d.command, &d.variants[1]), ["/bin/b", "x=/bin/b"]);
    }

    #[test]
    fn a_command_without_the_binary_is_refused() {
        let mut d = design(1);
        d.command = vec!["true".into()];
        assert!(d.check().unwrap_err().to_string().contains("{bin}"));
    }
}
