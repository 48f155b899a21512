use crate::pod::manifest::parse;

/// S-80…S-98, as the whole pod that comes out.
#[test]
fn fills_in_what_is_left_out() {
    let text = "apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostNetwork: true
  restartPolicy: ''
  containers:
  - name: c
    image: busybox
    ports: [{containerPort: 80}, {containerPort: 81, hostPort: 81, protocol: UDP}]
    resources: {limits: {cpu: 1, memory: 64Mi}, requests: {cpu: 500m}}
    env: [{name: N, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
  - {name: d, image: 'busybox:1', imagePullPolicy: Never, terminationMessagePath: /x}
";
    let parsed = parse("f", text.as_bytes(), "node");
    let spec = serde_json::to_value(parsed.pods[0].pod.spec.as_ref().unwrap()).unwrap();
    let expected = serde_json::json!({
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "imagePullPolicy": "Always",
                "ports": [
                    {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
                    {"containerPort": 81, "hostPort": 81, "protocol": "UDP"},
                ],
                "resources": {
                    "limits": {"cpu": "1", "memory": "64Mi"},
                    "requests": {"cpu": "500m", "memory": "64Mi"},
                },
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            },
            {
                "name": "d",
                "image": "busybox:1",
                "imagePullPolicy": "Never",
                "terminationMessagePath": "/x",
                "terminationMessagePolicy": "File",
            },
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "hostNetwork": true,
        "nodeName": "node",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
    });
    assert_eq!(spec, expected);
}

/// S-86…S-94 in init containers, probes and hooks.
#[test]
fn fills_in_init_containers_probes_and_hooks() {
    let text = "apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostNetwork: true
  containers: [{name: c, image: 'b:1'}]
  initContainers:
  - name: i
    image: b
    restartPolicy: Always
    ports: [{containerPort: 80}]
    resources: {limits: {memory: 1Mi}}
    env: [{name: N, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    livenessProbe: {httpGet: {port: 80}, periodSeconds: 0, timeoutSeconds: 2}
    readinessProbe: {grpc: {port: 81}, successThreshold: 2, failureThreshold: 1}
    startupProbe: {httpGet: {port: 80, path: /x, scheme: HTTPS}, initialDelaySeconds: 4}
    lifecycle: {postStart: {httpGet: {port: 80, path: ''}}, preStop: {sleep: {seconds: 1}}}
";
    let parsed = parse("f", text.as_bytes(), "node");
    let spec = parsed.pods[0].pod.spec.as_ref().unwrap();
    let init = serde_json::to_value(&spec.init_containers.as_ref().unwrap()[0]).unwrap();
    let expected = serde_json::json!({
        "name": "i",
        "image": "b",
        "imagePullPolicy": "Always",
        "restartPolicy": "Always",
        "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"memory": "1Mi"}, "requests": {"memory": "1Mi"}},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "livenessProbe": {
            "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 2, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        },
        "readinessProbe": {
            "grpc": {"port": 81, "service": ""},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 2, "failureThreshold": 1,
        },
        "startupProbe": {
            "httpGet": {"port": 80, "path": "/x", "scheme": "HTTPS"},
            "initialDelaySeconds": 4,
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        },
        "lifecycle": {
            "postStart": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}},
            "preStop": {"sleep": {"seconds": 1}},
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    });
    assert_eq!(init, expected);
}
