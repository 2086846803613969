//! Nothing: this package exists so that the lock file pins the source text of SQLite.
