//! How is a project that autoconf configures configured once for all of its builds?
//!
//! All builds have one compiler and differ by flags that no check depends on, but every build
//! begins in an empty directory, and then configure takes longer than the compiler. A site file
//! (GNU Autoconf manual, "Setting Site Defaults") keeps what the baseline's configure found. What
//! the command line gives to configure is not kept: the compilers and their flags are those of each
//! build.

use crate::STATE_DIRECTORY;
use crate::call::Call;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The variable that names a site file.
pub(crate) const SITE: &str = "CONFIG_SITE";
/// The variable that names the directory of kept answers.
pub(crate) const KEPT: &str = "PLANISH_CONFIGURE";

/// Read by each configure script before its first check. `$0` is the script.
const SCRIPT: &str = r#"# Made by planish: configure scripts of autoconf keep what they find for the next build.
if test -n "$PLANISH_CONFIGURE"; then
  planish_key=`printf '%s' "$0" | cksum | tr ' ' '-'`
  if mkdir -p "$PLANISH_CONFIGURE" 2>/dev/null; then
    cache_file=$PLANISH_CONFIGURE/$planish_key.cache
    if test -f "$cache_file"; then
      # What each build names itself, and the programs found for it, are asked again.
      grep -v -e '^ac_cv_env_' -e '^ac_cv_prog_[A-Za-z_]*CC=' -e '^ac_cv_prog_[A-Za-z_]*CXX=' \
        -e '^ac_cv_prog_C[PX]*=' -e '^ac_cv_path_' -e '^lt_cv_' "$cache_file" >"$cache_file.now"
      mv -f "$cache_file.now" "$cache_file"
    fi
  fi
fi
"#;

/// Where the site file lies, relative to the directory of planish.toml.
pub(crate) fn site() -> PathBuf {
    Path::new(STATE_DIRECTORY).join("tools").join("config.site")
}

/// Where answers are kept, likewise.
pub(crate) fn kept() -> PathBuf {
    Path::new(STATE_DIRECTORY).join("configure")
}

/// Whether a build with these variables takes answers of the baseline's configure, and does not only
/// keep its own.
pub(crate) fn reuses_answers(call: &Call, directory: &Path) -> bool {
    let folder = kept();
    call.environment.contains_key(KEPT)
        && !call.fresh_directories.contains(&folder)
        && directory.join(folder).read_dir().is_ok_and(|mut files| files.next().is_some())
}

/// Keeps no answers until the baseline is built again: where a file lies, no script can keep any.
pub(crate) fn keep_nothing(directory: &Path) {
    let path = directory.join(kept());
    // Without it, each build is tried twice.
    let _ = std::fs::remove_dir_all(&path).and_then(|()| beside::write(&path, b""));
}

/// Writes the site file.
///
/// # Errors
/// Where it cannot be written.
pub(crate) fn write(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(site());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = beside::Unfinished::at(&path)?;
    file.write_all(SCRIPT.as_bytes())?;
    file.finish().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn answers_are_kept_and_what_a_build_names_itself_is_not() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let kept = folder.path().join("kept");
        // As configure does it: the site file, then what is kept, then more of it.
        let configure = |found: &str| {
            let line = format!(
                ". {}; test -f \"$cache_file\" && . \"$cache_file\"; echo \"$ac_cv_func_x \
                 $ac_cv_env_CC_value $ac_cv_prog_CC\"; echo '{found}' > \"$cache_file\"",
                folder.path().join(site()).display()
            );
            let said = Command::new("sh").args(["-c", &line]).env(KEPT, &kept).output().unwrap();
            String::from_utf8(said.stdout).unwrap().trim().to_owned()
        };
        let found = "ac_cv_func_x=${ac_cv_func_x=yes}\nac_cv_env_CC_value=cc\n\
                     ac_cv_prog_CC=${ac_cv_prog_CC=cc}";
        assert_eq!(configure(found), "");
        assert_eq!(configure(found), "yes");
    }
}
