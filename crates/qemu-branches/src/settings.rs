//! What the plugin is asked to do: its arguments, read.

use crate::geometry::{DataGeometry, Geometry};
use crate::sections;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What `-plugin FILE,name=value,…` says.
#[derive(Debug, Default)]
pub struct Settings {
    /// The spool file; it exists already.
    pub spool: PathBuf,
    /// Taken branches between two samples, about.
    pub period: u64,
    /// Name of the program, for COMM.
    pub comm: Vec<u8>,
    /// Count branches and instructions, record nothing.
    pub count_only: bool,
    /// Write a call chain with each sample.
    pub call_chains: bool,
    /// A machine is emulated: there is no process to tell of.
    pub machine: bool,
    /// Count every branch of a machine's kernel, sample nothing.
    pub traces: bool,
    /// The sections of a machine's run that are recorded; all of it without.
    pub sections: Option<RangeInclusive<u8>>,
    /// Compute layout metrics, record nothing.
    pub metrics: Option<Metrics>,
    /// The caches of the simulated cores.
    pub geometry: Geometry,
}

/// What `metrics=FILE,l1i=…` says.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// The file that gets a line per process.
    pub result: PathBuf,
    /// The caches.
    pub geometry: Geometry,
    /// Caches for data, where that is simulated too.
    pub data: Option<DataGeometry>,
}

impl Settings {
    /// Reads `name=value` arguments.
    ///
    /// # Errors
    /// Where one is unknown or none that fits, in words.
    pub fn parse(arguments: &[&[u8]]) -> Result<Settings, String> {
        let mut settings = Settings { period: 1000, ..Settings::default() };
        let (mut from, mut to, mut data) = (None, None, None);
        for argument in arguments {
            let mut parts = argument.splitn(2, |byte| *byte == b'=');
            let (name, value) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            match name {
                b"spool" => settings.spool = OsString::from_vec(value.to_vec()).into(),
                b"metrics" => {
                    let result = OsString::from_vec(value.to_vec()).into();
                    let geometry = settings.geometry;
                    settings.metrics = Some(Metrics { result, geometry, data: None });
                }
                b"l1i" | b"l2" | b"itlb4k" | b"itlb2m" => {
                    settings
                        .geometry
                        .set(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value))?;
                }
                b"l1d" | b"dtlb4k" => {
                    data.get_or_insert_with(DataGeometry::default)
                        .set(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value))?;
                }
                b"comm" => settings.comm = value.to_vec(),
                b"count" => settings.count_only = value == b"on",
                b"traces" => settings.traces = value == b"on",
                b"chains" => settings.call_chains = value == b"on",
                b"from" | b"to" => {
                    let text = String::from_utf8_lossy(value);
                    let number = text
                        .parse()
                        .map_err(|_| format!("{text:?} is no section from 0 to 255"))?;
                    *(if name == b"from" { &mut from } else { &mut to }) = Some(number);
                }
                b"period" => {
                    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    settings.period =
                        number.filter(|period| (1..1 << 40).contains(period)).ok_or_else(|| {
                            format!(
                                "period {:?} is not a positive number",
                                String::from_utf8_lossy(value)
                            )
                        })?;
                }
                _ => {
                    return Err(format!(
                        "unknown argument {:?}",
                        String::from_utf8_lossy(argument)
                    ));
                }
            }
        }
        settings.sections = sections::range(from, to)?;
        if let Some(metrics) = &mut settings.metrics {
            if settings.sections.is_some() {
                return Err(
                    "metrics are counted in every section; from=LO,to=HI are for recording".into(),
                );
            }
            (metrics.geometry, metrics.data) = (settings.geometry, data);
            return Ok(settings);
        }
        if !settings.spool.is_absolute() {
            return Err(
                "spool=FILE is missing or not absolute; `planish record --branches=emulated` \
                        sets it"
                    .into(),
            );
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_wrong_ones_refused() {
        let settings =
            Settings::parse(&[b"spool=/a=b", b"period=50", b"comm=x", b"count=on", b"chains=on"])
                .unwrap();
        assert_eq!((settings.spool.to_str(), settings.period), (Some("/a=b"), 50));
        assert!(settings.count_only && settings.call_chains);
        assert!(Settings::parse(&[b"spool=relative"]).is_err());
        assert!(Settings::parse(&[b"spool=/a", b"period=0"]).is_err());
        assert!(Settings::parse(&[b"spool=/a", b"other=1"]).is_err());
        let metrics = Settings::parse(&[b"metrics=/r", b"l1i=16K:4:64"]).unwrap().metrics.unwrap();
        assert_eq!((metrics.result.to_str(), metrics.geometry.l1i.ways), (Some("/r"), 4));
        assert!(Settings::parse(&[b"metrics=/r", b"l1i=17K"]).is_err());
        let data = |words: &[&[u8]]| Settings::parse(words).unwrap().metrics.unwrap().data;
        assert_eq!(data(&[b"l1d=32K:8", b"metrics=/r"]), Some(DataGeometry::default()));
        assert_eq!(data(&[b"metrics=/r", b"dtlb4k=16"]).unwrap().dtlb_4k.ways, 16);
        assert!(Settings::parse(&[b"metrics=/r", b"l1d=33K"]).is_err());
        assert_eq!(data(&[b"metrics=/r"]), None);
        let sections = Settings::parse(&[b"spool=/a", b"from=1", b"to=99"]).unwrap().sections;
        assert_eq!(sections, Some(1..=99));
        assert!(Settings::parse(&[b"spool=/a", b"from=1", b"to=256"]).is_err());
        assert!(Settings::parse(&[b"spool=/a", b"from=1"]).is_err());
        assert!(Settings::parse(&[b"metrics=/r", b"from=1", b"to=99"]).is_err());
        assert!(Settings::parse(&[b"spool=/a", b"traces=on"]).unwrap().traces);
    }
}
