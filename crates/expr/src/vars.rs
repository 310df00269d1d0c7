//! Variables: scopes, names resolved to numbers at load, and the store each scope keeps (manual chapter 2.8 and
//! `set-var`).
//!
//! Names are interned once for the whole process, so that a lookup compares two numbers. Each scope owns a small
//! vector of values; what they cost is charged to [`Usage`] counters, which the `tune.vars.*` limits bound.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;

use crate::error::ExprError;
use crate::value::Value;

/// How long a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    Proc,
    Sess,
    Txn,
    Req,
    Res,
    Check,
    /// The scopes of the stream that made this one as a sub-request (HAProxy 3.2). Sluice makes none, so that there is
    /// nothing in them and nothing can be put there, as in HAProxy for a stream without a parent.
    ParentSess,
    ParentTxn,
    ParentReq,
    ParentRes,
}

impl Scope {
    /// As written before the first dot.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Proc => "proc",
            Scope::Sess => "sess",
            Scope::Txn => "txn",
            Scope::Req => "req",
            Scope::Res => "res",
            Scope::Check => "check",
            Scope::ParentSess => "psess",
            Scope::ParentTxn => "ptxn",
            Scope::ParentReq => "preq",
            Scope::ParentRes => "pres",
        }
    }

    /// Whether it is a scope of the stream's parent.
    pub fn is_parents(self) -> bool {
        matches!(
            self,
            Scope::ParentSess | Scope::ParentTxn | Scope::ParentReq | Scope::ParentRes
        )
    }

    const ALL: [Scope; 10] = [
        Scope::Proc,
        Scope::Sess,
        Scope::Txn,
        Scope::Req,
        Scope::Res,
        Scope::Check,
        Scope::ParentSess,
        Scope::ParentTxn,
        Scope::ParentReq,
        Scope::ParentRes,
    ];
}

/// A variable as an expression refers to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VarRef {
    pub scope: Scope,
    /// Process-wide number of the name (see [`intern`]), so that nothing is compared as text while traffic flows.
    pub index: u32,
    /// The name without its scope, for messages.
    pub name: Arc<str>,
}

impl VarRef {
    /// Reads `scope.name`. The error's span points at the wrong part.
    pub fn parse(text: &str) -> Result<VarRef, ExprError> {
        let Some((scope, name)) = text.split_once('.') else {
            return Err(ExprError::new(format!(
                "variable name '{text}' does not begin with a scope"
            ))
            .hint("write it as 'txn.name'; the scopes are proc, sess, txn, req, res and check"));
        };
        let Some(&scope) = Scope::ALL.iter().find(|s| s.name() == scope) else {
            return Err(ExprError::new(format!("unknown variable scope '{scope}'"))
                .at(0..scope.len())
                .hint("the scopes are proc, sess, txn, req, res and check"));
        };
        let start = text.len() - name.len();
        if name.is_empty() {
            return Err(ExprError::new(format!(
                "variable '{text}' has no name after its scope"
            )));
        }
        if let Some((i, c)) = name
            .char_indices()
            .find(|(_, c)| !(c.is_ascii_alphanumeric() || *c == '_' || *c == '.'))
        {
            return Err(ExprError::new(format!(
                "character '{c}' is not permitted in variable name '{text}'"
            ))
            .at(start + i..start + i + c.len_utf8())
            .hint("use letters, digits, '_' and '.'"));
        }
        let (index, name) = intern(name);
        Ok(VarRef { scope, index, name })
    }
}

impl fmt::Display for VarRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.scope.name(), self.name)
    }
}

/// The process-wide table of names. It only grows: names come from configurations and from administrators.
#[derive(Default)]
struct Names {
    by_name: HashMap<Arc<str>, u32>,
    by_index: Vec<Arc<str>>,
}

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);

/// The name behind a number.
pub fn name_of(index: u32) -> Option<Arc<str>> {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.by_index.get(index as usize).cloned()
}

/// The number of a name without scope, given out on first sight. Taken at load, never while traffic flows.
pub fn intern(name: &str) -> (u32, Arc<str>) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, &index)) = names.by_name.get_key_value(name) {
        return (index, known.clone());
    }
    let index = u32::try_from(names.by_name.len()).unwrap_or(u32::MAX);
    let name: Arc<str> = name.into();
    names.by_name.insert(name.clone(), index);
    names.by_index.push(name.clone());
    (index, name)
}

/// A variable whose name is only known now (`show var`, Lua, SPOE): `None` when no configuration names it, so that
/// nobody can grow the table from outside.
pub fn known(name: &str) -> Option<u32> {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.by_name.get(name).copied()
}

/// What one variable costs beside its text; the size of HAProxy 2.6's own record, so that limits written for it fit.
pub const VAR_COST: usize = 48;

/// What a value costs against `tune.vars.*`: [`VAR_COST`] and its text.
pub fn cost(value: &Value<'_>) -> usize {
    VAR_COST
        + match value {
            Value::Str(s) | Value::Bin(s) | Value::Meth(_, s) => s.len(),
            _ => 0,
        }
}

/// The bytes a scope and the scopes inside it use, with their limit (0: none). A session's counts its transactions',
/// a transaction's its request's and response's (`tune.vars.*-max-size`).
#[derive(Debug, Default)]
pub struct Usage {
    used: AtomicUsize,
    limit: usize,
    /// The scope around it, when that has a limit to keep.
    around: Option<Arc<Usage>>,
}

impl Usage {
    pub fn new(limit: usize) -> Self {
        Usage::within(limit, None)
    }

    /// One inside a scope that is shared with others: a session's inside the process's ([`ProcVars::usage`]). What it
    /// uses is given back when it is dropped.
    pub fn within(limit: usize, around: Option<Arc<Usage>>) -> Self {
        Usage {
            used: AtomicUsize::new(0),
            limit,
            around,
        }
    }

    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// This scope and those around it.
    fn up(&self) -> impl Iterator<Item = &Usage> {
        std::iter::successors(Some(self), |u| u.around.as_deref())
    }

    fn all<'u>(chain: &'u [&'u Usage]) -> impl Iterator<Item = &'u Usage> {
        let (last, inner) = match chain {
            [inner @ .., last] => (Some(*last), inner),
            [] => (None, chain),
        };
        inner
            .iter()
            .copied()
            .chain(last.into_iter().flat_map(Usage::up))
    }

    /// Charges `more` bytes to every counter of the chain, or to none when one of them has no room. Two threads may
    /// pass a shared limit together, by one variable each.
    fn take(chain: &[&Usage], more: usize) -> bool {
        let fits = |u: &Usage| u.limit == 0 || u.used().saturating_add(more) <= u.limit;
        if !Usage::all(chain).all(fits) {
            return false;
        }
        for u in Usage::all(chain) {
            u.used.fetch_add(more, Relaxed);
        }
        true
    }

    fn give_back(chain: &[&Usage], less: usize) {
        for u in Usage::all(chain) {
            debug_assert!(u.used() >= less, "more given back than taken");
            u.used.fetch_sub(less, Relaxed);
        }
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        let used = self.used();
        for u in self.up().skip(1) {
            u.used.fetch_sub(used, Relaxed);
        }
    }
}

/// The variables of one scope. Give every call the same chain of counters: the scope's own first, then those around it.
#[derive(Debug, Default)]
pub struct Vars {
    entries: SmallVec<[(u32, Value<'static>); 2]>,
}

impl Vars {
    pub fn new() -> Self {
        Vars::default()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn value(&self, index: u32) -> Option<&Value<'static>> {
        self.entries
            .iter()
            .find_map(|(i, v)| (*i == index).then_some(v))
    }

    /// All of them, with the numbers of their names.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Value<'static>)> {
        self.entries.iter().map(|(i, v)| (*i, v))
    }

    /// Sets a variable; false, and the old value kept, when a limit would be passed.
    pub fn set(&mut self, index: u32, value: Value<'static>, chain: &[&Usage]) -> bool {
        let new = cost(&value);
        match self.entries.iter_mut().find(|(i, _)| *i == index) {
            Some((_, slot)) => {
                let old = cost(slot);
                if new > old {
                    if !Usage::take(chain, new - old) {
                        return false;
                    }
                } else {
                    Usage::give_back(chain, old - new);
                }
                *slot = value;
            }
            None => {
                if !Usage::take(chain, new) {
                    return false;
                }
                self.entries.push((index, value));
            }
        }
        true
    }

    /// Forgets a variable; false when there was none.
    pub fn unset(&mut self, index: u32, chain: &[&Usage]) -> bool {
        let Some(at) = self.entries.iter().position(|(i, _)| *i == index) else {
            return false;
        };
        let (_, value) = self.entries.swap_remove(at);
        Usage::give_back(chain, cost(&value));
        true
    }

    /// Forgets all (the end of a request, of a session) and gives their room back.
    pub fn clear(&mut self, chain: &[&Usage]) {
        if self.entries.is_empty() {
            return;
        }
        let all = self.entries.iter().map(|(_, v)| cost(v)).sum();
        Usage::give_back(chain, all);
        self.entries.clear();
    }
}

/// The process's variables: read from every thread without a lock, written rarely.
pub struct ProcVars {
    values: ArcSwap<Vec<Option<Arc<Value<'static>>>>>,
    /// Writers take turns.
    writer: Mutex<()>,
    usage: Arc<Usage>,
    limited: bool,
}

impl ProcVars {
    /// `limit` is `tune.vars.proc-max-size` and `all` is `tune.vars.global-max-size`; 0 for none.
    pub fn new(limit: usize, all: usize) -> Self {
        let around = (all != 0).then(|| Arc::new(Usage::new(all)));
        ProcVars {
            values: ArcSwap::default(),
            writer: Mutex::new(()),
            usage: Arc::new(Usage::within(limit, around)),
            limited: limit != 0 || all != 0,
        }
    }

    /// What sessions charge their variables to, besides their own limits; `None` when the process has none to keep.
    pub fn usage(&self) -> Option<Arc<Usage>> {
        self.limited.then(|| self.usage.clone())
    }

    pub fn value(&self, index: u32) -> Option<Value<'static>> {
        let values = self.values.load();
        values.get(index as usize)?.as_deref().cloned()
    }

    /// Sets (`Some`) or unsets a variable; false, and the old value kept, when the limit would be passed.
    /// The variables that are set, by the number of their name.
    pub fn each(&self, mut visit: impl FnMut(u32, &Value<'static>)) {
        for (index, value) in self.values.load().iter().enumerate() {
            if let Some(value) = value {
                visit(index as u32, value);
            }
        }
    }

    pub fn set(&self, index: u32, value: Option<Value<'static>>) -> bool {
        let _turn = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values = Vec::clone(&self.values.load());
        let at = index as usize;
        if values.len() <= at {
            if value.is_none() {
                return true;
            }
            values.resize(at + 1, None);
        }
        let old = values[at].as_deref().map_or(0, cost);
        let new = value.as_ref().map_or(0, cost);
        let chain = [&*self.usage];
        if new > old {
            if !Usage::take(&chain, new - old) {
                return false;
            }
        } else {
            Usage::give_back(&chain, old - new);
        }
        values[at] = value.map(Arc::new);
        self.values.store(Arc::new(values));
        true
    }
}

/// When `set-var(name,condition,...)` sets the variable at all (manual chapter 7.3.1, `set-var`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetIf {
    /// The variable exists. Those of `proc` always do, the others while they are set.
    Exists,
    NotExists,
    /// The new value is an empty text. A number or address never is.
    Empty,
    NotEmpty,
    /// The variable has a value.
    Set,
    NotSet,
    /// The variable is greater than the new value. True when one of them is no integer.
    Greater,
    Less,
}

impl SetIf {
    /// The word of the manual: `ifexists`, `ifgt`...
    pub fn parse(word: &str) -> Option<SetIf> {
        Some(match word {
            "ifexists" => SetIf::Exists,
            "ifnotexists" => SetIf::NotExists,
            "ifempty" => SetIf::Empty,
            "ifnotempty" => SetIf::NotEmpty,
            "ifset" => SetIf::Set,
            "ifnotset" => SetIf::NotSet,
            "ifgt" => SetIf::Greater,
            "iflt" => SetIf::Less,
            _ => return None,
        })
    }

    /// Whether a variable of `scope` that is now `current` may become `new`.
    pub fn holds(self, scope: Scope, current: Option<&Value<'_>>, new: &Value<'_>) -> bool {
        let exists = scope == Scope::Proc || current.is_some();
        let empty = match new {
            Value::Str(s) | Value::Bin(s) => s.is_empty(),
            _ => false,
        };
        let ints = match (current, new) {
            (Some(Value::Sint(current)), Value::Sint(new)) => Some((current, new)),
            _ => None,
        };
        match self {
            SetIf::Exists => exists,
            SetIf::NotExists => !exists,
            SetIf::Empty => empty,
            SetIf::NotEmpty => !empty,
            SetIf::Set => current.is_some(),
            SetIf::NotSet => current.is_none(),
            SetIf::Greater => ints.is_none_or(|(current, new)| current > new),
            SetIf::Less => ints.is_none_or(|(current, new)| current < new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn text(s: &str) -> Value<'static> {
        Value::Str(Cow::Owned(s.as_bytes().to_vec()))
    }

    #[test]
    fn a_name_has_a_scope_and_a_number() {
        let a = VarRef::parse("txn.my.var_1").unwrap();
        let b = VarRef::parse("sess.my.var_1").unwrap();
        assert_eq!((a.scope, b.scope), (Scope::Txn, Scope::Sess));
        assert_eq!(a.index, b.index);
        assert_eq!(a.to_string(), "txn.my.var_1");
        assert_eq!(known("my.var_1"), Some(a.index));
        assert_eq!(known("never named anywhere"), None);
    }

    #[test]
    fn a_wrong_name_says_where() {
        let check = |name: &str, message: &str, span: std::ops::Range<usize>| {
            let e = VarRef::parse(name).unwrap_err();
            assert_eq!((e.message.as_str(), e.span), (message, span), "{name}");
        };
        check(
            "host",
            "variable name 'host' does not begin with a scope",
            0..0,
        );
        check("tnx.host", "unknown variable scope 'tnx'", 0..3);
        check("txn.", "variable 'txn.' has no name after its scope", 0..0);
        check(
            "txn.a-b",
            "character '-' is not permitted in variable name 'txn.a-b'",
            5..6,
        );
    }

    #[test]
    fn limits_hold_for_the_scope_and_for_those_around_it() {
        let (req, txn, sess) = (Usage::new(100), Usage::new(0), Usage::new(150));
        let chain: [&Usage; 3] = [&req, &txn, &sess];
        let mut vars = Vars::new();
        assert!(vars.set(1, text("abc"), &chain));
        assert_eq!((req.used(), txn.used(), sess.used()), (51, 51, 51));
        assert!(!vars.set(2, text("0123456789"), &chain));
        assert_eq!(vars.value(2), None);
        assert!(!vars.set(1, text(&"x".repeat(60)), &chain));
        assert_eq!(vars.value(1), Some(&text("abc")));
        assert!(vars.set(1, text("x"), &chain));
        assert_eq!(sess.used(), 49);

        // The session is the tighter one for a transaction of its own.
        let mut txn_vars = Vars::new();
        assert!(txn_vars.set(1, text(&"y".repeat(53)), &chain[1..]));
        assert!(!txn_vars.set(2, Value::Bool(true), &chain[1..]));
        assert!(txn_vars.unset(1, &chain[1..]));
        vars.clear(&chain);
        assert_eq!((req.used(), txn.used(), sess.used()), (0, 0, 0));
    }

    #[test]
    fn process_variables_are_bounded_too() {
        let vars = ProcVars::new(2 * VAR_COST, 0);
        assert!(vars.set(3, Some(Value::Sint(1))));
        assert!(vars.set(0, Some(Value::Sint(2))));
        assert!(!vars.set(1, Some(Value::Sint(3))));
        assert!(vars.set(3, Some(Value::Sint(4))));
        assert_eq!(vars.value(3), Some(Value::Sint(4)));
        assert!(vars.set(3, None));
        assert_eq!(vars.value(3), None);
        assert!(vars.set(1, Some(Value::Sint(3))));
        assert_eq!(vars.value(99), None);
    }

    #[test]
    fn sessions_share_the_process_s_limits() {
        let vars = ProcVars::new(0, 3 * VAR_COST);
        assert!(vars.set(0, Some(Value::Sint(1))));
        let session = || Usage::within(0, vars.usage());
        let (one, two) = (session(), session());
        let (mut of_one, mut of_two) = (Vars::new(), Vars::new());
        let req = Usage::new(0);
        assert!(of_one.set(1, Value::Sint(1), &[&req, &one]));
        assert!(of_two.set(1, Value::Sint(1), &[&two]));
        assert!(!of_two.set(2, Value::Sint(1), &[&two]));
        assert!(!vars.set(5, Some(Value::Sint(1))));
        // The end of a session makes room.
        drop(one);
        assert!(of_two.set(2, Value::Sint(1), &[&two]));
        assert!(of_two.unset(1, &[&two]));
        assert!(vars.set(5, Some(Value::Sint(1))));
        // Nobody counts for nobody.
        assert!(ProcVars::new(0, 0).usage().is_none());
    }

    #[test]
    fn conditions_of_set_var() {
        let check = |word: &str, scope, current: Option<Value<'_>>, new: Value<'_>, expect| {
            let cond = SetIf::parse(word).unwrap();
            assert_eq!(cond.holds(scope, current.as_ref(), &new), expect, "{word}");
        };
        let five = || Value::Sint(5);
        check("ifexists", Scope::Txn, None, five(), false);
        check("ifexists", Scope::Proc, None, five(), true);
        check("ifnotexists", Scope::Txn, None, five(), true);
        check("ifempty", Scope::Txn, None, five(), false);
        check("ifempty", Scope::Txn, None, text(""), true);
        check("ifnotempty", Scope::Txn, None, text("a"), true);
        check("ifset", Scope::Proc, None, five(), false);
        check("ifnotset", Scope::Txn, Some(five()), five(), false);
        check("ifgt", Scope::Txn, Some(Value::Sint(6)), five(), true);
        check("ifgt", Scope::Txn, Some(five()), five(), false);
        check("ifgt", Scope::Txn, Some(text("1")), five(), true);
        check("iflt", Scope::Txn, Some(Value::Sint(4)), five(), true);
        check("iflt", Scope::Txn, None, five(), true);
        assert_eq!(SetIf::parse("ifever"), None);
    }
}

bitflags::bitflags! {
    /// Conditions of `set-var(name,cond,...)`: the variable is only set when all of them hold.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct VarConds: u8 {
        /// The variable exists already.
        const IF_EXISTS = 1 << 0;
        const IF_NOT_EXISTS = 1 << 1;
        /// The variable's current value is empty.
        const IF_EMPTY = 1 << 2;
        const IF_NOT_EMPTY = 1 << 3;
        /// The variable holds a value.
        const IF_SET = 1 << 4;
        const IF_NOT_SET = 1 << 5;
        /// The new value is greater than the current one.
        const IF_GT = 1 << 6;
        const IF_LT = 1 << 7;
    }
}
