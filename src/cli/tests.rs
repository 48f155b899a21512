use std::time::Duration;

use clap::CommandFactory;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::get::{Columns, Rows};
use super::{Cli, CliError, duration, output, select, summary, table};

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_examples() {
    for command in Cli::command().get_subcommands() {
        let help = command.get_after_help().map(ToString::to_string);
        assert!(
            help.is_some_and(|text| text.starts_with("Examples:\n")),
            "{} has no examples",
            command.get_name()
        );
    }
}

/// The values that kubectl's own test of HumanDuration uses, and its borders.
#[test]
fn what_is_due_is_rounded_up() {
    let at = |ms| jiff::Timestamp::from_millisecond(ms).unwrap();
    assert_eq!(duration::until(at(5000), at(4999)), "1s");
    assert_eq!(duration::until(at(5000), at(3000)), "2s");
    assert_eq!(duration::until(at(5000), at(6000)), "0s");
}

#[test]
fn ages_are_shown_as_kubectl_shows_them() {
    const H: u64 = 3600;
    let cases = [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * H - 1, "179m"),
        (3 * H, "3h"),
        (3 * H + 60, "3h1m"),
        (8 * H - 1, "7h59m"),
        (8 * H, "8h"),
        (48 * H - 1, "47h"),
        (48 * H, "2d"),
        (49 * H, "2d1h"),
        (8 * 24 * H - 1, "7d23h"),
        (8 * 24 * H, "8d"),
        (2 * 365 * 24 * H - 1, "729d"),
        (2 * 365 * 24 * H, "2y"),
        (2 * 365 * 24 * H + 24 * H, "2y1d"),
        (8 * 365 * 24 * H, "8y"),
    ];
    for (seconds, text) in cases {
        assert_eq!(
            duration::human(Duration::from_secs(seconds)),
            text,
            "{seconds}"
        );
    }
}

#[test]
fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    let text = table::render(&[row(["NAME", "READY", "X"]), row(["é", "1/1", ""])]);
    assert_eq!(text, "NAME   READY   X\né      1/1\n");
}

#[test]
fn the_hidden_roles_are_not_advertised() {
    let help = Cli::command().render_long_help().to_string();
    assert!(!help.contains("holder"), "{help}");
}

fn pod(yaml: &str) -> Pod {
    serde_yaml::from_str(yaml).unwrap()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn summed(status: &str) -> (String, String, String) {
    let yaml = format!(
        "metadata: {{name: web-edge}}
spec:
  initContainers: [{{name: i}}, {{name: side, restartPolicy: Always}}]
  containers: [{{name: a}}, {{name: b}}]
status: {status}
"
    );
    let sum = summary::summarize(&pod(&yaml), time("2026-01-01T00:10:00Z"));
    (sum.ready, sum.status, sum.restarts)
}

/// Status, and what `summed` makes of it.
type Row = (&'static str, &'static str, &'static str, &'static str);

fn assert_summed(rows: &[Row]) {
    let initialized =
        "conditions: [{type: Initialized, status: 'True'}, {type: Ready, status: 'True'}]";
    for (status, ready, text, restarts) in rows {
        let got = summed(&status.replace("INIT", initialized));
        let wanted = [ready, text, restarts].map(|word| (*word).to_owned());
        assert_eq!([got.0, got.1, got.2], wanted, "{status}");
    }
}

/// kubectl's own test table of printPod, the cases that a device can see.
#[test]
fn the_status_column_is_computed_as_kubectl_computes_it() {
    assert_summed(&[
        ("{phase: Pending}", "0/3", "Pending", "0"),
        (
            "{phase: Running, INIT, containerStatuses: [{name: a, ready: true, restartCount: 2, state: {running: {}}, lastState: {terminated: {exitCode: 1, finishedAt: '2026-01-01T00:09:50Z'}}}, {name: b, ready: true, restartCount: 1, state: {running: {}}}]}",
            "2/3",
            "Running",
            "3 (10s ago)",
        ),
        (
            "{phase: Running, INIT, containerStatuses: [{name: a, ready: false, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff}}}, {name: b, ready: true, restartCount: 0, state: {running: {}}}]}",
            "1/3",
            "CrashLoopBackOff",
            "5",
        ),
        (
            "{phase: Running, INIT, containerStatuses: [{name: a, ready: false, restartCount: 0, state: {terminated: {exitCode: 0, reason: Completed}}}, {name: b, ready: true, restartCount: 0, state: {running: {}}}]}",
            "1/3",
            "Running",
            "0",
        ),
        (
            "{phase: Failed, INIT, containerStatuses: [{name: a, ready: false, restartCount: 0, state: {terminated: {exitCode: 137, signal: 9}}}]}",
            "0/3",
            "Signal:9",
            "0",
        ),
    ]);
}

/// The same of pods with init containers.
#[test]
fn the_status_column_tells_how_far_the_initialisation_is() {
    assert_summed(&[
        (
            "{phase: Pending, initContainerStatuses: [{name: i, state: {running: {}}, restartCount: 0, ready: false}]}",
            "0/3",
            "Init:0/2",
            "0",
        ),
        (
            "{phase: Pending, initContainerStatuses: [{name: i, state: {waiting: {reason: ErrImagePull}}, restartCount: 0, ready: false}]}",
            "0/3",
            "Init:ErrImagePull",
            "0",
        ),
        (
            "{phase: Pending, initContainerStatuses: [{name: i, restartCount: 3, ready: false, state: {terminated: {exitCode: 1, reason: Error}}}]}",
            "0/3",
            "Init:Error",
            "3",
        ),
    ]);
}

#[test]
fn a_pod_on_its_way_out_is_terminating_unless_it_is_over() {
    let now = time("2026-01-01T00:00:00Z");
    let mut ending = pod(
        "metadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}\nspec: {containers: []}\nstatus: {phase: Running}\n",
    );
    assert_eq!(summary::summarize(&ending, now).status, "Terminating");
    ending.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    assert_eq!(summary::summarize(&ending, now).status, "Succeeded");
}

fn named(namespace: &str, name: &str) -> Pod {
    pod(&format!(
        "metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{nodeName: edge-1, containers: []}}\n"
    ))
}

fn chosen(pods: &[Pod], name: &str) -> Result<String, String> {
    match select::find(pods.to_vec(), name) {
        Ok(pod) => Ok(select::full_name(&pod)),
        Err(CliError::NotFound(message)) => Err(message),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn names_work_with_and_without_the_node_suffix_when_unique() {
    let pods = [
        named("default", "web-edge-1"),
        named("default", "db-edge-1"),
        named("sys", "db-edge-1"),
        named("default", "web-edge-1-edge-1"),
    ];
    for name in ["db-edge-1", "db", "pod/db"] {
        let message = chosen(&pods, name).unwrap_err();
        assert!(
            message.contains("default/db-edge-1, sys/db-edge-1"),
            "{message}"
        );
    }
    assert_eq!(chosen(&pods, "sys/db").unwrap(), "sys/db-edge-1");
    assert_eq!(chosen(&pods, "pod/web").unwrap(), "default/web-edge-1");
    // The exact name wins over the one that fits without its suffix.
    assert_eq!(chosen(&pods, "web-edge-1").unwrap(), "default/web-edge-1");
    assert_eq!(chosen(&pods, "we").unwrap_err(), "pod \"we\" not found");
}

#[test]
fn of_an_edited_pods_two_instances_the_one_that_stays_is_meant() {
    let mut old = named("default", "web-edge-1");
    old.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        Timestamp::UNIX_EPOCH,
    ));
    old.metadata.uid = Some("old".to_owned());
    let mut new = named("default", "web-edge-1");
    new.metadata.uid = Some("new".to_owned());
    let found = select::find(vec![old, new], "web").unwrap();
    assert_eq!(found.metadata.uid.as_deref(), Some("new"));
}

#[test]
fn the_pod_table_has_kubectls_columns() {
    let web = pod("metadata: {name: web-edge-1, namespace: default, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {nodeName: edge-1, containers: [{name: a}]}
status: {phase: Running, podIP: 10.0.0.1, containerStatuses: [{name: a, ready: true, restartCount: 0, state: {running: {}}}]}
");
    let now = time("2026-01-01T00:05:10Z");
    assert_eq!(
        Rows::new(Columns::default(), now).table(std::slice::from_ref(&web)),
        "NAME         READY   STATUS    RESTARTS   AGE
web-edge-1   1/1     Running   0          5m10s
"
    );
    let all = Columns {
        namespace: true,
        wide: true,
    };
    assert_eq!(
        Rows::new(all, now).table(&[web]),
        "NAMESPACE   NAME         READY   STATUS    RESTARTS   AGE     IP         NODE
default     web-edge-1   1/1     Running   0          5m10s   10.0.0.1   edge-1
"
    );
}

#[test]
fn what_a_container_says_cannot_steer_the_terminal() {
    assert_eq!(
        output::visible("a\tb\n\u{1b}[2J\r\u{7f}\u{9b}1m\u{e4}"),
        "a\tb\n^[[2J^M^?\u{fffd}1m\u{e4}"
    );
    let rows = [["A", "B"], ["x", "two\nlines"]].map(|row| row.map(str::to_owned).to_vec());
    assert_eq!(table::render(&rows), "A   B\nx   two lines\n");
}

#[test]
fn a_table_that_goes_on_keeps_its_columns_until_a_cell_needs_more() {
    let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
    let mut layout = table::Layout::default();
    assert_eq!(
        layout.render(&[row(["NAME", "STATUS"]), row(["long-name", "Running"])]),
        "NAME        STATUS\nlong-name   Running\n"
    );
    assert_eq!(
        layout.render(&[row(["a", "Pending"])]),
        "a           Pending\n"
    );
    assert_eq!(
        layout.render(&[row(["longer-name", "x"])]),
        "longer-name   x\n"
    );
}
