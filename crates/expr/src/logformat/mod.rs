//! The log-format language (manual chapter 8.2.6): text, tags and expressions compiled into one writer.
