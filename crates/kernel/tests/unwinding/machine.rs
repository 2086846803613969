//! A machine with the workload that is watched from outside: its console, and a socket for gdb's
//! protocol.

use super::stub::Stub;
use kernel::workload;
use record::machine::{Board, Execution, Guest};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A running machine, ended when dropped.
pub struct Machine {
    child: Child,
    console: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    socket: PathBuf,
    // Holds socket and initrd.
    _directory: tempfile::TempDir,
}

impl Machine {
    /// Starts the kernel with the workload; it waits for [`Machine::stub`] before its first
    /// instruction. `None`, with the reason said, where qemu is missing.
    pub fn start(image: &Path, cpus: u8, deterministic: bool, settings: &str) -> Option<Machine> {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("gdb");
        let guest = Guest {
            board: Board::Pc,
            kernel: image.to_owned(),
            initrd: Some(
                workload::build(kernel::Architecture::X86_64, None, directory.path()).unwrap(),
            ),
            memory_mib: 512,
            cpus,
            append: settings.to_owned(),
            execution: if deterministic { Execution::Deterministic } else { Execution::Emulated },
        };
        let mut argv = guest.argv();
        let chardev = format!("socket,id=gdb,path={},server=on,wait=off", socket.display());
        argv.extend(["-S", "-chardev", &chardev, "-gdb", "chardev:gdb"].map(OsString::from));
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: qemu-system-x86_64 is not installed");
                return None;
            }
            started => started.unwrap(),
        };
        let console = Arc::new(Mutex::new(Vec::new()));
        let (mut output, sink) = (child.stdout.take().unwrap(), Arc::clone(&console));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                sink.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Some(Machine { child, console, reader: Some(reader), socket, _directory: directory })
    }

    /// Its other side; the machine stands still.
    pub fn stub(&self) -> Stub {
        Stub::connect(&self.socket)
    }

    /// What it printed, after it ended by itself.
    pub fn console(&mut self) -> String {
        assert!(self.child.wait().unwrap().success());
        self.reader.take().unwrap().join().unwrap();
        String::from_utf8_lossy(&self.console.lock().unwrap()).into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
