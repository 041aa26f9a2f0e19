//! The units and manifests in `docs/deploy/`: other programs accept them, their times fit together, and each command in
//! them works.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mongo_lease_testbed::{Server, TestDatabase, command};
use saphyr::{LoadableYamlNode, YamlOwned};
use tokio::process::Command;

use crate::tool::{Ran, fresh, run};

/// How long `LeaseManager::shutdown` takes at most, by default.
const SHUTDOWN_SECONDS: i64 = 10;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/deploy")
}

/// The files with one of these endings, each with its name and text.
fn files(ends: &[&str]) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder()).expect("the folder").map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| ends.iter().any(|end| path.to_string_lossy().ends_with(end));
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = entries.filter(is_one).map(|path| (name(&path), fs::read_to_string(path).unwrap()));
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// The value of a setting in a unit.
fn setting<'a>(unit: &'a str, name: &str) -> Option<&'a str> {
    unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// The value of an option in a command.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().position(|word| *word == name).map(|at| words[at + 1])
}

fn duration(text: &str) -> Duration {
    humantime::parse_duration(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A manifest, which is one document.
fn manifest(name: &str) -> YamlOwned {
    let text = fs::read_to_string(folder().join(name)).expect("the manifest");
    let mut documents = YamlOwned::load_from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(documents.len(), 1, "{name}");
    documents.remove(0)
}

/// The pod of a manifest, and its only container.
fn pod_of(manifest: &YamlOwned) -> (&YamlOwned, &YamlOwned) {
    let spec = &manifest["spec"];
    let spec = if manifest["kind"].as_str() == Some("CronJob") {
        &spec["jobTemplate"]["spec"]
    } else {
        spec
    };
    let pod = &spec["template"]["spec"];
    (pod, &pod["containers"][0])
}

fn words(command: &YamlOwned) -> Vec<&str> {
    command.as_sequence().expect("a list").iter().map(|word| word.as_str().unwrap()).collect()
}

/// Runs this command of a unit or a manifest, with the programs of this build, and `true` in place of other programs.
async fn run_it(words: &[&str], database: &TestDatabase, key_folder: &Path) -> Ran {
    let ours = Path::new(env!("CARGO_BIN_EXE_mongo-lease"));
    let (program, arguments) = words.split_first().expect("a program");
    let mut started =
        Command::from(command(ours.with_file_name(program.rsplit('/').next().unwrap())));
    let key_folder = key_folder.to_str().expect("a readable path");
    let theirs = arguments.iter().position(|word| *word == "--");
    let (arguments, is_run) = theirs.map_or((arguments, false), |at| (&arguments[..at], true));
    started.args(arguments.iter().map(|word| word.replace("${RUNTIME_DIRECTORY}", key_folder)));
    if is_run {
        started.args(["--", "true"]);
    }
    let uri = Server::shared().uri().replacen("/?", &format!("/{}?", database.name()), 1);
    started.env("MONGODB_URI", uri).stdin(std::process::Stdio::null());
    started.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    run(started).await
}

#[tokio::test]
async fn each_command_of_a_unit_works() {
    let database = fresh().await;
    let keys = std::env::temp_dir().join(database.name());
    fs::create_dir(&keys).unwrap();
    let mut ran_in_all = 0;
    for (name, unit) in files(&[".service"]) {
        for line in unit.lines().filter(|line| line.starts_with("Exec")) {
            let (_, line) = line.split_once('=').expect("a setting");
            let words: Vec<_> = line.trim_start_matches('-').split_whitespace().collect();
            if words[0].ends_with("/mongo-lease") {
                let ran = run_it(&words, &database, &keys).await;
                assert_eq!(ran.exit, 0, "{name}: {line}: {ran:?}");
                ran_in_all += 1;
            }
        }
    }
    assert_eq!(ran_in_all, 4);
    // The last of them has released the lease, and removed the key.
    assert_eq!(fs::read_dir(&keys).unwrap().count(), 0);
    fs::remove_dir(&keys).unwrap();
}

#[tokio::test]
async fn each_command_of_a_manifest_works() {
    let database = Server::shared().database().await;
    // The migration comes first, as in a deploy.
    for name in ["migrate.yaml", "cronjob.yaml"] {
        let manifest = manifest(name);
        let (_, container) = pod_of(&manifest);
        let ran = run_it(&words(&container["command"]), &database, Path::new("/")).await;
        assert_eq!(ran.exit, 0, "{name}: {ran:?}");
    }
    let deployment = manifest("deployment.yaml");
    let (pod, _) = pod_of(&deployment);
    let command = words(&pod["initContainers"][0]["command"]);
    let ran = run_it(&command, &database, Path::new("/")).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    // It holds a service back whose collection is not set up.
    let fresh = Server::shared().database().await;
    let ran = run_it(&command, &fresh, Path::new("/")).await;
    assert_eq!(ran.exit, 1, "{ran:?}");
}

/// The image has the programs of the static archive, and nothing else.
#[test]
fn the_manifests_use_the_image_of_the_dockerfile() {
    let dockerfile = fs::read_to_string(folder().join("Dockerfile")).expect("the Dockerfile");
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("release/make");
    let make = fs::read_to_string(make).expect("the program that packs");
    let (_, target) = dockerfile.split_once("make --target ").expect("a target");
    let target = target.split_whitespace().next().expect("a target");
    assert!(make.contains(&format!("static={target}\n")), "{target}");
    assert!(make.contains("--target) ") && make.contains("--out) "));
    let (_, last) = dockerfile.rsplit_once("\nFROM ").expect("a stage");
    assert!(last.starts_with("scratch\nCOPY --from=build /image/bin/ /usr/local/bin/\n"), "{last}");

    let image = concat!("registry.example/mongo-lease:", env!("CARGO_PKG_VERSION"));
    let (migrate, deployment) = (manifest("migrate.yaml"), manifest("deployment.yaml"));
    let job = &pod_of(&migrate).1["image"];
    let first = &pod_of(&deployment).0["initContainers"][0]["image"];
    assert_eq!((job.as_str(), first.as_str()), (Some(image), Some(image)));
    for text in [&dockerfile, &fs::read_to_string(folder().join("cronjob.yaml")).unwrap()] {
        assert!(text.contains(&format!("--from={image}")), "{text}");
    }
}

#[test]
fn the_prometheus_rule_has_the_alert_rules() {
    let rule = manifest("prometheusrule.yaml");
    assert_eq!(rule["kind"].as_str(), Some("PrometheusRule"));
    let rules = fs::read_to_string(folder().join("../observe/alerts.yml")).expect("the rules");
    let rules = YamlOwned::load_from_str(&rules).expect("YAML").remove(0);
    assert!(rules["groups"][0]["rules"][0]["alert"].as_str().is_some());
    assert_eq!(rule["spec"]["groups"], rules["groups"]);
}

#[test]
fn the_times_of_the_units_fit_together() {
    for (name, unit) in files(&[".service"]) {
        let starts = setting(&unit, "ExecStart").expect("a program");
        let words: Vec<_> = starts.split_whitespace().collect();
        if words.contains(&"run") {
            // With both programs signalled, the command would get each signal twice.
            assert_eq!(setting(&unit, "KillMode"), Some("mixed"), "{name}");
            if let Some(stop) = setting(&unit, "TimeoutStopSec") {
                assert!(duration(stop) > Duration::from_secs(SHUTDOWN_SECONDS as u64), "{name}");
            }
            let is_oneshot = setting(&unit, "Type") == Some("oneshot");
            // Another machine runs the job; and SIGTERM, which `systemctl stop` sends, also during a wait.
            let good = if is_oneshot { "75 143" } else { "143" };
            assert_eq!(setting(&unit, "SuccessExitStatus"), Some(good), "{name}");
            assert_eq!(words.contains(&"--no-wait"), is_oneshot, "{name}");
        } else {
            let acquire = setting(&unit, "ExecStartPre").expect("it acquires a lease");
            let words: Vec<_> = acquire.split_whitespace().collect();
            let ttl = duration(option(&words, "--ttl").expect("a ttl"));
            let times = ["TimeoutStartSec", "TimeoutStopSec"].map(|it| setting(&unit, it).unwrap());
            let longest: Duration = times.into_iter().map(duration).sum();
            // The holder's time ends a hundredth before the ttl.
            assert!(longest < ttl - ttl / 100, "{name}: {longest:?} of {ttl:?}");
        }
    }
}

#[test]
fn the_times_of_the_manifests_fit_together() {
    let deployment = manifest("deployment.yaml");
    let (pod, container) = pod_of(&deployment);
    let grace = pod["terminationGracePeriodSeconds"].as_integer().expect("a grace period");
    let sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_integer().unwrap();
    let environment = container["env"].as_sequence().expect("variables");
    let drain = environment.iter().find(|it| it["name"].as_str() == Some("DRAIN_SECONDS")).unwrap();
    let drain: i64 = drain["value"].as_str().expect("a text").parse().expect("seconds");
    let needed = sleep + drain + SHUTDOWN_SECONDS;
    assert_eq!(
        grace,
        needed + 5,
        "{sleep} s, {drain} s and {SHUTDOWN_SECONDS} s, and 5 s to spare"
    );
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    assert_eq!(rolling["maxUnavailable"].as_integer(), Some(0));
    assert!(rolling["maxSurge"].as_integer() > Some(0));

    let cron_job = manifest("cronjob.yaml");
    let (pod, container) = pod_of(&cron_job);
    assert_eq!(cron_job["spec"]["concurrencyPolicy"].as_str(), Some("Forbid"));
    let grace = pod["terminationGracePeriodSeconds"].as_integer().expect("a grace period");
    assert!(grace > SHUTDOWN_SECONDS, "{grace}");
    let words = words(&container["command"]);
    let [wait, ttl] = ["--wait", "--ttl"].map(|name| duration(option(&words, name).unwrap()));
    assert!(wait > ttl, "a job that was killed keeps its lease for longer than the next one waits");
}

#[test]
fn a_manifest_names_codes_that_exist_and_no_secret() {
    let exits = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/exit.rs");
    let exits = fs::read_to_string(exits).unwrap();
    let mut names = files(&[".yaml"]);
    // Those of pods, which need a database.
    names.retain(|(_, text)| text.contains("\napiVersion:") && text.contains("containers:"));
    assert_eq!(names.len(), 3, "{names:?}");
    for (name, text) in names {
        let manifest = manifest(&name);
        let api = manifest["apiVersion"].as_str();
        let is_deployment = manifest["kind"].as_str() == Some("Deployment");
        assert_eq!(api, Some(if is_deployment { "apps/v1" } else { "batch/v1" }), "{name}");
        let (pod, container) = pod_of(&manifest);
        let environment = container["env"].as_sequence().expect("variables");
        let uri = environment.iter().find(|it| it["name"].as_str() == Some("MONGODB_URI"));
        let uri = uri.unwrap_or_else(|| panic!("{name}: no connection string"));
        assert!(uri["valueFrom"]["secretKeyRef"]["key"].as_str().is_some(), "{name}");
        assert!(!text.contains("mongodb://") && !text.contains("mongodb+srv"), "{name}");
        if is_deployment {
            let template = &manifest["spec"]["template"]["metadata"]["labels"];
            assert_eq!(&manifest["spec"]["selector"]["matchLabels"], template);
            continue;
        }
        // Where pods are started again in place, Kubernetes refuses a policy for their failures.
        assert_eq!(pod["restartPolicy"].as_str(), Some("Never"), "{name}");
        if name == "cronjob.yaml" {
            let rules = &manifest["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"][0];
            for code in rules["onExitCodes"]["values"].as_sequence().expect("codes") {
                let code = code.as_integer().expect("a number");
                assert!(exits.contains(&format!(" => {code},")), "{name}: {code}");
            }
        }
    }
}

/// The output of `systemd-analyze verify` for these units, or `None` where it is not installed. In place of their
/// programs stands one that exists here.
fn verified(units: &[(String, String)], folder: &Path) -> Option<String> {
    fs::create_dir(folder).unwrap();
    let mut verify = command("systemd-analyze");
    verify.arg("verify");
    for (name, unit) in units {
        let lines = unit.lines().map(|line| match line.split_once("=/usr/local/bin/") {
            Some((setting, program)) => {
                let (_, arguments) = program.split_once(' ').unwrap_or((program, ""));
                format!("{setting}=/bin/sh {arguments}")
            }
            None => line.replace("=-/usr/local/bin/mongo-lease", "=-/bin/sh"),
        });
        let path = folder.join(name);
        fs::write(&path, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
        verify.arg(path);
    }
    let output = match verify.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        output => Some(output.expect("systemd-analyze")),
    };
    fs::remove_dir_all(folder).unwrap();
    let output = output?;
    Some(format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

#[tokio::test]
async fn systemd_accepts_the_units() {
    let folder = std::env::temp_dir().join(Server::shared().database().await.name());
    let mut units = files(&[".service", ".timer"]);
    assert_eq!(units.len(), 4, "{units:?}");
    let Some(said) = verified(&units, &folder) else {
        eprintln!("NOT RUN, for want of systemd-analyze: whether systemd accepts the units");
        return;
    };
    assert_eq!(said, "");
    // The control: with a setting that does not exist, it says so.
    for (name, unit) in &mut units {
        if name == "worker.service" {
            *unit = unit.replace("KillMode=mixed", "KillMoode=mixed");
        }
    }
    let said = verified(&units, &folder).expect("it ran before");
    assert!(said.contains("KillMoode"), "{said}");
}
