//! `userlist NAME`: users, passwords and groups for `http_auth` (manual chapter 3.4).

use std::sync::Arc;

use crate::cx::{Current, Cx};
use crate::line::{Line, Written};
use crate::model::{Password, User, Userlist};
use crate::registry::{Keyword, Sections, kw};

#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
    kw("user", Sections::USERLIST, "<username> [password|insecure-password <password>] [groups <group>,...]", "adds a user", user),
    kw("group", Sections::USERLIST, "<groupname> [users <user>,...]", "adds a group", group),
];

pub(super) fn open(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let Some(name) = cx.name(line, 1, "<name>") else {
        return;
    };
    if !cx.no_more(line, 2) {
        return;
    }
    if cx.raw.userlists.iter().any(|(u, _)| u.name == name) {
        cx.warn(
            line,
            1,
            format!("ignoring duplicated userlist '{name}'."),
            None,
        );
        cx.current = Current::Duplicate;
        return;
    }
    cx.section_name.clone_from(&name);
    let userlist = Userlist {
        name,
        users: Vec::new(),
    };
    cx.raw.userlists.push((userlist, line.clone()));
    cx.current = Current::Userlist(cx.raw.userlists.len() - 1);
}

fn user(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let Current::Userlist(list) = cx.current else {
        return;
    };
    let Some(name) = cx.need(line, 1, "<name>") else {
        return;
    };
    let name = name.to_owned();
    if cx.raw.userlists[list]
        .0
        .users
        .iter()
        .any(|u| u.name == name)
    {
        let list_name = cx.section_name.clone();
        cx.warn(
            line,
            1,
            format!("ignoring duplicated user '{name}' in userlist '{list_name}'."),
            None,
        );
        return;
    }
    let mut user = User {
        name,
        password: None,
        groups: Vec::new(),
    };
    let mut at = 2;
    while line.has(at) {
        let option = line.word(at).to_owned();
        if !matches!(option.as_str(), "password" | "insecure-password" | "groups") {
            cx.error_at(
                line,
                at,
                "'user' only supports 'password', 'insecure-password' and 'groups' options.",
            );
            return;
        }
        let Some(value) = cx.need(line, at + 1, "a value for each option") else {
            return;
        };
        match option.as_str() {
            "password" => user.password = Some(Password::Crypt(value.to_owned())),
            "insecure-password" => user.password = Some(Password::Plain(value.to_owned())),
            _ => {
                for group in value.split(',').filter(|g| !g.is_empty()) {
                    user.groups.push(group.to_owned());
                    cx.raw.userlist_group_uses.push((
                        list,
                        group.to_owned(),
                        Written::new(line, at + 1),
                    ));
                }
            }
        }
        at += 2;
    }
    cx.raw.userlists[list].0.users.push(user);
}

fn group(cx: &mut Cx<'_>, line: &Arc<Line>) {
    let Current::Userlist(list) = cx.current else {
        return;
    };
    let Some(name) = cx.need(line, 1, "<name>") else {
        return;
    };
    let name = name.to_owned();
    let known = |(at, group, _): &(usize, String, Option<Written>)| *at == list && *group == name;
    if cx.raw.userlist_groups.iter().any(known) {
        let list_name = cx.section_name.clone();
        cx.warn(
            line,
            1,
            format!("ignoring duplicated group '{name}' in userlist '{list_name}'."),
            None,
        );
        return;
    }
    let members = match line.word(2) {
        "" => None,
        "users" => {
            if cx.need(line, 3, "user names after 'users'").is_none() || !cx.no_more(line, 4) {
                return;
            }
            Some(Written::new(line, 3))
        }
        _ => return cx.error_at(line, 2, "'group' only supports 'users' option."),
    };
    cx.raw.userlist_groups.push((list, name, members));
}
