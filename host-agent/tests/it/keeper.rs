//! The keeper as a process: started, talked to, killed, adopted.

mod adoption;
mod deliveries;
mod endings;
mod kit;
mod ladders;
mod starts;
