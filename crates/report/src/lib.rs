//! Plain result values to terminal, Markdown and JSON.
