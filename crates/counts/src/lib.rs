//! Samples to counts per image address, with a ledger of everything that could not be used, and the mergeable artefact.
