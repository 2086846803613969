//! Where the kernel puts the executable sections of a module.
