//! What goes to the standard streams and to files that users name, by the crate `terminal`.

use crate::cli::BAD_INPUT;
pub use terminal::{
    Stream, error_text, print, print_json, raw, refuse_inputs, refuse_without_directory, screen,
    text, write_file,
};

/// The exit code where a stream did not take what it was sent; says so on standard error, unless
/// `told` did.
pub fn finish(told: &str) -> Option<u8> {
    terminal::failed(told).then_some(BAD_INPUT)
}

/// A path as a word of a command that can be pasted into a shell.
pub fn word(path: &std::path::Path) -> String {
    build::quoted(&path.to_string_lossy())
}

/// Whether an error shows lines of a file or of another program, which stand below it.
pub fn has_lines(error: &(dyn std::error::Error + 'static)) -> bool {
    use build::Error::{Config, Step};
    error
        .downcast_ref::<build::Error>()
        .is_some_and(|error| matches!(error, Config { .. } | Step { .. }))
        || error
            .downcast_ref::<relink::Error>()
            .is_some_and(|error| matches!(error, relink::Error::Link { .. }))
        || error.is::<record::code_metrics::Error>()
        || error.is::<workload::Error>()
        || error
            .downcast_ref::<kernel::Error>()
            .is_some_and(|error| matches!(error, kernel::Error::Make { .. }))
}

/// Colours on standard error where it is a terminal and the user does not object.
pub fn error_style() -> report::Style {
    Stream::Error.style()
}
