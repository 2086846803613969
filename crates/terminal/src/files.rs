//! How is a file written that the user names? Whole or not at all, and never over an input.

use crate::raw;
use anyhow::bail;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes `path` through `fill`: beside it first, renamed when whole. `-` is standard output.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if path != Path::new("-") {
        return beside::named::write(path, fill);
    }
    let mut out = BufWriter::with_capacity(1 << 16, raw());
    fill(&mut out)?;
    Ok(out.flush()?)
}

/// Refuses an output in a directory that is not there, before anything is done for it.
///
/// # Errors
/// Naming both.
pub fn refuse_without_directory(output: &Path) -> anyhow::Result<()> {
    let directory = beside::directory_of(output);
    if directory.is_dir() {
        return Ok(());
    }
    let (output, directory) = (output.display(), directory.display());
    bail!("{output}: there is no directory {directory}; create it first")
}

/// Refuses an output that is one of the inputs, by whatever name: what is read would be lost.
///
/// # Errors
/// Naming both.
pub fn refuse_inputs<'p>(
    outputs: impl IntoIterator<Item = &'p Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some((found.dev(), found.ino()))
    };
    let inputs: Vec<(&Path, _)> =
        inputs.into_iter().filter_map(|path| Some((path, identity(path)?))).collect();
    for output in outputs.into_iter().filter(|path| *path != Path::new("-")) {
        let Some(own) = identity(output) else { continue };
        if let Some((input, _)) = inputs.iter().find(|(_, input)| *input == own) {
            bail!(
                "{}: is the input {}, which would be replaced; name another output",
                output.display(),
                input.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_never_the_output_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("in"), "text").unwrap();
        std::fs::write(at("other"), "text").unwrap();
        std::fs::hard_link(at("in"), at("hard")).unwrap();
        std::os::unix::fs::symlink("in", at("soft")).unwrap();
        let check = |output: &str| {
            refuse_inputs([at(output).as_path()], [at("other").as_path(), at("in").as_path()])
        };
        for output in ["in", "hard", "soft"] {
            let refused = check(output).unwrap_err().to_string();
            assert!(
                refused.contains("is the input") && refused.contains("another output"),
                "{refused}"
            );
        }
        check("new").unwrap();
        let nothing = Path::new("-");
        refuse_inputs([nothing], [nothing]).unwrap();
    }
}
