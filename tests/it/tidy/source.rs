//! A source file as the rules see it: its text, and its code with comments and literals blanked out.

/// One file of the workspace.
#[derive(Debug)]
pub(super) struct Source {
    /// Relative to the workspace root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// `text` with comments, strings and character literals replaced by spaces: same length in lines.
    pub(super) code: String,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: blank(text),
        }
    }

    /// Below `dir`, or the file `dir.rs` itself: how a module and its folder are named together.
    pub(super) fn in_module(&self, dir: &str) -> bool {
        self.path
            .strip_prefix(dir)
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    /// Compiled for tests only: below a crate's `tests/` or `benches/`, a `tests.rs`, or the test crate.
    pub(super) fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    /// The code without inline `#[cfg(test)]` modules, which stand last in a file by convention.
    pub(super) fn shipped_code(&self) -> &str {
        if self.is_test() {
            return "";
        }
        match self.code.find("#[cfg(test)]\nmod ") {
            Some(start)
                if self.code[start..]
                    .lines()
                    .nth(1)
                    .is_some_and(|line| line.ends_with('{')) =>
            {
                &self.code[..start]
            }
            _ => &self.code,
        }
    }

    /// A finding at a byte offset of `code` or `text`: both have the same lines.
    pub(super) fn at(&self, offset: usize, message: &str) -> String {
        let line = self.code[..offset].matches('\n').count() + 1;
        format!("{}:{line}: {message}", self.path)
    }
}

/// Offsets at which `word` stands in `code` with no identifier character on either side.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .map(|(offset, _)| offset)
        .filter(move |&offset| {
            let before = code[..offset].chars().next_back();
            let after = code[offset + word.len()..].chars().next();
            !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
        })
}

/// Offsets at which `module::item` is named, directly or through a braced import.
pub(super) fn named(code: &str, module: &str, item: &str) -> Vec<usize> {
    let direct = format!("{module}::{item}");
    let group = format!("{module}::{{");
    let mut found: Vec<usize> = words(code, &direct).collect();
    for (start, _) in code.match_indices(&group) {
        let body = &code[start + group.len()..closing_brace(code, start + group.len())];
        found.extend(words(body, item).map(|at| start + group.len() + at));
    }
    found
}

/// The offset of the brace that closes a group whose body starts at `from`, or the end.
fn closing_brace(code: &str, from: usize) -> usize {
    let mut depth = 1;
    for (at, c) in code[from..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return from + at;
        }
    }
    code.len()
}

/// Replaces comments and literals by spaces, keeping every line break and every byte offset of what stays.
pub(super) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            for byte in &mut out[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(out).expect("whole literals were replaced by ASCII, the rest is untouched")
}

/// Where the comment or literal that starts at `at` ends; `at` itself when none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let named_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment(rest),
        [b'"', ..] => at + quoted(rest),
        [b'r', b'"' | b'#', ..] if !named_before => at + raw(rest, 1),
        [b'b', b'r', b'"' | b'#', ..] if !named_before => at + raw(rest, 2),
        [b'\'', ..] => at + character(rest),
        _ => at,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A raw string whose hashes start at `from`; 0 when it is a raw identifier.
fn raw(rest: &[u8], from: usize) -> usize {
    let hashes = rest[from..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(from + hashes) != Some(&b'"') {
        return 0;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let body = from + hashes + 1;
    rest[body..]
        .windows(end.len())
        .position(|window| window == end)
        .map_or(rest.len(), |at| body + at + end.len())
}

/// A character literal; 0 when the quote opens a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', ..] => rest
            .iter()
            .skip(3)
            .position(|&b| b == b'\'')
            .map_or(0, |at| at + 4),
        [_, _, b'\'', ..] => 3,
        [_, first, ..] if *first >= 0x80 => {
            let end = rest.iter().take(6).skip(1).position(|&b| b == b'\'');
            end.map_or(0, |at| at + 2)
        }
        _ => 0,
    }
}
