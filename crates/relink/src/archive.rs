//! Which objects are in a static library, and how is one written whose objects were replaced?

use std::path::Path;

use object::read::archive::ArchiveFile;

use crate::error::Error;

/// One object of a library.
pub(crate) struct Member {
    /// Its file name, without directory.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Is this the start of a library?
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n")
}

fn broken(path: &Path, found: impl ToString) -> Error {
    Error::Object { object: path.display().to_string(), found: found.to_string() }
}

/// The objects of a library, in its order; those of a thin one are read from their own files.
pub(crate) fn members(path: &Path, bytes: &[u8]) -> Result<Vec<Member>, Error> {
    let archive = ArchiveFile::parse(bytes).map_err(|found| broken(path, found))?;
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.map_err(|found| broken(path, found))?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let bytes = if archive.is_thin() {
            let file = path.parent().unwrap_or(Path::new("")).join(&name);
            beside::given::read(&file, beside::given::DATA).map_err(Error::file(&file, "read"))?
        } else {
            member.data(bytes).map_err(|found| broken(path, found))?.to_vec()
        };
        let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
        // A name ends at a slash and the end of a line where it is written.
        if name.is_empty() || name.contains('\n') {
            return Err(broken(
                path,
                format!("its member {name:?} has no usable name; make the library anew with ar"),
            ));
        }
        members.push(Member { name, bytes });
    }
    Ok(members)
}

/// A library of these objects, without symbol index: lld looks into the objects anyway.
pub(crate) fn write(members: &[Member]) -> Vec<u8> {
    let mut names = Vec::new();
    let mut bodies = Vec::new();
    for member in members {
        let field = if member.name.len() < 16 {
            format!("{}/", member.name)
        } else {
            let field = format!("/{}", names.len());
            names.extend_from_slice(member.name.as_bytes());
            names.extend_from_slice(b"/\n");
            field
        };
        push(&mut bodies, &field, &member.bytes);
    }
    let mut library = b"!<arch>\n".to_vec();
    if !names.is_empty() {
        push(&mut library, "//", &names);
    }
    library.extend_from_slice(&bodies);
    library
}

/// One entry: header of 60 bytes, content, filled up to an even length.
fn push(library: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, bytes.len());
    library.extend_from_slice(header.as_bytes());
    library.extend_from_slice(bytes);
    if bytes.len() % 2 == 1 {
        library.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_library_reads_back() {
        let long = "a_rather_long_member_name.o";
        let members = [
            ("a.o", b"odd".to_vec()),
            (long, b"even".to_vec()),
            (long, Vec::new()),
            ("b.o", vec![7; 1001]),
        ]
        .map(|(name, bytes)| Member { name: name.to_owned(), bytes });
        let library = write(&members);
        let read = super::members(Path::new("lib.a"), &library).unwrap();
        assert_eq!(read.len(), members.len());
        for (read, member) in read.iter().zip(&members) {
            assert_eq!((&read.name, &read.bytes), (&member.name, &member.bytes));
        }
    }
}
