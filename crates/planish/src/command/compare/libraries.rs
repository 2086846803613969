//! `planish compare --library-path`: every program runs with the libraries beside it, and with no
//! others.

use anyhow::{Context, bail};
use compare::Design;
use image::Image;
use std::path::{Path, PathBuf};
use superpages::{Loading, files_of};

/// Sets where the runs of each variant look for libraries: `folders`, seen from the directory of
/// its program, and then where this process looks.
///
/// # Errors
/// Where there is no such directory, or a program loads a library of one of their names from
/// elsewhere.
pub fn lead(design: &mut Design, folders: &[PathBuf]) -> anyhow::Result<()> {
    if folders.is_empty() {
        return Ok(());
    }
    for variant in &mut design.variants {
        let Some(program) = variant.binaries.first() else { continue };
        let directory = program.parent().unwrap_or(Path::new(""));
        let folder = |folder: &PathBuf| {
            let path = directory.join(folder);
            path.canonicalize().with_context(|| {
                format!(
                    "--library-path {}: {} has no such directory, {}, beside it",
                    folder.display(),
                    program.display(),
                    path.display()
                )
            })
        };
        let own = folders.iter().map(folder).collect::<anyhow::Result<Vec<PathBuf>>>()?;
        let inherited = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let inherited = std::env::split_paths(&inherited).filter(|path| path.is_absolute());
        let path = std::env::join_paths(own.iter().cloned().chain(inherited))
            .context("--library-path: a name of a directory with a colon cannot be handed on")?;
        refuse_others(program, &own, Path::new(&path))?;
        variant.library_path = Some(path.to_string_lossy().into_owned());
    }
    Ok(())
}

/// Asks the dynamic linker of a program what it loads; a script has none that says anything.
fn refuse_others(program: &Path, own: &[PathBuf], path: &Path) -> anyhow::Result<()> {
    if Image::open(program).is_err() {
        return Ok(());
    }
    for loaded in files_of(program, Some(path), Loading::Runs)?.iter().skip(1) {
        let Some(name) = loaded.file_name() else { continue };
        let Some(wanted) = own.iter().map(|folder| folder.join(name)).find(|file| file.is_file())
        else {
            continue;
        };
        if loaded.canonicalize().ok() != wanted.canonicalize().ok() {
            bail!(
                "{}: expected that it loads {}, found that it loads {}: an RPATH or an absolute \
                 name in it goes before LD_LIBRARY_PATH; link it with a RUNPATH \
                 (-Wl,--enable-new-dtags) or with $ORIGIN",
                program.display(),
                wanted.display(),
                loaded.display()
            );
        }
    }
    Ok(())
}
