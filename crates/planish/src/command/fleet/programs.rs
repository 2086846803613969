//! Which program was a file that a profile names? The one that the user gives, one of a store, or
//! the file of that name here, if its build ID is the same.

use super::at_hand::AtHand;
use super::remote::Remote;
use exchange::{Mapping, Program};
use image::{BuildId, Image};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where programs are looked for.
pub struct Programs {
    asked_for: Vec<Arc<Image>>,
    store: AtHand,
    /// What was found before.
    found: BTreeMap<BuildId, Arc<Image>>,
}

impl Programs {
    /// The images of `--binary`, and the directories and buckets of `--binaries`.
    ///
    /// # Errors
    /// Where one of them is a bucket that cannot be asked.
    pub fn new(
        asked_for: Vec<Arc<Image>>,
        places: &[PathBuf],
        remote: &Remote,
        quiet: bool,
    ) -> anyhow::Result<Programs> {
        let store = AtHand::new(places, None, remote, quiet)?;
        Ok(Programs { asked_for, store, found: BTreeMap::new() })
    }

    /// What a mapped file is. Where images are asked for, only these.
    pub fn of(&mut self, mapping: &Mapping) -> Program {
        if !self.asked_for.is_empty() {
            return self.asked(mapping);
        }
        let Some(id) = &mapping.build_id else { return Program::Missing };
        if let Some(image) = self.found.get(id) {
            return Program::Is(Arc::clone(image));
        }
        if let Ok(image) = self.store.find(id, &mapping.path) {
            return Program::Is(self.keep(*id, image));
        }
        let here = Path::new(&*mapping.path);
        if !here.is_absolute() || beside::given::check(here).is_err() {
            return Program::Missing;
        }
        match Image::open(here) {
            Ok(image) if image.build_id() == Some(id) => Program::Is(self.keep(*id, image)),
            Ok(image) => image
                .build_id()
                .map_or(Program::Missing, |own| Program::OtherBuild(own.to_string())),
            Err(_) => Program::Missing,
        }
    }

    /// The program of counts, where it is at hand.
    pub fn of_counts(&mut self, id: Option<&BuildId>, path: &str) -> Option<Arc<Image>> {
        let mapping = Mapping {
            start: exchange::StatedAddr(0),
            limit: exchange::StatedAddr(0),
            offset: 0,
            path: path.into(),
            build_id: id.copied(),
        };
        match self.of(&mapping) {
            Program::Is(image) | Program::Named(image) => Some(image),
            _ => None,
        }
    }

    fn keep(&mut self, id: BuildId, image: Image) -> Arc<Image> {
        Arc::clone(self.found.entry(id).or_insert_with(|| Arc::new(image)))
    }

    fn asked(&self, mapping: &Mapping) -> Program {
        let name = Path::new(&*mapping.path).file_name();
        let same_name = |image: &&Arc<Image>| name.is_some() && image.path().file_name() == name;
        let of_name = self.asked_for.iter().find(same_name);
        let Some(id) = &mapping.build_id else {
            return of_name.map_or(Program::NotAskedFor, |own| Program::Named(Arc::clone(own)));
        };
        if let Some(image) = self.asked_for.iter().find(|image| image.build_id() == Some(id)) {
            return Program::Is(Arc::clone(image));
        }
        match of_name.map(|own| own.build_id()) {
            Some(Some(own)) => Program::OtherBuild(own.to_string()),
            Some(None) => Program::OtherBuild("none".to_owned()),
            None => Program::NotAskedFor,
        }
    }
}
