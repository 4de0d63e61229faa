//! The one test binary of this crate: the rules of the source tree, and Muster's real binaries.

mod tidy;
