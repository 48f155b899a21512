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
