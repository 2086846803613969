//! Which shards of those given count, and how much?
//!
//! Input: what the shards say of themselves, in any order. Output: the shards to add up, with
//! weights, and of each of the others why not; the same whatever the order. Invariant: no recording
//! counts twice. A shard is taken whole or not at all. The shards with most recordings come first,
//! so that one that is part of another comes behind it and is left out; one that holds some
//! recordings that count already, and some that do not, is rejected. Cost: a sort of the shards, and
//! a table of the recordings.

use crate::digest::Partition;
use crate::law::Mixing;
use crate::recording::{Description, Parts, Recording};
use crate::{Error, Shard, Weight, sources};
use counts::Ledger;
use counts::artefact::Form;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::path::PathBuf;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Leave out recordings that ended before, in seconds since 1970.
    pub since: Option<u64>,
    /// Weigh half after each so many seconds.
    pub decay: Option<NonZeroU64>,
    /// What the age is counted from, in seconds since 1970.
    pub now: u64,
    /// Take so many recordings of a host at most, the newest ones.
    pub max_per_host: Option<usize>,
    /// Take recordings of these hosts alone.
    pub host_class: Option<String>,
    /// Keep this part of the rows.
    pub partition: Option<Partition>,
    /// What is done with counts of different sources.
    pub mixing: Mixing,
    /// What the counts of a source weigh besides.
    pub by_source: BTreeMap<String, Weight>,
    /// Memory that may be used, in bytes.
    pub memory: u64,
    /// Keep files of levels in this directory, and take those that are there from a merge that was
    /// broken off.
    pub keep: Option<PathBuf>,
    /// Threads that read shards; 0: as many as the machine has processors.
    pub threads: usize,
}

/// Why a shard that could be read is not merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its recordings count in this other one.
    Duplicate(PathBuf),
    /// It ended before `--since`, or does not say when.
    Older,
    /// It is of another class of hosts.
    HostClass,
    /// Its host gave enough newer ones.
    MaxPerHost,
}

/// A shard that counts.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'s> {
    /// The shard.
    pub shard: &'s Shard,
    /// Its weight.
    pub weight: Weight,
}

/// What is to be merged.
#[derive(Clone, Debug)]
pub struct Plan<'s> {
    /// Those that count, in the order of [`Plan::of`].
    pub chosen: Vec<Chosen<'s>>,
    /// Those that do not.
    pub left_out: Vec<(&'s Shard, Why)>,
    /// Those that cannot, and why.
    pub rejected: Vec<(&'s Shard, String)>,
    /// Shards that say that more passed than their time and CPUs allow, and are weighed down to that.
    pub capped: Vec<&'s Shard>,
    /// Recordings from the future, which decay weighs as new ones.
    pub future: usize,
    /// The shard of one of them.
    pub ahead: Option<&'s Shard>,
    /// What the result says of itself.
    pub description: Description,
    /// What the result's recordings held.
    pub ledger: Ledger,
    /// The result's columns.
    pub form: Form,
}

/// The recordings that count so far: of each the shard, into how many parts it is divided, and those
/// that count.
type Counted<'s> = HashMap<&'s str, (&'s Shard, u32, BTreeSet<u32>)>;

impl<'s> Plan<'s> {
    /// Plans for shards, each with a weight.
    ///
    /// # Errors
    /// Where parts of a divided result do not make a whole, counts of different sources are not to
    /// be mixed, or nothing is left.
    pub fn of(shards: &'s [(Shard, Weight)], options: &Options) -> Result<Plan<'s>, Error> {
        if options.mixing != Mixing::WhereNeeded {
            return Plan::with(shards, options);
        }
        let refused = Options { mixing: Mixing::Refused, ..options.clone() };
        match Plan::with(shards, &refused) {
            Err(Error::Mixed { .. }) => {
                Plan::with(shards, &Options { mixing: Mixing::Executions, ..refused })
            }
            other => other,
        }
    }

    fn with(shards: &'s [(Shard, Weight)], options: &Options) -> Result<Plan<'s>, Error> {
        let mut plan = Plan {
            chosen: Vec::new(),
            left_out: Vec::new(),
            rejected: Vec::new(),
            capped: Vec::new(),
            future: 0,
            ahead: None,
            description: Description::of(Vec::new(), true),
            ledger: Ledger::default(),
            form: Form { version: 1, paths: false, architectures: false },
        };
        let given = shards.iter().map(|(shard, weight)| Chosen { shard, weight: *weight });
        let mut left: Vec<Chosen<'s>> = given.collect();
        // Also the notes are the same whatever the order.
        left.sort_by_cached_key(order);
        left.retain(|chosen| plan.is_wanted(chosen.shard, options));
        if let Some(half_life) = options.decay {
            left = plan.decay(left, half_life, options.now);
            left.sort_by_cached_key(order);
        }
        left = sources::weigh(left, options.mixing, &options.by_source, |chosen, why| {
            plan.rejected.push((chosen.shard, why));
        });
        left.sort_by_cached_key(order);
        let counted = plan.choose(left);
        if let Some(most) = options.max_per_host {
            plan.limit(most);
        }
        for Chosen { shard, .. } in &plan.chosen {
            let recordings = shard.description.recordings.iter();
            let ahead = recordings.filter(|one| one.time() > Some(options.now)).count();
            plan.future += ahead;
            plan.ahead = plan.ahead.or((ahead > 0).then_some(*shard));
        }
        if plan.chosen.is_empty() {
            return Err(plan.nothing(shards.len()));
        }
        plan.agree(options.mixing)?;
        let capped = plan.chosen.iter().filter(|chosen| sources::cap(chosen).is_some());
        plan.capped = capped.map(|chosen| chosen.shard).collect();
        plan.describe(counted, options.partition)?;
        Ok(plan)
    }

    /// Whether the options take a shard; notes it where they do not.
    fn is_wanted(&mut self, shard: &'s Shard, options: &Options) -> bool {
        let recordings = &shard.description.recordings;
        let since = |one: &Recording| match options.since {
            Some(since) => one.time().is_some_and(|time| time >= since),
            None => true,
        };
        let class = |one: &Recording| match &options.host_class {
            Some(class) => one.host_class == *class,
            None => true,
        };
        let fitting =
            |test: &dyn Fn(&Recording) -> bool| recordings.iter().filter(|one| test(one)).count();
        let tests = [
            (fitting(&since), Why::Older, "--since"),
            (fitting(&class), Why::HostClass, "--host-class"),
        ];
        for (fitting, why, option) in tests {
            if fitting == recordings.len() {
                continue;
            }
            if fitting == 0 {
                self.left_out.push((shard, why));
            } else {
                let told = format!(
                    "{option} takes {fitting} of its {} recordings, which are added up already; \
                     give their own shards",
                    recordings.len()
                );
                self.rejected.push((shard, told));
            }
            return false;
        }
        true
    }

    /// Takes each shard whose recordings do not count yet.
    fn choose(&mut self, sorted: Vec<Chosen<'s>>) -> Counted<'s> {
        let mut counted = Counted::new();
        for chosen in sorted {
            let shard = chosen.shard;
            let (of, parts) = shard.description.parts();
            let mut covered: Option<&Shard> = None;
            let mut clash: Option<(&Shard, &str)> = None;
            let mut free = false;
            for recording in &shard.description.recordings {
                match counted.get(recording.id.as_str()) {
                    None => free = true,
                    Some((other, own_of, own)) => {
                        let whole = own.len() == usize::try_from(*own_of).unwrap_or(usize::MAX);
                        let same = *own_of == of;
                        if whole || same && parts.iter().all(|part| own.contains(part)) {
                            covered = covered.or(Some(other));
                        } else if same && !parts.iter().any(|part| own.contains(part)) {
                            free = true;
                        } else {
                            clash = clash.or(Some((other, &recording.id)));
                        }
                    }
                }
            }
            match (clash, covered) {
                (Some((other, id)), _) => {
                    let told = format!(
                        "holds the recording {id}, of which {} has only a part that counts already; \
                         give all parts of it, or none",
                        other.path.display()
                    );
                    self.rejected.push((shard, told));
                }
                (None, Some(other)) if free => {
                    let both = shard.description.recordings.iter();
                    let id = both.map(|one| one.id.as_str()).find(|id| counted.contains_key(id));
                    self.clash(shard, other, id.unwrap_or_default());
                }
                (None, Some(other)) => {
                    let same =
                        other.description.recordings.len() == shard.description.recordings.len();
                    let differs = same
                        && of == other.description.parts().0
                        && parts == other.description.parts().1
                        && other.footer != shard.footer
                        && !shard.has_the_rows_of(other);
                    if differs {
                        let told = format!(
                            "its recordings count already, with other counts, in {}; one of the two \
                             is damaged or forged",
                            other.path.display()
                        );
                        self.rejected.push((shard, told));
                    } else {
                        self.left_out.push((shard, Why::Duplicate(other.path.clone())));
                    }
                }
                (None, None) => {
                    for recording in &shard.description.recordings {
                        let entry = counted.entry(&recording.id);
                        let entry = entry.or_insert_with(|| (shard, of, BTreeSet::new()));
                        entry.2.extend(parts);
                    }
                    self.chosen.push(chosen);
                }
            }
        }
        counted
    }

    fn clash(&mut self, shard: &'s Shard, other: &Shard, id: &str) {
        let told = format!(
            "holds the recording {id}, which counts in {}, and others, which do not; give shards \
             that share no recordings",
            other.path.display()
        );
        self.rejected.push((shard, told));
    }

    /// Leaves out shards of hosts that gave enough newer ones. Recordings that name no host are not
    /// limited.
    fn limit(&mut self, most: usize) {
        let mut newest: Vec<Chosen<'s>> = std::mem::take(&mut self.chosen);
        let time = |chosen: &Chosen<'s>| {
            chosen.shard.description.recordings.iter().filter_map(Recording::time).max()
        };
        // Stable, so that those of one time stay in their order.
        newest.sort_by_key(|chosen| std::cmp::Reverse(time(chosen)));
        // Parts of one result are of the same recordings, which count once.
        let mut taken: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for chosen in newest {
            let mut more: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for one in chosen.shard.description.recordings.iter().filter(|one| !one.host.is_empty())
            {
                more.entry(&one.host).or_default().insert(&one.id);
            }
            let fits = more.iter().all(|(host, ids)| {
                let own = taken.get(host);
                let new = ids.iter().filter(|id| own.is_none_or(|own| !own.contains(*id))).count();
                own.map_or(0, BTreeSet::len) + new <= most
            });
            if !fits {
                self.left_out.push((chosen.shard, Why::MaxPerHost));
                continue;
            }
            more.into_iter().for_each(|(host, ids)| taken.entry(host).or_default().extend(ids));
            self.chosen.push(chosen);
        }
        self.chosen.sort_by_cached_key(order);
    }

    /// Gives each shard the weight of its age; those that have one.
    fn decay(
        &mut self,
        given: Vec<Chosen<'s>>,
        half_life: NonZeroU64,
        now: u64,
    ) -> Vec<Chosen<'s>> {
        let mut weighed = Vec::with_capacity(given.len());
        for mut chosen in given {
            let recordings = &chosen.shard.description.recordings;
            let of = |one: &Recording| {
                one.time().map(|time| Weight::decayed(now.saturating_sub(time), half_life))
            };
            let first = recordings.first().and_then(of);
            let Some(first) = first.filter(|_| recordings.iter().all(|one| of(one) == first))
            else {
                let told = if recordings.iter().all(|one| one.time().is_some()) {
                    "holds recordings of different ages, added up already; give their own shards \
                     to --decay"
                } else {
                    "does not say when it was recorded, so that --decay cannot weigh it"
                };
                self.rejected.push((chosen.shard, told.to_owned()));
                continue;
            };
            match chosen.weight.times(first) {
                Some(weight) => chosen.weight = weight,
                None => {
                    self.rejected.push((chosen.shard, "its weight exceeds 4294967295".to_owned()));
                    continue;
                }
            }
            weighed.push(chosen);
        }
        weighed
    }

    /// Refuses counts of different sources, unless it is said what to do with them.
    fn agree(&mut self, mixing: Mixing) -> Result<(), Error> {
        let executions = |chosen: &&Chosen<'_>| chosen.shard.description.executions;
        let all = self.chosen.iter().all(|chosen| executions(&chosen));
        self.description.executions = mixing == Mixing::Executions || all;
        match sources::mixed(&self.chosen).filter(|_| mixing == Mixing::Refused) {
            None => Ok(()),
            Some(sources) => {
                let named = |(source, shards): (&str, usize)| match source {
                    "" => format!("unknown ({shards})"),
                    source => format!("{source} ({shards})"),
                };
                let sources: Vec<String> = sources.into_iter().map(named).collect();
                Err(Error::Mixed { sources: sources.join(", ") })
            }
        }
    }

    fn nothing(&self, given: usize) -> Error {
        let first = match (self.rejected.first(), self.left_out.first()) {
            (Some((shard, why)), _) => format!("; {}: {why}", shard.path.display()),
            (None, Some((shard, why))) => format!("; {}: {}", shard.path.display(), why.told()),
            (None, None) => String::new(),
        };
        let (rejected, left_out) = (self.rejected.len(), self.left_out.len());
        Error::Nothing { given, rejected, left_out, first }
    }

    /// What the result says of itself.
    fn describe(&mut self, counted: Counted<'s>, asked: Option<Partition>) -> Result<(), Error> {
        let parts = self.parts(&counted)?;
        // Part of a part is of neither number.
        if let (Some(parts), true) = (&parts, asked.is_some()) {
            return Err(self.unfit(parts.of));
        }
        let asked = asked.filter(|asked| asked.of > 1);
        let asked = asked.map(|asked| Parts { of: asked.of, parts: vec![asked.part] });
        let mut recordings: BTreeMap<&str, Recording> = BTreeMap::new();
        for Chosen { shard, weight } in &self.chosen {
            self.form.version = self.form.version.max(shard.about.version.min(4));
            self.form.paths |= shard.about.paths;
            self.form.architectures |= shard.tells_architectures();
            self.description.halves &= shard.description.halves;
            let (of, own) = shard.description.parts();
            let first = shard.description.recordings.first();
            let first = first.and_then(|one| counted.get(one.id.as_str()));
            // The parts of a result have the ledger of the whole.
            let least = first.and_then(|(_, _, parts)| parts.first());
            if of == 1 || own.first() == least {
                self.ledger.add(&shard.about.ledger);
            }
            for recording in &shard.description.recordings {
                let kept = recordings.entry(&recording.id);
                let kept = kept.or_insert_with(|| {
                    let mut recording = recording.clone();
                    if *weight != Weight::ONE {
                        recording.weights.push(weight.bits());
                    }
                    recording
                });
                debug_assert_eq!(kept.id, recording.id);
            }
        }
        self.description.recordings = recordings.into_values().collect();
        self.description.partition = parts.or(asked);
        Ok(())
    }

    /// That parts of so many do not make a whole; names one of them.
    fn unfit(&self, of: u32) -> Error {
        let part = self.chosen.iter().find(|chosen| chosen.shard.description.parts().0 == of);
        let (path, part) = part.map_or_else(Default::default, |chosen| {
            let (_, parts) = chosen.shard.description.parts();
            (chosen.shard.path.clone(), parts.first().map_or(1, |part| part.saturating_add(1)))
        });
        Error::Incomplete { path, part, of }
    }

    /// The parts of all rows that the chosen shards have together; none where they have all.
    fn parts(&self, counted: &Counted<'s>) -> Result<Option<Parts>, Error> {
        let mut found: Option<(u32, &BTreeSet<u32>)> = None;
        let mut is_whole = false;
        for chosen in &self.chosen {
            let own = chosen.shard.description.recordings.iter();
            for (_, of, parts) in own.filter_map(|one| counted.get(one.id.as_str())) {
                if parts.len() == usize::try_from(*of).unwrap_or(usize::MAX) {
                    is_whole = true;
                } else if *found.get_or_insert((*of, parts)) != (*of, parts) {
                    return Err(self.unfit(*of));
                }
            }
            if let (true, Some((of, _))) = (is_whole, found) {
                return Err(self.unfit(of));
            }
        }
        Ok(found.map(|(of, parts)| Parts { of, parts: parts.iter().copied().collect() }))
    }
}

/// What shards are sorted by: most recordings first, then their IDs, parts, and, of the same
/// recordings, what tells files apart.
fn order<'s>(chosen: &Chosen<'s>) -> impl Ord + use<'s> {
    let Chosen { shard, weight } = chosen;
    let ids = shard.description.recordings.iter().map(|one| one.id.as_str());
    let ids: Vec<&str> = ids.collect();
    let parts = shard.description.parts();
    (std::cmp::Reverse(ids.len()), ids, parts, shard.footer, *weight, shard.path.as_path())
}

impl Why {
    /// In words.
    pub fn told(&self) -> String {
        match self {
            Why::Duplicate(other) => format!("counts already, in {}", other.display()),
            Why::Older => "ended before --since, or does not say when".to_owned(),
            Why::HostClass => "is of another class of hosts, or does not say of which".to_owned(),
            Why::MaxPerHost => {
                "its host gave as many newer ones as --max-per-host takes".to_owned()
            }
        }
    }
}
