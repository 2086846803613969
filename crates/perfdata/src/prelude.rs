//! The head of the pipe form: it has no sections, so attributes and features come as records before
//! the first sample.

use crate::attr::EventAttr;
use crate::bytes::Endian;
use crate::chunks::Chunks;
use crate::error::Error;
use crate::features::{Features, read_build_id};
use crate::input::Stream;
use crate::kinds::kind;
use crate::raw::{RawRecord, raw_records};
use crate::record::Record;
use crate::user_records::{self, UserRecord};

/// Reads records up to the first sample and takes the attributes and features from them.
pub(crate) fn read_prelude(
    streams: &[Stream],
    endian: Endian,
) -> Result<(Vec<EventAttr>, Features), Error> {
    let (mut attrs, mut features) = (Vec::new(), Features::default());
    let mut chunks = Chunks::over(streams, 0..streams.len(), endian, false);
    while let Some(chunk) = chunks.next() {
        // What is wrong with the data is reported by the pass that reads it for its own sake.
        let Ok(chunk) = chunk else { break };
        for raw in raw_records(&chunk.bytes, chunk.offset, endian) {
            if raw.kind == kind::SAMPLE {
                return Ok((attrs, finish(features)));
            }
            take(&raw, endian, &mut attrs, &mut features);
        }
        chunks.recycle(chunk.bytes);
    }
    Ok((attrs, finish(features)))
}

/// Takes the names of events that stand before the first sample: in a recording that was not
/// finished, or that lost its end, they stand nowhere else.
pub(crate) fn read_names(streams: &[Stream], endian: Endian, attrs: &mut Vec<EventAttr>) {
    let mut chunks = Chunks::over(streams, 0..streams.len().min(1), endian, false);
    while let Some(Ok(chunk)) = chunks.next() {
        for raw in raw_records(&chunk.bytes, chunk.offset, endian) {
            match raw.kind {
                kind::SAMPLE => return,
                kind::EVENT_UPDATE => take(&raw, endian, attrs, &mut Features::default()),
                _ => {}
            }
        }
        chunks.recycle(chunk.bytes);
    }
}

fn finish(mut features: Features) -> Features {
    features.unknown.sort_by_key(|unknown| unknown.number);
    features
}

fn take(raw: &RawRecord<'_>, endian: Endian, attrs: &mut Vec<EventAttr>, features: &mut Features) {
    match raw.kind {
        kind::HEADER_ATTR => match user_records::attr(raw.body, endian) {
            Ok(attr) => attrs.push(attr),
            Err(_) => features.damaged = features.damaged.saturating_add(1),
        },
        kind::HEADER_BUILD_ID => match read_build_id(raw.misc, raw.body, endian) {
            Ok(entry) => features.build_ids.push(entry),
            Err(_) => features.damaged = features.damaged.saturating_add(1),
        },
        kind::HEADER_FEATURE => {
            if let Ok(Record::User(UserRecord::Feature { feature, bytes })) =
                user_records::parse(raw, endian)
                && let Ok(number) = u32::try_from(feature)
                && !bytes.is_empty()
            {
                // perf ends the features with an empty section of the first unused number.
                features.add(number, bytes, raw.offset, bytes.len() as u64, endian);
                features.name_attrs(attrs);
            }
        }
        kind::EVENT_UPDATE => {
            const NAME: u64 = 2;
            if let Ok(Record::User(UserRecord::EventUpdate { update: NAME, id, value })) =
                user_records::parse(raw, endian)
                && let Some(attr) = attrs.iter_mut().find(|attr| attr.ids.contains(&id))
            {
                attr.name = Some(String::from_utf8_lossy(value).into_owned());
            }
        }
        _ => {}
    }
}
