//! User lists: the groups written on `group` lines and on `user` lines become one thing.

use super::Resolver;
use crate::model::Userlist;

pub(super) fn build(resolver: &mut Resolver<'_>) -> Vec<Userlist> {
    let raw = resolver.raw;
    let mut lists: Vec<Userlist> = raw.userlists.iter().map(|(u, _)| u.clone()).collect();
    for (list, group, written) in &raw.userlist_group_uses {
        let known = |(l, name, _): &(usize, String, _)| l == list && name == group;
        if raw.userlist_groups.iter().any(known) {
            continue;
        }
        let names = raw
            .userlist_groups
            .iter()
            .filter(|(l, _, _)| l == list)
            .map(|(_, name, _)| name.as_str());
        let near = crate::diag::suggest(group, names).map(|n| format!("did you mean '{n}'?"));
        let message = format!(
            "userlist '{}': no such group '{group}' specified in user '{}'",
            lists[*list].name,
            written.line.word(1)
        );
        resolver.error(&written.line, written.word, message, near);
    }
    for (list, group, members) in &raw.userlist_groups {
        let Some(written) = members else { continue };
        for member in written.text().split(',').filter(|m| !m.is_empty()) {
            let name = lists[*list].name.clone();
            match lists[*list].users.iter_mut().find(|u| u.name == member) {
                Some(user) if user.groups.contains(group) => {}
                Some(user) => user.groups.push(group.clone()),
                None => {
                    let users = lists[*list].users.iter().map(|u| u.name.as_str());
                    let near =
                        crate::diag::suggest(member, users).map(|n| format!("did you mean '{n}'?"));
                    let message = format!(
                        "userlist '{name}': no such user '{member}' specified in group '{group}'"
                    );
                    resolver.error(&written.line, written.word, message, near);
                }
            }
        }
    }
    lists
}
