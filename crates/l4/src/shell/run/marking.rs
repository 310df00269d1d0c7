//! Firewall marks while the director runs: the host's rules are looked at again and again, and what they name now is served.

use super::Work;
use crate::marks::Marks;
use crate::shell::marks;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

impl Work {
    fn marks_used(&self) -> BTreeSet<u32> {
        let mut used: BTreeSet<u32> = self.config.marks_used().into_iter().collect();
        used.extend(self.pools.values().filter_map(|p| p.mark()));
        used
    }

    /// The rules are read elsewhere, and come back as a message: programs are run for it.
    pub(super) fn ask_for_marks(&self, sender: &UnboundedSender<Marks>) {
        if self.marks_used().is_empty() {
            return;
        }
        let sender = sender.clone();
        tokio::task::spawn_blocking(move || sender.send(marks::of_this_host()));
    }

    pub(super) fn take_marks(&mut self, marks: Marks) -> anyhow::Result<()> {
        if marks == self.config.marks {
            return Ok(());
        }
        let mut config = (*self.config).clone();
        config.marks = marks;
        self.load(Arc::new(config))
    }

    /// Says once what a mark does not stand for.
    pub(super) fn tell_of_marks(&mut self) {
        let used = self.marks_used();
        let unset = |mark: &u32| self.config.marks.targets(*mark).is_empty();
        let mut now: BTreeSet<String> = used
            .iter()
            .filter(|mark| unset(mark))
            .map(|mark| format!("mark {mark}: no rule of this host sets it that can be followed"))
            .collect();
        if !used.is_empty() {
            let doubts = self.config.marks.doubts.iter();
            now.extend(doubts.map(|d| format!("not followed: {d}")));
        }
        for text in now.difference(&self.said_of_marks) {
            println!("{text}");
        }
        self.said_of_marks = now;
    }
}
