//! Counts to source-level sample profiles: attribute, read, merge, diff, trim, write.
