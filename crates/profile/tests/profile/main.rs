//! What sample profiles keep through every format, and what the installed compilers and tools make
//! of them.

mod compilers;
mod damage;
mod matching;
mod matching_runs;
mod operations;
mod peers;
mod properties;
mod samples;
mod tools;
