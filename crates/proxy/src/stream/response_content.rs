//! `tcp-response content` rules of HTTP backends (manual 4.2). With an inspect-delay they wait for the response and see
//! it; without one they have run before anything came, as in HAProxy.

use sluice_expr::env::UNREACHED;

use super::Stream;
use super::http::Fate;
use super::response_body::Incoming;
use super::rules::Verdict;
use crate::session::Client;

impl Stream {
    /// Runs them before the response is looked at in any other way. `Err`: the client does not get it.
    pub(super) async fn response_content_rules(
        &mut self,
        client: &mut Client,
        incoming: &mut Incoming<'_>,
    ) -> Result<(), Fate> {
        let w = self.w.clone();
        let be = w.model().proxy(self.info.backend);
        let sees = be.tcp_res_inspect_delay_ms.is_some();
        self.vars.get_mut().responding = true;
        self.has_res = sees;
        let mut from = 0;
        let verdict = loop {
            match self.run_rules(&be.tcp_response_content, from) {
                Verdict::Later { what, next } => {
                    self.wait_with_response(what, client, incoming).await?;
                    from = next;
                }
                verdict => break verdict,
            }
        };
        self.has_res = true;
        match verdict {
            Verdict::Next | Verdict::Accept => Ok(()),
            // what came before the rule spoke still belongs to the client
            Verdict::Close if sees => Ok(()),
            Verdict::Close => {
                self.count_response_error();
                self.info.tsrv_ms = UNREACHED;
                self.terminate(b'S', b'H');
                let local = self.error_response(502);
                Err(self.answer(client, local).await)
            }
            verdict => {
                self.be_state().be.denied_resp.inc();
                self.fe_state().fe.denied_resp.inc();
                self.info.tsrv_ms = UNREACHED;
                self.info.status = match sees {
                    true => self.res.status.into(),
                    false => -1,
                };
                let phase = match verdict {
                    Verdict::SilentDrop { .. } => b'R',
                    _ => b'D',
                };
                self.terminate(b'P', phase);
                Err(self.abort(client, verdict))
            }
        }
    }
}
