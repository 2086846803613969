//! Which inlined functions and source lines an address belongs to (DWARF 4 and 5).
