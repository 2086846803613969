//! `planish report archive`: a recording and the files that name its functions, in one file.

use super::recording::{Detail, Part, open};
use super::symbols::Used;
use super::unpacked::{BY_PATH, RECORDING};
use crate::cli::{FINE, Global};
use crate::input;
use crate::output;
use crate::progress;
use anyhow::{Context as _, bail};
use archives::Writer;
use calltrees::{Known, Recorded};
use image::{BuildId, DebugSearch, Image};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Pack a recording and the files that name its functions into one archive, which `planish report`
/// reads on any machine.
///
/// The archive holds the recording and the files that its samples touch: programs, libraries, debug
/// files, kernel symbols and maps of code made at run time. It does not hold source files. perf can
/// use it too: `tar xf FILE -C ~/.debug`.
#[derive(Debug, clap::Args)]
pub struct ArchiveArgs {
    /// The recording: a file, or a directory (record --threads)
    #[arg(default_value = "perf.data", value_name = "PERF.DATA")]
    input: PathBuf,
    #[command(flatten)]
    part: Part,
    /// Where to write the archive [default: the recording's name and .tar.zst]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Where the bytes of a member come from.
enum Source {
    File(PathBuf),
    Bytes(Vec<u8>),
}

type Members = BTreeMap<PathBuf, Source>;

/// Runs the command.
pub fn run(args: &ArchiveArgs, global: &Global) -> anyhow::Result<u8> {
    if args.input.as_os_str() == "-" {
        bail!("-: a recording on standard input cannot be packed: write it to a file first");
    }
    let place = args
        .output
        .clone()
        .unwrap_or_else(|| super::id_paths::with_suffix(&args.input, ".tar.zst"));
    output::refuse_inputs(Some(place.as_path()), [args.input.as_path()])?;
    let named = || args.input.display().to_string();
    let input = open(&args.input)?;
    let detail = Detail::default();
    let (recorded, found) = args.part.read_with_files(&args.input, &input, detail, global)?;
    let mut members = Members::new();
    let mut notes = Vec::new();
    add_recording(&args.input, &mut members).with_context(named)?;
    for used in found.used {
        add_program(used, &found.debug, &mut members, &mut notes);
    }
    if let Some(list) = found.kernel_list.filter(|_| names_kernel(&recorded)) {
        let place = match found.kernel_id {
            Some(id) => by_id(&id).join("kallsyms"),
            None => PathBuf::from("kallsyms"),
        };
        // It says that it is empty, as files of /proc do.
        let text =
            beside::given::read(&list, 256 << 20).with_context(|| list.display().to_string())?;
        members.insert(place, Source::Bytes(text));
    }
    for map in found.maps {
        let name = map.file_name().map(PathBuf::from);
        members.extend(name.map(|name| (name, Source::File(map))));
    }
    // Who may not read the recording may not read it packed.
    let of_recording = input.stream_file(0).and_then(|file| file.metadata().ok());
    let mode = of_recording.map_or(beside::PRIVATE, |about| about.mode() & 0o666);
    let (count, bytes) = write(&place, mode, &members, global)?;
    if !global.quiet {
        let files = report::counted(count, "file", "files");
        eprintln!("{}: {files}, {} MiB unpacked", place.display(), bytes.div_ceil(1 << 20));
        notes.iter().for_each(|note| eprintln!("note: {note}"));
        missing(&recorded).iter().for_each(|note| eprintln!("note: {note}"));
    }
    Ok(FINE)
}

/// Whether functions of the kernel or of its modules have names.
fn names_kernel(recorded: &Recorded) -> bool {
    let libraries = recorded.names.libraries();
    recorded.names.functions().iter().any(|function| {
        let path =
            libraries.get(function.library.0 as usize).map_or("", |library| library.path.as_str());
        let module = path.contains(".ko") || path.starts_with('[') && !path.starts_with("[vdso");
        function.known == Known::Symbol && module && !path.starts_with("[JIT")
    })
}

/// What is not in the archive since it was not here.
fn missing(recorded: &Recorded) -> Vec<String> {
    let all = recorded.names.libraries().iter();
    let lacking = all.filter_map(|library| Some((&library.path, library.problem.as_ref()?)));
    lacking
        .map(|(path, why)| {
            format!("not packed: {}: {}", report::visible(path), report::visible(why))
        })
        .collect()
}

fn add_recording(path: &Path, members: &mut Members) -> io::Result<()> {
    let archive = super::unpacked::archive(path).map_err(io::Error::other)?;
    if let Some(inside) = archive.and_then(|archive| archive.recording()) {
        return add_recording(&inside, members);
    }
    if !path.is_dir() {
        members.insert(PathBuf::from(RECORDING), Source::File(path.to_owned()));
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // Neither links nor what lies deeper is a part of the recording.
        if entry.file_type()?.is_file() {
            let name = Path::new(RECORDING).join(entry.file_name());
            members.insert(name, Source::File(entry.path()));
        }
    }
    Ok(())
}

/// A program with the files that hold its debug information.
fn add_program(used: Used, debug: &DebugSearch, members: &mut Members, notes: &mut Vec<String>) {
    let place = match (&used.id, used.recorded.as_str()) {
        (Some(id), "[vdso]") => by_id(id).join("vdso"),
        (None, "[vdso]") => PathBuf::from("vdso"),
        (Some(id), _) => by_id(id).join("elf"),
        (None, path) => match Path::new(path).strip_prefix("/") {
            Ok(inside) => Path::new(BY_PATH).join(inside),
            Err(_) => return,
        },
    };
    let source = match used.bytes {
        Some(bytes) => Source::Bytes(bytes),
        None => Source::File(used.place.clone()),
    };
    if members.insert(place, source).is_some() {
        return;
    }
    let Ok(image) = Image::open(&used.place) else { return };
    let separate = debug.find(&image).ok().and_then(|found| found.image);
    let shared = debug.find_supplementary(separate.as_ref().unwrap_or(&image)).image;
    for file in [separate, shared].into_iter().flatten() {
        match file.build_id() {
            Some(id) => {
                let source = Source::File(file.path().to_owned());
                members.insert(by_id(id).join("debug"), source);
            }
            None => notes.push(format!(
                "not packed: {}: a debug file without a build ID would not be found again",
                report::visible(&file.path().display().to_string())
            )),
        }
    }
}

fn by_id(id: &BuildId) -> PathBuf {
    super::id_paths::by_id(Path::new(""), id)
}

/// Writes the archive; says how many files and bytes it holds.
fn write(
    place: &Path,
    mode: u32,
    members: &Members,
    global: &Global,
) -> anyhow::Result<(u64, u64)> {
    let size = |source: &Source| match source {
        Source::File(path) => std::fs::metadata(path).map_or(0, |found| found.len()),
        Source::Bytes(bytes) => bytes.len() as u64,
    };
    let all: u64 = members.values().map(size).sum();
    let bar = progress::Bytes::new("archive", all, global.quiet);
    let fill = |out: &mut (dyn Write + Send)| -> anyhow::Result<()> {
        let mut writer = Writer::new(out)?;
        // The recording first: whoever looks for it need not read the rest.
        let (first, rest): (Vec<_>, Vec<_>) =
            members.iter().partition(|(name, _)| name.starts_with(RECORDING));
        for (name, source) in first.into_iter().chain(rest) {
            add(&mut writer, name, source, &|bytes| bar.add(bytes))?;
        }
        writer.finish()?.flush()?;
        Ok(())
    };
    // To standard output it has no mode.
    match place == Path::new("-") {
        true => output::write_file(place, fill)?,
        false => beside::named::write_with_mode(place, mode, fill)?,
    }
    Ok((members.len() as u64, all))
}

fn add<W: Write>(
    writer: &mut Writer<W>,
    name: &Path,
    source: &Source,
    told: &dyn Fn(u64),
) -> anyhow::Result<()> {
    match source {
        Source::Bytes(bytes) => {
            writer.add(name, bytes.len() as u64, bytes.as_slice())?;
            told(bytes.len() as u64);
        }
        Source::File(path) => {
            let named = || path.display().to_string();
            let file = input::regular(path)?;
            let bytes = file.metadata().with_context(named)?.len();
            writer.add(name, bytes, Told { file, told }).with_context(named)?;
        }
    }
    Ok(())
}

struct Told<'t> {
    file: File,
    told: &'t dyn Fn(u64),
}

impl Read for Told<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        (self.told)(read as u64);
        Ok(read)
    }
}
