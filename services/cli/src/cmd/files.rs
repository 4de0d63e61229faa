//! `muster cat`, `muster ls`, `muster stat`: files of a host.

use futures_util::{StreamExt as _, pin_mut};
use muster_client::{api::File, json, pages};
use serde_json::json;

use crate::{context::Context, exit::Failure, out, table};

/// Splits `HOST:PATH`.
fn place(text: &str) -> Result<(&str, &str), Failure> {
    match text.split_once(':') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => Ok((host, path)),
        _ => Err(Failure::usage(format!("`{text}` is not HOST:PATH"))
            .hint("this machine is `local`, as in `local:~/notes.md`")),
    }
}

/// Reads `A-B`, `A-` or `-N` (the last N bytes) into an offset and a length.
fn range(text: &str) -> Option<(i64, Option<u64>)> {
    let (from, to) = text.split_once('-')?;
    match (from, to) {
        ("", last) => {
            let last: u32 = last.parse().ok()?;
            Some((-i64::from(last), None))
        }
        (from, "") => Some((from.parse().ok().filter(|from| *from >= 0)?, None)),
        (from, to) => {
            let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
            let length = to.checked_sub(from)?.checked_add(1)?;
            Some((i64::try_from(from).ok()?, Some(length)))
        }
    }
}

/// Prints a file, or a range of it.
pub(crate) async fn cat(context: &Context, file: &str, bytes: Option<&str>) -> Result<(), Failure> {
    let (host, path) = place(file)?;
    let (offset, length) = match bytes {
        None => (0, None),
        Some(text) => range(text).ok_or_else(|| {
            Failure::usage(format!("`{text}` is no range"))
                .hint("as in 0-99, 100-, or -100 for the last 100 bytes")
        })?,
    };
    let chunks = context
        .client()?
        .read_file(host, path, offset, length)
        .await?;
    pin_mut!(chunks);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if context.json {
            let text = String::from_utf8_lossy(&chunk.data);
            out::json_line(&json!({ "offset": chunk.offset.to_string(), "text": text }))?;
        } else {
            out::bytes(&chunk.data)?;
        }
    }
    Ok(())
}

/// Lists a folder, page by page as it comes.
pub(crate) async fn ls(context: &Context, folder: &str) -> Result<(), Failure> {
    let (host, path) = place(folder)?;
    let client = context.client()?;
    let files = pages(|page| client.list_files(host, path, page));
    pin_mut!(files);
    let mut listed = Vec::new();
    while let Some(file) = files.next().await {
        let file = file?;
        if context.json {
            listed.push(json(&file));
        } else {
            out::line(&row(&file))?;
        }
    }
    if context.json {
        out::json(&json!({ "files": listed, "next_page_token": "" }))
    } else {
        Ok(())
    }
}

fn kind(file: &File) -> String {
    json(file)["kind"].as_str().unwrap_or_default().to_owned()
}

fn row(file: &File) -> String {
    let name: String = file
        .name
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    format!("{:>12}  {:9}  {name}", file.size_bytes, kind(file))
}

/// Describes a file.
pub(crate) async fn stat(context: &Context, file: &str) -> Result<(), Failure> {
    let (host, path) = place(file)?;
    let (file, resolved) = context.client()?.stat_file(host, path).await?;
    if context.json {
        return out::json(&json!({ "file": json(&file), "resolved_path": resolved }));
    }
    let shown = json(&file);
    let text = table::pairs(&[
        ("path", resolved),
        ("kind", kind(&file)),
        ("size", file.size_bytes.to_string()),
        (
            "modified",
            shown["modified_at"].as_str().unwrap_or_default().to_owned(),
        ),
        ("mode", format!("{:04o}", file.mode & 0o7777)),
        ("target", file.link_target.clone()),
    ]);
    out::bytes(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(range("2-5"), Some((2, Some(4))));
        assert_eq!(range("7-"), Some((7, None)));
        assert_eq!(range("-10"), Some((-10, None)));
        for bad in ["", "-", "5-2", "a-b", "1", "--1", "0-18446744073709551615"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_place_names_host_and_path() {
        assert_eq!(place("local:~/x:y").unwrap(), ("local", "~/x:y"));
        for bad in ["", "x", ":x", "local:"] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }
}
