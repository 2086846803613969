//! What does a program consist of? Opens the archive of its link, unpacks it and looks at the
//! objects.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use beside::given;
use beside::scratch::Scratch;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::kept::Kept;
use crate::linker::{self, Linker};
use crate::map;
use crate::own_order::{self, OwnOrder};
use crate::pad::Target;
use crate::relocatable;
use crate::response::Response;
use crate::units::{self, LiveObject};

/// Below this share of code in function sections a layout moves too little to be called random.
const SHARE_WANTED: f64 = 0.80;

/// Where toolchains keep their objects; code there is not the program's own.
const SYSTEM: &[&str] =
    &["lib/", "lib32/", "lib64/", "usr/lib/", "usr/lib32/", "usr/lib64/", "usr/libexec/"];

/// Options whose files lld reads and leaves out of the archive; links read them where they lie.
const NOT_ARCHIVED: [&str; 2] = ["lto-basic-block-sections", "lto-cs-profile-file"];

/// How much of a program can be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Function sections in the program's own objects that are in the program.
    pub function_sections: usize,
    /// Bytes of code in these.
    pub function_section_bytes: u64,
    /// Bytes of code in all of the program's own objects; the toolchain's (`/usr/lib`) are moved
    /// as whole sections.
    pub text_bytes: u64,
    /// Objects that are in the program, the toolchain's included.
    pub objects: usize,
    /// Objects of LLVM bitcode, whose code lld makes.
    pub bitcode_objects: usize,
    /// What a reader of the results should know, one sentence each.
    pub remarks: Vec<String>,
}

impl Survey {
    /// The share of the program's own code that is in function sections, 0 to 1 (0 without code).
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.text_bytes == 0 {
            0.0
        } else {
            self.function_section_bytes as f64 / self.text_bytes as f64
        }
    }
}

/// The inputs of a program's link, unpacked and looked at.
pub struct Inputs {
    archive: PathBuf,
    /// Holds everything of this archive: `root` (the unpacked files), `named` and directories of
    /// links under way.
    pub(crate) home: PathBuf,
    identity: String,
    pub(crate) linker: Linker,
    pub(crate) response: Response,
    /// Whether the linker makes code, of bitcode.
    bitcode: bool,
    pub(crate) objects: Vec<LiveObject>,
    /// The order of symbols that the link itself asks for.
    pub(crate) own_order: OwnOrder,
    pub(crate) target: Option<Target>,
    /// Why the objects cannot be told apart, if so.
    pub(crate) unreadable: Option<(String, String)>,
    survey: Survey,
}

impl fmt::Debug for Inputs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = out.debug_struct("Inputs");
        parts.field("archive", &self.archive).field("identity", &self.identity);
        parts.field("survey", &self.survey).finish_non_exhaustive()
    }
}

/// A directory of one link, removed in the end, and by an interrupt.
pub(crate) struct Work(Scratch);

impl Work {
    pub(crate) fn new(home: &Path) -> Result<Work, Error> {
        fs::create_dir_all(home).map_err(Error::file(home, "create"))?;
        Scratch::within(home).map(Work).map_err(Error::file(home, "make a directory in"))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        let path = self.path().join(name);
        beside::write(&path, bytes).map_err(Error::file(&path, "write"))?;
        Ok(path)
    }

    /// How a file in here is named from the root of the inputs. Relative, for `--chroot` changes
    /// absolute paths.
    pub(crate) fn seen_from_root(&self, name: &str) -> String {
        let own = self.path().file_name().unwrap_or_default().to_string_lossy();
        format!("../{own}/{name}")
    }

    /// Moves a finished directory to its place; another process may have been faster, with the same
    /// content.
    pub(crate) fn publish(self, name: &str, place: &Path) -> Result<(), Error> {
        match fs::rename(self.path().join(name), place) {
            Ok(()) => Ok(()),
            Err(_) if place.is_dir() => Ok(()),
            Err(source) => {
                Err(Error::File { path: place.to_owned(), action: "move into place", source })
            }
        }
    }
}

impl Inputs {
    /// Opens an archive that lld wrote with `--reproduce`, and unpacks it into a directory of its
    /// own below `directory`; what is unpacked already is used again. Links once or twice, to learn
    /// which sections the program has.
    ///
    /// # Errors
    ///
    /// [`Error::Archive`] when the archive is damaged, cut off or holds paths that leave the
    /// directory; [`Error::Option`] when the link asks for more than a program;
    /// [`Error::NoLinker`], [`Error::Relocatable`], [`Error::GccLinkTime`], [`Error::NoObjects`],
    /// [`Error::NoFunctionSections`]; [`Error::Link`] when lld refuses the inputs.
    pub fn open(archive: &Path, directory: &Path) -> Result<Inputs, Error> {
        let kept = Kept::open(archive)?;
        let mut identity =
            Sha256::new().chain_update(kept.linker.version()).chain_update(&kept.bytes);
        for option in NOT_ARCHIVED {
            let file = kept.response.value(option).map(Path::new).filter(|file| file.is_absolute());
            if let Some(Ok(bytes)) = file.map(|file| given::read(file, given::DATA)) {
                identity.update(option);
                identity.update(bytes);
            }
        }
        let identity = hex::encode(identity.finalize());
        let home = std::path::absolute(directory).map_err(Error::file(directory, "find"))?;
        let home = home.join(identity.get(..16).unwrap_or_default());
        kept.unpack(&home)?;
        let mut inputs = Inputs {
            archive: archive.to_owned(),
            home,
            identity,
            linker: kept.linker,
            response: kept.response,
            bitcode: kept.bitcode,
            objects: Vec::new(),
            own_order: OwnOrder::default(),
            target: None,
            unreadable: None,
            survey: Survey::default(),
        };
        inputs.look()?;
        Ok(inputs)
    }

    /// Runs a link command (its program clang, gcc or ld, its output named by `-o`) once in
    /// `working_directory`, with lld as linker, and opens what it links. The program itself is
    /// not written over.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] when it is no such command, [`Error::Link`] when it fails; those of
    /// [`Inputs::open`].
    pub fn from_command(
        command: &[String],
        working_directory: &Path,
        directory: &Path,
    ) -> Result<Inputs, Error> {
        let linker = Linker::find()?;
        fs::create_dir_all(directory).map_err(Error::file(directory, "create"))?;
        let directory = std::path::absolute(directory).map_err(Error::file(directory, "find"))?;
        let work = Work::new(&directory)?;
        let archive = work.path().join("link.tar");
        linker::reproduce(&linker, command, working_directory, work.path(), &archive)?;
        let mut inputs = Inputs::open(&archive, &directory)?;
        // Kept beside the unpacked files, so that the path in messages goes on to exist.
        let kept = inputs.home.join("link.tar");
        fs::rename(&archive, &kept).map_err(Error::file(&kept, "move into place"))?;
        inputs.archive = kept;
        Ok(inputs)
    }

    /// The archive of the link.
    #[must_use]
    pub fn archive(&self) -> &Path {
        &self.archive
    }

    /// The program's file name, as the link names it.
    #[must_use]
    pub fn output_name(&self) -> &str {
        self.response.output()
    }

    /// Stands for the inputs and the linker: equal exactly when both are, as hexadecimal digits.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The lld that is used.
    #[must_use]
    pub fn linker(&self) -> &Linker {
        &self.linker
    }

    /// How much of the program can be moved, with remarks.
    #[must_use]
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Does the link itself say in which order functions lie, so that this order is part of what is
    /// measured?
    #[must_use]
    pub fn has_own_order(&self) -> bool {
        !self.own_order.symbols.is_empty()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.home.join("root")
    }

    /// Options of all links of this archive. Machine code that lld makes with ThinLTO is kept between
    /// them: they differ in the order of sections alone. (Links that differ in what lld makes must not
    /// share it: lld 22 does not look at `--lto-basic-block-sections` before it takes an object.)
    pub(crate) fn options(&self) -> Vec<String> {
        let kept = self.home.join("made");
        self.bitcode
            .then(|| format!("--thinlto-cache-dir={}", kept.display()))
            .into_iter()
            .collect()
    }

    /// Links as the archive says, reads the map of that and then the objects.
    fn look(&mut self) -> Result<(), Error> {
        let bitcode = self.direct_objects()?;
        let of_file = own_order::of_file(&self.response, &self.root());
        let (map, order) = self.first_links(&of_file)?;
        let live = map::parse(&map);
        self.own_order = OwnOrder::new(&order, &of_file, &map);
        let made: Vec<&String> = live.keys().filter(|file| file.contains(".lto.")).collect();
        self.survey.bitcode_objects = bitcode.max(made.len());
        match units::read(&self.root(), &live, &self.response) {
            Ok(objects) => self.objects = objects,
            Err(Error::Object { object, found }) => self.unreadable = Some((object, found)),
            Err(other) => return Err(other),
        }
        self.count();
        self.check(live.len())
    }

    /// Looks at the objects that the command names, before they are linked; returns how many are
    /// bitcode.
    fn direct_objects(&mut self) -> Result<usize, Error> {
        let root = self.root();
        let mut bitcode = 0;
        let paths: Vec<String> = self.response.paths().map(str::to_owned).collect();
        for name in paths {
            let object = root.join(name.trim_start_matches('/'));
            let Ok(bytes) = given::read(&object, given::DATA) else { continue };
            if relocatable::is_gcc_lto_only(&bytes) {
                return Err(Error::GccLinkTime { path: self.archive.clone(), object: name });
            }
            bitcode += usize::from(relocatable::is_bitcode(&bytes));
            if relocatable::is_object(&bytes) && self.target.is_none() {
                self.target = Target::of(&bytes);
            }
        }
        Ok(bitcode)
    }

    /// A map of the program, and the symbols that have a place in it, in order. Links a second time
    /// where lld prints which functions have calls only in another order than the link's own.
    fn first_links(&self, of_file: &[String]) -> Result<(String, String), Error> {
        let (map, order) = (self.home.join("link.map"), self.home.join("own.order"));
        if !(map.is_file() && order.is_file()) {
            let work = Work::new(&self.home)?;
            let printed = work.path().join("printed");
            let sort = self.response.value("call-graph-profile-sort");
            let mut more = Vec::new();
            if sort != Some("none") {
                more.push(format!("--print-symbol-order={}", work.seen_from_root("printed")));
            }
            let otherwise =
                !more.is_empty() && sort != Some("hfsort") && self.linker.sorts_in_several_ways();
            if otherwise {
                more.push("--call-graph-profile-sort=hfsort".to_owned());
            }
            let mut first = self.mapped(&work, "first-map", &more)?;
            let printed = if printed.is_file() { text(&printed)? } else { String::new() };
            if otherwise && !printed.trim().is_empty() {
                first = self.mapped(&work, "map", &[])?;
            }
            let own = own_order::by_place(of_file, &printed, &text(&first)?);
            work.write("order", own.as_bytes())?;
            fs::rename(work.path().join("order"), &order)
                .map_err(Error::file(&order, "move into place"))?;
            fs::rename(first, &map).map_err(Error::file(&map, "move into place"))?;
        }
        Ok((text(&map)?, text(&order)?))
    }

    /// Links with more options and gives the map.
    fn mapped(&self, work: &Work, map: &str, more: &[String]) -> Result<PathBuf, Error> {
        let mut options = self.options();
        options.extend_from_slice(more);
        options.extend([
            format!("--Map={}", work.seen_from_root(map)),
            "--no-demangle".to_owned(),
            "-o".to_owned(),
            work.seen_from_root("out"),
        ]);
        let response =
            work.write("response.txt", self.response.render(&[], &options).as_bytes())?;
        self.linker.link(&self.root(), &response)?;
        Ok(work.path().join(map))
    }

    /// Adds up code and function sections, of the program's own objects if there are such.
    fn count(&mut self) {
        let own =
            |object: &&LiveObject| !SYSTEM.iter().any(|system| object.file.starts_with(system));
        let survey = &mut self.survey;
        let mut bytes: BTreeMap<bool, u64> = BTreeMap::new();
        for object in self.objects.iter().filter(own) {
            for section in object.object.sections.iter().filter(|section| section.executable) {
                let function = is_function_section(&section.name);
                *bytes.entry(function).or_default() += section.size;
                survey.function_sections += usize::from(function);
            }
        }
        survey.function_section_bytes = bytes.get(&true).copied().unwrap_or(0);
        survey.text_bytes = bytes.values().sum();
    }

    /// Refuses what cannot be moved and remarks on what can only partly be.
    fn check(&mut self, files: usize) -> Result<(), Error> {
        let path = self.archive.clone();
        let survey = &mut self.survey;
        survey.objects = files;
        if self.response.strips() {
            let remark = "the link strips symbols; relinks keep them, which are not loaded and so \
                          move nothing";
            survey.remarks.push(remark.to_owned());
        }
        if survey.bitcode_objects > 0 {
            let remark = format!(
                "{} objects hold LLVM bitcode, and every layout is linked from the same code: full \
                 link-time optimisation makes it each time, ThinLTO in the first link",
                survey.bitcode_objects
            );
            survey.remarks.push(remark);
        } else if let Some((object, found)) = &self.unreadable {
            survey.remarks.push(format!("{object}: {found}; layouts cannot be matched"));
        } else if survey.text_bytes == 0 {
            return Err(Error::NoObjects { path });
        } else if survey.function_sections == 0 {
            let objects =
                self.objects.iter().filter(|object| !object.object.sections.is_empty()).count();
            return Err(Error::NoFunctionSections { path, text_bytes: survey.text_bytes, objects });
        } else if survey.share() < SHARE_WANTED {
            let remark = format!(
                "only {:.0} % of the code ({} of {} bytes) is in function sections, the rest \
                 moves as whole files; compile everything with -ffunction-sections",
                100.0 * survey.share(),
                survey.function_section_bytes,
                survey.text_bytes
            );
            survey.remarks.push(remark);
        }
        Ok(())
    }
}

fn text(path: &Path) -> Result<String, Error> {
    let bytes = given::read(path, given::DATA).map_err(Error::file(path, "read"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Is this the section of one function? Compilers put `main` and cold code apart even without
/// -ffunction-sections.
fn is_function_section(name: &str) -> bool {
    let shared = [
        ".text.startup",
        ".text.unlikely",
        ".text.hot",
        ".text.exit",
        ".text.unknown",
        ".text.split",
    ];
    (name.starts_with(".text.") || name.starts_with(".ltext."))
        && !shared.contains(&name.trim_end_matches('.'))
}
