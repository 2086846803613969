//! Whether any text makes the readers of kernel configurations and of kallsyms panic or hang.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(config) = kernel::config::parse(&text) {
        for line in text.lines() {
            let name = line.split_once('=').map_or(line, |(name, _)| name);
            let name = name.strip_prefix("CONFIG_").unwrap_or(name);
            let _ = (config.value(name), config.is_on(name), config.number(name));
        }
    }
    let _ = calltrees::KernelSymbols::parse(&text);
});
