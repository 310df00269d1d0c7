//! Keywords of the proxy sections: `defaults`, `frontend`, `listen`, `backend` (manual chapters 4 and 5). One file a topic, each with its
//! table.

use crate::registry::Keyword;

pub(crate) static KEYWORDS: &[Keyword] = &[];
