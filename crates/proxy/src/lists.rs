//! Rules that change map and ACL lists while traffic flows: `set-map`, `del-map`, `add-acl`, `del-acl`.
//!
//! A list that does not exist or a value that does not fit leaves everything as it was, as HAProxy does.

use std::sync::Arc;

use sluice_config::model::Model;
use sluice_expr::pattern::{List, User};

fn list(model: &Model, name: &[u8], user: User) -> Option<Arc<List>> {
    model.patterns.find(std::str::from_utf8(name).ok()?, user)
}

/// Sets a key's value, adding the key where it is not there yet.
pub fn set_map(model: &Model, name: &[u8], key: &[u8], value: &[u8]) {
    if let Some(list) = list(model, name, User::Map) {
        let _ = list.put(key, value);
    }
}

/// Takes a key out of a map.
pub fn delete_from_map(model: &Model, name: &[u8], key: &[u8]) {
    if let Some(list) = list(model, name, User::Map) {
        let _ = list.delete(None, key);
    }
}

/// Takes a pattern out of an ACL's list.
pub fn delete_from_acl(model: &Model, name: &[u8], key: &[u8]) {
    if let Some(list) = list(model, name, User::Acl) {
        let _ = list.delete(None, key);
    }
}

/// Adds a pattern to an ACL's list, once.
pub fn add_to_acl(model: &Model, name: &[u8], key: &[u8]) {
    if let Some(list) = list(model, name, User::Acl) {
        let _ = list.put_pattern(key);
    }
}
