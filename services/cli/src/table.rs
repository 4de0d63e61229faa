//! Plain tables: columns padded, no colour, no lines.

/// Renders rows under a head; the last column is not padded.
pub(crate) fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&printable(cell));
            let pad = (width + 2).saturating_sub(cell.chars().count());
            line.extend(std::iter::repeat_n(' ', pad));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Renders names and values, one a line; empty values are left out.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("{name:width$}  {}\n", printable(value)));
    }
    text
}

/// Control characters of foreign texts must not reach the terminal.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = [
            vec!["a".to_owned(), "long one".to_owned(), "x".to_owned()],
            vec!["bcd".to_owned(), String::new(), "y".to_owned()],
        ];
        assert_eq!(
            render(&["ID", "NAME", "S"], &rows),
            "ID   NAME      S\na    long one  x\nbcd            y\n"
        );
    }

    #[test]
    fn escape_sequences_of_a_title_stay_harmless() {
        assert_eq!(
            pairs(&[
                ("title", "\u{1b}[31mred".to_owned()),
                ("none", String::new())
            ]),
            "title  \u{fffd}[31mred\n"
        );
    }
}
