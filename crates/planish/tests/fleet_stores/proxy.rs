//! What stands between a store and who asks it, and fails now and then? A proxy that passes requests on
//! one by one, and decides of each whether it is answered with an error, or the answer cut.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    /// Answered with a status.
    Refuse(u16),
    /// Answered, but so many bytes of the answer at most.
    Cut(usize),
}

/// Decides by the request's first line and its number.
pub type Decide = dyn Fn(&str, usize) -> Fate + Send + Sync;

/// A proxy; its thread ends with the process.
pub struct Proxy {
    pub port: u16,
    /// Requests that were not passed on whole.
    pub failed: Arc<AtomicUsize>,
}

impl Proxy {
    /// Stands before the server at `port`.
    pub fn before(
        port: u16,
        decide: impl Fn(&str, usize) -> Fate + Send + Sync + 'static,
    ) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let failed = Arc::new(AtomicUsize::new(0));
        let (decide, number): (Arc<Decide>, _) = (Arc::new(decide), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&failed);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (decide, number) = (Arc::clone(&decide), Arc::clone(&number));
                let failed = Arc::clone(&counted);
                std::thread::spawn(move || {
                    let _ = one(&stream, port, &*decide, &number, &failed);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Proxy { port: own, failed }
    }

    pub fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }
}

/// One request, after which the connection ends.
fn one(
    stream: &TcpStream,
    port: u16,
    decide: &Decide,
    number: &AtomicUsize,
    failed: &AtomicUsize,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0u64);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if !lower.starts_with("connection:") {
            head += &line;
        }
    }
    let fate =
        decide(head.lines().next().unwrap_or_default(), number.fetch_add(1, Ordering::Relaxed));
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    if fate != Fate::Pass {
        failed.fetch_add(1, Ordering::Relaxed);
    }
    let mut out = stream;
    if let Fate::Refuse(status) = fate {
        let body =
            "<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>";
        let length = body.len();
        write!(
            out,
            "HTTP/1.1 {status} Refused\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        return Ok(());
    }
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    write!(server, "{head}Connection: close\r\n\r\n")?;
    server.write_all(&body)?;
    let most = match fate {
        Fate::Cut(most) => most as u64,
        _ => u64::MAX,
    };
    std::io::copy(&mut server.take(most), &mut out)?;
    Ok(())
}
