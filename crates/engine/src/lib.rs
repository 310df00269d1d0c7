//! Policies as plain data and functions: balancing, queues, health, counters, runtime state
