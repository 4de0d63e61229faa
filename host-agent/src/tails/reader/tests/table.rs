use super::*;

#[test]
fn complete_lines_go_out_together_and_partial_ones_wait() {
    let (name, file) = MemName::with(b"a\nbb\nccc");
    let mut reader = lines(&name, Start::Beginning);
    assert_eq!(drain(&mut reader, 1), ["opened 8", r#"0 "a\nbb\n" next 5"#]);
    file.append(b"c");
    assert_eq!(drain(&mut reader, 1), [""; 0]);
    file.append(b"\nd\n");
    assert_eq!(drain(&mut reader, 1), [r#"5 "cccc\nd\n" next 12"#]);
}

#[test]
fn a_line_above_a_quantum_comes_in_pieces_once_it_is_complete() {
    let (name, file) = MemName::with(b"x\n");
    let mut reader = lines(&name, Start::Beginning);
    drain(&mut reader, 1);
    file.append(&[b'y'; 30]);
    assert_eq!(drain(&mut reader, 1), [""; 0]);
    file.append(b"!\nz\n");
    assert_eq!(
        drain(&mut reader, 1),
        [
            r#"2 "yyyyyyyyyyyyyyyy" next 2 continues"#,
            r#"18 "yyyyyyyyyyyyyy!\n" next 34"#,
            r#"34 "z\n" next 36"#,
        ]
    );
}

#[test]
fn a_line_above_the_limit_is_reported_once_its_newline_is_there() {
    let (name, file) = MemName::with(&[b'y'; 60]);
    let mut reader = lines(&name, Start::Beginning);
    assert_eq!(drain(&mut reader, 1), ["opened 60"]);
    file.append(b"\nz\n");
    assert_eq!(
        drain(&mut reader, 1),
        ["long 0+61 next 61", r#"61 "z\n" next 63"#]
    );
}

#[test]
fn a_sealed_file_ends_with_its_torn_line_and_counts_late_bytes() {
    let (name, file) = MemName::with(b"a\nrest");
    let mut reader = lines(&name, Start::Beginning);
    drain(&mut reader, 1);
    file.append(b" late\n");
    reader.seal(Some(6)).unwrap();
    assert_eq!(
        drain(&mut reader, 1),
        [r#"2 "rest" next 6 torn"#, "end 6 late 6"]
    );
    assert_eq!(reader.step(Duration::ZERO).unwrap(), Step::Done);

    let (name, _) = MemName::with(&[b'y'; 60]);
    let mut reader = lines(&name, Start::Beginning);
    reader.open_first().unwrap();
    reader.seal(None).unwrap();
    assert_eq!(
        drain(&mut reader, 1),
        ["opened 60", "long 0+60 next 60 torn", "end 60 late 0"]
    );
}

#[test]
fn a_seal_without_a_file_is_the_end() {
    let name = MemName::default();
    let mut reader = lines(&name, Start::Beginning);
    assert!(!reader.open_first().unwrap());
    assert_eq!(drain(&mut reader, 1), [""; 0]);
    reader.seal(Some(0)).unwrap();
    assert_eq!(drain(&mut reader, 1), ["end 0 late 0"]);
}

#[test]
fn a_file_that_came_just_before_its_seal_is_read() {
    let name = MemName::default();
    let mut reader = lines(&name, Start::Beginning);
    assert!(!reader.open_first().unwrap());
    assert_eq!(drain(&mut reader, 1), [""; 0]);
    name.create().append(b"a\n");
    reader.seal(Some(2)).unwrap();
    assert_eq!(
        drain(&mut reader, 1),
        ["opened 2", r#"0 "a\n" next 2"#, "end 2 late 0"]
    );
}

#[test]
fn without_following_the_tail_ends_and_keeps_the_partial_line() {
    let (name, file) = MemName::with(b"a\nb");
    let mut reader = lines(&name, Start::Beginning);
    reader.open_first().unwrap();
    reader.end_at_current_size().unwrap();
    file.append(b"b\nc\n");
    assert_eq!(
        drain(&mut reader, 1),
        ["opened 3", r#"0 "a\n" next 2"#, "end 2 late 4"]
    );
}

#[test]
fn starts_relative_to_the_end_begin_at_a_line() {
    for (start, expected) in [
        (Start::End, [r#"opened 13"#, r#"15 "six\n" next 19"#]),
        (
            Start::LastBytes(5),
            ["opened 13", r#"8 "three!\nsix\n" next 19"#],
        ),
        (Start::LastBytes(4), ["opened 13", r#"15 "six\n" next 19"#]),
    ] {
        let (name, file) = MemName::with(b"one\ntwo\nthree");
        let mut reader = lines(&name, start.clone());
        let mut seen = drain(&mut reader, 1);
        file.append(b"!\nsix\n");
        seen.extend(drain(&mut reader, 1));
        assert_eq!(seen, expected, "{start:?}");
    }
    let (name, _) = MemName::with(b"one\ntwo\n");
    let mut reader = lines(&name, Start::LastBytes(6));
    assert_eq!(drain(&mut reader, 1), ["opened 8", r#"4 "two\n" next 8"#]);
    let mut reader = lines(&name, Start::LastBytes(100));
    assert_eq!(
        drain(&mut reader, 1),
        ["opened 8", r#"0 "one\ntwo\n" next 8"#]
    );
}

#[test]
fn chunks_show_partial_lines_and_cut_at_newlines() {
    let (name, file) = MemName::with(b"prompt> ");
    let mut reader = Reader::new(name, Framing::Chunks, Start::Beginning, SIZES);
    assert_eq!(
        drain(&mut reader, 1),
        ["opened 8", r#"0 "prompt> " next 8 continues"#]
    );
    file.append(b"ok\n0123456789abcdefgh\n");
    assert_eq!(
        drain(&mut reader, 1),
        [
            r#"8 "ok\n" next 11"#,
            r#"11 "0123456789abcdef" next 27 continues"#,
            r#"27 "gh\n" next 30"#,
        ]
    );
    file.append(b"end");
    reader.seal(Some(33)).unwrap();
    assert_eq!(
        drain(&mut reader, 1),
        [r#"30 "end" next 33 torn"#, "end 33 late 0"]
    );
}

#[test]
fn a_cursor_resumes_exactly() {
    let (name, file) = MemName::with(b"a\nbb\n");
    let mut reader = lines(&name, Start::Beginning);
    drain(&mut reader, 1);
    let cursor = reader.cursor();
    file.append(b"ccc\n");
    let mut again = lines(&name, Start::Cursor(cursor));
    assert_eq!(drain(&mut again, 1), ["opened 9", r#"5 "ccc\n" next 9"#]);
}

#[test]
fn a_cursor_of_another_content_is_a_gap() {
    type Change = fn(&MemName, &MemFile);
    let cases: [(&str, Change, &str); 4] = [
        (
            "shorter",
            |_, file| file.rewrite(b"a\n"),
            "gap 5 GAP_REASON_SHORTER",
        ),
        (
            "regrown",
            |_, file| file.rewrite(b"a\nBB\ncccccc\n"),
            "gap 5 GAP_REASON_GUARD_MISMATCH",
        ),
        (
            "replaced",
            |name, _| name.create().append(b"a\nbb\ncc\n"),
            "gap 5 GAP_REASON_FILE_GONE",
        ),
        (
            "inode used again",
            |name, _| {
                name.create();
                name.create().append(b"a\nbb\ncc\n");
            },
            "gap 5 GAP_REASON_FILE_GONE",
        ),
    ];
    for (what, change, expected) in cases {
        let (name, file) = MemName::with(b"a\nbb\n");
        let mut reader = lines(&name, Start::Beginning);
        drain(&mut reader, 1);
        change(&name, &file);
        let mut again = lines(&name, Start::Cursor(reader.cursor()));
        let seen = drain(&mut again, 1);
        assert_eq!(seen[1], expected, "{what}");
        assert!(seen[2].starts_with("0 \"a\\n"), "{what}: {seen:?}");
    }
}

#[test]
fn truncation_is_reported_and_reading_begins_again() {
    let (name, file) = MemName::with(b"a\nbb\n");
    let mut reader = lines(&name, Start::Beginning);
    drain(&mut reader, 1);
    file.rewrite(b"c\n");
    assert_eq!(drain(&mut reader, 1), ["truncated 2", r#"0 "c\n" next 2"#]);
}

#[test]
fn content_that_regrew_past_the_position_is_replaced() {
    let (name, file) = MemName::with(b"aaa\nbb");
    let mut reader = lines(&name, Start::Beginning);
    drain(&mut reader, 1);
    file.rewrite(b"xxx\nyyyyyyy\n");
    assert_eq!(
        drain(&mut reader, 1),
        ["replaced", "opened 12", r#"0 "xxx\nyyyyyyy\n" next 12"#]
    );
    // To exactly the same size: no read shows it, the regular look does.
    file.rewrite(b"zzz\nyyyyyy!\n");
    assert_eq!(drain(&mut reader, 1), [""; 0]);
    assert_eq!(
        drain(&mut reader, 2),
        ["replaced", "opened 12", r#"0 "zzz\nyyyyyy!\n" next 12"#]
    );
}

#[test]
fn a_renamed_file_is_read_to_its_end_before_the_next_one() {
    let (name, old) = MemName::with(b"a\n");
    let mut reader = lines(&name, Start::Beginning);
    drain(&mut reader, 1);
    let new = name.create();
    new.append(b"n\n");
    old.append(b"b\nrest");
    assert_eq!(drain(&mut reader, 1), [r#"2 "b\n" next 4"#]);
    old.append(b"!");
    assert_eq!(
        drain(&mut reader, 2),
        [""; 0],
        "it grew: the writer has it still"
    );
    assert_eq!(
        drain(&mut reader, 3),
        [
            r#"4 "rest!" next 9 torn"#,
            "replaced",
            "opened 2",
            r#"0 "n\n" next 2"#
        ]
    );
}

#[test]
fn a_removed_name_is_waited_for() {
    let (name, _) = MemName::with(b"a\n");
    let mut reader = lines(&name, Start::Beginning);
    drain(&mut reader, 1);
    let old = name.remove().unwrap();
    assert_eq!(drain(&mut reader, 1), [""; 0]);
    assert_eq!(drain(&mut reader, 2), ["removed"]);
    // The same file comes back: nothing is sent twice.
    old.append(b"b\n");
    name.put(old);
    assert_eq!(drain(&mut reader, 3), ["opened 4", r#"2 "b\n" next 4"#]);
    name.remove();
    drain(&mut reader, 4);
    assert_eq!(drain(&mut reader, 5), ["removed"]);
    name.create().append(b"new\n");
    assert_eq!(drain(&mut reader, 6), ["opened 4", r#"0 "new\n" next 4"#]);
}

#[test]
fn a_file_that_is_awaited_is_read_from_its_beginning() {
    let name = MemName::default();
    let mut reader = lines(&name, Start::End);
    assert!(!reader.open_first().unwrap());
    name.create().append(b"a\n");
    assert_eq!(drain(&mut reader, 1), ["opened 2", r#"0 "a\n" next 2"#]);
}
