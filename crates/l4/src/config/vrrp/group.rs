//! `vrrp_sync_group`.

use super::tracker::{Tracked, tracks};
use crate::config::keyword::{Args, Context, Keyword, block, no_effect, not_yet, works};
use crate::config::model::*;
use crate::config::tree::Node;

pub static SYNC_GROUP: &[Keyword<SyncGroup>] = &[
    works(
        "group",
        "{ INSTANCE ... }",
        "instances that change together",
        |g, a| {
            for node in a.block() {
                g.members.extend(node.words.iter().map(|w| w.text.clone()));
            }
        },
    ),
    works(
        "track_interface",
        "{ INTERFACE [weight N] ... }",
        "interfaces that must be up",
        |g, a| tracks(&mut g.tracks.interfaces, a, Tracked::Interface),
    ),
    works(
        "track_script",
        "{ SCRIPT [weight N] ... }",
        "scripts that must succeed",
        |g, a| tracks(&mut g.tracks.scripts, a, Tracked::Script),
    ),
    works(
        "track_file",
        "{ FILE [weight N] ... }",
        "files whose number counts",
        |g, a| tracks(&mut g.tracks.files, a, Tracked::File),
    ),
    works(
        "track_process",
        "{ PROCESS [weight N] ... }",
        "programs that must run",
        |g, a| tracks(&mut g.tracks.processes, a, Tracked::Process),
    ),
    works(
        "track_bfd",
        "{ NAME [weight N] ... }",
        "BFD sessions that must be up",
        |g, a| tracks(&mut g.tracks.bfds, a, Tracked::Bfd),
    ),
    works(
        "notify_master",
        "PROGRAM [USER [GROUP]]",
        "run on becoming master",
        |g, a| g.notify.master = a.script(),
    ),
    works(
        "notify_backup",
        "PROGRAM [USER [GROUP]]",
        "run on becoming backup",
        |g, a| g.notify.backup = a.script(),
    ),
    works(
        "notify_fault",
        "PROGRAM [USER [GROUP]]",
        "run on a fault",
        |g, a| g.notify.fault = a.script(),
    ),
    works(
        "notify_stop",
        "PROGRAM [USER [GROUP]]",
        "run at the end",
        |g, a| g.notify.stop = a.script(),
    ),
    works(
        "notify",
        "PROGRAM [USER [GROUP]]",
        "run on every change",
        |g, a| g.notify.any = a.script(),
    ),
    not_yet(
        "notify_priority_changes",
        "[BOOL]",
        "groups report no priorities",
    ),
    works("smtp_alert", "[BOOL]", "changes are mailed", |g, a| {
        g.smtp_alert = a.boolean()
    }),
    no_effect(
        "global_tracking",
        "",
        "group tracking always applies to all members",
    ),
    no_effect(
        "sync_group_tracking_weight",
        "",
        "members keep the weights they are given",
    ),
];

pub fn sync_group(cx: &mut Context<'_>, node: &Node) {
    let mut a = Args { node, at: 1, cx };
    let Some(word) = a.word("a name") else { return };
    if a.cx.config.sync_groups.iter().any(|g| g.name == word.text) {
        return a.error_at(word, format!("vrrp_sync_group {} is here twice", word.text));
    }
    let mut group = SyncGroup {
        name: word.text.clone(),
        ..SyncGroup::default()
    };
    block(a.block(), SYNC_GROUP, &mut group, a.cx, "vrrp_sync_group");
    a.cx.config.sync_groups.push(group);
}
