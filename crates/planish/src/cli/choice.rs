//! How does an option with few words give values of the libraries? By a list: word, value, and what
//! `--help` says of it.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use std::ffi::OsStr;

/// The words of an option, each with what it stands for and what `--help` says of it.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T: 'static>(pub &'static [(&'static str, T, &'static str)]);

impl<T: Copy + Send + Sync> Choice<T> {
    fn words(self) -> impl Iterator<Item = PossibleValue> {
        self.0.iter().map(|(word, _, help)| PossibleValue::new(*word).help(*help))
    }
}

impl<T: Copy + Send + Sync> TypedValueParser for Choice<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let known = PossibleValuesParser::new(self.words());
        let word = known.parse_ref(command, argument, value)?;
        let found = self.0.iter().find(|(of, ..)| *of == word).map(|(_, value, _)| *value);
        found.ok_or_else(|| clap::Error::new(ErrorKind::InvalidValue).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words()))
    }
}
