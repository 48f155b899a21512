use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use jiff::Timestamp;

use super::cgroup::Group;
use super::disk::Budget;
use super::node::Memory;
use super::parse;
use super::pressure::{Level, Levels};
use super::rate;
use crate::config::{Signal, Threshold};

/// Of a container on a kernel 6.18 with v1, cut down.
const STAT_V1: &str = "cache 1216512
rss 16510976
inactive_file 4096
pgfault 7
hierarchical_memory_limit 67108864
total_cache 1216512
total_rss 20480
total_swap 8192
total_pgfault 1337
total_pgmajfault 12
total_inactive_file 98304
";

/// The same of v2.
const STAT_V2: &str = "anon 20480
file 1216512
inactive_anon 1
inactive_file 98304
pgfault 1337
pgmajfault 12
";

#[test]
fn words_of_statistics() {
    assert_eq!(parse::field(STAT_V1, "total_inactive_file"), Some(98304));
    assert_eq!(parse::field(STAT_V1, "inactive_file"), Some(4096));
    assert_eq!(parse::field(STAT_V2, "anon"), Some(20480));
    assert_eq!(parse::field(STAT_V2, "inactive"), None);
    assert_eq!(parse::field("usage_usec\nx", "usage_usec"), None);
}

#[test]
fn memory_is_in_bytes() {
    let info = "MemTotal:        2048 kB\nMemFree: 1 kB\n";
    assert_eq!(parse::meminfo(info, "MemTotal"), Some(2_097_152));
    assert_eq!(parse::meminfo("", "MemTotal"), None);
}

#[test]
fn limits_that_are_none() {
    assert_eq!(parse::limit("max\n"), None);
    assert_eq!(parse::limit("9223372036854771712\n"), None);
    assert_eq!(parse::limit("67108864\n"), Some(64 << 20));
}

#[test]
fn bytes_of_all_disks() {
    let v1 = "8:0 Read 100\n8:0 Write 20\n8:0 Total 120\n8:16 Read 1\n8:16 Write 2\nTotal 123\n";
    assert_eq!(parse::io_service_bytes(v1), (101, 22));
    assert_eq!(parse::io_service_bytes("Total 0\n"), (0, 0));
    let v2 = "8:0 rbytes=100 wbytes=20 rios=3 wios=4 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2\n";
    assert_eq!(parse::io_stat(v2), (101, 22));
}

#[test]
fn stalls() {
    let text = "some avg10=0.50 avg60=0.28 avg300=1.30 total=151020053\nfull avg10=0.00 avg60=0.12 avg300=0.58 total=36909324\n";
    let psi = parse::psi(text).unwrap();
    assert_eq!((psi.some.avg10, psi.some.total), (0.5, 151_020_053));
    assert_eq!((psi.full.avg300, psi.full.total), (0.58, 36_909_324));
    // cpu.pressure of kernels before 5.13.
    let some = text.lines().next().unwrap();
    assert_eq!(parse::psi(some).unwrap().full.total, 0);
    assert_eq!(parse::psi(""), None);
}

#[test]
fn interfaces_of_a_pod() {
    let text = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1007911050  634446    0    0    0     0          0         0 1007911050  634446    0    0    0     0       0          0
  eth0: 498731085   17028    3    0    0     0          0         0   996850   10941    4    0    0     0       0          0
vethab:       1       2    3    0    0     0          0         0        1       1    0    0    0     0       0          0
";
    let found = parse::interfaces(text);
    assert_eq!(found.len(), 1);
    let eth0 = &found[0];
    assert_eq!(eth0.name, "eth0");
    assert_eq!(
        [eth0.rx_bytes, eth0.rx_errors, eth0.tx_bytes, eth0.tx_errors],
        [498_731_085, 3, 996_850, 4]
    );
}

#[test]
fn the_machine() {
    let stat = "cpu  100 10 50 5000 300 7 3 2 90 0\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 1\n";
    assert_eq!(parse::busy_ns(stat), Some(172 * 10_000_000));
    assert_eq!(parse::tasks("1.22 1.76 1.86 3/115 8790\n"), Some(115));
    let info = "MemTotal:       1000 kB\nMemFree:         300 kB\nAnonPages:       100 kB\nInactive(file):  200 kB\nInactive:  1 kB\n";
    let memory = Memory::of(info).unwrap();
    assert_eq!(memory.capacity, 1000 << 10);
    assert_eq!(memory.available(), 500 << 10);
}

#[test]
fn cores_over_time() {
    assert_eq!(rate(500_000_000, 1_000_000_000), Some(500_000_000));
    assert_eq!(rate(u64::MAX, 1 << 40), Some(16_777_215_999_999_999));
    assert_eq!(rate(1, 0), None);
}

/// The figures that both versions have are the same.
#[test]
fn a_cgroup_of_v1_and_of_v2() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, files: &[(&str, &str)]| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        for (file, text) in files {
            let mut out = std::fs::File::create(path.join(file)).unwrap();
            std::io::Write::write_all(&mut out, text.as_bytes()).unwrap();
        }
        path
    };
    let v1 = make(
        "v1",
        &[
            ("cpuacct.usage", "5000000000\n"),
            ("memory.usage_in_bytes", "1245184\n"),
            ("memory.limit_in_bytes", "67108864\n"),
            ("memory.stat", STAT_V1),
            (
                "blkio.throttle.io_service_bytes_recursive",
                "8:0 Read 3\n8:0 Write 4\n",
            ),
            ("cgroup.procs", "1\n2\n"),
        ],
    );
    let v2 = make(
        "v2",
        &[
            ("cpu.stat", "usage_usec 5000000\nuser_usec 1\n"),
            ("memory.current", "1245184\n"),
            ("memory.max", "67108864\n"),
            ("memory.stat", STAT_V2),
            ("memory.swap.current", "8192\n"),
            ("memory.swap.max", "16384\n"),
            ("io.stat", "8:0 rbytes=3 wbytes=4\n"),
            ("cgroup.procs", "1\n2\n"),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
            ),
        ],
    );
    let time = Timestamp::UNIX_EPOCH;
    let old = Group::on_v1(&v1);
    let new = Group::on_v2(&v2);
    assert_eq!([old.processes(), new.processes()], [2, 2]);
    let (old, new) = (old.usage(time), new.usage(time));
    for usage in [&old, &new] {
        assert_eq!(
            usage.cpu.as_ref().unwrap().usage_core_nano_seconds,
            5_000_000_000
        );
        let memory = usage.memory.as_ref().unwrap();
        assert_eq!(memory.usage_bytes, 1_245_184);
        assert_eq!(memory.working_set_bytes, 1_245_184 - 98_304);
        assert_eq!(
            memory.available_bytes,
            Some((64 << 20) - (1_245_184 - 98_304))
        );
        assert_eq!(memory.rss_bytes, 20480);
        assert_eq!((memory.page_faults, memory.major_page_faults), (1337, 12));
        assert_eq!(usage.swap.as_ref().unwrap().swap_usage_bytes, 8192);
        let io = usage.io.as_ref().unwrap();
        assert_eq!((io.read_bytes, io.write_bytes), (Some(3), Some(4)));
    }
    assert_eq!(old.memory.unwrap().psi, None);
    assert_eq!(new.memory.unwrap().psi.unwrap().some.total, 9);
    assert_eq!(new.swap.unwrap().swap_available_bytes, Some(8192));
}

/// What does not exist is not known, rather than 0.
#[test]
fn a_cgroup_without_controllers_has_no_figures() {
    let usage = Group::on_v2(std::path::Path::new("/nowhere")).usage(Timestamp::UNIX_EPOCH);
    assert_eq!(usage, super::summary::Usage::default());
}

#[test]
fn trees_are_counted_as_du_does() {
    let dir = tempfile::tempdir().unwrap();
    let big = dir.path().join("big");
    let file = std::fs::File::create(&big).unwrap();
    std::io::Write::write_all(&mut &file, &[7; 100_000]).unwrap();
    std::fs::hard_link(&big, dir.path().join("again")).unwrap();
    symlink("/", dir.path().join("out")).unwrap();
    std::fs::create_dir(dir.path().join("inner")).unwrap();
    let used = Budget::new(100).used(dir.path()).unwrap();
    assert_eq!(
        used.inodes, 4,
        "itself, one file of two names, a link, a directory"
    );
    assert!((100_000..200_000).contains(&used.bytes), "{used:?}");
    assert_eq!(Budget::new(3).used(dir.path()), None, "too much to look at");
    assert_eq!(Budget::new(9).used(&dir.path().join("none")), None);
    assert_eq!(Budget::new(9).used(&dir.path().join("out")), None, "a link");
}

/// N-1, N-3.
#[test]
fn a_shortage_is_below_its_threshold() {
    let level = |available, capacity| Level {
        available,
        capacity,
    };
    let levels = Levels(BTreeMap::from([
        (Signal::MemoryAvailable, level(99, 1000)),
        (Signal::NodefsAvailable, level(100, 1000)),
        (Signal::PidAvailable, level(9, 1000)),
    ]));
    let thresholds = BTreeMap::from([
        (Signal::MemoryAvailable, Threshold::Share(10_000)),
        (Signal::NodefsAvailable, Threshold::Share(10_000)),
        (Signal::ImagefsAvailable, Threshold::Amount(u64::MAX)),
        (Signal::PidAvailable, Threshold::Amount(10)),
    ]);
    let met = levels.shortages(&thresholds);
    let signals: Vec<Signal> = met.iter().map(|shortage| shortage.signal).collect();
    assert_eq!(signals, [Signal::MemoryAvailable, Signal::PidAvailable]);
}

#[test]
fn this_machine_has_every_level() {
    let dir = tempfile::tempdir().unwrap();
    let paths = crate::config::Paths {
        root_dir: dir.path().into(),
        ..crate::config::Paths::default()
    };
    std::fs::create_dir(paths.images()).unwrap();
    let Levels(levels) = super::pressure::look(&paths);
    for signal in [
        Signal::MemoryAvailable,
        Signal::NodefsAvailable,
        Signal::PidAvailable,
    ] {
        let level = levels[&signal];
        assert!(level.available > 0, "{signal:?}");
        assert!(level.available <= level.capacity, "{signal:?}");
    }
}
