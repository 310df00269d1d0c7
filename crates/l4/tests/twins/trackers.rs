//! What is tracked: files, scripts, processes, interfaces (BFD is in tests/bfd.rs).

use super::*;

#[test]
fn a_tracked_file_moves_the_priority() {
    if lab::is_missing(&[]) {
        return;
    }
    for roles in ROLES {
        let mut lab = Lab::new(2);
        let file = lab.path("file.track");
        std::fs::write(&file, "0").unwrap();
        let track = format!("track_file f {{\n file {file}\n weight 1\n}}\n");
        lab.start(
            "a",
            roles.0,
            &(track + &simple(150, "track_file {\n f weight 1\n }")),
        );
        lab.start("b", roles.1, &simple(100, ""));
        lab.master("a", VIP, 10);
        std::fs::write(&file, "-100").unwrap();
        lab.master("b", VIP, 5);
        std::fs::write(&file, "0").unwrap();
        lab.master("a", VIP, 5);
    }
}

#[test]
fn a_tracked_script_faults_or_weighs() {
    if lab::is_missing(&[]) {
        return;
    }
    for (weight, after) in [("weight 0", "b"), ("weight -80", "b"), ("weight -20", "a")] {
        let mut lab = Lab::new(2);
        let file = lab.path("script.ok");
        std::fs::write(&file, "").unwrap();
        let script = format!(
            "global_defs {{\n script_user root\n}}\nvrrp_script s {{\n script \"/usr/bin/test -e {file}\"\n interval 1\n fall 1\n rise 1\n {weight}\n}}\n"
        );
        lab.start(
            "a",
            Kind::Sluice,
            &(script + &simple(150, "track_script {\n s\n }")),
        );
        lab.start("b", Kind::Keepalived, &simple(100, ""));
        lab.master("a", VIP, 10);
        std::fs::remove_file(&file).unwrap();
        if after == "a" {
            lab.settles("a stays master", Duration::from_millis(1800), |lab| {
                lab.has("a", VIP)
            });
        } else {
            lab.master("b", VIP, 5);
        }
    }
}

#[test]
fn a_tracked_process_and_interface_count() {
    if lab::is_missing(&[]) {
        return;
    }
    let mut lab = Lab::new(2);
    lab::ip(&format!(
        "-n {} link add trk0 type veth peer name trk1",
        lab.ns("a")
    ));
    lab::ip(&format!("-n {} link set trk0 up", lab.ns("a")));
    lab::ip(&format!("-n {} link set trk1 up", lab.ns("a")));
    let name = "l4sleeper";
    let program = lab.path(name);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let base = std::path::Path::new(&program)
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    lab.helper("a", &format!("{program} 6000"));
    let config = format!(
        "vrrp_track_process p {{\n process {base}\n weight 0\n}}\n{}",
        simple(
            150,
            "track_process {\n p\n }\n track_interface {\n trk0 weight -80\n }"
        )
    );
    lab.start("a", Kind::Sluice, &config);
    lab.start("b", Kind::Keepalived, &simple(100, ""));
    lab.wait("a is master", Duration::from_secs(10), |lab| {
        lab.has("a", VIP) && !lab.has("b", VIP)
    });
    lab::ip(&format!("-n {} link set trk1 down", lab.ns("a")));
    lab.wait("b is master", Duration::from_secs(5), |lab| {
        lab.has("b", VIP) && !lab.has("a", VIP)
    });
    lab::ip(&format!("-n {} link set trk1 up", lab.ns("a")));
    lab.wait("a is master again", Duration::from_secs(5), |lab| {
        lab.has("a", VIP) && !lab.has("b", VIP)
    });
    lab.kill("a-helper");
    lab.wait("b is master", Duration::from_secs(5), |lab| {
        lab.has("b", VIP) && !lab.has("a", VIP)
    });
}
