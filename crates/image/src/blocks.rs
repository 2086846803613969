//! Which basic blocks a function has, from the address map that clang writes for Propeller.
