//! Samples, converters, ACLs, patterns, variables and log-format, type-checked and compiled
