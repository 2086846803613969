//! Live collection into perf.data: rings, hardware branch stacks, clock samples, emulated branch stacks.
