//! Are the counts of the chosen shards of one kind, and what does each weigh if they are not?

use crate::Weight;
use crate::law::{Law, Mixing};
use crate::plan::Chosen;
use crate::recording::Recording;
use std::collections::BTreeMap;

/// How the counts of a shard came about: the source of its recordings, or that they are executions.
fn kind<'s>(chosen: &Chosen<'s>) -> Vec<&'s str> {
    let description = &chosen.shard.description;
    if description.executions {
        return vec!["executions"];
    }
    let mut sources: Vec<&str> =
        description.recordings.iter().map(|one| one.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// The sources of the shards, with the number of shards of each, unless all are of one or do not
/// say.
pub(crate) fn mixed<'s>(chosen: &[Chosen<'s>]) -> Option<BTreeMap<&'s str, usize>> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for source in chosen.iter().flat_map(kind) {
        *found.entry(source).or_default() += 1;
    }
    // What does not say its source was counted by an older planish, or by another program.
    let known = found.keys().filter(|source| !source.is_empty()).count();
    (known > 1).then_some(found)
}

/// The weight that makes executions of the counts of a shard, or why there is none.
pub(crate) fn weight(chosen: &Chosen<'_>) -> Result<Weight, &'static str> {
    let description = &chosen.shard.description;
    if description.executions {
        return Ok(Weight::ONE);
    }
    let recordings = &description.recordings;
    let one = |recording: &Recording| recording.law.filter(|_| recording.weights.is_empty());
    let source = recordings.first().map(|first| &first.source);
    if recordings.iter().any(|recording| Some(&recording.source) != source) {
        return Err(
            "its recordings are of different sources, added up already; give their own shards",
        );
    }
    if recordings.iter().any(|recording| !recording.weights.is_empty()) {
        return Err(
            "it was weighed already, but not to executions; give its recordings' own shards",
        );
    }
    let mut laws = recordings.iter().map(one);
    let sum = laws
        .next()
        .flatten()
        .and_then(|first| laws.try_fold(first, |sum: Law, law| law.and_then(|law| sum.with(law))));
    let sum = sum.ok_or(
        "it does not say how many executions a count stands for (law); make it with planish fleet \
         shard from a recording that states its period, or add counts as they are with --raw",
    )?;
    sum.weight().ok_or(
        "a count of it stands for no execution, or for more than 4294967295; is its law right?",
    )
}

/// The weight that caps a recording which says that more passed than its time and its CPUs allow.
pub(crate) fn cap(chosen: &Chosen<'_>) -> Option<Weight> {
    match &chosen.shard.description.recordings[..] {
        [one] if one.weights.is_empty() => {
            let seconds = one.end?.checked_sub(one.begin?)?;
            one.law?.cap(seconds, one.cpus?)
        }
        _ => None,
    }
}

/// Gives each shard the weight that makes executions of its counts; those that have none are told of.
pub(crate) fn weigh<'s>(
    given: Vec<Chosen<'s>>,
    mixing: Mixing,
    by_source: &BTreeMap<String, Weight>,
    mut reject: impl FnMut(Chosen<'s>, String),
) -> Vec<Chosen<'s>> {
    let mut weighed = Vec::with_capacity(given.len());
    for mut chosen in given {
        let own = match mixing {
            Mixing::Executions => weight(&chosen),
            Mixing::Refused | Mixing::WhereNeeded | Mixing::Raw => Ok(Weight::ONE),
        };
        let trust = match &kind(&chosen)[..] {
            [source] => by_source.get(*source).copied().unwrap_or(Weight::ONE),
            _ => Weight::ONE,
        };
        let cap = cap(&chosen).unwrap_or(Weight::ONE);
        let both = own.map(|own| {
            let own = own.times(trust).and_then(|own| own.times(cap));
            own.and_then(|own| chosen.weight.times(own))
        });
        match both {
            Ok(Some(weight)) => {
                chosen.weight = weight;
                weighed.push(chosen);
            }
            Ok(None) => reject(chosen, "its weight exceeds 4294967295".to_owned()),
            Err(why) => reject(chosen, why.to_owned()),
        }
    }
    weighed
}
