//! Tests of the fold: single rules, and random lives.

mod chunking;
mod ends;
mod kit;
mod lives;
mod rules;
mod truth;
mod world;
