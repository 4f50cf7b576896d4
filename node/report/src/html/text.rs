// SPDX-License-Identifier: GPL-2.0-only
//! Names from a kernel in a page. A user who makes a cgroup or names a task chooses its characters:
//! markup must stay text, and what steers a terminal or the direction of writing must be seen and
//! not obeyed.

use crate::format::make_visible;

/// As text of an element or of an attribute in double quotes, in HTML and in XML.
pub fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            letter => out.push_str(&make_visible(letter)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text() {
        assert_eq!(
            escape_text("</svg><script>alert('x')</script>"),
            "&lt;/svg&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"
        );
        assert_eq!(
            escape_text("a\" onload=\"b & c"),
            "a&quot; onload=&quot;b &amp; c"
        );
        assert_eq!(
            escape_text("\u{1b}[2J\u{202e}evil\0"),
            "\\u{1b}[2J\\u{202e}evil\\u{0}"
        );
        assert_eq!(escape_text("Zürich 水\n"), "Zürich 水\n");
    }
}
