//! What do the words and lines of a workload stand for in this run?

use crate::error::{ended, system};
use crate::family::Family;
use crate::{Error, PORT, PROGRAM, Ready, USED_VARIABLE, Workload};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// A workload with the program's absolute path and a free port filled in.
#[derive(Debug)]
pub(crate) struct Scene {
    program: Option<String>,
    port: Option<u16>,
    environment: Vec<(String, String)>,
    /// Where the commands run.
    pub directory: PathBuf,
}

impl Scene {
    pub(crate) fn of(workload: &Workload) -> Result<Scene, Error> {
        let absolute = system("find the current directory");
        let directory =
            std::path::absolute(workload.directory.as_deref().unwrap_or(Path::new(".")))
                .map_err(absolute)?;
        if !directory.is_dir() {
            return Err(Error::NoDirectory { path: directory });
        }
        let program = workload.program.as_deref().map(std::path::absolute).transpose();
        let program = program.map_err(system("find the current directory"))?;
        let mut scene = Scene {
            program: program.map(|path| path.to_string_lossy().into_owned()),
            port: wants_port(workload).then(free_port).transpose()?,
            environment: Vec::new(),
            directory,
        };
        let filled = |(name, value): &(String, String)| (name.clone(), scene.filled(value));
        scene.environment = workload.environment.iter().map(filled).collect();
        Ok(scene)
    }

    /// A word with what it stands for.
    pub(crate) fn filled(&self, word: &str) -> String {
        let word = self.program.as_deref().map_or(word.to_owned(), |it| word.replace(PROGRAM, it));
        self.port.map_or(word.clone(), |port| word.replace(PORT, &port.to_string()))
    }

    /// What is waited for, likewise.
    pub(crate) fn ready(&self, ready: &Ready) -> Ready {
        match ready {
            Ready::Tcp(address) => Ready::Tcp(self.filled(address)),
            Ready::Line(pattern) => Ready::Line(pattern.clone()),
            Ready::File(path) => Ready::File(self.filled(&path.to_string_lossy()).into()),
        }
    }

    /// The command that words stand for, with nothing on its standard input.
    pub(crate) fn command(&self, words: &[String]) -> Result<Command, Error> {
        let (first, rest) = words.split_first().ok_or(Error::NoCommand)?;
        let mut command = Command::new(self.filled(first));
        command.args(rest.iter().map(|word| self.filled(word)));
        self.surround(&mut command);
        Ok(command)
    }

    /// A line for `sh -c`; what it prints goes to standard error, since standard output is the
    /// command's.
    fn line(&self, line: &str) -> Command {
        let quoted = Scene {
            program: self.program.as_deref().map(quoted),
            port: self.port,
            environment: Vec::new(),
            directory: PathBuf::new(),
        };
        let mut command = Command::new("sh");
        command.arg("-c").arg(quoted.filled(line)).stdout(std::io::stderr());
        self.surround(&mut command);
        command
    }

    /// Runs a line for `sh -c` to its end.
    pub(crate) fn run_line(
        &self,
        key: &'static str,
        text: &str,
        family: &mut Family,
        stop: Option<&AtomicBool>,
    ) -> Result<(), Error> {
        let child = self
            .line(text)
            .spawn()
            .map_err(|source| Error::Start { command: "sh".to_owned(), source })?;
        let pid = child.id() as i32;
        family.watch(pid);
        let interrupted = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        match family.wait(pid, &mut |_| interrupted()) {
            Some((0, _)) => Ok(()),
            Some((code, _)) => Err(Error::Line { key, ended: ended(code), line: text.to_owned() }),
            None => {
                family.end(pid);
                Err(Error::Interrupted)
            }
        }
    }

    fn surround(&self, command: &mut Command) {
        command.current_dir(&self.directory).stdin(Stdio::null()).env_remove(USED_VARIABLE);
        command.envs(self.program.iter().map(|program| ("PLANISH_BIN", program)));
        command.envs(self.port.iter().map(|port| ("PLANISH_PORT", port.to_string())));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
    }
}

/// Whether anything names the port.
fn wants_port(workload: &Workload) -> bool {
    let server = workload.server.as_ref();
    let words = workload.command.iter().chain(server.iter().flat_map(|server| &server.start));
    let lines = [&workload.set_up, &workload.tear_down].into_iter().flatten();
    let values = workload.environment.iter().map(|(_, value)| value);
    let stop = server.iter().filter_map(|server| server.stop.as_ref());
    words.chain(lines).chain(values).chain(stop).any(|text| text.contains(PORT))
}

/// A port that nobody has now. Another process may take it before the server does, which the server
/// will say.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(system("find a free port of 127.0.0.1"))
}

/// A word as a shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_the_port_stand_where_they_are_named() {
        let workload = Workload {
            program: Some("it's".into()),
            environment: vec![("WHERE".into(), "127.0.0.1:{port}".into())],
            command: vec!["a={PLANISH_BIN}".into()],
            ..Workload::default()
        };
        let scene = Scene::of(&workload).unwrap();
        let port = scene.port.unwrap();
        let path = std::path::absolute("it's").unwrap().display().to_string();
        assert_eq!(scene.filled("{PLANISH_BIN}:{port}"), format!("{path}:{port}"));
        assert_eq!(scene.environment, [("WHERE".to_owned(), format!("127.0.0.1:{port}"))]);
        let line = scene.line("exec {PLANISH_BIN}");
        let words: Vec<_> = line.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words[1], format!("exec '{}'", path.replace('\'', r"'\''")));
        assert!(Scene::of(&Workload::default()).unwrap().port.is_none());
    }
}
