// SPDX-License-Identifier: GPL-2.0-only
//! Names from a kernel in a page. Whoever makes a cgroup or names a task chooses its characters: markup must stay
//! text, and what steers a terminal or the direction of writing must be seen and not obeyed.

use std::fmt::Write;

/// As text of an element or of an attribute in double quotes, in HTML and in XML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            letter if steers(letter) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out
}

/// Control characters, what no XML may hold, and what turns the direction of writing.
fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text() {
        assert_eq!(
            escape("</svg><script>alert('x')</script>"),
            "&lt;/svg&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"
        );
        assert_eq!(
            escape("a\" onload=\"b & c"),
            "a&quot; onload=&quot;b &amp; c"
        );
        assert_eq!(
            escape("\u{1b}[2J\u{202e}evil\0"),
            "\\u{1b}[2J\\u{202e}evil\\u{0}"
        );
        assert_eq!(escape("Zürich 水\n"), "Zürich 水\n");
    }
}
