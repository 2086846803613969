//! Plan, run and verify builds that use a profile.
