//! What is edited in a tree, file by file, as data.
//!
//! The texts lie in `kernel/` at the root of the repository; edits of a line or two stand here, and
//! may be used under GPL-2.0 too, as they become part of the kernel. The anchors are the constructs
//! that Debian's 6.1.192 and 6.12.117 have in common; that 6.6 has them too is inferred, and no
//! such tree was tried.

use crate::anchor::{Change, Edit, Line, Place};
use crate::text_order;

/// A file that is new in a prepared tree.
#[derive(Clone, Copy, Debug)]
pub struct NewFile {
    /// Its path in the tree.
    pub path: &'static str,
    /// What it holds.
    pub text: &'static str,
}

/// A file of the tree that is edited or looked at.
#[derive(Clone, Copy, Debug)]
pub struct EditedFile {
    /// Its path in the tree.
    pub path: &'static str,
    /// What is done to it, in this order.
    pub edits: &'static [Edit],
}

/// The list of documents that names those of a prepared tree. Where it is missing, the tree goes
/// without them.
pub const DOCUMENTS: &str = "Documentation/dev-tools/index.rst";

/// The files that a prepared tree has more.
pub const NEW_FILES: &[NewFile] = &[
    NewFile {
        path: "scripts/Makefile.autofdo",
        text: include_str!("../../../kernel/Makefile.autofdo"),
    },
    NewFile {
        path: "scripts/Makefile.propeller",
        text: include_str!("../../../kernel/Makefile.propeller"),
    },
    NewFile {
        path: "Documentation/dev-tools/autofdo.rst",
        text: include_str!("../../../kernel/autofdo.rst"),
    },
    NewFile {
        path: "Documentation/dev-tools/propeller.rst",
        text: include_str!("../../../kernel/propeller.rst"),
    },
];

/// The text of a part without its first line, which states the licence and stays in our repository.
const fn part(text: &'static str) -> &'static str {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\n' {
            return text.split_at(at + 1).1;
        }
        at += 1;
    }
    text
}

const fn insert(construct: &'static str, anchor: Line, place: Place, text: &'static str) -> Edit {
    Edit { construct, change: Change::Insert { anchor, place, text } }
}

const fn holds(construct: &'static str, anchor: Line) -> Edit {
    Edit { construct, change: Change::Holds { anchor } }
}

/// What is done to a processor's linker script.
const SECTIONS: &[Edit] = &[
    insert(
        "the sections that are not loaded",
        Line::Is("ELF_DETAILS"),
        Place::Before,
        part(include_str!("../../../kernel/vmlinux.lds.S.part")),
    ),
    holds("the place of ordered text", Line::Is("TEXT_TEXT")),
];

/// The files that are edited or that the edits rely on.
pub const EDITED_FILES: &[EditedFile] = &[
    EditedFile {
        path: "Makefile",
        edits: &[insert(
            "the list of included Makefiles",
            Line::Is("include-$(CONFIG_RANDSTRUCT) += scripts/Makefile.randstruct"),
            Place::After,
            "include-$(CONFIG_AUTOFDO_CLANG)\t+= \
             scripts/Makefile.autofdo\ninclude-$(CONFIG_PROPELLER_CLANG)\t+= \
             scripts/Makefile.propeller\n",
        )],
    },
    EditedFile {
        path: "scripts/Makefile.lib",
        edits: &[
            insert(
                "the flags of C files",
                Line::Starts("c_flags = -Wp,-MMD,$(depfile)"),
                Place::Before,
                part(include_str!("../../../kernel/Makefile.lib.part")),
            ),
            holds("the flags of a directory", Line::Starts("_c_flags = $(filter-out")),
        ],
    },
    EditedFile {
        path: "arch/Kconfig",
        edits: &[insert(
            "the options for link-time optimisation",
            Line::Is("config LTO"),
            Place::Before,
            part(include_str!("../../../kernel/Kconfig.options")),
        )],
    },
    EditedFile {
        path: "arch/x86/Kconfig",
        edits: &[insert(
            "what x86 supports",
            Line::Is("select ARCH_SUPPORTS_LTO_CLANG"),
            Place::After,
            "\tselect ARCH_SUPPORTS_AUTOFDO_CLANG\t\tif X86_64\n\tselect \
             ARCH_SUPPORTS_PROPELLER_CLANG\tif X86_64\n",
        )],
    },
    EditedFile {
        path: "include/asm-generic/vmlinux.lds.h",
        edits: &[Edit { construct: text_order::CONSTRUCT, change: Change::TextOrder }],
    },
    EditedFile {
        path: "scripts/module.lds.S",
        edits: &[insert(
            "the sections of modules",
            Line::Starts("__patchable_function_entries :"),
            Place::Before,
            part(include_str!("../../../kernel/module.lds.S.part")),
        )],
    },
    EditedFile { path: "arch/x86/kernel/vmlinux.lds.S", edits: SECTIONS },
    EditedFile {
        path: "arch/arm64/Kconfig",
        edits: &[insert(
            "what arm64 supports",
            Line::Is("select ARCH_SUPPORTS_LTO_CLANG_THIN"),
            Place::After,
            "\tselect ARCH_SUPPORTS_AUTOFDO_CLANG\n\tselect ARCH_SUPPORTS_PROPELLER_CLANG\n",
        )],
    },
    EditedFile { path: "arch/arm64/kernel/vmlinux.lds.S", edits: SECTIONS },
    EditedFile {
        path: "arch/x86/lib/retpoline.S",
        edits: &[Edit {
            construct: "the sections of thunks",
            change: Change::Absent {
                text: ".text.__x86.",
                reason: "The order of functions would swallow that section; take a newer stable \
                         release, where it is called `.text..__x86.`.",
            },
        }],
    },
    EditedFile {
        path: "drivers/firmware/efi/libstub/Makefile",
        edits: &[insert(
            "the objects of the EFI stub",
            Line::Starts("lib-y := efi-stub-helper.o"),
            Place::Before,
            part(include_str!("../../../kernel/Makefile.libstub.part")),
        )],
    },
    EditedFile {
        path: "tools/objtool/elf.c",
        edits: &[
            Edit {
                construct: "the search for code that belongs to no function",
                change: Change::Replace {
                    old: "\t/* didn't find a symbol for which @offset is after it */\n\tif \
                          (!hole.sym)\n\t\treturn 0; /* not a hole */\n\n\t/* @offset >= \
                          sym->offset + sym->len, find symbol after it */\n\tn = \
                          rb_next(&hole.sym->node);\n",
                    new: "\t/* the next symbol; without one before @offset, the first of the \
                          section */\n\tn = hole.sym ? rb_next(&hole.sym->node) : \
                          rb_first_cached(&sec->symbol_tree);\n",
                },
            },
            insert(
                "the type of cold parts",
                Line::Is("sym->len = sym->sym.st_size;"),
                Place::After,
                part(include_str!("../../../kernel/objtool-cold.c.part")),
            ),
        ],
    },
    EditedFile {
        path: "tools/objtool/check.c",
        edits: &[insert(
            "the sections that the IBT check leaves out",
            Line::Is("!strcmp(sec->name, \".kcfi_traps\") ||"),
            Place::After,
            "\t\t    !strcmp(sec->name, \".llvm.call-graph-profile\")\t||\n\t\t    \
             !strcmp(sec->name, \".llvm_bb_addr_map\")\t\t||\n",
        )],
    },
    EditedFile {
        path: DOCUMENTS,
        edits: &[insert(
            "the list of documents",
            Line::Is("kunit/index"),
            Place::After,
            "   autofdo\n   propeller\n",
        )],
    },
    EditedFile {
        path: "scripts/mod/modpost.c",
        edits: &[holds(
            "the names of text sections",
            Line::Starts("#define TEXT_SECTIONS \".text\", \".text.*\","),
        )],
    },
];
