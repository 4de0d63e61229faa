//! One connection of the agent: bytes in and out without waiting, bounded both ways.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use muster_proto::keeper::{Hello, Reply, Request};

use super::frame::{self, Decoder, FRAME_BYTES_MAX};
use crate::keeper_client::{PROTOCOL_MAX, PROTOCOL_MIN};

/// A peer that does not take its answers is hung up on when this much waits for it.
const UNSENT_BYTES_MAX: usize = FRAME_BYTES_MAX;

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) id: u64,
    pub(super) watching: bool,
    stream: UnixStream,
    decoder: Decoder,
    greeted: bool,
    unsent: Vec<u8>,
    broken: bool,
}

impl Conn {
    /// Takes an accepted connection and greets it.
    pub(super) fn new(id: u64, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let mut conn = Self {
            id,
            watching: false,
            stream,
            decoder: Decoder::default(),
            greeted: false,
            unsent: Vec::new(),
            broken: false,
        };
        conn.push(&frame::encode(&Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            build: env!("CARGO_PKG_VERSION").to_owned(),
        }));
        Ok(conn)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn wants_to_send(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads what is there and returns the requests that are complete.
    pub(super) fn receive(&mut self) -> Vec<Request> {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => self.broken = true,
            Ok(read) => self.decoder.push(&piece[..read]),
            Err(error) if is_transient(&error) => {}
            Err(_) => self.broken = true,
        }
        let mut requests = Vec::new();
        loop {
            match self.decode() {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => return requests,
                Err(()) => {
                    self.broken = true;
                    return requests;
                }
            }
        }
    }

    fn decode(&mut self) -> Result<Option<Request>, ()> {
        if !self.greeted {
            let Some(hello) = self.decoder.take::<Hello>().map_err(|_| ())? else {
                return Ok(None);
            };
            if hello.protocol_min > PROTOCOL_MAX || hello.protocol_max < PROTOCOL_MIN {
                return Err(());
            }
            self.greeted = true;
        }
        self.decoder.take::<Request>().map_err(|_| ())
    }

    pub(super) fn send(&mut self, reply: &Reply) {
        self.push(&frame::encode(reply));
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.unsent.len() + bytes.len() > UNSENT_BYTES_MAX {
            self.broken = true;
            return;
        }
        self.unsent.extend_from_slice(bytes);
        self.flush();
    }

    /// Sends what the socket takes now.
    pub(super) fn flush(&mut self) {
        while !self.unsent.is_empty() && !self.broken {
            match self.stream.write(&self.unsent) {
                Ok(0) => self.broken = true,
                Ok(sent) => {
                    self.unsent.drain(..sent);
                }
                Err(error) if is_transient(&error) => return,
                Err(_) => self.broken = true,
            }
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
