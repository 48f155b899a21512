use serde_json::{Value, json};

use super::stop_signal;
use crate::oci::ConfigError;
use crate::oci::tests::Fixture;
use crate::pod::signal::SIGTERM;

fn fixture(container: Value, config: Value) -> Fixture {
    let mut main = json!({"name": "main"});
    main.as_object_mut()
        .unwrap()
        .extend(container.as_object().unwrap().clone());
    Fixture::new(json!({"containers": [main]}), config)
}

fn args(container: Value, config: Value) -> Result<Vec<String>, ConfigError> {
    let launch = fixture(container, config).launch()?;
    Ok(launch
        .spec
        .process()
        .as_ref()
        .unwrap()
        .args()
        .clone()
        .unwrap())
}

/// C-25.
#[test]
fn command_and_args_against_the_image() {
    let image = json!({"Entrypoint": ["/entry", "-e"], "Cmd": ["cmd"]});
    for (container, expected) in [
        (json!({}), vec!["/entry", "-e", "cmd"]),
        (json!({"args": ["a"]}), vec!["/entry", "-e", "a"]),
        (json!({"command": ["/own"]}), vec!["/own"]),
        (
            json!({"command": ["/own"], "args": ["a", ""]}),
            vec!["/own", "a", ""],
        ),
        (
            json!({"command": [], "args": []}),
            vec!["/entry", "-e", "cmd"],
        ),
    ] {
        assert_eq!(
            args(container.clone(), image.clone()).unwrap(),
            expected,
            "{container}"
        );
    }
}

#[test]
fn an_image_may_have_only_one_of_the_two() {
    assert_eq!(args(json!({}), json!({"Cmd": ["sh"]})).unwrap(), ["sh"]);
    assert_eq!(
        args(json!({}), json!({"Entrypoint": ["/e"]})).unwrap(),
        ["/e"]
    );
    assert_eq!(
        args(json!({"args": ["a"]}), json!({"Cmd": ["sh"]})).unwrap(),
        ["a"]
    );
}

/// C-25.
#[test]
fn nothing_to_run_is_an_error() {
    assert_eq!(args(json!({}), json!({})), Err(ConfigError::NoCommand));
    assert_eq!(args(json!({}), json!(null)), Err(ConfigError::NoCommand));
    assert_eq!(
        args(json!({"command": [""]}), json!({})),
        Err(ConfigError::NoCommand)
    );
}

/// C-4: the pod's own variables only, the complete set of them.
#[test]
fn command_and_args_are_expanded() {
    let container = json!({
        "command": ["/bin/$(A)", "$(B)"],
        "args": ["$$(A)", "$(IMAGE)$(HOSTNAME)"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}],
    });
    let image = json!({"Env": ["IMAGE=x"]});
    assert_eq!(
        args(container, image).unwrap(),
        ["/bin/1", "12", "$(A)", "$(IMAGE)$(HOSTNAME)"]
    );
}

/// Messages must not tell what a variable has, which may come from a Secret.
#[test]
fn a_program_with_variables_is_called_as_it_is_written() {
    let called = |container: Value, config: Value| {
        let launch = fixture(container, config).launch();
        launch.unwrap().program
    };
    let env = json!([{"name": "A", "value": "hush"}]);
    let command = json!({"command": ["/$(A)"], "args": ["x"], "env": env});
    assert_eq!(called(command, json!({})), Some("/$(A)".to_owned()));
    let args = json!({"args": ["$(A)"], "env": env});
    assert_eq!(called(args.clone(), json!({})), Some("$(A)".to_owned()));
    assert_eq!(called(args, json!({"Entrypoint": ["/bin/x"]})), None);
    let plain = json!({"command": ["sh", "$(A)"], "env": env});
    assert_eq!(called(plain, json!({})), None);
}

#[test]
fn the_images_own_words_are_not_expanded() {
    let container = json!({"env": [{"name": "A", "value": "1"}]});
    assert_eq!(
        args(container, json!({"Cmd": ["/x", "$(A)"]})).unwrap(),
        ["/x", "$(A)"]
    );
}

/// C-26.
#[test]
fn the_working_directory_is_absolute() {
    for (own, image, expected) in [
        (json!("/own"), json!("/image"), "/own"),
        (json!(null), json!("/image"), "/image"),
        (json!(""), json!(""), "/"),
        (json!(null), json!(null), "/"),
        (json!(null), json!("relative"), "/relative"),
    ] {
        let container = json!({"command": ["/x"], "workingDir": own});
        let launch = fixture(container, json!({"WorkingDir": image}))
            .launch()
            .unwrap();
        let cwd = launch.spec.process().as_ref().unwrap().cwd().clone();
        assert_eq!(cwd.to_str().unwrap(), expected);
    }
}

#[test]
fn the_oom_score_is_always_set_and_lowered_only_where_allowed() {
    let container =
        json!({"command": ["/x"], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
    let mut fixture = fixture(container, json!({}));
    let score = |fixture: &Fixture| {
        let launch = fixture.launch().unwrap();
        launch.spec.process().as_ref().unwrap().oom_score_adj()
    };
    assert_eq!(score(&fixture), Some(-997));
    fixture.node.can_lower_oom_score = false;
    assert_eq!(score(&fixture), Some(0));
}

#[test]
fn the_stop_signal_is_the_containers_or_the_images_or_term() {
    let own = |signal: &str| json!({"lifecycle": {"stopSignal": signal}});
    for (container, config, number) in [
        (json!({}), json!({"StopSignal": "SIGINT"}), 2),
        (json!({}), json!({"StopSignal": "nonsense"}), SIGTERM),
        (json!({}), json!({}), SIGTERM),
        (json!({}), json!(null), SIGTERM),
        (own("SIGUSR1"), json!({"StopSignal": "SIGINT"}), 10),
        (own("SIGUSR1"), json!({}), 10),
        (own(""), json!({"StopSignal": "SIGINT"}), 2),
    ] {
        let fixture = fixture(container, config);
        let spec = fixture.pod.pod.spec.as_ref().unwrap();
        let found = stop_signal(&spec.containers[0], &fixture.image);
        assert_eq!(found, number, "{spec:?}");
    }
}
