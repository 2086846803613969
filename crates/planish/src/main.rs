//! The `planish` command: reads arguments, wires the stages together and chooses the exit code.
fn main() {}
