//! Frames of the keeper protocol: `u32` little-endian length, then one message.

use std::io;

use prost::Message;

/// Longest message, bytes.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024;
const HEADER: usize = 4;
/// An empty buffer larger than this goes back to the allocator.
const KEEP_BYTES: usize = 64 * 1024;

/// The peer does not speak this protocol; the connection is of no further use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A length above [`FRAME_BYTES_MAX`].
    #[error("a frame of {0} bytes, at most {FRAME_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// The bytes are no such message.
    #[error("not a message of this protocol")]
    Decode(#[from] prost::DecodeError),
}

impl From<FrameError> for io::Error {
    fn from(error: FrameError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// One message as a frame.
pub fn encode(message: &impl Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut frame = Vec::with_capacity(HEADER + length);
    // What is sent stays far below 4 GiB: payloads have their own limits.
    frame.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    frame.extend(message.encode_to_vec());
    frame
}

/// Collects bytes and cuts them into messages. Holds at most one frame and one read.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// Takes bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message.
    ///
    /// # Errors
    /// [`FrameError`]; what follows has no meaning any more.
    pub fn take<M: Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some((header, body)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        let Some(body) = body.get(..length) else {
            return Ok(None);
        };
        let message = M::decode(body)?;
        self.start += HEADER + length;
        if self.start == self.buffer.len() {
            self.start = 0;
            self.buffer.clear();
            self.buffer.shrink_to(KEEP_BYTES);
        }
        Ok(Some(message))
    }
}

/// Reads exactly one message from a blocking reader.
///
/// # Errors
/// What reading says; `InvalidData` for a [`FrameError`].
pub fn read_one<M: Message + Default>(reader: &mut impl io::Read) -> io::Result<M> {
    let mut header = [0; HEADER];
    reader.read_exact(&mut header)?;
    let length = usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > SPEC_BYTES_MAX {
        return Err(FrameError::TooLong(length).into());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(M::decode(body.as_slice()).map_err(FrameError::from)?)
}

/// A run spec holds a whole environment, which the kernel bounds at a few MiB.
const SPEC_BYTES_MAX: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use muster_proto::keeper::{Deliver, Request, deliver::Payload, request::Call};
    use proptest::prelude::*;

    use super::*;

    fn request(seq: u64, bytes: Vec<u8>) -> Request {
        Request {
            seq,
            call: Some(Call::Deliver(Deliver {
                delivery_id: format!("delivery-{seq}"),
                payload: Some(Payload::Inline(bytes.into())),
                wait_ms: 2_000,
                single_line: seq.is_multiple_of(2),
            })),
        }
    }

    proptest! {
        #[test]
        fn messages_come_out_however_the_bytes_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
            cuts in prop::collection::vec(1_usize..97, 1..20),
        ) {
            let sent: Vec<_> = (0..).zip(bodies).map(|(seq, body)| request(seq, body)).collect();
            let wire: Vec<u8> = sent.iter().flat_map(encode).collect();
            let mut decoder = Decoder::default();
            let mut received = Vec::new();
            let mut rest = wire.as_slice();
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                decoder.push(now);
                while let Some(message) = decoder.take::<Request>().unwrap() {
                    received.push(message);
                }
                rest = later;
                if rest.is_empty() { break }
            }
            prop_assert_eq!(received, sent);
        }

        #[test]
        fn any_bytes_end_in_messages_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.take::<Request>() {}
        }
    }

    #[test]
    fn a_length_above_the_limit_is_refused_before_anything_is_held() {
        let mut decoder = Decoder::default();
        decoder.push(&(u32::try_from(FRAME_BYTES_MAX).unwrap() + 1).to_le_bytes());
        let refused = decoder.take::<Request>();
        assert_eq!(refused, Err(FrameError::TooLong(FRAME_BYTES_MAX + 1)));
    }
}
