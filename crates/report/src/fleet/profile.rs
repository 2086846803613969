//! What does a profile made of a fleet's shards rest on? Its builds, and what became of the counts of each.

use super::MergedFleet;
use crate::numbers::numbered;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What became of the counts of a build.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It is the build that the profile is for.
    Newest,
    /// They were carried over to it by their source; the percentage of the samples that could be.
    Matched(f64),
    /// They have pseudo probes, which compilers match themselves.
    Unmatched,
    /// They are not in the profile, for this reason.
    LeftOut(String),
}

/// A build of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Build {
    /// Its build ID.
    pub id: Option<String>,
    /// Where it lay on its host.
    pub path: String,
    /// Executions of branches, or samples where there are no branch stacks.
    pub counted: u128,
    /// What became of them.
    pub fate: Fate,
}

impl Build {
    /// The build and its fate.
    pub fn line(&self) -> String {
        let id = self.id.as_deref().unwrap_or("without a build ID");
        let path = crate::visible(&self.path);
        match &self.fate {
            Fate::Newest => format!("{id} {path}: the build that the profile is for"),
            Fate::Matched(percent) => {
                format!("{id} {path}: carried over by source, {percent:.1} % of its samples")
            }
            Fate::Unmatched => {
                format!("{id} {path}: has pseudo probes, which the compiler matches itself")
            }
            Fate::LeftOut(why) => format!("{id} {path}: left out: {}", crate::visible(why)),
        }
    }
}

/// A profile that was made before, and is added.
#[derive(Clone, Debug, PartialEq)]
pub struct Added {
    /// The file.
    pub path: PathBuf,
    /// Its counts, as far as they are in the result.
    pub counted: u128,
    /// What became of it.
    pub fate: Fate,
}

/// A profile that was made of the shards of a service.
#[derive(Clone, Debug)]
pub struct FleetProfile {
    /// The service's file name.
    pub name: String,
    /// Its builds.
    pub builds: Vec<Build>,
    /// Profiles that were given beside the shards.
    pub added: Vec<Added>,
    /// The counts of the result.
    pub total: u128,
    /// The profile.
    pub output: PathBuf,
}

impl FleetProfile {
    /// Whether the counts of all builds are in the profile.
    pub fn all_used(&self) -> bool {
        self.used() == self.builds.len()
    }

    /// The builds that gave counts.
    fn used(&self) -> usize {
        self.builds.iter().filter(|build| !matches!(build.fate, Fate::LeftOut(_))).count()
    }

    fn percent(&self, build: &Build) -> f64 {
        let whole = self.builds.iter().map(|build| build.counted as f64).sum::<f64>();
        if whole > 0.0 { 100.0 * build.counted as f64 / whole } else { 0.0 }
    }

    /// Which percentage of the result's counts an added profile has.
    fn share(&self, one: &Added) -> f64 {
        if self.total > 0 { 100.0 * one.counted as f64 / self.total as f64 } else { 0.0 }
    }

    /// As lines.
    pub fn lines(&self) -> Vec<String> {
        let one = |build: &Build| format!("{:>5.1} %  {}", self.percent(build), build.line());
        let mut lines: Vec<String> = self.builds.iter().map(one).collect();
        for one in &self.added {
            let fate = match &one.fate {
                Fate::Matched(percent) => {
                    format!("carried over by source, {percent:.1} % of its samples")
                }
                _ => "has pseudo probes, which the compiler matches itself".to_owned(),
            };
            let share = self.share(one);
            let path = crate::visible(&one.path.display().to_string()).into_owned();
            lines.push(format!("profile {path}: {fate}; {share:.1} % of the result's counts"));
        }
        lines.push(format!(
            "wrote {}: the profile of {} for {}",
            self.output.display(),
            numbered(self.used() as u64, "build", "builds"),
            crate::visible(&self.name)
        ));
        lines
    }

    /// As one JSON object, with what was merged and what the newest build's own counts rest on.
    pub fn json(&self, merged: &MergedFleet, evidence: Option<&crate::Evidence>) -> Value {
        let builds = self.builds.iter().map(|build| {
            let (fate, matched, why) = match &build.fate {
                Fate::Newest => ("newest", None, None),
                Fate::Matched(percent) => ("matched", Some(*percent), None),
                Fate::Unmatched => ("unmatched", None, None),
                Fate::LeftOut(why) => ("left-out", None, Some(why)),
            };
            json!({
                "build_id": build.id, "path": build.path, "percent": self.percent(build),
                "fate": fate, "matched_percent": matched, "reason": why,
            })
        });
        let added = self.added.iter().map(|one| {
            let matched = match &one.fate {
                Fate::Matched(percent) => Some(*percent),
                _ => None,
            };
            json!({ "path": one.path, "percent": self.share(one), "matched_percent": matched })
        });
        json!({
            "schema": "planish-fleet-profile", "version": 1, "name": self.name,
            "output": self.output, "builds": builds.collect::<Vec<_>>(),
            "profiles": added.collect::<Vec<_>>(),
            "merged": merged.json(), "evidence": evidence,
        })
    }
}
