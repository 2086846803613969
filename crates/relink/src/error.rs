//! What can keep a program from being linked again, with the cause and the next step.

use std::path::{Path, PathBuf};

/// How to make the archive that everything here starts from; part of several messages.
pub(crate) const ADVICE: &str = "compile with -ffunction-sections -fdata-sections and link with \
                                 -fuse-ld=lld -Wl,--reproduce=link.tar (or run the build with \
                                 LLD_REPRODUCE=link.tar in its environment)";

/// Why a program cannot be linked again, or a link not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {action}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The archive of the link is cut off, altered or not one that lld wrote.
    #[error(
        "{path}: damaged at byte {offset}: {found}; link again with -Wl,--reproduce to write it \
         anew"
    )]
    Archive {
        /// The archive.
        path: PathBuf,
        /// Where, in bytes from its start.
        offset: u64,
        /// What is there.
        found: String,
    },
    /// The link asks for something that could read, write or run more than its inputs and the
    /// program.
    #[error(
        "{path}: the link asks lld for {option:?}, which is not handed on: {why}; link again \
         without it to write the archive anew"
    )]
    Option {
        /// The archive.
        path: PathBuf,
        /// The option.
        option: String,
        /// Why it is refused.
        why: &'static str,
    },
    /// No lld is installed.
    #[error(
        "no lld found (looked for {looked}); install it (Debian: apt install lld) or name it with \
         PLANISH_LLD"
    )]
    NoLinker {
        /// The names that were looked for.
        looked: String,
    },
    /// The link was made by another lld, which makes other code.
    #[error("{path}: written by {wrote}, and the lld found is {found}; PLANISH_LLD names another")]
    OtherLinker {
        /// The archive.
        path: PathBuf,
        /// What the archive says.
        wrote: String,
        /// What is there.
        found: String,
    },
    /// The archive holds no object with code.
    #[error("{path}: the link has no object files with code of its own; {ADVICE}")]
    NoObjects {
        /// The archive.
        path: PathBuf,
    },
    /// The objects were compiled without function sections, so that only whole files could be
    /// moved.
    #[error(
        "{path}: none of the {text_bytes} bytes of code in {objects} objects is in a function \
         section, functions cannot be moved; {ADVICE}"
    )]
    NoFunctionSections {
        /// The archive.
        path: PathBuf,
        /// Bytes of code in the program's own objects.
        text_bytes: u64,
        /// How many objects those are.
        objects: usize,
    },
    /// The link makes something that is not run.
    #[error(
        "{path}: the link makes an object file (-r), not a program; give the link of the program"
    )]
    Relocatable {
        /// The archive.
        path: PathBuf,
    },
    /// An object is not what this crate can read.
    #[error("{object}: {found}; matched layouts need 64-bit ELF objects, independent ones do not")]
    Object {
        /// The object, with the archive it is in.
        object: String,
        /// What is wrong.
        found: String,
    },
    /// The code is made by the linker, so that functions cannot be told apart before the link.
    #[error(
        "{path}: {objects} objects hold LLVM bitcode, their code is made in the link (LTO) and \
         cannot be matched; use independent layouts, or compile without -flto"
    )]
    LinkTime {
        /// The archive.
        path: PathBuf,
        /// How many objects of bitcode.
        objects: usize,
    },
    /// The objects hold gcc's intermediate code, which lld cannot read.
    #[error(
        "{path}: {object} holds gcc's LTO code, which lld cannot link; compile without -flto, or \
         with -ffat-lto-objects"
    )]
    GccLinkTime {
        /// The archive.
        path: PathBuf,
        /// The first such object.
        object: String,
    },
    /// lld or the compiler that runs it failed.
    #[error("{command} failed ({status}):\n{said}")]
    Link {
        /// The command, shortened.
        command: String,
        /// How it ended.
        status: String,
        /// Its last lines, indented.
        said: String,
    },
    /// The link command cannot be understood.
    #[error("link command `{command}`: {found}; {ADVICE}")]
    Command {
        /// The command as given.
        command: String,
        /// What is wrong.
        found: String,
    },
    /// A linked program cannot be read.
    #[error("{path}: {found}")]
    Program {
        /// The program.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
    /// A plan is used with a variant that it does not have.
    #[error(
        "variant {variant} is not one of the {variants} that the matched layouts were planned for"
    )]
    Variant {
        /// The variant asked for, from 0.
        variant: usize,
        /// How many there are.
        variants: usize,
    },
}

impl Error {
    /// Makes the error of a file operation; for `map_err`.
    pub(crate) fn file(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { path, action, source }
    }
}
