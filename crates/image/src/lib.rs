//! What an ELF file says about its code: segments, functions, blocks, inline stacks, discriminators, build ID.

pub mod debug;
