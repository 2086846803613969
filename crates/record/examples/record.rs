//! Records a command under emulation: `record OUTPUT PERIOD COMMAND…`.
fn main() {
    let mut args = std::env::args_os().skip(1);
    let output = std::path::PathBuf::from(args.next().unwrap_or_default());
    let period = args.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(1000);
    let options = record::emulate::Options { period, plugin: None };
    match record::emulate::record(&record::Workload::new(args), &output, &options) {
        Ok(summary) => println!("{summary:#?}"),
        Err(error) => println!("error: {error}"),
    }
}
