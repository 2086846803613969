//! Made-up trees with the constructs that the edits look for, in few lines of our own; no kernel
//! file is among them.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test that panics fails; not every test program uses all of it"
)]

use std::path::Path;

/// Each file of a made-up tree, with its text.
pub fn files(minor: u32) -> Vec<(&'static str, String)> {
    // 6.1 has lines in TEXT_TEXT that 6.12 has not.
    let (older, keep) = match minor {
        12 => ("", ""),
        _ => ("\t\t*(.text..refcount)\t\t\\\n", "\tMEM_KEEP(init.text*)\t\t\\\n"),
    };
    vec![
        (
            "Makefile",
            format!(
                "# made up\nVERSION = 6\nPATCHLEVEL = {minor}\nSUBLEVEL = 9\nEXTRAVERSION =\n\n\
                 include-$(CONFIG_KCOV)\t\t+= scripts/Makefile.kcov\n\
                 include-$(CONFIG_RANDSTRUCT)\t+= scripts/Makefile.randstruct\n\
                 include-$(CONFIG_GCC_PLUGINS)\t+= scripts/Makefile.gcc-plugins\n"
            ),
        ),
        ("Kbuild", "# made up\n".to_owned()),
        ("Kconfig", "# made up\n".to_owned()),
        (
            "scripts/Makefile.lib",
            "_c_flags       = $(filter-out $(CFLAGS_REMOVE_$(target-stem).o), $(KBUILD_CFLAGS))\n\
             _a_flags       = $(KBUILD_AFLAGS)\n\n\
             c_flags        = -Wp,-MMD,$(depfile) $(NOSTDINC_FLAGS)     \\\n\t\t $(_c_flags)\n\n\
             a_flags        = -Wp,-MMD,$(depfile) $(_a_flags)\n"
                .to_owned(),
        ),
        ("arch/Kconfig", "config SHADOW\n\tbool\n\nconfig LTO\n\tbool\n\nconfig LTO_CLANG\n\tbool\n\tselect LTO\n".to_owned()),
        (
            "arch/x86/Kconfig",
            "config X86\n\tselect ARCH_SUPPORTS_LTO_CLANG\n\tselect ARCH_SUPPORTS_LTO_CLANG_THIN\n".to_owned(),
        ),
        (
            "include/asm-generic/vmlinux.lds.h",
            format!(
                "#define TEXT_MAIN .text\n\n\
                 #define NOINSTR_TEXT\t\\\n\t\t*(.noinstr.text)\n\n\
                 /* TEXT_TEXT: made up */\n\
                 #define TEXT_TEXT\t\t\t\\\n\
                 \t\tALIGN_FUNCTION();\t\t\\\n\
                 \t\t*(.text.hot .text.hot.*)\t\\\n\
                 \t\t*(TEXT_MAIN .text.fixup)\t\\\n\
                 \t\t*(.text.unlikely .text.unlikely.*)\t\\\n\
                 \t\t*(.text.unknown .text.unknown.*)\t\\\n\
                 \t\tNOINSTR_TEXT\t\t\t\\\n{older}\
                 \t\t*(.ref.text)\t\t\t\\\n{keep}\
                 \t\t*(.text.asan.* .text.tsan.*)\n\n\
                 #define SCHED_TEXT\t\\\n\t\t*(.sched.text)\n"
            ),
        ),
        (
            "scripts/module.lds.S",
            "SECTIONS {\n\t__jump_table\t\t0 : ALIGN(8) { KEEP(*(__jump_table)) }\n\n\t__patchable_function_entries : { *(__patchable_function_entries) }\n}\n".to_owned(),
        ),
        (
            "arch/x86/kernel/vmlinux.lds.S",
            "SECTIONS\n{\n\t.text : {\n\t\tTEXT_TEXT\n\t\tSCHED_TEXT\n\t}\n\tDWARF_DEBUG\n\tELF_DETAILS\n\n\tDISCARDS\n}\n".to_owned(),
        ),
        (
            "arch/arm64/Kconfig",
            "config ARM64\n\tselect ARCH_SUPPORTS_LTO_CLANG if CPU_LITTLE_ENDIAN\n\tselect ARCH_SUPPORTS_LTO_CLANG_THIN\n".to_owned(),
        ),
        (
            "arch/arm64/kernel/vmlinux.lds.S",
            "SECTIONS\n{\n\t.text : ALIGN(SEGMENT_ALIGN) {\n\t\t\tENTRY_TEXT\n\t\t\tTEXT_TEXT\n\t\t\tSCHED_TEXT\n\t}\n\tDWARF_DEBUG\n\tELF_DETAILS\n\n\tHEAD_SYMBOLS\n}\n".to_owned(),
        ),
        ("arch/x86/lib/retpoline.S", "\t.section .text..__x86.return_thunk\n".to_owned()),
        (
            "drivers/firmware/efi/libstub/Makefile",
            "KASAN_SANITIZE := n\n\nlib-y\t\t\t\t:= efi-stub-helper.o file.o \\\n\t\t\t\t   mem.o\n".to_owned(),
        ),
        (
            "tools/objtool/elf.c",
            "static int hole(void)\n{\n\
             \t/* didn't find a symbol for which @offset is after it */\n\
             \tif (!hole.sym)\n\
             \t\treturn 0; /* not a hole */\n\n\
             \t/* @offset >= sym->offset + sym->len, find symbol after it */\n\
             \tn = rb_next(&hole.sym->node);\n\treturn n;\n}\n\n\
             static void add(void)\n{\n\tsym->offset = sym->sym.st_value;\n\tsym->len = sym->sym.st_size;\n}\n"
                .to_owned(),
        ),
        (
            "tools/objtool/check.c",
            "\t\tif (!strcmp(sec->name, \"__jump_table\")\t\t||\n\
             \t\t    !strcmp(sec->name, \".kcfi_traps\")\t\t\t||\n\
             \t\t    strstr(sec->name, \"__patchable_function_entries\"))\n\t\t\tcontinue;\n"
                .to_owned(),
        ),
        (
            "Documentation/dev-tools/index.rst",
            ".. toctree::\n\n   kselftest\n   kunit/index\n   ktap\n".to_owned(),
        ),
        (
            "scripts/mod/modpost.c",
            "#define TEXT_SECTIONS \".text\", \".text.*\", \".sched.text\"\n".to_owned(),
        ),
    ]
}

/// Writes a made-up tree of version 6.`minor`.9.
pub fn make(root: &Path, minor: u32) {
    for (path, text) in files(minor) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Changes one file of a tree.
pub fn edit(root: &Path, path: &str, change: impl FnOnce(String) -> String) {
    let path = root.join(path);
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = change(text.clone());
    assert_ne!(changed, text, "{} is changed", path.display());
    std::fs::write(path, changed).unwrap();
}

/// Every file below a directory with its bytes, by path.
pub fn contents(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
