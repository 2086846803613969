//! How does a result say what it is? Every JSON object that planish prints has the name and the
//! version of its form in front.

use serde::Serialize;

/// A result with the name and the version of its form in front, as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub struct Form<T> {
    schema: &'static str,
    version: u32,
    /// What follows the name and the version.
    #[serde(flatten)]
    pub result: T,
}

impl<T: Serialize> Form<T> {
    /// The first version of a form of this name.
    pub fn first(schema: &'static str, result: T) -> Form<T> {
        Form { schema, version: 1, result }
    }
}
