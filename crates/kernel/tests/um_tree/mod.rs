//! The parts of a kernel's tree that are edited where it is built as a process, for trees of tests.

use std::path::Path;

/// What the linker script of the real tree has in the places that are edited.
pub const SCRIPT: &str = "\
ENTRY(_start)

SECTIONS
{
  .text      :
  {
    TEXT_TEXT
  }
\t*(.rela.iplt)
  .tdata\t  : { *(.tdata .tdata.* .gnu.linkonce.td.*) }
  .tbss\t\t  : { *(.tbss .tbss.* .gnu.linkonce.tb.*) *(.tcommon) }
  .sdata     : { *(.sdata) }
}
";

/// Writes them; the rest of the tree is the caller's.
pub fn write(root: &Path) {
    for directory in ["scripts", "arch/um/kernel", "arch/um/os-Linux", "arch/x86"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for name in ["Kbuild", "Kconfig", "arch/Kconfig", "scripts/Makefile.lib"] {
        std::fs::write(root.join(name), "").unwrap();
    }
    for name in ["Kbuild", "Makefile", "Kconfig", "os-Linux/Makefile"] {
        std::fs::write(root.join("arch/um").join(name), "# own\n").unwrap();
    }
    std::fs::write(root.join("arch/um/kernel/uml.lds.S"), SCRIPT).unwrap();
}
