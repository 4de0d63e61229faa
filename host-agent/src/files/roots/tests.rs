//! The same paths with the kernel's help and without it: an old kernel, or a sandbox that
//! forbids `openat2`, must not open a door.

use std::os::unix::fs::symlink;

use super::*;

struct Place {
    folder: tempfile::TempDir,
    roots: Roots,
}

fn place(openat2: bool) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["user/in", "home/sessions/s", "more", "outside", "hidden"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    for name in [
        "user/in/file",
        "outside/secret",
        "home/epoch",
        "home/sessions/s/f",
        "hidden/x",
    ] {
        std::fs::write(at(name), b"x").unwrap();
    }
    symlink("../outside", at("user/out")).unwrap();
    symlink(at("outside/secret"), at("user/out-abs")).unwrap();
    symlink(at("more"), at("user/to-other-root")).unwrap();
    symlink("in/file", at("user/fine")).unwrap();
    symlink(at("home/epoch"), at("user/own")).unwrap();
    symlink(at("user"), at("alias")).unwrap();
    let roots = Roots::open(&RootsConfig {
        user_home: at("alias"),
        agent_home: at("home"),
        roots: vec![at("more"), at("hidden"), at("does-not-exist")],
        hidden: vec![at("hidden")],
        protected: vec![at("more")],
    });
    roots.openat2.store(openat2, Ordering::Relaxed);
    Place { folder, roots }
}

#[test]
fn h17_paths_are_judged_alike_with_and_without_openat2() {
    for openat2 in [true, false] {
        let Place { folder, roots } = place(openat2);
        let absolute = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for fine in [
            "~".to_owned(),
            "~/in/file".to_owned(),
            "~/in/../fine".to_owned(),
            "~/to-other-root".to_owned(),
            absolute("user/in/file"),
            absolute("alias/in/file"),
            absolute("home/sessions/s/f"),
            absolute("home"),
        ] {
            let found = roots.find(&fine);
            assert!(found.is_ok(), "{openat2} {fine}: {:?}", found.unwrap_err());
        }
        for (path, expected) in [
            ("~/out/secret".to_owned(), Reason::OutsideRoots),
            ("~/out-abs".to_owned(), Reason::OutsideRoots),
            ("~/../outside/secret".to_owned(), Reason::OutsideRoots),
            (absolute("outside/secret"), Reason::OutsideRoots),
            (absolute("user/../outside/secret"), Reason::OutsideRoots),
            (
                "/proc/self/root/etc/passwd".to_owned(),
                Reason::OutsideRoots,
            ),
            ("~/own".to_owned(), Reason::HiddenPath),
            (absolute("home/epoch"), Reason::HiddenPath),
            (absolute("home/sessions/../epoch"), Reason::HiddenPath),
            (absolute("hidden/x"), Reason::HiddenPath),
            (absolute("hidden"), Reason::HiddenPath),
            ("~/in/none".to_owned(), Reason::NotFound),
        ] {
            let fault = roots.find(&path).unwrap_err();
            assert_eq!(fault.reason(), expected, "{openat2} {path}: {fault}");
        }
    }
}

#[test]
fn r13_what_is_protected_is_not_written() {
    let Place { folder, roots } = place(true);
    let absolute = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (path, expected) in [
        (absolute("more/new"), Reason::ProtectedPath),
        ("~/to-other-root/new".to_owned(), Reason::ProtectedPath),
        (absolute("home/sessions/s/f"), Reason::ProtectedPath),
        (absolute("home/new"), Reason::ProtectedPath),
        (absolute("hidden/new"), Reason::HiddenPath),
        ("~/out/new".to_owned(), Reason::OutsideRoots),
        ("~/in/file/new".to_owned(), Reason::NotADirectory),
        ("~/in/".to_owned(), Reason::InvalidPath),
        ("~/in/..".to_owned(), Reason::InvalidPath),
    ] {
        let fault = roots.find_for_write(&path).unwrap_err();
        assert_eq!(fault.reason(), expected, "{path}: {fault}");
    }
    let (dir, name) = roots.find_for_write("~/in/new").unwrap();
    assert!(dir.real.ends_with("user/in"));
    assert_eq!(name, "new");
}
