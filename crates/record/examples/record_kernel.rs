//! Records the kernel of an emulated machine: `record_kernel OUT PERIOD qemu-system-x86_64
//! ARGUMENTS…`.

use record::kernel::KernelOptions;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(output), Some(period)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: record_kernel OUT PERIOD qemu-system-x86_64 ARGUMENTS...");
        return ExitCode::from(2);
    };
    let Some(period) =
        period.to_str().and_then(|period| period.parse().ok()).filter(|&period| period > 0)
    else {
        eprintln!("record_kernel: the period is not a positive number");
        return ExitCode::from(2);
    };
    let machine: Vec<OsString> = arguments.collect();
    let options = KernelOptions { period, ..KernelOptions::default() };
    match record::kernel::record(&machine, output.as_ref(), &options, &mut |_, _| {}) {
        Ok(recorded) => {
            let summary = recorded.summary;
            println!("{} samples, {} bytes, {:?}", summary.samples, summary.bytes, summary.elapsed);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("record_kernel: {error}");
            ExitCode::FAILURE
        }
    }
}
