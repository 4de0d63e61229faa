//! Output that can be compared byte by byte without being kept: both sides compute it.

use std::io::{self, Write};

/// One line of the pattern, with its newline: 64 bytes, its number first.
#[must_use]
pub fn line(number: u64) -> [u8; 64] {
    let mut line = [b'.'; 64];
    let text = format!("{number:020} ");
    line[..text.len()].copy_from_slice(text.as_bytes());
    for (at, byte) in line.iter_mut().enumerate().skip(text.len()) {
        let step = u64::try_from(at).unwrap_or(0);
        *byte = b'a' + u8::try_from((number.wrapping_mul(31) + step * 7) % 26).unwrap_or(0);
    }
    line[63] = b'\n';
    line
}

/// Writes the first `bytes` bytes of the pattern.
///
/// # Errors
/// What the writer says.
pub fn write(to: &mut impl Write, bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    let mut number = 0;
    let mut block = Vec::with_capacity(64 * 1024);
    while left > 0 {
        block.clear();
        while block.len() < 64 * 1024 {
            block.extend_from_slice(&line(number));
            number += 1;
        }
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        to.write_all(&block[..part])?;
        left -= part as u64;
    }
    to.flush()
}

/// Takes the pattern in pieces of any size, and remembers where it was first left.
#[derive(Debug, Default)]
pub struct Checker {
    seen: u64,
    wrong_at: Option<u64>,
}

impl Checker {
    /// Compares the next bytes. What follows the first wrong byte is counted, not compared.
    pub fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.wrong_at.is_none() {
            let within = usize::try_from(self.seen % 64).unwrap_or(0);
            let expected = &line(self.seen / 64)[within..];
            let part = expected.len().min(rest.len());
            if let Some(at) = (0..part).find(|&at| expected[at] != rest[at]) {
                self.wrong_at = Some(self.seen + at as u64);
            }
            self.seen += part as u64;
            rest = &rest[part..];
        }
        self.seen += rest.len() as u64;
    }

    /// Whether exactly the first `bytes` bytes of the pattern were taken.
    ///
    /// # Errors
    /// Says where the first difference is, or how many bytes there were.
    pub fn finish(&self, bytes: u64) -> Result<(), String> {
        match self.wrong_at {
            Some(at) => Err(format!(
                "the first wrong byte is at {at}, of {} taken",
                self.seen
            )),
            None if self.seen != bytes => Err(format!("{} bytes instead of {bytes}", self.seen)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Checker, write};

    #[test]
    fn the_checker_takes_what_the_writer_wrote_in_any_pieces() {
        let mut bytes = Vec::new();
        write(&mut bytes, 100_001).unwrap();
        let mut checker = Checker::default();
        let mut rest = &bytes[..];
        let mut size = 1;
        while !rest.is_empty() {
            let part = size.min(rest.len());
            checker.take(&rest[..part]);
            rest = &rest[part..];
            size = size * 2 % 5_003 + 1;
        }
        assert_eq!(checker.finish(100_001), Ok(()));
        assert!(checker.finish(100_000).is_err());
    }

    #[test]
    fn the_checker_finds_a_wrong_and_a_missing_byte() {
        let mut bytes = Vec::new();
        write(&mut bytes, 1_000).unwrap();
        let mut wrong = bytes.clone();
        wrong[777] = b'!';
        let mut checker = Checker::default();
        checker.take(&wrong);
        assert!(checker.finish(1_000).unwrap_err().contains("777"));
        bytes.remove(500);
        let mut checker = Checker::default();
        checker.take(&bytes);
        assert!(checker.finish(1_000).is_err());
    }
}
