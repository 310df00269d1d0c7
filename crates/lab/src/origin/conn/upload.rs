//! A request body being read: counted, compared or kept.

use crate::http::{self, Chunked};
use crate::origin::plan::{self, Answer, OnBody, Plan};
use crate::pattern;
use std::rc::Rc;

/// How much `/echo` keeps of a body.
const ECHO_BYTES_MAX: usize = 16 << 20;

/// A request body being read.
pub(super) struct Upload {
    pub(super) plan: Rc<Plan>,
    pub(super) left: Left,
    pub(super) count: u64,
    pub(super) wrong_at: Option<u64>,
    pub(super) kept: Vec<u8>,
}

pub(super) enum Left {
    Bytes(u64),
    Chunked(Chunked),
}

impl Upload {
    fn take(&mut self, data: &[u8]) {
        match self.plan.body {
            OnBody::Verify(Some(seed)) if self.wrong_at.is_none() => {
                self.wrong_at =
                    pattern::mismatch(seed, self.count, data).map(|at| self.count + at as u64);
            }
            OnBody::Echo => {
                let room = ECHO_BYTES_MAX
                    .saturating_sub(self.kept.len())
                    .min(data.len());
                self.kept.extend_from_slice(&data[..room]);
            }
            _ => {}
        }
        self.count += data.len() as u64;
    }

    /// Bytes of `data` that belong to the body, and whether it is complete.
    pub(super) fn feed(&mut self, data: &[u8]) -> Result<(usize, bool), http::BadMessage> {
        match std::mem::replace(&mut self.left, Left::Bytes(0)) {
            Left::Bytes(left) => {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                self.take(&data[..len]);
                self.left = Left::Bytes(left - len as u64);
                Ok((len, left == len as u64))
            }
            Left::Chunked(mut decoder) => {
                let result = decoder.feed(data, |piece| self.take(piece));
                self.left = Left::Chunked(decoder);
                result
            }
        }
    }

    pub(super) fn answer(&self, server: Option<u16>) -> Option<Answer> {
        match (self.plan.body, self.wrong_at) {
            (OnBody::Skip, _) => None,
            (OnBody::Echo, _) => Some(plan::after_body(&self.plan, server, 200, &self.kept)),
            (OnBody::Verify(_), None) => Some(plan::after_body(
                &self.plan,
                server,
                200,
                format!("ok {}\n", self.count).as_bytes(),
            )),
            (OnBody::Verify(_), Some(at)) => {
                let text = format!("mismatch {} at {at}\n", self.count);
                Some(plan::after_body(&self.plan, server, 422, text.as_bytes()))
            }
        }
    }
}
