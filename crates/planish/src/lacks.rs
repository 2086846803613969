//! Which errors say that this machine lacks something, in place of wrong words or input: exit
//! code 3.

use terminal::full_screen::NoScreen;

/// Whether the cause of an error, or a cause of that, is what the machine has not: a program or
/// library that is not installed, an event or a right that the kernel does not give.
pub fn is_lack(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref().is_some_and(recording)
            || cause.downcast_ref().is_some_and(stopping)
            || matches!(
                cause.downcast_ref(),
                Some(
                    build::Error::NoTool { .. }
                        | build::Error::NoRustProfiles
                        | build::Error::LinkerBehindRust { .. }
                        | build::Error::CannotRecord(_)
                        | build::Error::Step { lacking: true, .. }
                )
            )
            || matches!(cause.downcast_ref(), Some(NoScreen::Dumb(_)))
            || matches!(cause.downcast_ref(), Some(superpages::Error::NoLibrary { .. }))
            || matches!(
                cause.downcast_ref(),
                Some(kernel::Error::NoCompiler { .. } | kernel::Error::NoKvm { .. })
            )
            || matches!(cause.downcast_ref(), Some(relink::Error::NoLinker { .. }))
            || matches!(cause.downcast_ref(), Some(compare::Error::NoCounter { .. }))
    })
}

fn recording(error: &record::Error) -> bool {
    use record::Error as E;
    match error {
        E::NoEmulator { .. }
        | E::NoMachine { .. }
        | E::NoPlugin { .. }
        | E::PluginNotLoaded { .. }
        | E::Refused { .. } => true,
        E::Cut { source, .. } => recording(source),
        _ => false,
    }
}

fn stopping(error: &stops::Error) -> bool {
    matches!(error, stops::Error::Unsupported | stops::Error::Yama { .. })
}
