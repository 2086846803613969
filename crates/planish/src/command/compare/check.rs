//! Which arguments of `planish compare` go together, and where the files lie that they name?

use super::args::{How, Output, What};
use crate::output;
use anyhow::{Context, bail};
use compare::Resume;
use compare::kept::same_file;
use compare::settings::enough_layouts;
use statistics::least_layouts;
use std::path::{Path, PathBuf};

impl How {
    /// Refuses numbers that mean nothing.
    pub fn check(&self) -> anyhow::Result<()> {
        if let Some(margin) = self.margin.filter(|m| !(*m > 0.0 && *m < 100.0)) {
            bail!("--margin {margin}: give a percentage between 0 and 100");
        }
        if let Some(timeout) = self.timeout.filter(|t| !(*t > 0.0 && t.is_finite())) {
            bail!("--timeout {timeout}: give seconds above 0");
        }
        enough_layouts("--layouts", self.layouts)?;
        if self.layouts == Some(1) {
            bail!(
                "--layouts 1: one layout cannot be averaged; {} matched or {} independent ones are \
                 the least, 8 are usual",
                least_layouts(true),
                least_layouts(false)
            );
        }
        Ok(())
    }
}

impl What {
    /// Refuses what does not go together.
    pub fn check(&self) -> anyhow::Result<()> {
        self.how.check()?;
        if !self.binaries.is_empty() && self.command.is_empty() {
            bail!(
                "there is no command: write it behind --, with {{bin}} for the program: planish \
                 compare A B -- {{bin}} input"
            );
        }
        if self.how.resuming() != Resume::No && self.how.raw.is_none() && !self.binaries.is_empty()
        {
            bail!("--resume and --resume-if-same go on with what the file of --raw holds: name it");
        }
        if self.binaries.is_empty() && !self.command.is_empty() {
            bail!("the command is there but no program: planish compare A B -- {{bin}} input");
        }
        if !self.binaries.is_empty() && !self.how.probe_align.is_empty() {
            bail!(
                "--probe-align builds the program anew, so it needs variants of a planish.toml \
                 instead of binaries"
            );
        }
        let outputs = [&self.output.html, &self.output.markdown].into_iter().flatten();
        if outputs.clone().filter(|path| path.as_os_str() == "-").count() > 1 {
            bail!(
                "--html - and --markdown - both want standard output; write one of them to a file"
            );
        }
        let inputs = || self.from.iter().chain(&self.how.raw);
        for output in outputs {
            let binaries = self.binaries.iter().map(Path::new);
            let named = binaries.chain(self.links.archives());
            if inputs().map(PathBuf::as_path).chain(named).any(|input| same_file(input, output)) {
                bail!(
                    "{}: is read or written as something else already; give the report another name",
                    output.display()
                );
            }
        }
        let written =
            [&self.output.html, &self.output.markdown, &self.how.raw].into_iter().flatten();
        written
            .filter(|path| path.as_os_str() != "-")
            .try_for_each(|path| output::refuse_without_directory(path))
    }

    /// Commands of planish.toml run in its directory; files named on the command line lie where the
    /// user is.
    pub fn absolute(mut self) -> anyhow::Result<What> {
        if !self.binaries.is_empty() || !self.from.is_empty() {
            return Ok(self);
        }
        let Output { html, markdown, .. } = &mut self.output;
        for path in [&mut self.how.raw, html, markdown].into_iter().flatten() {
            if path.as_os_str() != "-" {
                *path = std::path::absolute(&*path).with_context(|| path.display().to_string())?;
            }
        }
        Ok(self)
    }
}
