//! `add-headers-bin`, `set-headers-bin` and `del-headers-bin`: headers by a list in binary, of rules of requests and of
//! responses. The list's form is [`sluice_expr::header_list`]'s.

use sluice_config::model::HeaderListEdit;
use sluice_expr::{Expr, LogFormat, Type, header_list};
use sluice_http::is_token;

use super::Stream;
use super::rules::Verdict;

impl Stream {
    /// Without a list nothing happens; one that is broken is a rewrite that failed, and nothing of it is used.
    pub(super) fn edit_header_list(
        &mut self,
        edit: HeaderListEdit,
        list: &Expr,
        prefix: Option<&LogFormat>,
    ) -> Verdict {
        let list = match list.eval_as(&*self, Type::Bin) {
            Ok(sample) => sample.value.bytes().map(<[u8]>::to_vec),
            Err(_) => None,
        };
        let Some(list) = list else {
            return Verdict::Next;
        };
        let prefix = prefix.map(|format| self.render(format)).unwrap_or_default();
        if !prefix.is_empty() && !is_token(&prefix) {
            return self.rewrite_failed();
        }
        let full = |name: &[u8]| [&prefix, name].concat();
        if edit == HeaderListEdit::Del {
            let Some(names) = header_list::names(&list) else {
                return self.rewrite_failed();
            };
            for name in names {
                let name = full(name);
                self.headers().remove(&name);
                self.header_changed(&name);
            }
            return Verdict::Next;
        }
        let Some(pairs) = header_list::pairs(&list) else {
            return self.rewrite_failed();
        };
        if edit == HeaderListEdit::Set {
            for (name, _) in &pairs {
                self.headers().remove(full(name));
            }
        }
        for (name, value) in pairs {
            let name = full(name);
            if !self.room_for(name.len() + value.len()) {
                return self.rewrite_failed();
            }
            self.headers().add(&name, value);
            self.header_changed(&name);
        }
        Verdict::Next
    }
}
