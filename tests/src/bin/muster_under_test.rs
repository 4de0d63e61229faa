//! Muster as it is shipped, with fail points: cargo names it to tests without a second build.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster::main()
}
