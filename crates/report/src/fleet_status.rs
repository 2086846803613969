//! Are the recordings of a fleet enough for a profile of a service? What each build, class of hosts and
//! source gave, and how far the sum can be trusted.

mod page;

use crate::fleet::MergedFleet;
use crate::numbers::numbered;
use serde::Serialize;
use serde_json::{Value, json};

/// What one build, class of hosts or source gave.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Recordings that name it; absent for builds, of which a recording may have several.
    pub recordings: Option<u64>,
    /// Its share of the service's counts, in percent.
    pub percent: f64,
    /// How far its own counts agree with those of all, in percent; of the newest build only.
    pub overlap_percent: Option<f64>,
    /// What else there is to say.
    pub note: String,
}

/// How far halves of the recordings agree, in percent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Stable {
    /// On average over many divisions.
    pub overlap_percent: f64,
    /// The interval that 95 % of the divisions lie in.
    pub interval_percent: [f64; 2],
    /// The expected agreement of all recordings with an endless look at the fleet.
    pub expected_percent: f64,
}

/// What was asked for, and what there is.
#[derive(Clone, Debug)]
pub struct FleetStatus {
    /// The service's file name.
    pub name: String,
    /// What became of the shards.
    pub merged: MergedFleet,
    /// The builds, newest first.
    pub builds: Vec<Share>,
    /// Classes of hosts.
    pub classes: Vec<Share>,
    /// Sources of samples.
    pub sources: Vec<Share>,
    /// What the newest build's counts rest on.
    pub evidence: Option<crate::Evidence>,
    /// Executed bytes, sampled, for each byte of the code that holds 99 % of them.
    pub density: Option<f64>,
    /// Samples for each location of the functions that hold 99 % of them, in the newest build's profile.
    pub profile_density: Option<f64>,
    /// Branches that were recorded, for each byte of the newest build's code.
    pub branches_per_byte: Option<f64>,
    /// How far halves of the recordings agree.
    pub stability: Option<Stable>,
    /// The most that a layout may be expected to lose for want of samples, in percent of the taken
    /// branches.
    pub most_loss_percent: f64,
    /// The least overlap of halves, in percent.
    pub least_overlap_percent: f64,
    /// The density that `perf2bolt` asks for.
    pub least_density: f64,
    /// That which `llvm-profgen` asks for, of the profile.
    pub least_profile_density: f64,
    /// The branches for each byte that Perforator asks for.
    pub least_branches_per_byte: f64,
}

impl FleetStatus {
    /// Whether there are enough recordings; absent where that cannot be known.
    pub fn enough(&self) -> Option<bool> {
        let Some(evidence) = &self.evidence else { return Some(false) };
        let loss = evidence.expected_loss.map(|loss| 100.0 * loss <= self.most_loss_percent);
        let stable =
            self.stability.map(|stable| stable.interval_percent[0] >= self.least_overlap_percent);
        let tests = [evidence.enough, loss, stable];
        if tests.contains(&Some(false)) {
            return Some(false);
        }
        // Without branch stacks there are no ranges that a loss could be told by.
        let known = evidence.enough.is_some() && stable.is_some();
        known.then_some(true)
    }

    /// The verdict in words.
    pub fn verdict(&self) -> String {
        let Some(evidence) = &self.evidence else {
            return "not enough: no recording has this build".to_owned();
        };
        match self.enough() {
            Some(true) => "enough".to_owned(),
            None => "undecided: there are too few recordings to compare halves of them, or their \
                     samples are not told apart by halves"
                .to_owned(),
            Some(false) => {
                let mut why = Vec::new();
                if evidence.enough == Some(false) {
                    let times = evidence.times_more.unwrap_or(2);
                    why.push(format!("about {times} times as many samples are needed"));
                }
                if let Some(loss) = evidence.expected_loss
                    && 100.0 * loss > self.most_loss_percent
                {
                    why.push(format!(
                        "a layout may lose {:.1} % of the taken branches for want of samples ({} % \
                         allowed)",
                        100.0 * loss,
                        self.most_loss_percent
                    ));
                }
                if let Some(stable) = self.stability
                    && stable.interval_percent[0] < self.least_overlap_percent
                {
                    why.push(format!(
                        "halves of the recordings may agree by only {:.1} % ({} % wanted): more \
                         hosts and hours are needed",
                        stable.interval_percent[0], self.least_overlap_percent
                    ));
                }
                format!("not enough: {}", why.join("; "))
            }
        }
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        json!({
            "schema": "planish-fleet-status", "version": 1, "name": self.name,
            "enough": self.enough(), "verdict": self.verdict(), "evidence": self.evidence,
            "density": self.density, "least_density": self.least_density,
            "profile_density": self.profile_density,
            "least_profile_density": self.least_profile_density,
            "branches_per_byte": self.branches_per_byte,
            "least_branches_per_byte": self.least_branches_per_byte,
            "stability": self.stability, "least_overlap_percent": self.least_overlap_percent,
            "most_loss_percent": self.most_loss_percent, "builds": self.builds,
            "host_classes": self.classes, "sources": self.sources, "merged": self.merged.json(),
        })
    }

    /// As lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let name = crate::visible(&self.name);
        let recordings = numbered(self.merged.recordings as u64, "recording", "recordings");
        let hosts = numbered(self.merged.hosts as u64, "named host", "named hosts");
        lines.push(format!("{name}: {recordings} of {hosts}"));
        for (head, list) in
            [("build", &self.builds), ("host class", &self.classes), ("source", &self.sources)]
        {
            lines.extend(list.iter().map(|share| share.line(head)));
        }
        if let Some(evidence) = &self.evidence {
            lines.push(format!("newest build: {}", evidence.line));
        }
        if let Some(density) = self.density {
            lines.push(format!(
                "density: each byte of the code that holds 99 % was seen {density:.1} times \
                 (perf2bolt asks for {})",
                self.least_density
            ));
        }
        if let Some(density) = self.profile_density {
            lines.push(format!(
                "density of the profile: {density:.1} samples at each place of the functions that hold \
                 99 % (llvm-profgen asks for {})",
                self.least_profile_density
            ));
        }
        if let Some(branches) = self.branches_per_byte {
            lines.push(format!(
                "branches recorded for each byte of code: {branches:.2} (Perforator asks for {})",
                self.least_branches_per_byte
            ));
        }
        if let Some(Stable { overlap_percent, interval_percent: [low, high], expected_percent }) =
            self.stability
        {
            lines.push(format!(
                "stability: halves of the recordings agree by {overlap_percent:.1} % ({low:.1} to \
                 {high:.1}); all of them would agree with endlessly many by {expected_percent:.1} %"
            ));
        }
        lines.push(self.verdict());
        lines
    }

    /// As a page that loads nothing.
    pub fn html(&self) -> String {
        page::html(self)
    }
}

impl Share {
    fn line(&self, head: &str) -> String {
        let overlap = self
            .overlap_percent
            .map_or_else(String::new, |overlap| format!(", agrees with all by {overlap:.1} %"));
        let recordings = self.recordings.map_or_else(String::new, |number| {
            format!(", {}", numbered(number, "recording", "recordings"))
        });
        let note = if self.note.is_empty() { String::new() } else { format!(": {}", self.note) };
        let name = if self.name.is_empty() { "unknown" } else { &self.name };
        format!(
            "{:>5.1} %  {head} {}{recordings}{overlap}{note}",
            self.percent,
            crate::visible(name)
        )
    }
}
