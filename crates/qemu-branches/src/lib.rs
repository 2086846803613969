//! qemu-user plugin that gives an emulated CPU a branch stack.
