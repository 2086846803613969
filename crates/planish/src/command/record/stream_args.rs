//! The options of `planish record` that say how records get into files, with perf's spelling and
//! meaning.

use crate::cli::Threads;
use record::settings::RingSizes;
use record::streaming::{Affinity, Compression, Control, Spread, Streaming, Switch, Until, bytes};

/// How records get from the rings into files.
#[derive(Debug, clap::Args)]
pub struct StreamArgs {
    /// Size of each CPU's ring: pages of 4 KiB (a power of two), or a number with K or M; after a
    /// comma, the size of the AUX area [default: 16M, less if not allowed]
    #[arg(short = 'm', long, value_name = "PAGES[,AUX]")]
    pub mmap_pages: Option<RingSizes>,
    /// Wake a reader when a ring holds this many bytes: a number with B, K, M or G [default: an
    /// eighth of the ring]
    #[arg(long, value_name = "SIZE", value_parser = wake_bytes)]
    pub mmap_flush: Option<u32>,
    /// Compress with zstd at this level, 1 to 22 (0 is 1, as in perf) [default: as high as a slow
    /// disk needs]
    #[arg(short = 'z', long = "compression-level", value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "1", value_parser = clap::value_parser!(i32).range(0..=22))]
    pub compression: Option<i32>,
    /// Do not compress, for tools that cannot read it (create_llvm_prof)
    #[arg(long, conflicts_with = "compression")]
    pub no_compress: bool,
    /// Memory for records that wait for a slow disk: a number with B, K, M or G [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub backlog: Option<u64>,
    /// Exit with 0 even if records were lost
    #[arg(long)]
    pub accept_losses: bool,
    /// A reader and a file for each CPU, core, package or NUMA node (`numa`), or for lists of CPUs
    /// as in perf (`0-3/0:4-7/4`: whose rings, and where the reader runs); the recording is
    /// then a directory
    #[arg(long, value_name = "SPREAD", num_args = 0..=1, require_equals = true, default_missing_value = "cpu",
          value_parser = Threads::spread)]
    threads: Option<Threads>,
    /// Readers run on the NUMA `node`, or the `cpu`, whose rings they read; `sys`: anywhere
    #[arg(long, value_name = "NEAR")]
    pub affinity: Option<Affinity>,
    /// Real-time priority of the readers (SCHED_FIFO), 1 to 99
    #[arg(short = 'r', long, value_name = "PRIO", value_parser = clap::value_parser!(i32).range(1..=99))]
    pub realtime: Option<i32>,
    /// End the recording, and the program, when the file reaches this size: a number with B, K, M
    /// or G
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max_size: Option<u64>,
    /// Continue in a new file at each SIGUSR2 and, with a size (100M) or a time (30s), whenever that
    /// is reached; the name of each file ends in its date and time
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "signal")]
    pub switch_output: Option<Switch>,
    /// Keep only the last samples, in rings that are overwritten; write them to a file at SIGUSR2
    /// and at the end
    #[arg(long)]
    pub overwrite: bool,
    /// Take commands from a fifo (enable, disable, snapshot, stop, ping), and answer `ack` in
    /// another
    #[arg(long, value_name = "fifo:PATH[,ACK]")]
    pub control: Option<Control>,
    /// Replace an output file that belongs to another user
    #[arg(long)]
    pub force: bool,
}

fn wake_bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse().or_else(|_| bytes(text)).map_err(|wrong| wrong.to_string())?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "it is not from 1 byte to 4 GiB".to_owned())
}

impl StreamArgs {
    /// Whether records may be lost without a word of the exit code: a flight recorder loses what it
    /// writes over anyway.
    pub fn takes_losses(&self) -> bool {
        self.accept_losses || self.overwrite
    }

    /// Those given.
    pub fn given(&self) -> [(bool, &'static str); 12] {
        [
            (self.mmap_pages.is_some(), "-m"),
            (self.mmap_flush.is_some(), "--mmap-flush"),
            (self.compression.is_some(), "-z"),
            (self.no_compress, "--no-compress"),
            (self.backlog.is_some(), "--backlog"),
            (self.spread().is_some(), "--threads"),
            (self.affinity.is_some(), "--affinity"),
            (self.realtime.is_some(), "-r"),
            (self.max_size.is_some(), "--max-size"),
            (self.switch_output.is_some(), "--switch-output"),
            (self.overwrite, "--overwrite"),
            (self.control.is_some(), "--control"),
        ]
    }

    /// What there is a reader for each of; a number of threads, which stands before `record`, means
    /// nothing here.
    fn spread(&self) -> Option<Spread> {
        match &self.threads {
            Some(Threads::Spread(spread)) => Some(spread.clone()),
            Some(Threads::Count(_)) | None => None,
        }
    }

    /// The same as values.
    pub fn streaming(&self) -> Streaming {
        Streaming {
            ring: self.mmap_pages.and_then(|sizes| sizes.ring),
            aux: self.mmap_pages.and_then(|sizes| sizes.aux),
            wake_bytes: self.mmap_flush,
            compression: match self.compression {
                Some(level) => Compression::Level(level.max(1)),
                None if self.no_compress => Compression::Off,
                None => Compression::Adapting,
            },
            backlog: self.backlog,
            threads: self.spread(),
            affinity: self.affinity,
            realtime: self.realtime,
            max_bytes: self.max_size,
            switch: self.switch_output,
            overwrite: self.overwrite,
            control: self.control.clone(),
            force: self.force,
            pipe: None,
            until: Until::default(),
        }
    }
}
