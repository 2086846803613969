//! What does qemu load? The functions of [`qemu_branches`] that have C names, as a library.

use qemu_branches as _;
