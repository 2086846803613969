//! A machine that is stopped, looked at and let go on, over the remote protocol of gdb that qemu
//! speaks.
//!
//! Form: gdb's manual, appendix "gdb Remote Serial Protocol". Only what is needed: registers (`g`,
//! `G`), memory (`m`, `M`), breakpoints (`Z1`, `z1`), step (`s`) and continue (`c`).

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a machine may say nothing: it hangs then, or never comes to a breakpoint.
const PATIENCE: Duration = Duration::from_secs(1200);
/// Memory is read in pieces of so many bytes.
const PIECE: u64 = 1024;

/// `int3`.
const TRAP: u8 = 0xcc;
/// Places of registers.
const STACK: usize = 7;
const INSTRUCTION: usize = 16;

/// General registers in gdb's order for x86-64: ax bx cx dx si di bp sp r8 to r15, then the
/// instruction pointer.
#[derive(Clone, Copy, Debug)]
pub struct Registers(pub [u64; 17]);

impl Registers {
    pub fn base_pointer(&self) -> u64 {
        self.0[6]
    }
    pub fn stack(&self) -> u64 {
        self.0[STACK]
    }
    pub fn instruction(&self) -> u64 {
        self.0[INSTRUCTION]
    }
}

/// The other side of the socket.
pub struct Stub {
    socket: UnixStream,
    received: Vec<u8>,
    /// What was read of memory since the machine stopped.
    memory: Pieces,
    text: Pieces,
    /// What stood where a trap stands now.
    traps: HashMap<u64, u8>,
}

/// Pieces of memory by address; `None` where nothing is mapped.
type Pieces = HashMap<u64, Option<Vec<u8>>>;

impl Stub {
    /// Waits for qemu to make the socket, and connects.
    pub fn connect(path: &Path) -> Stub {
        let start = Instant::now();
        let socket = loop {
            match UnixStream::connect(path) {
                Ok(socket) => break socket,
                Err(error) if start.elapsed() > Duration::from_secs(120) => {
                    panic!("{}: {error}", path.display())
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Stub {
            socket,
            received: Vec::new(),
            memory: Pieces::new(),
            text: Pieces::new(),
            traps: HashMap::new(),
        }
    }

    /// Sends a packet. Unix sockets lose nothing, so nobody waits to be acknowledged.
    fn send(&mut self, text: &str) {
        let sum = text.bytes().fold(0u8, u8::wrapping_add);
        // With the acknowledgement of what was received before; bytes that come while the machine
        // runs would stop it.
        let packet = format!("+${text}#{sum:02x}");
        // A machine that has ended is noticed at the next answer.
        let _ = self.socket.write_all(packet.as_bytes());
    }

    /// The next packet; `None` when the machine has ended.
    fn answer(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'#')
                && self.received.len() >= end + 3
            {
                let start = self.received.iter().position(|byte| *byte == b'$').unwrap() + 1;
                let text = String::from_utf8(self.received[start..end].to_vec()).unwrap();
                self.received.drain(..end + 3);
                return Some(text);
            }
            let mut bytes = [0; 1 << 14];
            match self.socket.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the machine hangs: {error}"),
            }
        }
    }

    fn ask(&mut self, text: &str) -> Option<String> {
        self.send(text);
        self.answer()
    }

    /// Registers of the CPU that stopped.
    pub fn registers(&mut self) -> Registers {
        let bytes = self.register_bytes();
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        Registers(std::array::from_fn(|_| words.next().unwrap()))
    }

    fn register_bytes(&mut self) -> Vec<u8> {
        let text = self.ask("g").unwrap();
        bytes(&text).unwrap()
    }

    /// So many bytes of memory as it is now; `None` where nothing is mapped.
    pub fn memory(&mut self, address: u64, count: u64) -> Option<Vec<u8>> {
        let mut read = std::mem::take(&mut self.memory);
        let found = self.through(&mut read, address, count);
        self.memory = read;
        found
    }

    /// The same of text, as it was when it was first asked for: calls stay calls.
    pub fn text(&mut self, address: u64, count: u64) -> Option<Vec<u8>> {
        let mut read = std::mem::take(&mut self.text);
        let mut found = self.through(&mut read, address, count);
        self.text = read;
        for (at, byte) in (address..).zip(found.iter_mut().flatten()) {
            *byte = self.traps.get(&at).copied().unwrap_or(*byte);
        }
        found
    }

    fn through(&mut self, pieces: &mut Pieces, address: u64, count: u64) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        let mut at = address;
        let end = address.checked_add(count)?;
        while at < end {
            let start = at - at % PIECE;
            let piece = pieces.entry(start).or_insert_with(|| {
                let read = self.ask(&format!("m{start:x},{PIECE:x}")).unwrap();
                bytes(&read).filter(|read| read.len() as u64 == PIECE)
            });
            let piece = piece.as_ref()?;
            let until = PIECE.min(end - start);
            all.extend_from_slice(
                &piece[usize::try_from(at - start).unwrap()..usize::try_from(until).unwrap()],
            );
            at = start + until;
        }
        Some(all)
    }

    /// The word at an address.
    pub fn word(&mut self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.memory(address, 8)?.try_into().unwrap()))
    }

    /// Writes memory, be it read-only for the guest.
    pub fn write(&mut self, address: u64, contents: &[u8]) {
        self.memory.clear();
        self.text.clear();
        let said = self.ask(&format!("M{address:x},{:x}:{}", contents.len(), digits(contents)));
        assert_eq!(said.as_deref(), Some("OK"), "{address:#x} cannot be written");
    }

    /// Puts a trap into the text. qemu goes through all of its breakpoints at each jump; traps cost
    /// nothing there.
    pub fn set_trap(&mut self, address: u64) {
        let before = self.memory(address, 1).unwrap()[0];
        self.write(address, &[TRAP]);
        self.traps.insert(address, before);
    }

    /// Whether a trap stands there.
    pub fn is_trap(&self, address: u64) -> bool {
        self.traps.contains_key(&address)
    }

    /// Puts back what stood there.
    pub fn remove_trap(&mut self, address: u64) {
        if let Some(before) = self.traps.remove(&address) {
            self.write(address, &[before]);
        }
    }

    /// In the handler's first instruction, after a trap of ours: takes the machine back to before
    /// it, and the trap out. `None`, and nothing is changed, when it was none of ours: the
    /// kernel has traps too while it patches its text.
    pub fn take_back(&mut self) -> Option<u64> {
        // Pushed by the CPU: instruction pointer, code segment, flags, stack pointer, stack
        // segment.
        let frame = self.registers().stack();
        let address = self.word(frame)?.wrapping_sub(1);
        if !self.traps.contains_key(&address) {
            return None;
        }
        let (flags, stack) = (self.word(frame + 16)?, self.word(frame + 24)?);
        // The first registers, up to flags of four bytes, are all that is written.
        let mut all = self.register_bytes();
        all.truncate(17 * 8 + 4);
        all[STACK * 8..][..8].copy_from_slice(&stack.to_le_bytes());
        all[INSTRUCTION * 8..][..8].copy_from_slice(&address.to_le_bytes());
        all[17 * 8..].copy_from_slice(&flags.to_le_bytes()[..4]);
        assert_eq!(self.ask(&format!("G{}", digits(&all))).as_deref(), Some("OK"));
        self.remove_trap(address);
        Some(address)
    }

    pub fn set_breakpoint(&mut self, address: u64) {
        assert_eq!(self.ask(&format!("Z1,{address:x},1")).as_deref(), Some("OK"));
    }

    pub fn remove_breakpoint(&mut self, address: u64) {
        assert_eq!(self.ask(&format!("z1,{address:x},1")).as_deref(), Some("OK"));
    }

    /// Executes one instruction, whether a breakpoint stands there or not; false when the machine
    /// has ended.
    pub fn step(&mut self) -> bool {
        self.go("s")
    }

    /// Lets the machine run to the next breakpoint; false when it has ended.
    pub fn go_on(&mut self) -> bool {
        self.go("c")
    }

    fn go(&mut self, command: &str) -> bool {
        self.memory.clear();
        self.send(command);
        matches!(self.answer(), Some(reason) if reason.starts_with(['T', 'S']))
    }
}

/// The bytes of hexadecimal digits; `None` for anything else, as an error number.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    (digits.len().is_multiple_of(2))
        .then(|| digits.as_bytes().chunks_exact(2).map(pair).collect())?
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
