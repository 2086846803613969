//! How are the variants built, and linked again in other orders? Each in a directory of its own, by the kernel's own make,
//! with a linker in front of lld that shuffles sections when vmlinux is linked.
//!
//! Everything that follows the link (kallsyms, tables of unwinding and of the boot image) is made anew for each order by
//! the kernel's own build, since the order reaches the linker through a variable of make that no command line names: so no
//! object is compiled again. Orders are those of lld's `--shuffle-sections` with the order's number as its seed. Names
//! of sections that mean a place (`.text..x`, `.init.text`, `.entry.text`) are left alone.

use super::begun;
use super::form::Form;
use super::stamp::Stamp;
use super::variant::KernelVariant;
use crate::Error;
use crate::config::Config;
use crate::make::{Made, Make, run};
use crate::tree::Tree;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What all builds have, so that the same sources give the same image.
const SAME: [&str; 4] = [
    "KBUILD_BUILD_TIMESTAMP=1970-01-01",
    "KBUILD_BUILD_VERSION=1",
    "KBUILD_BUILD_USER=planish",
    "KBUILD_BUILD_HOST=planish",
];
/// With one of these on, the linker script takes functions that have sections of their own.
const BY_FUNCTION: [&str; 3] = ["AUTOFDO_CLANG", "PROPELLER_CLANG", "LTO_CLANG"];
/// Sections whose order is left to chance.
const SHUFFLED: [&str; 5] = [".text", ".text.[0-9a-zA-Z_]*", ".rodata", ".data", ".bss"];

/// Where and how variants are built.
#[derive(Debug)]
pub struct Experiment {
    tree: PathBuf,
    directory: PathBuf,
    /// The configuration that all variants begin with, and whether what it does not name is off.
    begin: String,
    is_small: bool,
    make: Make,
    orders: u32,
    form: Form,
}

/// The images of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// As it was built, then one for each order.
    pub images: Vec<PathBuf>,
    /// The kernel with symbols, as it was built.
    pub vmlinux: PathBuf,
    /// What the orders leave to chance, in words.
    pub freedom: String,
    /// What make did.
    pub compiled: u64,
}

impl Experiment {
    /// An experiment on a tree, whose builds lie in `directory`, as kernels of a form; `begin` is the configuration to
    /// begin with, in place of a small one.
    ///
    /// # Errors
    /// Where the tree is none, or the directory cannot be written.
    pub fn open(
        tree: &Path,
        directory: &Path,
        begin: Option<String>,
        make: Make,
        orders: u32,
        form: Form,
    ) -> Result<Experiment, Error> {
        let root = tree.canonicalize().map_err(Error::io(tree))?;
        Tree::open(&root)?;
        let directory = form.directory(directory);
        std::fs::create_dir_all(&directory).map_err(Error::io(&directory))?;
        let directory = directory.canonicalize().map_err(Error::io(&directory))?;
        let tree = form.tree(root, &directory)?;
        let is_small = begin.is_none();
        let begin = begin.unwrap_or_else(|| form.configuration());
        let experiment = Experiment { tree, directory, begin, is_small, make, orders, form };
        experiment.write_linker()?;
        Ok(experiment)
    }

    /// The linker that make calls: lld, in the order that the environment says where it links vmlinux.
    fn write_linker(&self) -> Result<(), Error> {
        let release = self.make.release()?;
        let lld = if release == "1" { "ld.lld".to_owned() } else { format!("ld.lld{release}") };
        let mut script = format!(
            "#!/bin/sh\n# Made by planish kernel compare. Links vmlinux in the order PLANISH_ORDER of code and data.\n\
             if [ \"${{PLANISH_ORDER:-0}}\" != 0 ]; then\n  last=\n  for word in \"$@\"; do\n    case $last$word in\n      \
             -ovmlinux | -o.tmp_vmlinux*) exec {lld}"
        );
        for section in SHUFFLED {
            let _ = write!(script, " \"--shuffle-sections={section}=$PLANISH_ORDER\"");
        }
        let _ = write!(
            script,
            " \"$@\" ;;\n    esac\n    last=$word\n    [ \"$last\" = -o ] || last=\n  done\nfi\nexec {lld} \"$@\"\n"
        );
        let path = self.form.linker(&self.directory);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        if std::fs::read(&path).is_ok_and(|there| there == script.as_bytes()) {
            return Ok(());
        }
        let written =
            beside::named::write_with_mode(&path, 0o755, |out| out.write_all(script.as_bytes()));
        written.map_err(Error::io(&path))
    }

    /// The directory of a variant's build.
    pub fn build_directory(&self, variant: &KernelVariant) -> PathBuf {
        self.directory.join(&variant.name)
    }

    fn words(&self, variant: &KernelVariant, flags: Option<&str>) -> Result<Vec<String>, Error> {
        let build = self.build_directory(variant);
        let mut words = self.make.words_for(&self.tree, &build, self.form.architecture())?;
        words.push(self.form.link_words(&self.directory));
        words.extend(SAME.map(str::to_owned));
        words.extend(variant.words(flags));
        Ok(words)
    }

    /// Builds a variant and links it in all orders; what is there from an earlier call is kept. `said` hears of each
    /// order, and of what make prints.
    ///
    /// # Errors
    /// Where make fails, or the configuration does not take an option.
    pub fn build(
        &self,
        variant: &KernelVariant,
        said: &mut dyn FnMut(u32, &str),
    ) -> Result<Images, Error> {
        let build = self.build_directory(variant);
        let own = build.join(crate::make::DIRECTORY);
        if !build.exists() {
            begun::from_another(&self.directory, &self.tree, &self.words(variant, None)?, &build)?;
        }
        std::fs::create_dir_all(&own).map_err(Error::io(&own))?;
        let mut stamp = self.configure(variant, &own)?;
        let config = Config::read(&build.join(".config"))?;
        let form = self.form;
        let by_function =
            form.always_by_function() || BY_FUNCTION.iter().any(|option| config.is_on(option));
        let words = self.words(variant, form.flags(by_function))?;
        let built = self.link(&build, &words, 0, said)?;
        let image = |order: u32| own.join(format!("{order}.{}", form.ending()));
        let built_image = image(0);
        let vmlinux = own.join("vmlinux");
        copy(&form.made(&build)?, &built_image)?;
        copy(&build.join("vmlinux"), &vmlinux)?;
        let digest = compare::kept::digest(&built_image)?;
        if stamp.image != digest {
            // Orders of another kernel are none of this one.
            (1..=compare::MOST_LAYOUTS).for_each(|order| drop(std::fs::remove_file(image(order))));
            stamp.image = digest;
            stamp.write(&own)?;
        }
        for order in (1..=self.orders).filter(|order| !image(*order).is_file()) {
            self.link(&build, &words, order, said)?;
            copy(&form.made(&build)?, &image(order))?;
        }
        let images = std::iter::once(built_image).chain((1..=self.orders).map(image)).collect();
        let freedom = if by_function {
            "the order of functions, and of the data of object files"
        } else {
            "the order of the code and the data of object files"
        };
        Ok(Images { images, vmlinux, freedom: freedom.to_owned(), compiled: built.compiled })
    }

    /// Makes the `.config`, unless it was made of the same; what is known of the build.
    fn configure(&self, variant: &KernelVariant, own: &Path) -> Result<Stamp, Error> {
        let mut configuration = self.begin.clone();
        for line in &variant.options {
            let _ = write!(configuration, "\n{line}\n");
        }
        let words = self.words(variant, None)?;
        let wanted = Stamp { tree: self.tree.clone(), configuration, words, image: String::new() };
        let build = self.build_directory(variant);
        let there = Stamp::of(&build);
        let config = build.join(".config");
        if let Some(there) = there.filter(|_| config.is_file()) {
            let wanted = Stamp { image: there.image.clone(), ..wanted };
            if there == wanted {
                return Ok(there);
            }
            return self.configured(variant, own, Stamp { image: String::new(), ..wanted });
        }
        self.configured(variant, own, wanted)
    }

    fn configured(
        &self,
        variant: &KernelVariant,
        own: &Path,
        stamp: Stamp,
    ) -> Result<Stamp, Error> {
        let all = own.join("all.config");
        beside::write(&all, stamp.configuration.as_bytes()).map_err(Error::io(&all))?;
        let mut words = stamp.words.clone();
        words.push(format!("KCONFIG_ALLCONFIG={}", all.display()));
        words.push(if self.is_small { "allnoconfig" } else { "alldefconfig" }.to_owned());
        run(&words, &command(&words), &own.join("config.log"), &mut |_| ())?;
        let config = Config::read(&self.build_directory(variant).join(".config"))?;
        for line in &variant.options {
            let (option, value) = line.split_once('=').unwrap_or((line, ""));
            let option = option.trim_start_matches("CONFIG_");
            let found = config.value(option).unwrap_or("n");
            if found != value {
                return Err(Error::Wanted(format!(
                    "variant {}: CONFIG_{option}={value} did not last: the configuration has {found}; name what it \
                     depends on too (make menuconfig shows it)",
                    variant.name
                )));
            }
        }
        stamp.write(own)?;
        Ok(stamp)
    }

    fn link(
        &self,
        build: &Path,
        words: &[String],
        order: u32,
        said: &mut dyn FnMut(u32, &str),
    ) -> Result<Made, Error> {
        // make does not see that another order is wanted.
        let vmlinux = build.join("vmlinux");
        match std::fs::remove_file(&vmlinux) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&vmlinux)(error));
            }
            _ => {}
        }
        let mut words = words.to_vec();
        words.push(format!("PLANISH_ORDER={order}"));
        words.extend(self.form.targets().iter().map(|target| (*target).to_owned()));
        let log = build.join(crate::make::DIRECTORY).join(format!("make-{order}.log"));
        run(&words, &command(&words), &log, &mut |line| said(order, line))
    }
}

fn command(words: &[String]) -> String {
    let quoted = |word: &String| match word.contains([' ', '$', '"', '\'']) {
        true => format!("'{}'", word.replace('\'', r"'\''")),
        false => word.clone(),
    };
    format!("make {}", words.iter().map(quoted).collect::<Vec<_>>().join(" "))
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    beside::copy(from, to).map_err(Error::io(from))
}
