//! What can be done with profiles besides reading and writing them: merge, compare, trim, summarise.
