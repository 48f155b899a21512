use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use futures_lite::FutureExt;

use super::{News, Watch, see, tell};

/// Far longer than it takes; waiting so long is a failure.
const DEADLINE: Duration = Duration::from_secs(20);

/// Is a change seen?
fn sees(watch: &mut Watch) -> bool {
    smol::block_on(
        async {
            watch.changed().await;
            true
        }
        .or(async {
            smol::Timer::after(DEADLINE).await;
            false
        }),
    )
}

/// Nothing is waiting to be seen. The kernel queues events before the call that causes them returns.
fn is_quiet(watch: &mut Watch) -> bool {
    let path = watch.path.clone();
    watch.seen == see(&path) && !watch.armed.as_mut().unwrap().drain(&path).unwrap()
}

/// Until no event is left of what was done before.
fn settle(watch: &mut Watch) {
    while !is_quiet(watch) {
        watch.arm();
    }
}

fn put(path: &Path, content: &str) {
    fs::File::create(path)
        .unwrap()
        .write_all(content.as_bytes())
        .unwrap();
}

#[test]
fn sees_every_way_of_saving() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let mut watch = Watch::new(root.path());
    assert!(is_quiet(&mut watch));
    let steps: [(&str, &dyn Fn()); 8] = [
        ("written", &|| put(&at("a"), "1")),
        ("overwritten", &|| put(&at("a"), "2")),
        ("renamed over", &|| {
            put(&at(".a.new"), "3");
            fs::rename(at(".a.new"), at("a")).unwrap();
        }),
        ("linked", &|| fs::hard_link(at("a"), at("b")).unwrap()),
        ("soft linked", &|| symlink("a", at("c")).unwrap()),
        ("data swapped", &|| symlink("a", at("..data")).unwrap()),
        ("moved away", &|| fs::rename(at("b"), at(".b")).unwrap()),
        ("removed", &|| fs::remove_file(at("a")).unwrap()),
    ];
    for (name, step) in steps {
        step();
        assert!(sees(&mut watch), "{name}");
        settle(&mut watch);
    }
}

#[test]
fn half_written_and_hidden_files_are_no_news() {
    let root = tempfile::tempdir().unwrap();
    let mut watch = Watch::new(root.path());
    put(&root.path().join(".swp"), "x");
    assert!(is_quiet(&mut watch), "hidden");
    let mut file = fs::File::create(root.path().join("a")).unwrap();
    file.write_all(b"half").unwrap();
    assert!(is_quiet(&mut watch), "not closed yet");
    drop(file);
    assert!(sees(&mut watch));
}

#[test]
fn follows_the_directory_through_deletion_and_replacement() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("x/y/manifests");
    let mut watch = Watch::new(&dir);
    assert!(is_quiet(&mut watch));
    fs::create_dir_all(&dir).unwrap();
    assert!(sees(&mut watch), "created with its parents");
    settle(&mut watch);
    put(&dir.join("a"), "1");
    assert!(sees(&mut watch), "file in the new directory");
    settle(&mut watch);
    crate::sys::remove::tree(&root.path().join("x")).unwrap();
    assert!(sees(&mut watch), "deleted");
    settle(&mut watch);
    fs::create_dir_all(root.path().join("x/y/new")).unwrap();
    settle(&mut watch);
    put(&root.path().join("x/y/new/a"), "1");
    fs::rename(root.path().join("x/y/new"), &dir).unwrap();
    assert!(sees(&mut watch), "renamed into place");
    settle(&mut watch);
    put(&dir.join("a"), "2");
    assert!(sees(&mut watch), "file in the replaced directory");
}

#[test]
fn a_watch_that_cannot_be_had_is_told_and_made_again() {
    let root = tempfile::tempdir().unwrap();
    let mut watch = Watch::new(root.path());
    watch.lose(&rustix::io::Errno::MFILE.into());
    let (news, inbox) = async_channel::unbounded();
    let next = async || inbox.recv().await.unwrap();
    let told = async {
        let News::Watched { path, problem } = next().await else {
            panic!("the problem comes first");
        };
        assert_eq!(path, root.path());
        assert!(problem.unwrap().contains("max_user_instances"));
        // Something may have changed meanwhile.
        assert!(matches!(next().await, News::Images));
        assert!(matches!(next().await, News::Watched { problem: None, .. }));
        put(&root.path().join("a"), "1");
        assert!(matches!(next().await, News::Images));
    };
    let late = async {
        smol::Timer::after(DEADLINE).await;
        panic!("nothing more is told");
    };
    let (_look, asked) = async_channel::bounded(1);
    let telling = tell(watch, asked, (news, || News::Images));
    smol::block_on(told.or(telling).or(late));
}

/// A rename far above gives no event; the periodic look at everything finds out.
#[test]
fn a_watch_that_is_asked_sees_that_its_path_is_another_one() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("x/y/z");
    fs::create_dir_all(&dir).unwrap();
    let watch = Watch::new(&dir);
    let (news, inbox) = async_channel::unbounded();
    let (look, asked) = async_channel::bounded(1);
    let told = async {
        fs::rename(root.path().join("x"), root.path().join("old")).unwrap();
        fs::create_dir_all(&dir).unwrap();
        look.send(()).await.unwrap();
        assert!(matches!(inbox.recv().await, Ok(News::Images)));
        put(&dir.join("a"), "1");
        assert!(matches!(inbox.recv().await, Ok(News::Images)));
    };
    let late = async {
        smol::Timer::after(DEADLINE).await;
        panic!("nothing more is told");
    };
    let telling = tell(watch, asked, (news, || News::Images));
    smol::block_on(telling.or(told).or(late));
}

#[test]
fn watches_a_single_file_by_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("a.yaml");
    let mut watch = Watch::new(&file);
    put(&root.path().join("other"), "1");
    assert!(is_quiet(&mut watch), "another file");
    for content in ["1", "2"] {
        put(&root.path().join("new"), content);
        fs::rename(root.path().join("new"), &file).unwrap();
        assert!(sees(&mut watch), "replaced");
        settle(&mut watch);
    }
    put(&file, "3");
    assert!(sees(&mut watch), "overwritten");
    settle(&mut watch);
    fs::remove_file(&file).unwrap();
    assert!(sees(&mut watch), "removed");
}
