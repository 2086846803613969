//! Records a command through the kernel: `live OUTPUT COMMAND…`.
fn main() {
    let mut args = std::env::args_os().skip(1);
    let output = std::path::PathBuf::from(args.next().unwrap_or_default());
    let target = match std::env::var("PIDS") {
        Ok(pids) if pids == "all" => record::live::Target::System,
        Ok(pids) => record::live::Target::Processes(pids.split(',').filter_map(|p| p.parse().ok()).collect()),
        Err(_) => record::live::Target::Command,
    };
    let workload = record::Workload::new(args);
    let command = (!workload.argv.is_empty()).then_some(&workload);
    match record::live::record(&target, command, &output, &record::live::Options::default()) {
        Ok(summary) => println!("{summary:?}"),
        Err(error) => println!("error: {error}"),
    }
}
