//! What a page of Markdown holds for a test: fenced blocks, promised output, commands, links.

use anyhow::ensure;

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of its fence, from 1.
    pub(crate) line: usize,
    /// The word behind the fence.
    pub(crate) language: String,
    /// The comment above it; empty: none.
    pub(crate) comment: String,
    /// Its lines.
    pub(crate) text: String,
}

/// All blocks, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut comment = String::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        if let Some(mut block) = open.take() {
            if line == "```" {
                found.push(block);
            } else {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let (language, comment) = (language.trim().to_owned(), std::mem::take(&mut comment));
            open = Some(Block { line: index + 1, language, comment, text: String::new() });
        } else {
            let inside = line.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
            comment = inside.map(|words| words.trim().to_owned()).unwrap_or_default();
        }
    }
    found
}

/// Whether every promised line is there, in order.
pub(crate) fn promised(promised: &str, seen: &str) -> anyhow::Result<()> {
    let mut rest = seen.lines();
    for line in promised.lines() {
        ensure!(rest.any(|seen| fits(line, seen)), "{line:?} is not there, or not in this order");
    }
    Ok(())
}

/// Whether a line is as promised, up to blanks and `…`.
fn fits(promised: &str, seen: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (promised, seen) = (plain(promised), plain(seen));
    let parts: Vec<&str> = promised.split('…').map(str::trim).collect();
    let [first, middle @ .., last] = parts.as_slice() else { return promised == seen };
    let Some(mut rest) = seen.strip_prefix(first) else { return false };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Commands of `tenure` in the running text and in blocks: words up to the first that is no word, and flags.
pub(crate) fn commands(page: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let spans = page.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("tenure "));
    let spans = spans.map(ToOwned::to_owned).chain(typed(page));
    let word = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    let flag = |text: &str| {
        let name = text.strip_prefix("--")?.split(|c: char| !c.is_ascii_lowercase() && c != '-').next()?;
        (!name.is_empty()).then(|| format!("--{name}"))
    };
    spans
        .map(|span| {
            let words = span.split_whitespace().take_while(word).map(ToOwned::to_owned).collect();
            (words, span.split_whitespace().filter_map(flag).collect())
        })
        .collect()
}

/// Lines of shell that begin with `tenure`, without that and up to what is not its own.
fn typed(page: &str) -> impl Iterator<Item = String> {
    let lines = blocks(page).into_iter().filter(|block| block.language == "sh").flat_map(|block| {
        // A backslash at the end of a line goes on in the next.
        let text = block.text.replace("\\\n", " ");
        text.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
    });
    lines.filter_map(|line| {
        let own = line.strip_prefix("tenure ")?.split(['#', '|', '>', '&', ';', '$']).next()?;
        Some(own.to_owned())
    })
}

/// Paths within the repository, or what looks like one, in the running text.
pub(crate) fn paths(page: &str) -> impl Iterator<Item = &str> {
    let spans = page.split('`').skip(1).step_by(2);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    spans.filter(move |span| !span.starts_with('/') && span.contains('/') && span.chars().all(plain))
}

/// Targets of links within the repository.
pub(crate) fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// The anchors of a page's headings.
pub(crate) fn anchors(page: &str) -> impl Iterator<Item = String> {
    let headings =
        page.lines().filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#'));
    headings.map(|heading| {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_its_reader_sees_it() {
        let page = "# The Files, all\n<!-- background: until \"x\" -->\n```sh\na `b`\n```\n\n```text\nc\n```\n`tenure job get --json` \
                    [d](e.md#f) `tenure up`\n```sh\nX=1\ntenure node list \\\n  --all | x --y\n```\n";
        let found = blocks(page);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].line, found[0].text.as_str()), (3, "a `b`\n"));
        assert_eq!(found[0].comment, "background: until \"x\"");
        assert_eq!((found[1].comment.as_str(), found[1].language.as_str()), ("", "text"));
        let names: Vec<String> = commands(page).into_iter().map(|(words, _)| words.join(" ")).collect();
        assert_eq!(names, ["job get", "up", "node list"]);
        assert_eq!(commands(page)[2].1, ["--all"]);
        assert_eq!(commands(page)[0].1, ["--json"]);
        assert_eq!(links(page).collect::<Vec<_>>(), ["e.md#f"]);
        assert_eq!(paths("`a/b.rs` `a b/c` `d`").collect::<Vec<_>>(), ["a/b.rs"]);
        assert_eq!(anchors(page).next().unwrap(), "the-files-all");
    }

    #[test]
    fn promised_lines_may_leave_things_out_but_not_the_order() {
        let seen = "NODE  STATE  HEARD\nmini  live   2 s ago\nexit code 3\n";
        for fine in ["NODE STATE HEARD", "NODE …", "mini … ago\nexit code 3", "…live…\n… 3", ""] {
            promised(fine, seen).unwrap();
        }
        for wrong in ["NODE", "mini … ago now", "exit code 3\nmini …", "exit code"] {
            assert!(promised(wrong, seen).is_err(), "{wrong}");
        }
    }
}
