//! The keeper as a process: started, talked to, killed, adopted.

mod kit;
mod ladders;

mod starts;
