//! Are variants built and linked in orders, each once, by a build that is called as the kernel's is? The tree here has a
//! Makefile of its own with the kernel's targets and variables: clang and lld are real, and the rest is small.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use kernel::Architecture;
use kernel::experiment::{Experiment, Form, Images, KernelVariant};
use kernel::make::Make;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const MAKEFILE: &str = r#"
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 1
CC := clang$(LLVM)
allnoconfig:
	mkdir -p $(O) && grep -v CONFIG_MISSING $(KCONFIG_ALLCONFIG) > $(O)/.config
FLAGS := $(CC) $(KCFLAGS)
.PHONY: force
$(O)/flags: force
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
$(O)/%.o: %.c $(O)/flags
	@echo "  CC $@"
	$(CC) -O1 $(KCFLAGS) -c $< -o $@
vmlinux: $(O)/vmlinux
$(O)/vmlinux: $(O)/a.o $(O)/b.o $(O)/c.o
	cd $(O) && $(LD) -e f0 -o .tmp_vmlinux1 a.o b.o c.o && $(LD) -e f0 -o vmlinux a.o b.o c.o
bzImage: vmlinux
	mkdir -p $(O)/arch/x86/boot
	(head -c 514 /dev/zero; printf HdrS; cat $(O)/vmlinux) > $(O)/arch/x86/boot/bzImage
"#;

fn tree(root: &Path) {
    std::fs::create_dir_all(root.join("arch")).unwrap();
    std::fs::create_dir_all(root.join("scripts")).unwrap();
    for name in ["Kbuild", "Kconfig", "arch/Kconfig", "scripts/Makefile.lib"] {
        std::fs::write(root.join(name), "").unwrap();
    }
    std::fs::write(root.join("Makefile"), MAKEFILE).unwrap();
    for (file, functions) in [("a", 0..4), ("b", 4..8), ("c", 8..12)] {
        let one = |n: i32| format!("int f{n}(int x) {{ return x * {n} + 7; }}\n");
        std::fs::write(root.join(format!("{file}.c")), functions.map(one).collect::<String>())
            .unwrap();
    }
}

/// The functions in the order of their addresses.
fn functions(image: &Path) -> Vec<String> {
    let bytes = std::fs::read(image).unwrap();
    let elf = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(elf.path(), &bytes[518..]).unwrap();
    let said =
        Command::new("llvm-nm-22").args(["-n", "--defined-only"]).arg(elf.path()).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let names = said
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .filter(|name| name.starts_with('f'));
    names.map(str::to_owned).collect()
}

fn of(name: &str, words: &[&str]) -> KernelVariant {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    KernelVariant::of(name, &words).unwrap()
}

fn built(experiment: &Experiment, variant: &KernelVariant) -> (Images, BTreeSet<u32>) {
    let mut orders = BTreeSet::new();
    let images = experiment
        .build(variant, &mut |order, _| {
            orders.insert(order);
        })
        .unwrap();
    (images, orders)
}

#[test]
fn variants_are_built_beside_each_other_and_linked_in_orders_once() {
    if Command::new("clang-22").arg("--version").output().is_err() {
        println!("skipped: clang-22 is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("tree"), folder.path().join("out"));
    tree(&root);
    let make = Make { llvm: Some("-22".to_owned()), cc: None, jobs: None };
    let open = |options: &str, orders| {
        let begin = Some(format!("CONFIG_A=y\n{options}"));
        let form = Form::Image(Architecture::X86_64);
        let experiment = Experiment::open(&root, &out, begin, make.clone(), orders, form);
        experiment.unwrap()
    };
    let base = of("base", &[]);
    let experiment = open("", 3);
    // alldefconfig is what a configuration of the user's begins with.
    std::fs::write(root.join("Makefile"), MAKEFILE.replace("allnoconfig", "alldefconfig")).unwrap();
    let (images, orders) = built(&experiment, &base);
    assert_eq!((images.images.len(), images.compiled), (4, 3));
    assert_eq!(orders, (0..=3).collect());
    assert!(images.freedom.contains("object files"), "{}", images.freedom);
    let natural = functions(&images.images[0]);
    assert_eq!(natural.len(), 12);
    let different: BTreeSet<Vec<String>> =
        images.images.iter().map(|image| functions(image)).collect();
    // Three object files have six orders.
    assert!((2..=4).contains(&different.len()), "{different:?}");
    // Each image has all of them, and those of a file stand together.
    assert!(different.iter().all(|order| order.len() == 12));
    // Nothing is left to do but the link as built, which shows that nothing has changed.
    let (again, orders) = built(&experiment, &base);
    assert_eq!((again.images, again.compiled), (images.images.clone(), 0));
    assert_eq!(orders, [0].into());
    // More orders are added to those that are there.
    assert_eq!(built(&open("", 4), &base).1, [0, 4].into());

    let aligned = of("aligned", &["KCFLAGS=-falign-functions=256"]);
    let (other, _) = built(&experiment, &aligned);
    assert_eq!(other.compiled, 3);
    assert_eq!(functions(&other.images[0]), natural);
    assert_ne!(std::fs::read(&other.images[0]).unwrap(), std::fs::read(&images.images[0]).unwrap());

    // What does not concern an object leaves it as it is in the build that is there.
    let (shares, orders) = built(&experiment, &of("shares", &["CONFIG_B=y"]));
    assert_eq!((shares.compiled, orders), (0, (0..=3).collect()));
    assert_eq!(functions(&shares.images[0]), natural);

    // With sections for functions, each of them may go anywhere.
    let fine = open("CONFIG_AUTOFDO_CLANG=y\n", 2);
    let (fine, orders) = built(&fine, &base);
    assert_eq!((fine.compiled, orders), (3, (0..=2).collect()), "other flags");
    std::fs::write(
        root.join("a.c"),
        "int f0(int x) { return x; }\nint f1(int x) { return x + 2; }\n",
    )
    .unwrap();
    let (changed, orders) = built(&open("CONFIG_AUTOFDO_CLANG=y\n", 2), &base);
    assert!(changed.freedom.contains("order of functions"), "{}", fine.freedom);
    assert_eq!(
        (changed.compiled, orders),
        (1, (0..=2).collect()),
        "the orders of before are of another kernel"
    );

    // What cannot be is said, with the end of what make said.
    let missing = of("missing", &["CONFIG_MISSING=y"]);
    let error = experiment.build(&missing, &mut |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("CONFIG_MISSING=y did not last"), "{error}");
    std::fs::write(root.join("b.c"), "int f4(int x) { return y; }\n").unwrap();
    let error = experiment.build(&of("broken", &[]), &mut |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("undeclared identifier"), "{error}");
}
