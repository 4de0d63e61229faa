use std::os::unix::fs::{PermissionsExt, symlink};

use muster_runtime::files::{PrivateDirError, private_dir, write_atomically};

use crate::folder;

#[test]
fn a_private_folder_is_made_and_checked() {
    let folder = folder();
    let path = folder.path().join("a/b");
    private_dir(&path).unwrap();
    private_dir(&path).unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.clone()), 0o700);
    assert_eq!(mode(folder.path().join("a")), 0o700);

    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
    let error = private_dir(&path).unwrap_err();
    assert!(matches!(error, PrivateDirError::Unsafe { .. }), "{error}");

    let link = folder.path().join("link");
    symlink(folder.path().join("a"), &link).unwrap();
    let error = private_dir(&link).unwrap_err();
    assert!(matches!(error, PrivateDirError::Unsafe { .. }), "{error}");

    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    private_dir(&file).unwrap_err();
}

#[test]
fn an_atomic_write_replaces_and_leaves_nothing_behind() {
    let folder = folder();
    let path = folder.path().join("state.json");
    write_atomically(&path, b"one").unwrap();
    write_atomically(&path, b"two").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    // A folder in the way: the rename fails and the temporary file is gone.
    let taken = folder.path().join("taken");
    std::fs::create_dir_all(taken.join("x")).unwrap();
    write_atomically(&taken, b"three").unwrap_err();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
