//! HAProxy's configuration language: lexer, keyword registry, typed model, diagnostics
