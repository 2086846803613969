//! How does a result begin that is printed as JSON? With the name and the version of its form.

use serde::Serialize;

/// A result as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Form<T> {
    schema: &'static str,
    version: u32,
    /// What follows the name and the version.
    #[serde(flatten)]
    pub result: T,
}

impl<T> Form<T> {
    /// The first version of a form of this name.
    pub fn first(schema: &'static str, result: T) -> Form<T> {
        Form { schema, version: 1, result }
    }
}
