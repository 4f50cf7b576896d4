// SPDX-License-Identifier: GPL-2.0-only
use super::*;

const SOURCE: &str = "one\n\tif (two) {\n\t\tthree();\n\t}\nfour\nfive\nsix\n";

const PATCH: &str = "From 1111 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] mm: count\n\nWhy.\n---\n mm/a.c | 2 +-\n\n\
diff --git a/mm/a.c b/mm/a.c\n--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1,5 +1,6 @@\n one\n \tif (two) {\n-\t\tthree();\n\
+\t\tfour();\n+\t\tfive();\n \t}\n four\n-- \n2.39\n";

fn read_source(path: &str) -> Result<Option<String>> {
    Ok((path == "mm/a.c").then(|| SOURCE.to_owned()))
}

fn parse_series(text: &str, blanks: Blanks) -> Result<Vec<Patch>> {
    let file = tempfile::Builder::new().suffix(".patch").tempfile()?;
    fs::write(file.path(), text)?;
    read_series(file.path(), blanks)
}

fn apply_series(text: &str, blanks: Blanks) -> Result<Files> {
    let mut files = Files::new();
    for patch in parse_series(text, blanks)? {
        patch.apply_patch(&mut files, &read_source, blanks)?;
    }
    Ok(files)
}

fn error_of(text: &str, blanks: Blanks) -> String {
    format!("{:#}", apply_series(text, blanks).expect_err("an error"))
}

const APPLIED: &str = "one\n\tif (two) {\n\t\tfour();\n\t\tfive();\n\t}\nfour\nfive\nsix\n";

#[test]
fn a_patch_that_fits_is_applied_wherever_its_lines_are() {
    for text in [
        PATCH.to_owned(),
        PATCH.replace("-1,5 +1,6", "-101,5 +101,6"),
    ] {
        let files = apply_series(&text, Blanks::Exact).expect("fits");
        assert_eq!(files["mm/a.c"].as_deref(), Some(APPLIED));
    }
}

#[test]
fn a_hunk_that_does_not_fit_names_patch_file_and_line() {
    let error = error_of(&PATCH.replace("three", "thirty"), Blanks::Exact);
    for part in [
        "the patch `",
        "mm/a.c: its hunk at line 11 of the patch does not fit: line 3 of the file",
        "be\n    thirty();\nand is\n    three();\n",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let twice = format!("{PATCH}\n{PATCH}");
    let error = error_of(&twice, Blanks::Exact);
    assert!(
        error.contains("the source has its lines already"),
        "{error}"
    );
    let error = error_of(&PATCH.replace("mm/a.c", "mm/none.c"), Blanks::Exact);
    assert!(
        error.contains("mm/none.c: this kernel's source has no such file"),
        "{error}"
    );
}

#[test]
fn white_space_that_mail_has_changed_is_told_and_taken_if_asked_for() {
    let mangled = PATCH.replace('\t', "        ");
    let error = error_of(&mangled, Blanks::Exact);
    assert!(
        error.contains("but for white space, which mail has changed"),
        "{error}"
    );
    assert!(error.contains("--ignore-whitespace"), "{error}");
    let broken = mangled.replace("if (two) {", "if\n(two) {");
    let error = error_of(&broken, Blanks::Exact);
    assert!(
        error.contains("line 14: `(two) {` begins with no blank, + or -"),
        "{error}"
    );
    for text in [mangled, broken] {
        let files = apply_series(&text, Blanks::Ignored).expect("fits");
        assert_eq!(files["mm/a.c"].as_deref(), Some(APPLIED));
    }
    let other = error_of(&PATCH.replace("three", "thirty"), Blanks::Ignored);
    assert!(
        other.contains("line 3 of the file would have to be"),
        "{other}"
    );
}

#[test]
fn files_come_go_and_move() {
    let text = "diff --git a/mm/a.c b/mm/b.c\nrename from mm/a.c\nrename to mm/b.c\n--- a/mm/a.c\n+++ b/mm/b.c\n\
                @@ -5,3 +5,2 @@\n four\n-five\n six\ndiff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n\
                +++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n";
    let files = apply_series(text, Blanks::Exact).expect("fits");
    assert_eq!(files["mm/a.c"], None);
    assert_eq!(files["new"].as_deref(), Some("a\nb\n"));
    assert!(
        files["mm/b.c"]
            .as_deref()
            .is_some_and(|text| text.ends_with("four\nsix\n"))
    );
    let gone = "--- a/mm/a.c\n+++ /dev/null\n@@ -1,7 +0,0 @@\n-one\n-\tif (two) {\n-\t\tthree();\n-\t}\n-four\n-five\n-six\n";
    assert_eq!(
        apply_series(gone, Blanks::Exact).expect("fits")["mm/a.c"],
        None
    );
}

#[test]
fn a_patch_stays_below_the_source() {
    for path in ["../../etc/passwd", "/etc/passwd", "mm/../../x"] {
        let error = error_of(&PATCH.replace("mm/a.c", path), Blanks::Exact);
        assert!(error.contains("is no file of a kernel's source"), "{error}");
    }
    let text = "rename from ../x\nrename to mm/b.c\n";
    assert!(error_of(text, Blanks::Exact).contains("is no file of a kernel's source"));
}

#[test]
fn what_is_cut_off_or_not_text_is_an_error() {
    let cut = PATCH.split("+\t\tfive").next().expect("a part");
    let error = error_of(cut, Blanks::Exact);
    assert!(
        error.contains("the hunk at line 11 ends before all of its lines came"),
        "{error}"
    );
    let binary = "diff --git a/x b/x\nGIT binary patch\nliteral 3\n";
    assert!(error_of(binary, Blanks::Exact).contains("a binary patch"));
    assert!(error_of("Hello\n", Blanks::Exact).contains("no patch in it"));
}

#[test]
fn a_mailbox_is_put_in_order_and_answers_are_left_out() {
    let mail = |number: &str, name: &str| {
        format!(
            "From a@example Mon Sep 17 00:00:00 2001\nSubject: [PATCH v2 {number}/2] {name}\n\n--- /dev/null\n+++ b/{name}\n\
             @@ -0,0 +1 @@\n+x\n\n"
        )
    };
    let answer = "From b@example Mon Sep 17 00:00:00 2001\nSubject: Re: [PATCH v2 1/2] one\n\n--- a/no\n+++ b/no\n\n";
    let text = format!("{}{answer}{}", mail("2", "two"), mail("1", "one"));
    let names: Vec<_> = parse_series(&text, Blanks::Exact)
        .expect("two")
        .into_iter()
        .map(|patch| patch.name)
        .collect();
    assert_eq!(names.len(), 2);
    assert!(
        names[0].ends_with("[PATCH v2 1/2] one") && names[1].ends_with("two"),
        "{names:?}"
    );
}

#[test]
fn coded_mails_are_decoded() {
    let head = "Subject: [PATCH] x\nContent-Transfer-Encoding: ";
    let body = "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a =3D b;\n";
    let files =
        apply_series(&format!("{head}quoted-printable\n\n{body}"), Blanks::Exact).expect("fits");
    assert_eq!(files["x"].as_deref(), Some("a = b;\n"));
    let base64 = "LS0tIC9kZXYvbnVsbAorKysgYi94CkBAIC0wLDAgKzEgQEAKK2EKCg==";
    let files = apply_series(&format!("{head}base64\n\n{base64}\n"), Blanks::Exact).expect("fits");
    assert_eq!(files["x"].as_deref(), Some("a\n"));
}

#[test]
fn a_directory_is_read_by_name_or_by_its_series() {
    let root = tempfile::tempdir().expect("a directory");
    let put = |name: &str, text: &str| fs::write(root.path().join(name), text).expect("written");
    let new = |name: &str| format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n");
    put(
        "0000-cover-letter.patch",
        "Subject: [PATCH 0/2] both\n\nHello.\n",
    );
    put("0001-b.patch", &new("b"));
    put("0002-a.patch", &new("a"));
    put("notes.txt", &new("no"));
    let names = || -> Vec<String> {
        let all = read_series(root.path(), Blanks::Exact).expect("a series");
        all.into_iter().map(|patch| patch.name).collect()
    };
    assert_eq!(names(), ["0001-b.patch", "0002-a.patch"]);
    put("series", "# order\n0002-a.patch\n0001-b.patch -p1\n");
    assert_eq!(names(), ["0002-a.patch", "0001-b.patch"]);
}
