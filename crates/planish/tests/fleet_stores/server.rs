//! Is there a store to try things on? A real server of S3's protocol (`s3s-fs`), which keeps objects as
//! files, checks signatures, and is a process of its own that can be killed: this program, started again
//! by itself.

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Names the directory of the objects, and the port, in the server's process.
const ROOT: &str = "PLANISH_TEST_STORE";
const PORT: &str = "PLANISH_TEST_PORT";
/// Who may ask.
pub const KEY: &str = "planish";
pub const SECRET: &str = "a-secret-for-tests";
/// The bucket.
pub const BUCKET: &str = "fleet";

/// The server, killed when dropped.
pub struct Server {
    child: Child,
    port: u16,
    root: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Serves what lies below `root`, a bucket being a directory there.
    pub fn start(root: &Path) -> Server {
        std::fs::create_dir_all(root.join(BUCKET)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Server { child: started(root, port), port, root: root.to_owned() }
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, at the same port, with what it kept.
    pub fn start_again(&mut self) {
        self.child = started(&self.root, self.port);
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file of an object.
    pub fn object(&self, key: &str) -> PathBuf {
        self.root.join(BUCKET).join(key)
    }

    /// The names of the objects below a key.
    pub fn objects(&self, key: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.object(key)).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn started(root: &Path, port: u16) -> Child {
    let mut server = Command::new(std::env::current_exe().unwrap());
    server.args([
        "--exact",
        "server::this_program_serves_objects_to_those_who_sign",
        "--nocapture",
    ]);
    server.env(ROOT, root).env(PORT, port.to_string());
    // It ends when this end of its input does.
    server.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = server.spawn().unwrap();
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server does not answer");
        assert!(child.try_wait().unwrap().is_none(), "the server ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn this_program_serves_objects_to_those_who_sign() {
    if let (Some(root), Ok(port)) = (std::env::var_os(ROOT), std::env::var(PORT)) {
        serve(Path::new(&root), port.parse().unwrap());
    }
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(root.path());
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let request =
        format!("GET /{BUCKET}/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

fn serve(root: &Path, port: u16) -> ! {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build().into_shared();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let tasks = tokio::task::LocalSet::new();
        tasks
            .run_until(async {
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    let service = service.clone();
                    tokio::task::spawn_local(async move {
                        let builder = Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                    });
                }
            })
            .await
    })
}
