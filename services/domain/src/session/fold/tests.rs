//! Tests of the fold: single rules, and random lives.

mod chunking;
mod lives;
mod rules;
mod world;
