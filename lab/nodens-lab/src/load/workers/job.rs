//! The manifest of an Indexed Job, whose Pods are the workers.

use super::token::Token;
use std::fmt::Write as _;

/// The name of the Job and of the Service under which its Pods find each other.
const NAME: &str = "nodens-lab";
/// Where worker 0 tells the start.
const PORT: u16 = 5_301;
/// The program in the image: an image that has nothing else has no search path either.
const PROGRAM: &str = "/nodens-lab";

/// The manifest for the load of a command line of `words`, with `workers` Pods of `image`.
pub(super) fn manifest(image: &str, workers: u64, words: &[String], token: &Token) -> String {
    let mut args = own(words);
    let desk = format!("http://{NAME}-0.{NAME}:{PORT}/{}", token.text());
    args.extend(["--worker".to_owned(), workers.to_string(), "--start-from".to_owned(), desk]);
    // A long line of a log is kept in parts: the result has to be all that is written.
    if !args.iter().any(|arg| arg == "--quiet") {
        args.push("--quiet".to_owned());
    }
    let mut text = format!(
        "# kubectl apply -f FILE; kubectl wait --for=condition=complete --timeout=1h job/{NAME}\n\
         # kubectl logs -l job-name={NAME} --tail=-1 > results; nodens-lab merge results\n\
         # kubectl delete -f FILE\n\
         apiVersion: v1\n\
         kind: Service\n\
         metadata:\n\
         \x20 name: {NAME}\n\
         spec:\n\
         \x20 clusterIP: None\n\
         \x20 # Worker 0 is asked by the others before it is ready.\n\
         \x20 publishNotReadyAddresses: true\n\
         \x20 selector:\n\
         \x20   job-name: {NAME}\n\
         ---\n\
         apiVersion: batch/v1\n\
         kind: Job\n\
         metadata:\n\
         \x20 name: {NAME}\n\
         spec:\n\
         \x20 completionMode: Indexed\n\
         \x20 completions: {workers}\n\
         \x20 parallelism: {workers}\n\
         \x20 # A worker that starts again would miss the start of the others.\n\
         \x20 backoffLimit: 0\n\
         \x20 template:\n\
         \x20   spec:\n\
         \x20     subdomain: {NAME}\n\
         \x20     restartPolicy: Never\n\
         \x20     automountServiceAccountToken: false\n\
         \x20     # Each on a node of its own, as far as there are enough.\n\
         \x20     topologySpreadConstraints:\n\
         \x20       - maxSkew: 1\n\
         \x20         topologyKey: kubernetes.io/hostname\n\
         \x20         whenUnsatisfiable: ScheduleAnyway\n\
         \x20         labelSelector:\n\
         \x20           matchLabels:\n\
         \x20             job-name: {NAME}\n\
         \x20     containers:\n\
         \x20       - name: load\n\
         \x20         image: {}\n\
         \x20         command: [\"{PROGRAM}\"]\n\
         \x20         # What the Pod security standard `restricted` asks for.\n\
         \x20         securityContext:\n\
         \x20           allowPrivilegeEscalation: false\n\
         \x20           capabilities: {{drop: [ALL]}}\n\
         \x20           runAsNonRoot: true\n\
         \x20           runAsUser: 65532\n\
         \x20           seccompProfile: {{type: RuntimeDefault}}\n\
         \x20         args:\n",
        quoted(image)
    );
    for arg in args {
        // Writing to a string cannot fail.
        _ = writeln!(text, "            - {}", quoted(&arg));
    }
    text
}

/// The words without those that are about the Job itself.
fn own(words: &[String]) -> Vec<String> {
    let (mut own, mut words) = (Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--workers" | "--print-job" => _ = words.next(),
            word if word.starts_with("--workers=") || word.starts_with("--print-job=") => {}
            word => own.push(word.to_owned()),
        }
    }
    own
}

/// As a scalar of YAML: those of JSON are. `$` stands for itself, and not for a variable.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace("$(", "$$(")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_words_of_the_load_and_a_worker_for_each_pod() {
        let words =
            ["load", "-s", "kube-dns", "--workers", "4", "--template", "$(x).\"a\"", "-Q", "1M"];
        let more = ["--print-job=lab:1"];
        let words: Vec<_> = words.iter().chain(&more).map(|word| (*word).to_owned()).collect();
        let text = manifest("lab:1", 4, &words, &"0123456789abcdef".parse().unwrap());
        let args: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("            - ")).collect();
        let wanted = [
            "\"load\"",
            "\"-s\"",
            "\"kube-dns\"",
            "\"--template\"",
            "\"$$(x).\\\"a\\\"\"",
            "\"-Q\"",
            "\"1M\"",
            "\"--worker\"",
            "\"4\"",
            "\"--start-from\"",
            "\"http://nodens-lab-0.nodens-lab:5301/0123456789abcdef\"",
            "\"--quiet\"",
        ];
        assert_eq!(args, wanted);
        // As in the Jobs of `swap`, and where `cargo xtask image` of the documentation puts it.
        assert!(text.contains("command: [\"/nodens-lab\"]\n"), "{text}");
        // Without it, kubectl gives up after 30 seconds.
        assert!(text.contains("--timeout=1h"), "{text}");
        assert!(text.contains("completions: 4\n  parallelism: 4\n"), "{text}");
        assert!(
            text.contains("completionMode: Indexed") && text.contains("clusterIP: None"),
            "{text}"
        );
    }
}
