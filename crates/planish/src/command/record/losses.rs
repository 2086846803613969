//! What the summary of a recording says about losses, and about how the records were kept.

use super::counted;
use record::{AuxSeen, Streamed};
use serde_json::{Map, Value, json};

/// From here on, a part of the time is worth a sentence.
const WORTH_SAYING: f64 = 0.0001;

/// From here on, what waited for the disk is worth a sentence.
const WAITED: u64 = 8 << 20;

/// For people. `taken`: losses do not change the exit code.
pub fn tell(streamed: &Streamed, taken: bool) {
    let losses = &streamed.losses;
    if losses.records > 0 {
        eprintln!(
            "warning: {} lost, the ring that was full longest was so for up to {:.2} % of the \
             time; give larger rings (-m), {}, read with priority (-r 1) or with more readers \
             (--threads), or sample less (-F, -c){}",
            counted(losses.records, "record was", "records were"),
            (losses.worst_paused() * 100.0).max(WORTH_SAYING),
            match streamed.compressed {
                Some(_) =>
                    "write to a faster disk, or give more memory for what waits for it (--backlog)",
                None => "compress (leave --no-compress out)",
            },
            if taken { "" } else { "; the exit code is 1 for that (--accept-losses)" }
        );
    }
    if streamed.waited >= WAITED {
        let deeper = streamed.deepest.filter(|level| *level > 1);
        eprintln!(
            "note: the disk was slower than the recording: up to {:.1} MiB waited for it in \
             memory (--backlog){}",
            streamed.waited as f64 / f64::from(1 << 20),
            deeper.map_or(String::new(), |level| format!(
                ", and records were compressed up to level {level}"
            ))
        );
    }
    let named = |cpus: &std::collections::BTreeSet<i32>| {
        let numbers: Vec<String> = cpus.iter().map(i32::to_string).collect();
        format!("CPU {}", numbers.join(", "))
    };
    let hotplug = &streamed.hotplug;
    if !hotplug.gone.is_empty() {
        eprintln!(
            "warning: {} went offline: recorded up to there, and not again if it came back; \
             record again with all CPUs online",
            named(&hotplug.gone)
        );
    }
    if !hotplug.came.is_empty() {
        eprintln!(
            "warning: {} came online after the recording began and is not in it",
            named(&hotplug.came)
        );
    }
    if losses.throttled.0 > 0 {
        eprintln!(
            "warning: the kernel stopped sampling {} for being too frequent; sample less (-F, \
             -c), or raise kernel.perf_event_max_sample_rate",
            counted(losses.throttled.0, "time", "times")
        );
    }
    if let Some((before, after)) = streamed.compressed {
        eprintln!("note: compressed {before} bytes of records to {after}");
    }
    if streamed.full {
        eprintln!("note: the recording ended at the size that was asked for (--max-size)");
    }
    for file in &streamed.files {
        eprintln!("note: an earlier part is in {}", file.display());
    }
}

/// What was lost of AUX data, for people.
pub fn tell_aux(aux: &AuxSeen) {
    if aux.truncated + aux.partial > 0 {
        eprintln!(
            "warning: AUX data was lost: the area was full {}, and there are gaps {}; give larger \
             areas (-m ,64M), or record less (-c)",
            counted(aux.truncated, "time", "times"),
            counted(aux.partial, "time", "times")
        );
    }
    if aux.collided > 0 {
        eprintln!(
            "warning: {} operations were lost because they were picked faster than they are \
             written down; pick fewer (-c with a larger number)",
            counted(aux.collided, "time", "times")
        );
    }
}

/// The same for programs.
pub fn add_aux_json(aux: &AuxSeen, fields: &mut Map<String, Value>) {
    let counts = json!({
        "bytes": aux.bytes,
        "pieces": aux.pieces,
        "truncated": aux.truncated,
        "partial": aux.partial,
        "collided": aux.collided,
    });
    fields.insert("aux".into(), counts);
}

/// For programs.
pub fn add_json(streamed: &Streamed, fields: &mut Map<String, Value>) {
    let losses = &streamed.losses;
    let ring = |ring: &record::RingLosses| {
        json!({
            "cpu": ring.cpu,
            "bytes": ring.bytes,
            "lost": ring.lost,
            "paused_s": ring.paused.as_secs_f64(),
            "elapsed_s": ring.elapsed.as_secs_f64(),
        })
    };
    fields.insert("lost_records".into(), losses.records.into());
    fields.insert("throttled".into(), losses.throttled.0.into());
    fields.insert("unthrottled".into(), losses.throttled.1.into());
    fields.insert("rings".into(), losses.rings.iter().map(ring).collect());
    fields.insert("cpus_gone".into(), streamed.hotplug.gone.iter().copied().collect());
    fields.insert("cpus_not_recorded".into(), streamed.hotplug.came.iter().copied().collect());
    fields.insert("ended_at_size".into(), streamed.full.into());
    let files = streamed.files.iter().map(|file| file.display().to_string().into());
    fields.insert("files".into(), Value::Array(files.collect()));
    fields.insert("most_waited_bytes".into(), streamed.waited.into());
    if let Some(level) = streamed.deepest {
        fields.insert("deepest_level".into(), level.into());
    }
    if let Some((before, after)) = streamed.compressed {
        fields.insert("uncompressed_bytes".into(), before.into());
        fields.insert("compressed_bytes".into(), after.into());
    }
}
